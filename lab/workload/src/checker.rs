//! A workload that judges every read.
//!
//! Each value names its key and version under a checksum ([`write_stamp`]), and a [`Ledger`]
//! remembers which versions of a key were begun and which were acknowledged. So a reader can tell,
//! without a second copy of the data and while writers go on, whether what it got is whole, belongs
//! to the key, is no older than what had been acknowledged before the read, and was ever written.
//!
//! [`isolation`] judges whole histories of concurrent transactions.

pub mod isolation;
mod ledger;
mod stamp;
mod verify;

pub use ledger::{Ledger, Version, Write};
pub use stamp::{MIN_VALUE_BYTES, read_stamp, seal_stamp, write_stamp};
pub use verify::{Seen, Verify, Violation};
