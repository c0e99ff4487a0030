//! A host that speaks NVMe/TCP from user space: keys and values on a storage node, without a kernel's block stack
//! between.
//!
//! * [`KeyClient`]: store, retrieve, delete, exist, list, in a namespace of keys up to 16 bytes or of long keys; from any
//!   number of threads.
//! * [`BlockClient`]: a namespace of blocks as a device, on which [`esker_storage::blocks`] keeps files: so an engine runs
//!   here, and its bytes are there.
//! * [`discover`]: which subsystems a node has.
//!
//! An association is an admin queue and some I/O queues, each a connection. Threads share a queue: each sends its own
//! command, and one of those who wait reads for all (`queue_pair`). So a single caller waits for nobody's wake-up, and
//! many share a queue's depth.
//!
//! A thread keeps the association while it is idle, and notices when the node is gone (`keep_alive`).
//!
//! After a lost connection what changes nothing is sent again, and what was not sent whole. A store, delete or write that
//! was sent and not answered is [`RemoteError::Unknown`]: it was done or it was not, and only the caller knows what to
//! make of that.

#![forbid(unsafe_code)]

mod association;
mod auth;
mod blocks;
mod command_table;
mod deadline;
mod discovery;
mod error;
mod flush_tracker;
#[doc(hidden)]
pub mod fuzz_decode;
mod keep_alive;
mod key_encoding;
mod keys;
mod listing;
mod multi_key;
mod queue_pair;
mod session;
mod settings;
mod split_command;
mod sync_connection;
mod wire;

/// DH-HMAC-CHAP for hosts of other protocols.
#[doc(hidden)]
pub mod chap {
    pub use crate::auth::{answer, offer};
}

pub use blocks::BlockClient;
pub use discovery::discover;
pub use error::RemoteError;
pub use keys::KeyClient;
pub use settings::Settings;
