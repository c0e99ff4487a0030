//! How a load is measured: threads in a closed or open loop, one latency an operation, and the
//! account of what it cost in bytes written, space, memory and processor time.
//!
//! [`Bench::run`] takes an [`Engine`] and a list of [`Stage`]s and gives back [`Row`]s, one a metric.
//! [`report`] makes JSON of them, and [`table()`] something to inspect.
//!
//! [`Trial::run`] measures one workload on one engine more closely, with curves over time and whole
//! distributions. Many trials, of several engines in several rounds, make [`Results`].
//!
//! The owner of a store implements [`Engine`] for it; nothing here knows which store it is.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod commit_times;
pub mod driver;
pub mod engine;
pub mod histogram;
pub mod html;
pub mod progress;
pub mod report;
pub mod results;
mod rows;
pub mod session;
pub mod stage;
pub mod table;
#[cfg(test)]
mod testing;
pub mod trial;

pub use accounting::Counters;
pub use commit_times::CommitTimes;
pub use driver::Measurement;
pub use engine::Engine;
pub use esker_workload::db_bench::{Case, Options};
pub use histogram::Latencies;
pub use progress::Progress;
pub use report::{Report, Row};
pub use results::{Distribution, Machine, Results, Series};
pub use session::Bench;
pub use stage::Stage;
pub use table::{cost_table, latency_table, table};
pub use trial::{Outcome, Trial, WarmUp};
