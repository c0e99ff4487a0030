//! Keys and values that were read.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Up to this length the bytes are in the [`Value`] itself, which is 32 bytes long.
const INLINE_BYTES: usize = 30;

/// A key or a value that was read. Dereferences to `[u8]`.
///
/// Up to 30 bytes are in the `Value` itself. A longer one is a vector, or a part of the block that it
/// was read from. Then it keeps the whole block in memory: a few KiB, or little more than the value
/// if that is longer. [`Value::into_vec`] lets the block go.
///
/// Scans yield parts of blocks, so an entry costs no allocation. A get yields one if the value is an
/// eighth of its block or more. What is still in a MemTable is copied.
///
/// A clone copies up to 30 bytes, or a vector.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_api::Value; }
/// use esker::Value;
///
/// let value = Value::from(b"analyst".to_vec());
/// assert_eq!(value, b"analyst");
/// assert!(value.starts_with(b"ana"));
/// assert_eq!(String::from_utf8(value.into_vec()).unwrap(), "analyst");
/// ```
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Owned(Vec<u8>),
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Shared { block: Arc<[u8]>, start: u32, end: u32 },
}

impl Value {
    /// Returns a copy of `bytes`.
    #[inline]
    pub fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() > INLINE_BYTES {
            return Value(Repr::Owned(bytes.to_vec()));
        }
        let mut inline = [0; INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        Value(Repr::Inline { len: bytes.len() as u8, bytes: inline })
    }

    /// Returns the bytes `range` of `block`, in the same memory unless they are few.
    ///
    /// # Panics
    /// If `block` is shorter.
    #[doc(hidden)]
    #[inline]
    pub fn shared(block: &Arc<[u8]>, range: Range<usize>) -> Self {
        match range.len() > INLINE_BYTES {
            true => Value::part_of(block.clone(), range),
            false => Value::copy_of(&block[range]),
        }
    }

    /// As [`Value::shared`], with a handle of the block that the caller does not need.
    ///
    /// # Panics
    /// If `block` is shorter.
    #[doc(hidden)]
    #[inline]
    pub fn part_of(block: Arc<[u8]>, range: Range<usize>) -> Self {
        let bytes = &block[range.clone()];
        match (u32::try_from(range.start), u32::try_from(range.end)) {
            (Ok(start), Ok(end)) if bytes.len() > INLINE_BYTES => {
                Value(Repr::Shared { block, start, end })
            }
            _ => Value::copy_of(bytes),
        }
    }

    /// Whether the bytes are in the memory of a block.
    #[doc(hidden)]
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self.0, Repr::Shared { .. })
    }

    /// Returns the bytes, without a copy if they are a vector.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Repr::Owned(bytes) => bytes,
            _ => self.to_vec(),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared { block, start, end } => &block[*start as usize..*end as usize],
        }
    }
}

impl AsRef<[u8]> for Value {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Value {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Default for Value {
    fn default() -> Self {
        Value::copy_of(&[])
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Value(Repr::Owned(bytes))
    }
}

impl From<&[u8]> for Value {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        Value::copy_of(bytes)
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        value.into_vec()
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Value {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Value {
    fn eq(&self, other: &[u8; N]) -> bool {
        **self == other[..]
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Value {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == other[..]
    }
}

impl PartialEq<Vec<u8>> for Value {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == other[..]
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        **self == *other.as_bytes()
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashMap};

    /// The three kinds that one value can be of.
    fn kinds(bytes: &[u8]) -> [Value; 3] {
        let block: Arc<[u8]> = [b"before", bytes, b"after"].concat().into();
        let shared = Value::shared(&block, 6..6 + bytes.len());
        [Value::from(bytes.to_vec()), Value::copy_of(bytes), shared]
    }

    #[test]
    fn a_value_takes_no_more_than_32_bytes() {
        assert_eq!(size_of::<Value>(), 32);
    }

    #[test]
    fn values_of_the_same_bytes_are_the_same_whatever_holds_them() {
        for len in [0, 1, 29, 30, 31, 200] {
            let bytes = vec![b'x'; len];
            for value in kinds(&bytes) {
                assert_eq!(value, bytes, "{len}");
                assert_eq!(value.clone().into_vec(), bytes, "{len}");
                for other in kinds(&bytes) {
                    assert_eq!(value, other, "{len}");
                    assert_eq!(value.cmp(&other), Ordering::Equal, "{len}");
                }
            }
        }
    }

    #[test]
    fn values_are_ordered_and_found_by_their_bytes() {
        let (short, long) = (b"b".to_vec(), vec![b'a'; 40]);
        let sorted: BTreeMap<Value, u8> =
            kinds(&short).into_iter().chain(kinds(&long)).zip(0..).collect();
        assert_eq!(sorted.keys().collect::<Vec<_>>(), [&Value::from(long.clone()), &short.into()]);
        let hashed: HashMap<Value, u8> = kinds(&long).into_iter().zip(0..).collect();
        assert_eq!(hashed.len(), 1);
        assert!(hashed.contains_key(&long[..]), "by a slice, too");
    }

    #[test]
    fn only_long_values_share_the_memory_of_their_block() {
        let block: Arc<[u8]> = [7; 100].into();
        let short = Value::shared(&block, 0..INLINE_BYTES);
        assert_eq!(Arc::strong_count(&block), 1, "{short:?}");
        let long = Value::shared(&block, 0..INLINE_BYTES + 1);
        assert_eq!(Arc::strong_count(&block), 2, "{long:?}");
        assert_eq!(long.into_vec(), [7; INLINE_BYTES + 1]);
        assert_eq!(Arc::strong_count(&block), 1);
    }

    #[test]
    fn a_value_prints_like_bytes() {
        assert_eq!(format!("{:?}", kinds(b"a\0\"")[0]), r#"b"a\x00\"""#);
    }
}
