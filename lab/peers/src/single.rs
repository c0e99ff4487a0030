//! Batches of one write, which peers that write by themselves are given as such.
//!
//! A load writes batches. Most hold one entry, and every peer has a call for just that, which copies
//! the entry once less than its batches do: who measures a peer's single writes means that call.

use esker_api::WriteBatch;
use esker_base::{Entry, Kind};

/// The one put or delete of `batch`. `None` if there are more, or none, or it is of a range.
#[inline]
pub(crate) fn single(batch: &WriteBatch) -> Option<Entry<'_>> {
    let entry = if batch.len() == 1 { batch.iter().next()? } else { return None };
    matches!(entry.kind, Kind::Put | Kind::Delete).then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::KeyspaceId;

    #[test]
    fn one_put_or_delete_is_single_and_nothing_else() {
        let mut batch = WriteBatch::new();
        assert!(single(&batch).is_none());
        batch.put(KeyspaceId::DEFAULT, b"a", b"1");
        assert!(single(&batch).is_some_and(|entry| (entry.key, entry.value) == (b"a", b"1")));
        batch.delete(KeyspaceId::DEFAULT, b"a");
        assert!(single(&batch).is_none());
        batch.clear();
        batch.delete(KeyspaceId::DEFAULT, b"a");
        assert!(single(&batch).is_some_and(|entry| entry.kind == Kind::Delete));
        batch.clear();
        batch.delete_range(KeyspaceId::DEFAULT, b"a"..b"b");
        assert!(single(&batch).is_none());
    }
}
