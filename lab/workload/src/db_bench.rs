//! The cases of `db_bench`, RocksDB's and LevelDB's benchmark program, with the meaning they have
//! there, so that figures can be compared:
//!
//! * keys are numbers below [`Options::num`], as [`KeyBuffer`](crate::KeyBuffer) writes them;
//! * **each** thread does the whole number of operations: two threads of `fillrandom` write twice
//!   `num` pairs, two of `fillseq` write the same pairs twice;
//! * random keys are drawn with replacement, so a store after `fillrandom` holds about 63% of them;
//! * a seek opens a cursor of its own, a scan one for all of its pairs.

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
