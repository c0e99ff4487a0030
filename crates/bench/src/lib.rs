//! How a load is measured: threads in a closed loop, one latency an operation, and the account of
//! what it cost in bytes written, space, memory and processor time.
//!
//! [`Bench::run`] takes an [`Engine`] and a list of [`Stage`]s and gives back [`Row`]s, one a metric.
//! [`report`] makes JSON of them, and [`table()`] something to look at.
//!
//! Whoever owns a store implements [`Engine`] for it; nothing here knows which store it is.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod driver;
pub mod engine;
pub mod histogram;
pub mod html;
pub mod progress;
pub mod report;
pub mod results;
pub mod session;
pub mod stage;
pub mod table;

pub use accounting::Counters;
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
