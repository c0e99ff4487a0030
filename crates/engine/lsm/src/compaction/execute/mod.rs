//! Doing a compaction: the only place of compaction that reads and writes tables.
//!
//! `job` carries one plan out, in parts that several threads take from `subcompaction_queue`. Each
//! is a [`subcompaction`], cut into tables by `output_split`. `pending_installs` keeps finished
//! work whose edit can wait; `l0_progress` tells back-pressure how far level 0 has come.
//!
//! A job that fails leaves nothing behind.

pub(crate) mod job;
pub(crate) mod l0_progress;
pub(crate) mod output_split;
pub(crate) mod pending_installs;
pub mod subcompaction;
pub(crate) mod subcompaction_queue;
