//! Tests of compaction as a whole.

mod failure;
mod goal;
mod goal_plans;
mod golden;
mod model;
mod monitor;
mod second_count;
mod simulated;
mod store;
