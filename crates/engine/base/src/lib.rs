//! The types every other crate uses: keys, seqnos, byte order, checksums, hashes, errors,
//! and the three things that are always injected: the clock, randomness and threads.
//!
//! Nothing in this crate does I/O, but the message of a test that cannot run: [`skipped`](fn@skipped).

#![deny(unsafe_code)]

pub mod background;
pub mod byte_size;
pub mod checksum;
pub mod clock;
pub mod coding;
pub mod combined;
pub mod cursor;
pub mod entropy;
pub mod entry;
pub mod error;
pub mod hash;
pub mod key;
pub mod limit_line;
pub mod lock_holder;
pub mod operation_cost;
#[allow(unsafe_code)]
pub mod prefetch;
pub mod range_tombstone;
pub mod rng;
pub mod skipped;
pub mod stored_key;
pub mod value_place;
pub mod write_hint;

pub use background::{Background, Priority, Threads};
pub use byte_size::ByteSize;
pub use clock::{Clock, SystemClock};
pub use cursor::EntryCursor;
pub use entropy::{Entropy, SystemEntropy};
pub use entry::{EXPIRY_BYTES, Entry, Kind, split_expiry};
pub use error::changes::ChangesError;
pub use error::{
    BackupError, EncryptionError, Error, IndexError, LargeValueError, LockWait, PreparedError,
    Result,
};
pub use hash::hash64;
pub use key::{KeyspaceId, MAX_KEY_BYTES, MAX_SEQNO, Seqno};
pub use operation_cost::OperationCost;
pub use prefetch::prefetch;
pub use range_tombstone::{FragmentedTombstones, RangeTombstone};
pub use rng::{Rng, seed_from_os};
pub use skipped::skipped;
pub use stored_key::{ABOVE_STORED_KEYS, is_edge_key, restore_user_key, stored_key, user_key};
pub use value_place::ValuePlace;
pub use write_hint::{FileKind, WriteHint};
