//! Tables in which everything has expired.

use super::key_bounds::KeyBounds;
use super::{KeyspaceVersion, TableHandle, TableId, TableMeta};
use std::sync::Arc;

impl KeyspaceVersion {
    /// Whether everything in a table has expired at `now`, in milliseconds since 1970-01-01.
    pub(crate) fn has_expired(&self, meta: &TableMeta, now: u64) -> bool {
        let expired = self.expired();
        // An entry without a seqno may be younger than the others.
        let has_aged = expired.has(meta.max_seqno) && expired.has(meta.min_seqno);
        has_aged || meta.expires_by().is_some_and(|expiry| expiry <= now)
    }

    /// The tables in which everything has expired at `now`, and that hide nothing that has not. Leaves
    /// out those that `counts` rejects. The oldest first.
    pub(crate) fn expired_tables(
        &self,
        now: u64,
        counts: impl Fn(&TableMeta) -> bool,
    ) -> Vec<&Arc<TableHandle>> {
        if !self.tables().any(|(.., table)| self.has_expired(&table.meta, now)) {
            return Vec::new();
        }
        let runs: Vec<_> = self.levels.iter().flat_map(|level| &level.runs).collect();
        let mut found: Vec<&Arc<TableHandle>> = Vec::new();
        let mut ids: Vec<TableId> = Vec::new();
        for (at, run) in runs.iter().enumerate().rev() {
            for table in run.tables().iter().filter(|it| self.has_expired(&it.meta, now)) {
                let span = KeyBounds::of_table(&table.meta);
                let mut older = runs[at + 1..].iter().flat_map(|older| span.tables_of(older));
                if counts(&table.meta) && older.all(|older| ids.contains(&older.meta.id)) {
                    found.push(table);
                    ids.push(table.meta.id);
                }
            }
        }
        found
    }
}
