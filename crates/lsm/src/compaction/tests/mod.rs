//! Tests of compaction as a whole.

mod failure;
mod goal;
mod goal_plans;
mod golden;
mod model;
mod monitor;
mod simulated;
mod store;
