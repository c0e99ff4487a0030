//! From files to an open database, and back.
//!
//! `open` finds out what a directory holds and builds the engine; `replay` reads the logs;
//! `open_tables` opens tables in the background. `orphan_logs`, `location_check` and
//! `unlisted_files` judge what the manifest does not list, and `quarantine` keeps it. `env` is what an
//! open takes from the world: storage, clock, threads and randomness, which tests replace. `close` and `checkpoint` end and copy a database.
//!
//! An open removes no file whose content is not known to be superseded.

pub(crate) mod checkpoint;
pub(crate) mod close;
pub(crate) mod env;
pub(crate) mod location_check;
pub(crate) mod open;
pub(crate) mod open_tables;
pub(crate) mod orphan_logs;
pub(crate) mod quarantine;
pub(crate) mod replay;
pub(crate) mod unlisted_files;
