//! Persistent memory: a pool of extents that survive power loss, and a simulator that loses power.
//!
//! * [`region`]: memory that can be made durable, behind one trait. [`MappedRegion`] is a mapped
//!   file, [`Delayed`] adds latency for experiments, [`sim`] forgets whatever was not fenced.
//! * `persist`: the copies and flushes, chosen by what the processor has.
//! * [`pool`]: a file of extents, each of which holds one use of a log segment. `format`: its bytes,
//!   as `docs/formats/pool.md` has them.
//! * [`Arena`]: an extent that safe code appends to and links.
//! * [`OwnerProcess`]: tells a forked child from its parent, for every object that a child must not use.
//! * [`Flushed`] and [`Durable`]: what was stored, and what will survive. Only a fence makes one of
//!   the other, on the thread that stored, so what is not durable can't be published by mistake.
//!
//! A store becomes durable in three steps: it is *stored*, its way to the medium is *started* (by a
//! streaming store, or a flush of its cache line), and a *fence* waits for that. The fence counts
//! only for what the same thread stored. Until then a crash may keep it or not, each aligned 8 byte
//! word for itself.

#![deny(unsafe_code)]

mod arena;
mod counters;
#[allow(unsafe_code)]
mod delayed;
mod domain;
#[allow(unsafe_code)]
mod extent;
mod format;
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod mapped;
#[allow(unsafe_code)]
mod persist;
#[allow(unsafe_code)]
pub mod pool;
#[allow(unsafe_code)]
mod process;
#[allow(unsafe_code)]
pub mod region;
#[allow(unsafe_code)]
pub mod sim;
mod state;

pub use arena::Arena;
pub use counters::Traffic;
pub use delayed::{Delayed, Delays};
pub use domain::{Accept, Domain};
pub use extent::{Extent, Span};
#[cfg(target_os = "linux")]
pub use mapped::MappedRegion;
pub use persist::{Flush, Persist, Stream};
pub use pool::Pool;
pub use process::OwnerProcess;
pub use region::Region;
pub use state::{Durable, Flushed};
