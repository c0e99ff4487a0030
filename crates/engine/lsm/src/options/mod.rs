//! Settings, and the sizes that follow from them.
//!
//! [`settings`]: the settings of a database and of a keyspace, and `setters`, their builder methods.
//! [`space_policy`]: how obsolete
//! versions are removed. [`sizes`]: target sizes of tables and levels.
//!
//! Settings name the resources that databases share (`background`) and use no other module, so
//! every module may use them.

mod setters;
pub mod settings;
pub mod sizes;
pub mod space_policy;
