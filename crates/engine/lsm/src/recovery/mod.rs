//! Opens, closes and copies a database.
//!
//! `open` inspects a directory and builds the engine; `replay` reads the logs; `open_tables` opens
//! tables in the background. `orphan_logs`, `location_check` and `unlisted_files` decide about
//! files that the manifest does not list, and `quarantine` keeps them, under names of `file_names`.
//! `env` is the environment of an open: storage, clock, threads and random seed. `close` and
//! `checkpoint` end and copy a database; `checkpoint_request` copies one for another process.
//!
//! An open removes a file only if its content is known to be obsolete.

pub(crate) mod checkpoint;
pub(crate) mod checkpoint_request;
pub(crate) mod close;
pub(crate) mod env;
pub(crate) mod file_names;
pub(crate) mod location_check;
pub(crate) mod open;
pub(crate) mod open_tables;
pub(crate) mod orphan_logs;
pub(crate) mod quarantine;
pub(crate) mod replay;
pub(crate) mod unlisted_files;
