//! Devices: the rules of the medium ([`media`]), and a model of what it does when ([`sim`]).

pub mod media;
pub mod sim;

pub use media::{Media, Place, Refused};
pub use sim::{Form, Sim};
