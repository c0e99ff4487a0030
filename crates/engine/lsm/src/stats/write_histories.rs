//! The histories of all keyspaces with a space-amplification limit: see [`WriteHistory`].

use super::write_history::WriteHistory;
use crate::version::Version;
use esker_base::{KeyspaceId, Seqno};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the file's head. Its lock is a leaf.
pub(crate) struct WriteHistories {
    /// Up to here, writes were in tables when the database was opened.
    opened_through: Seqno,
    of: Mutex<BTreeMap<KeyspaceId, Arc<WriteHistory>>>,
}

impl WriteHistories {
    pub(crate) fn new(opened_through: Seqno) -> Self {
        WriteHistories { opened_through, of: Mutex::default() }
    }

    /// Notes a flush of writes up to `through`: bytes of keys and values by keyspace. Files made after it
    /// began have ids from `file` on.
    pub(crate) fn note(
        &self,
        through: Seqno,
        written: &[(KeyspaceId, u64)],
        file: u64,
        version: &Version,
    ) {
        let has_goal = |keyspace: &KeyspaceId| {
            let found = version.keyspaces.get(keyspace);
            found.is_some_and(|found| found.settings.has_space_goal())
        };
        let mut of = self.of.lock();
        of.retain(|keyspace, _| has_goal(keyspace));
        for (keyspace, bytes) in written.iter().filter(|(keyspace, _)| has_goal(keyspace)) {
            let begin = || Arc::new(WriteHistory::after(self.opened_through));
            Arc::make_mut(of.entry(*keyspace).or_insert_with(begin)).note(through, *bytes, file);
        }
    }

    /// All of them, as they are now.
    pub(crate) fn all(&self) -> BTreeMap<KeyspaceId, Arc<WriteHistory>> {
        self.of.lock().clone()
    }
}
