//! Devices: the rules of the medium ([`media`]), a model of what it does when ([`sim`]), disks that say by
//! themselves where they are to be written ([`zoned`]), and disks that are told what belongs together ([`fdp`]).

mod block;
pub mod fdp;
pub mod media;
mod nvme;
pub mod sim;
pub mod zoned;

pub use media::{Media, Place, Refused};
pub use sim::{Form, Sim};
