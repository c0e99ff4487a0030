//! What is done to a store, apart from how it is measured: workloads over the `esker_api` traits.
//!
//! * [`distributions`]: which key comes next.
//! * [`keys`] and [`values`]: what a key and a value look like as bytes.
//! * [`db_bench`]: the cases of RocksDB's and LevelDB's benchmark program.
//! * [`ycsb`]: the Yahoo! Cloud Serving Benchmark, workloads A to H, and its [`properties`] files.
//! * [`shelf`]: large values, as a storage node is filled with.
//! * [`updates`]: writes alone, each key many times over.
//! * [`linkbench`]: Facebook's social graph, in transactions.
//! * [`tpcc`]: a wholesale supplier's orders, in transactions.
//! * [`checker`]: values that name the write they come from, so that every read can be judged.
//! * [`model`]: an ordered map with snapshots, and one with transactions: what other stores are held against.
//!
//! A [`Workload`] hands out one [`Worker`] a thread, and a worker does one operation a step. The caller that
//! runs it brings the threads and the clock: the bench driver with real ones, the simulator with
//! its own. A worker's whole sequence follows from the [`Rng`](esker_base::Rng) it is given.

#![forbid(unsafe_code)]

mod attempts;
pub mod checker;
pub mod db_bench;
mod differences;
pub mod distributions;
mod groups;
pub mod keys;
pub mod linkbench;
pub mod model;
pub mod properties;
mod sequence;
pub mod shelf;
pub mod stream;
pub mod tpcc;
pub mod updates;
pub mod values;
pub mod worker;
pub mod ycsb;

pub use differences::Differences;
pub use distributions::Distribution;
pub use keys::KeyBuffer;
pub use model::Model;
pub use stream::stream;
pub use values::{ValuePool, Values};
pub use worker::{OperationKind, Step, Transactions, Worker, Workload};
