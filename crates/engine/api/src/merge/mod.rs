//! Merge operators: writes that say how a value changes, not what it becomes.
//!
//! A merge writes an *operand* without a read. A read folds the operands of a key over the value
//! below them, and so do flush and compaction.

mod bytes;
mod hyper_log_log;
mod integers;

pub use bytes::{Append, SetUnion, set_elements, set_of};
pub use hyper_log_log::{HyperLogLog, distinct_estimate, sketch_of};
pub use integers::{AddI64, Max, Min, decode_i64};

use std::sync::Arc;

/// Why an operator could not merge. The message ends up in the error of the read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergeError {
    what: String,
}

impl MergeError {
    /// Returns an error with a message, such as "the operand has 7 bytes, not 8".
    pub fn new(what: impl Into<String>) -> Self {
        MergeError { what: what.into() }
    }
}

impl std::fmt::Display for MergeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for MergeError {}

/// Folds the operands of a key over its value.
///
/// A keyspace names its operator when it is created. The database gets the operator itself at each
/// open.
///
/// * The result must depend on the arguments only, today and in every later release: the engine
///   folds when it suits, on any thread, and may fold the same operands more than once.
/// * Operands come oldest first. An operator whose operands commute may ignore that.
/// * If `combine` returns an operand, that must merge as the two do one after the other.
///
/// After an error or a panic of `merge` the read fails with [`Error::MergeFailed`]; flush and
/// compaction keep the operands as they are.
///
/// [`Error::MergeFailed`]: esker_base::Error::MergeFailed
///
/// # Examples
///
/// ```
/// # mod esker { pub mod merge { pub use esker_api::*; } }
/// use esker::merge::{MergeError, MergeOperator};
///
/// /// Keeps the longest of all operands.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "longest"
///     }
///
///     fn merge(
///         &self,
///         _key: &[u8],
///         base: Option<&[u8]>,
///         operands: &[&[u8]],
///     ) -> Result<Vec<u8>, MergeError> {
///         let all = base.into_iter().chain(operands.iter().copied());
///         Ok(all.max_by_key(|value| value.len()).unwrap_or_default().to_vec())
///     }
///
///     fn combine(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
///         Some(if newer.len() >= older.len() { newer } else { older }.to_vec())
///     }
/// }
///
/// assert_eq!(Longest.merge(b"key", Some(b"base"), &[b"operand"]), Ok(b"operand".to_vec()));
/// ```
pub trait MergeOperator: Send + Sync {
    /// Returns the name under which keyspaces store the operator: 1 to 31 bytes.
    fn name(&self) -> &str;

    /// Returns the value of `key` after `operands`, oldest first, on `base`, or on no value.
    ///
    /// # Errors
    /// If the base or an operand is not valid.
    fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError>;

    /// Returns one operand that does what `older` and then `newer` do, or `None` if there is none.
    ///
    /// Without it, flush and compaction keep each operand until they meet the value below, and reads
    /// fold all of them.
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }

    /// Checks an operand before it is written.
    ///
    /// An invalid operand that is written makes the key unreadable until the key is put or deleted.
    ///
    /// # Errors
    /// If no value could be merged with the operand.
    fn check(&self, key: &[u8], operand: &[u8]) -> Result<(), MergeError> {
        let _ = (key, operand);
        Ok(())
    }
}

/// Returns the operators that every database has: `add_i64`, `max`, `min`, `append`, `set_union` and
/// `hyper_log_log`.
pub fn built_in_operators() -> [Arc<dyn MergeOperator>; 6] {
    [
        Arc::new(AddI64),
        Arc::new(Max),
        Arc::new(Min),
        Arc::new(Append),
        Arc::new(SetUnion),
        Arc::new(HyperLogLog),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    /// A valid operand of a built-in operator.
    fn operand(name: &str, rng: &mut Rng) -> Vec<u8> {
        match name {
            "add_i64" => rng.next_u64().to_le_bytes().to_vec(),
            "set_union" => {
                let elements: Vec<_> =
                    (0..rng.below(4)).map(|_| vec![rng.below(9) as u8]).collect();
                set_of(elements.iter().map(Vec::as_slice))
            }
            "hyper_log_log" => {
                let elements: Vec<_> = (0..1 + rng.below(400)).map(|_| rng.next_u64()).collect();
                sketch_of(elements.iter().map(|element| element.to_le_bytes()))
            }
            _ => (0..rng.below(5)).map(|_| rng.below(256) as u8).collect(),
        }
    }

    /// Folded at once, one by one, and combined in any way, operands give the same value.
    #[test]
    fn built_in_operators_are_associative() {
        for operator in built_in_operators() {
            let name = operator.name();
            for seed in 0..200 {
                let mut rng = Rng::new(seed);
                let base = rng.one_in(2).then(|| operand(name, &mut rng));
                let base = base.as_deref();
                let operands: Vec<_> = (0..6).map(|_| operand(name, &mut rng)).collect();
                let all: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
                all.iter().for_each(|one| operator.check(b"k", one).unwrap());
                let expected = operator.merge(b"k", base, &all).unwrap();
                let mut value = base.map(<[u8]>::to_vec);
                for one in &all {
                    value = Some(operator.merge(b"k", value.as_deref(), &[one]).unwrap());
                }
                assert_eq!(value.as_ref(), Some(&expected), "{name}, seed {seed}: one by one");
                let mut left = operands.clone();
                while left.len() > 1 {
                    let at = rng.below(left.len() as u64 - 1) as usize;
                    let newer = left.remove(at + 1);
                    left[at] = operator.combine(b"k", &left[at], &newer).unwrap();
                    operator.check(b"k", &left[at]).unwrap();
                }
                let combined = operator.merge(b"k", base, &[&left[0][..]]).unwrap();
                assert_eq!(combined, expected, "{name}, seed {seed}: combined");
            }
        }
    }

    #[test]
    fn what_is_no_operand_is_rejected() {
        let rejects = |operator: &dyn MergeOperator, bad: &[u8]| {
            assert!(operator.check(b"k", bad).is_err(), "{}", operator.name());
            assert!(operator.merge(b"k", None, &[bad]).is_err(), "{}", operator.name());
            assert_eq!(operator.combine(b"k", bad, bad), None, "{}", operator.name());
        };
        rejects(&AddI64, b"1234567");
        rejects(&SetUnion, b"\x05ab");
        rejects(&HyperLogLog, b"no sketch");
    }
}
