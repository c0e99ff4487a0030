//! Encryption at rest: a [`Storage`](esker_storage::Storage) whose files are encrypted and authenticated,
//! in front of any other.
//!
//! ```text
//! engine ─► EncryptedStorage ─► directory, memory, flash device
//!             │ each file: header (key id, salt), records (AES-256-GCM)
//!             └ keys ◄─ KeyProvider: a file, a variable of the environment, a key service
//! ```
//!
//! `key` derives the key of a file and seals records with it, `header` and `record` are the format of files,
//! which `docs/formats/encryption.md` describes. `writer` appends records; `slots` reads files whose records
//! have places that follow from the offset, `stream` all others; `log` is a log file.
//!
//! What must hold:
//!
//! * **A nonce is used once.** It is the position of the record in the file, and each file has a key of its
//!   own, from a random salt. A position is written once. The exception writes the same bytes again.
//! * A record is sealed as a whole, once all of its bytes are known. No record is ever changed.
//! * A record passes only at its position, in its file.
//! * Bytes that fail authentication are never returned. A file of records without places returns bytes of
//!   `0xFF` for them, so that a reader of a log finds the damage, and the intact records after it.

#![forbid(unsafe_code)]

mod header;
mod key;
mod keys;
mod log;
mod log_space;
mod record;
mod slots;
mod storage;
mod stream;
mod usage;
mod writer;

pub use key::{Key, KeyId};
pub use keys::{KeyProvider, Keys};
pub use storage::EncryptedStorage;
pub use usage::{KeyUsage, keys_in_use};
