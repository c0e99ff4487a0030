//! Flash that the engine manages itself: it chooses where a file is stored in the device and when
//! it is written, so that reads and writes interfere less.
//!
//! * [`geometry`]: the parts of a device, and their numbering;
//! * [`preset`]: device parameters in files, each with its source;
//! * [`device`]: the rules of the medium, a timing model, zoned disks and disks with flexible
//!   placement;
//! * [`placement`]: the units to which data is written;
//! * [`chunk_device`]: chunks that store data: files in a directory, zones of a disk, memory, or the
//!   model;
//! * [`storage`]: files on these chunks;
//! * [`host_ftl`]: the model behind blocking calls, in virtual time or paced by a clock;
//! * [`interference`]: measures on the model how much writes slow down reads.

#![deny(unsafe_code)]

pub mod chunk_device;
pub mod device;
mod exclusive;
pub mod geometry;
pub mod host_ftl;
pub mod interference;
pub mod placement;
pub mod preset;
pub mod storage;

pub use chunk_device::{ChunkDevice, FdpDevice, FileChunkDevice, SimulatedDevice, ZnsDevice};
pub use device::{Media, ReadPriority, Sim};
pub use geometry::{Chunk, Geometry, Unit};
pub use host_ftl::HostFtl;
pub use preset::Preset;
pub use storage::FlashStorage;
