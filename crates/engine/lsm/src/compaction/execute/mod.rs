//! Executes compactions: the only part of compaction that reads and writes tables.
//!
//! `job` executes one plan, in parts that several threads take from `subcompaction_queue`. Each is
//! a [`subcompaction`], split into tables by `output_split`. `pending_installs` keeps finished
//! compactions (`compaction_output`) whose edit can wait; `l0_progress` reports the progress of level 0 for
//! back-pressure, and `pacing` says how fast a compaction may write.
//!
//! A job that fails removes its outputs. What it cannot remove, the next open does.

pub(crate) mod compaction_output;
pub(crate) mod job;
pub(crate) mod l0_progress;
mod origin;
pub(crate) mod output_split;
pub(crate) mod pacing;
pub(crate) mod pending_installs;
pub mod subcompaction;
pub(crate) mod subcompaction_queue;
