//! A keyspace read in groups of keys with a common prefix, for checks that stream several keyspaces side
//! by side and hold one group of each at a time.

use esker_api::{Cursor, KeyRange, KeyspaceRef, Transactional};
use esker_base::Result;

/// A key without the group's prefix, and its value.
pub(crate) type Member = (Vec<u8>, Vec<u8>);

/// The groups of one keyspace, in order.
pub(crate) struct Groups<'a> {
    cursor: Box<dyn Cursor + 'a>,
    prefix_bytes: usize,
}

impl<'a> Groups<'a> {
    /// Groups of the keys that share their first `prefix_bytes` bytes; no key may be shorter.
    pub(crate) fn new(
        store: &'a dyn Transactional,
        keyspace: KeyspaceRef,
        prefix_bytes: usize,
    ) -> Result<Self> {
        let mut cursor = store.cursor(keyspace, KeyRange::all())?;
        cursor.seek_first()?;
        Ok(Groups { cursor, prefix_bytes })
    }

    /// The prefix of the group that comes next.
    pub(crate) fn prefix(&self) -> Option<Vec<u8>> {
        self.cursor.current().map(|(key, _)| key[..self.prefix_bytes].to_vec())
    }

    /// Calls `visit` for every entry of the group of `prefix`, if that is what comes next.
    pub(crate) fn visit(
        &mut self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        while let Some((key, value)) = self.cursor.current()
            && key[..self.prefix_bytes] == *prefix
        {
            visit(&key[self.prefix_bytes..], value)?;
            self.cursor.next()?;
        }
        Ok(())
    }

    /// The group of `prefix`, empty if that is not what comes next.
    pub(crate) fn take(&mut self, prefix: &[u8]) -> Result<Vec<Member>> {
        let mut group = Vec::new();
        self.visit(prefix, |key, value| {
            group.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(group)
    }
}

/// The least prefix of those that come next.
pub(crate) fn next_prefix(all: &[&Groups<'_>]) -> Option<Vec<u8>> {
    all.iter().filter_map(|groups| groups.prefix()).min()
}
