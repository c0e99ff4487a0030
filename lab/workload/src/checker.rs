//! A workload that verifies every read.
//!
//! Each value contains its key and version under a checksum ([`write_stamp`]). A [`Ledger`] records
//! which versions of a key were begun and which were acknowledged. A reader can thus verify its
//! result while writers continue, without a second copy of the data. The result must be intact,
//! belong to the key, have been written, and be no older than what was acknowledged before the
//! read.
//!
//! [`isolation`] checks whole histories of concurrent transactions.

pub mod isolation;
mod ledger;
mod stamp;
mod verify;

pub use ledger::{Ledger, Version, Write};
pub use stamp::{MIN_VALUE_BYTES, read_stamp, seal_stamp, write_stamp};
pub use verify::{Seen, Verify, Violation};
