//! Files as they are stored: their pieces, the records of logs, and how both are found again.
//!
//! What must hold:
//!
//! * a piece is in one chunk, and no two files have the same block;
//! * a record of a log that was acknowledged is found behind records that are damaged;
//! * an edit that a record names was durable (`proof`): if the journal does not have it, the journal has lost it.

pub(super) mod file_meta;
pub(super) mod proof;
pub(super) mod replayer;
