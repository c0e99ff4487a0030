//! Deterministic simulation of the whole engine.
//!
//! One seed gives one [history](operations::History): writes, reads, snapshots, background work,
//! crashes at any I/O, failing and full disks. The [harness] runs it against the engine
//! on a simulated [machine], next to a [model] that knows what must be there. A history
//! that fails is [shrunk](mod@shrink) and printed. [`tpcc`] and [`linkbench`]
//! are loads of transactions on the same machine, [`prepared`] is two-phase commits, and [`derived`]
//! is indexes and compaction filters.

#![forbid(unsafe_code)]

pub mod campaign;
pub mod clock;
pub mod commands;
pub mod content;
pub mod damage;
pub mod damaged;
pub mod decoders;
pub mod derived;
mod encryption;
pub mod harness;
pub mod kill;
pub mod killed_tpcc;
pub mod linkbench;
pub mod machine;
pub mod model;
pub mod operations;
pub mod pool;
mod power_loss;
pub mod prepared;
pub mod settings;
pub mod shrink;
pub mod tpcc;
mod transactions;
