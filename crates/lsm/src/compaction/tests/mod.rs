//! Tests of compaction as a whole.

mod failure;
mod golden;
mod model;
mod monitor;
mod simulated;
mod store;
