//! Flash that the engine manages itself: where a file lies inside the device, and when it is written,
//! so that reads and writes keep out of each other's way.
//!
//! * [`geometry`]: what a device is made of, and how its parts are numbered;
//! * [`preset`]: devices as files, every parameter with its source;
//! * [`device`]: the rules of the medium, a model of the device in virtual time, disks of zones and with placement;
//! * [`placement`]: which units data is written to;
//! * [`zones`]: chunks that data is kept on: files in a directory, the zones of a disk, memory, the model;
//! * [`storage`]: files on these;
//! * [`host`]: the model behind calls that wait, in virtual time or paced by a clock;
//! * [`trial`]: what reads lose beside writes, on the model.

#![deny(unsafe_code)]

pub mod device;
pub mod geometry;
pub mod host;
mod in_use;
pub mod placement;
pub mod preset;
pub mod storage;
pub mod trial;
pub mod zones;

pub use device::{Form, Media, Sim};
pub use geometry::{Chunk, Geometry, Unit};
pub use host::Host;
pub use preset::Preset;
pub use storage::FlashStorage;
pub use zones::{FileZones, ModelledZones, PlacedDisk, ZonedDisk, Zones};
