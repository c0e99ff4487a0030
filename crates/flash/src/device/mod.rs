//! Devices: the rules of the medium ([`media`]), a model of what it does when ([`sim`]), and disks that say by
//! themselves where they are to be written ([`zoned`]).

pub mod media;
pub mod sim;
pub mod zoned;

pub use media::{Media, Place, Refused};
pub use sim::{Form, Sim};
