//! What a user chooses, and what follows from it.
//!
//! [`settings`]: the settings of a database and of a keyspace. [`space_policy`]: what is done about
//! stale versions. [`sizes`]: how large tables and levels may be.
//!
//! Settings name the resources that databases share (`background`), and otherwise use no other
//! room, so every room may use them.

pub mod settings;
pub mod sizes;
pub mod space_policy;
