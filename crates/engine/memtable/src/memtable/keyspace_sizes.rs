//! What each keyspace has of a MemTable.

use esker_base::{Entry, KeyspaceId};
use std::collections::BTreeMap;

/// The bytes of keys and values by keyspace.
#[derive(Default)]
pub(super) struct KeyspaceSizes {
    sums: BTreeMap<KeyspaceId, u64>,
    /// Of the entries since the keyspace last changed: mostly there is one only.
    last: Option<(KeyspaceId, u64)>,
}

impl KeyspaceSizes {
    /// Counts an entry.
    #[inline]
    pub fn add(&mut self, entry: &Entry<'_>) {
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        match &mut self.last {
            Some((keyspace, sum)) if *keyspace == entry.keyspace => *sum += bytes,
            _ => {
                self.close();
                self.last = Some((entry.keyspace, bytes));
            }
        }
    }

    fn close(&mut self) {
        if let Some((keyspace, bytes)) = self.last.take() {
            *self.sums.entry(keyspace).or_default() += bytes;
        }
    }

    /// Each keyspace's share of `whole` bytes, in order of keyspaces.
    pub fn shares(mut self, whole: u64) -> Vec<(KeyspaceId, u64)> {
        self.close();
        let all: u64 = self.sums.values().sum();
        // Keys are not empty: what is in `sums` is not zero.
        let share = |bytes| (u128::from(whole) * u128::from(bytes) / u128::from(all)) as u64;
        self.sums.into_iter().map(|(keyspace, bytes)| (keyspace, share(bytes))).collect()
    }
}
