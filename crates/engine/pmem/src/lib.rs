//! Persistent memory: a pool of extents that survive power loss, and a simulator that loses power.
//!
//! * [`region`]: memory that can be made durable, behind one trait. [`MappedRegion`] is a mapped
//!   file, [`LatencyRegion`] adds latency for experiments, [`sim`] forgets whatever was not fenced.
//! * `persist`: the copies and flushes, chosen by what the processor has.
//! * [`pool`]: a file of extents, each of which holds one use of a log segment. `format`: its bytes,
//!   as `docs/formats/pool.md` has them.
//! * [`Arena`]: an extent that safe code appends to and links.
//! * [`OwnerProcess`]: distinguishes a forked child from its parent, for every object that a child must not use.
//! * [`Flushed`] and [`Durable`]: what was stored, and what will survive. Only a fence makes one of
//!   the other, on the thread that stored, so what is not durable can't be published by mistake.
//!
//! A store becomes durable in three steps: it is *stored*, its way to the medium is *started* (by a
//! streaming store, or a flush of its cache line), and a *fence* waits for that. The fence counts
//! only for what the same thread stored. Until then a crash may keep it or not, each aligned 8 byte
//! word for itself.

#![deny(unsafe_code)]

mod arena;
mod domain;
#[allow(unsafe_code)]
mod extent;
mod format;
#[allow(unsafe_code)]
mod latency;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod mapped;
mod media_counters;
#[allow(unsafe_code)]
mod persist;
mod persist_state;
#[allow(unsafe_code)]
pub mod pool;
#[allow(unsafe_code)]
mod process;
#[allow(unsafe_code)]
pub mod region;
#[allow(unsafe_code)]
pub mod sim;

pub use arena::Arena;
pub use domain::{Accept, Domain};
pub use extent::{Extent, ExtentRange};
pub use latency::{InjectedLatency, LatencyRegion};
#[cfg(target_os = "linux")]
pub use mapped::MappedRegion;
pub use media_counters::MediaWriteStats;
pub use persist::{Flush, Persist, Stream};
pub use persist_state::{Durable, Flushed};
pub use pool::Pool;
pub use process::OwnerProcess;
pub use region::Region;
