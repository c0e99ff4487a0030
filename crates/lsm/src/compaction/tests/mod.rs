//! Tests of compaction as a whole.

mod failure;
mod golden;
mod model;
mod simulated;
mod store;
