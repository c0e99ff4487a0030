//! Flash that the engine manages itself: it chooses where a file is stored in the device and when
//! it is written, so that reads and writes interfere less.
//!
//! * [`geometry`]: the parts of a device, and their numbering;
//! * [`preset`]: device parameters in files, each with its source;
//! * [`device`]: the rules of the medium, a timing model, zoned disks and disks with flexible
//!   placement;
//! * [`placement`]: the units to which data is written;
//! * [`zones`]: chunks that store data: files in a directory, zones of a disk, memory, or the
//!   model;
//! * [`storage`]: files on these chunks;
//! * [`host`]: the model behind blocking calls, in virtual time or paced by a clock;
//! * [`trial`]: measures on the model how much writes slow down reads.

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
