//! The benchmarks of `db_bench`, the program of RocksDB and LevelDB, with the same definitions, so
//! that results are comparable:
//!
//! * keys are numbers below [`Options::num`], as [`KeyBuffer`](crate::KeyBuffer) writes them;
//! * **each** thread executes the full number of operations: two threads of `fillrandom` write
//!   twice `num` entries, two of `fillseq` write the same entries twice;
//! * random keys are drawn with replacement, so a store after `fillrandom` contains about 63% of
//!   them;
//! * each seek opens a cursor; a scan uses one cursor for all of its entries.

mod case;
mod options;
mod point;
mod scan;
mod seek;
mod write;

pub use case::{Case, Job};
pub use options::Options;

#[cfg(test)]
mod tests;
