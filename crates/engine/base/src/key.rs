//! Keys, keyspaces and seqnos.
//!
//! Within a keyspace, versions are ordered by key bytes ascending, then by seqno **descending**:
//! the newest version of a key comes first. That order is the same in MemTables, tables and merges.

use std::cmp::Ordering;

/// A sequence number. Each entry of each batch gets one; they are dense and never reused.
pub type Seqno = u64;

/// The largest sequence number. It leaves eight bits of a `u64`, so that a sequence number and a
/// [`Kind`](crate::Kind) fit one word.
pub const MAX_SEQNO: Seqno = (1 << 56) - 1;

/// The largest length of a key, in bytes. The empty key is valid.
pub const MAX_KEY_BYTES: usize = 64 << 10;

/// The id of a keyspace in its database. Ids are never reused, not even after a drop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KeyspaceId(pub u32);

impl KeyspaceId {
    /// The id of the default keyspace, which every database has.
    pub const DEFAULT: KeyspaceId = KeyspaceId(0);
}

impl std::fmt::Display for KeyspaceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Compares two versions in the engine's order: key ascending, then seqno descending.
#[inline]
pub fn compare_versions(a: (&[u8], Seqno), b: (&[u8], Seqno)) -> Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}

/// Returns the smallest byte string that is greater than every string starting with `prefix`.
///
/// `None` if there is none: the prefix is empty or all `0xff`.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_sort_before_older_ones() {
        assert_eq!(compare_versions((b"a", 9), (b"a", 3)), Ordering::Less);
        assert_eq!(compare_versions((b"a", 1), (b"b", 9)), Ordering::Less);
        assert_eq!(compare_versions((b"a", 1), (b"a\0", 9)), Ordering::Less);
    }

    #[test]
    fn prefix_end_is_the_tight_upper_bound() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
