//! Devices: the rules of the medium ([`chunk_rules`]), a timing model ([`sim`]), zoned disks
//! ([`zoned`]), and disks with flexible data placement ([`fdp`]).

mod block_limits;
pub mod chunk_rules;
pub mod fdp;
mod nvme;
pub mod sim;
pub mod zoned;

pub use chunk_rules::{Media, MediaError, Place};
pub use sim::{ReadPriority, Sim};
