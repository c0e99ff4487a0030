//! HyperLogLog: counts distinct elements in 1 KiB, with a standard error of about 3%.

use super::{MergeError, MergeOperator};
use esker_base::hash64;

/// Bits of a hash that choose a register.
const INDEX_BITS: u32 = 10;
/// The number of registers, one byte each.
const REGISTERS: usize = 1 << INDEX_BITS;
/// The highest rank: all other bits of a hash are zero.
const RANK_MAX: u8 = (64 - INDEX_BITS + 1) as u8;
/// The first byte of a sketch.
const DENSE: u8 = 1;
const SKETCH_BYTES: usize = 1 + REGISTERS;

/// Unites sketches of sets, which count distinct elements. Its name is `hyper_log_log`.
///
/// An operand is a sketch, as [`sketch_of`] makes it, and so is the value. [`distinct_estimate`] returns
/// its count.
///
/// # Examples
///
/// ```
/// # mod esker { pub mod merge { pub use esker_api::{distinct_estimate, sketch_of}; } }
/// use esker::merge::{distinct_estimate, sketch_of};
///
/// let sketch = sketch_of((0..50_u32).map(|user| user.to_le_bytes()));
/// let count = distinct_estimate(&sketch).unwrap();
/// assert!((45..=55).contains(&count));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct HyperLogLog;

/// Returns a sketch of the set of `elements`.
pub fn sketch_of<E: AsRef<[u8]>>(elements: impl IntoIterator<Item = E>) -> Vec<u8> {
    let mut sketch = vec![0; SKETCH_BYTES];
    sketch[0] = DENSE;
    for element in elements {
        let hash = hash64(element.as_ref());
        let register = (hash >> (64 - INDEX_BITS)) as usize;
        let rank = (hash << INDEX_BITS | 1 << (INDEX_BITS - 1)).leading_zeros() as u8 + 1;
        let own = &mut sketch[1 + register];
        *own = (*own).max(rank);
    }
    sketch
}

/// Returns the estimated number of distinct elements of a sketch, or `None` if `sketch` is not one.
pub fn distinct_estimate(sketch: &[u8]) -> Option<u64> {
    let registers = registers(sketch).ok()?;
    let count = REGISTERS as f64;
    let sum: f64 = registers.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let zeros = registers.iter().filter(|&&rank| rank == 0).count();
    // Few elements: the share of empty registers tells more.
    let estimate = match zeros {
        1.. if raw <= 2.5 * count => count * (count / zeros as f64).ln(),
        _ => raw,
    };
    Some(estimate.round() as u64)
}

fn registers(sketch: &[u8]) -> Result<&[u8], MergeError> {
    match sketch.split_first() {
        Some((&DENSE, registers))
            if registers.len() == REGISTERS && registers.iter().all(|&rank| rank <= RANK_MAX) =>
        {
            Ok(registers)
        }
        _ => Err(MergeError::new("it is not a HyperLogLog sketch")),
    }
}

fn unite(all: &mut [u8], other: &[u8]) -> Result<(), MergeError> {
    all[1..].iter_mut().zip(registers(other)?).for_each(|(own, &rank)| *own = (*own).max(rank));
    Ok(())
}

impl MergeOperator for HyperLogLog {
    fn name(&self) -> &str {
        "hyper_log_log"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let mut all = sketch_of::<&[u8]>([]);
        for sketch in base.into_iter().chain(operands.iter().copied()) {
            unite(&mut all, sketch)?;
        }
        Ok(all)
    }

    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.merge(key, Some(older), &[newer]).ok()
    }

    fn check(&self, _key: &[u8], operand: &[u8]) -> Result<(), MergeError> {
        registers(operand).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_within_a_tenth() {
        for count in [0, 1, 10, 100, 1_000, 3_000, 10_000, 100_000] {
            let elements = (0..count).map(|element: u64| element.to_le_bytes());
            let found = distinct_estimate(&sketch_of(elements)).unwrap();
            assert!(found.abs_diff(count) <= count / 10, "{count}: {found}");
        }
    }
}
