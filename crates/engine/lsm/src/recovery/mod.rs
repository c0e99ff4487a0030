//! Opens, closes and copies a database.
//!
//! `open` inspects a directory and builds the engine, `open_follower` builds one that follows another
//! process; `replay` reads the logs; `open_tables` opens
//! tables in the background. `unlisted_files` decides about files that the manifest does not list.
//! `env` is the environment of an open: storage, clock, threads and random seed. `close` and
//! `checkpoint` end and copy a database; `report` says what an open one does.
//!
//! An open removes a file only if its content is known to be obsolete.

pub(crate) mod checkpoint;
pub(crate) mod close;
pub(crate) mod env;
pub(crate) mod open;
pub(crate) mod open_follower;
pub(crate) mod open_tables;
pub(crate) mod point_in_time;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod unlisted_files;
