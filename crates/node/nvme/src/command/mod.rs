//! Commands: the entries of submission and completion queues, and what the command sets put into them.

pub mod admin;
mod cqe;
pub mod fabrics;
pub mod kv;
pub mod long_key;
pub mod nvm;
mod sgl;
mod sqe;

pub use cqe::{CQE_BYTES, Cqe};
pub use sgl::Sgl;
pub use sqe::{SQE_BYTES, Sqe};

/// The number of a command set (CSI).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum CommandSet {
    /// Blocks.
    Nvm = 0,
    /// Keys and values.
    KeyValue = 1,
}

impl CommandSet {
    /// The command set of this number, if it is known here.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(CommandSet::Nvm),
            1 => Some(CommandSet::KeyValue),
            _ => None,
        }
    }
}
