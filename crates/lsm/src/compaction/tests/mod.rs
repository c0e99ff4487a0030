//! Tests of compaction as a whole.

mod failure;
mod goal;
mod golden;
mod model;
mod monitor;
mod simulated;
mod store;
