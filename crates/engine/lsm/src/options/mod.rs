//! What a user chooses, and what follows from it.
//!
//! [`settings`]: the settings of a database and of a keyspace. [`space_policy`]: what is done about stale versions. [`sizes`]: how
//! large tables and levels may be. `keyspace`: a keyspace's name, id and handle.
//!
//! This room uses no other room of the crate, so every room may use it.

pub(crate) mod keyspace;
pub mod settings;
pub mod sizes;
pub mod space_policy;
