//! Devices: the rules of the medium ([`media`]), a timing model ([`sim`]), zoned disks ([`zoned`]),
//! and disks with flexible data placement ([`fdp`]).

mod block;
pub mod fdp;
pub mod media;
mod nvme;
pub mod sim;
pub mod zoned;

pub use media::{Media, Place, Refused};
pub use sim::{Form, Sim};
