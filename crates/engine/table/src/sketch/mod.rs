//! Small summaries of the keys in a table, from which the number of distinct keys in any set of
//! tables follows without reading them.
//!
//! Both are fed the hash that the filter is built from, and both merge without loss: the merge of
//! two sketches is the sketch of the union.
//! - [`Hll`] is 4 KiB whatever it has seen and good to 1.6%, but only counts unions.
//! - [`ThetaSample`] keeps hashes: it also counts intersections, and sums bytes.
//!
//! An [`OverlapEstimator`] says what a merge of tables will keep, from their samples.

mod hll;
mod overlap_estimator;
mod rice_coding;
mod theta;

pub use hll::Hll;
pub use overlap_estimator::{ByteShare, OverlapEstimator, TableSample};
pub use theta::{Sample, ThetaSample};

use esker_base::coding::{put_bytes, take_bytes};

/// The sketches of a table's distinct user keys.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sketches {
    /// Counts distinct keys.
    pub hll: Hll,
    /// A sample of the keys' hashes, each with the bytes of the key's newest version here: none if
    /// that is a delete.
    pub theta: ThetaSample,
}

impl Sketches {
    /// Notes a key by its hash; `bytes` are those of its newest version, key and value, or 0 if that
    /// is a delete.
    #[inline]
    pub fn insert(&mut self, key_hash: u64, bytes: u64) {
        self.hll.insert(key_hash);
        self.theta.insert(key_hash, u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Bytes of memory that the sketches take.
    pub fn memory_bytes(&self) -> usize {
        self.hll.memory_bytes() + self.theta.memory_bytes()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, &self.hll.encode());
        put_bytes(&mut out, &self.theta.encode());
        out
    }

    /// `None` if the bytes are no sketches.
    pub(crate) fn decode(mut input: &[u8]) -> Option<Sketches> {
        let hll = Hll::decode(take_bytes(&mut input)?)?;
        let theta = ThetaSample::decode(take_bytes(&mut input)?)?;
        input.is_empty().then_some(Sketches { hll, theta })
    }
}
