//! Esker in programs that run on Tokio: calls are futures that never block a thread of the runtime.
//!
//! ```
//! use esker::{KeyspaceSettings, Settings};
//! use esker_tokio::AsyncDb;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> esker::Result<()> {
//! # let dir = tempfile::tempdir().expect("a directory");
//! # let dir = dir.path().join("data");
//! let db = AsyncDb::open(dir, Settings::default()).await?;
//! let users = db.keyspace("users", KeyspaceSettings::default()).await?;
//! users.put("ada", "analyst").await?;
//! assert_eq!(users.get("ada").await?.as_deref(), Some(&b"analyst"[..]));
//!
//! let mut scan = users.prefix("a");
//! while let Some(entry) = scan.next().await {
//!     let (key, value) = entry?;
//!     println!("{} bytes under a key of {}", value.len(), key.len());
//! }
//! db.close().await
//! # }
//! ```
//!
//! # How a call runs
//!
//! * A get that memory can answer returns at its first poll. Every other call runs on Tokio's pool of
//!   blocking threads, at most [`DEFAULT_THREADS`] at once; further ones wait their turn. A commit and a close wait for none.
//! * [`AsyncDb::blocking`] runs any closure there: one with several reads and writes costs one switch of
//!   threads.
//!
//! # Cancellation
//!
//! A future may be dropped at any time. A write that waits for its turn is then not done. One that has
//! begun is done as a whole, and its result is discarded. A [`Scan`] loses no entry if the future of
//! its [`next`](Scan::next) is dropped. A scan may be dropped in a task, too: what that does, such as
//! the removal of files that only the scan still read, is done on the pool.

#![forbid(unsafe_code)]

mod blocking;
mod database;
mod elsewhere;
mod keyspace;
mod scan;

pub use blocking::DEFAULT_THREADS;
pub use database::AsyncDb;
pub use keyspace::AsyncKeyspace;
pub use scan::Scan;
