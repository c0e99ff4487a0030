//! All versions of one key, which a fold of operands asks for.

use super::{FoundVersion, MemTable};
use crate::hash_index::hash_in;
use crate::loom_shim::Ordering;
use esker_base::{KeyspaceId, Seqno};
use std::ops::ControlFlow;

impl MemTable {
    /// Visits the versions of `key`, newest first, as long as `visit` continues: those with a seqno at
    /// or below `snapshot`. Range deletes and soundness are as for [`MemTable::get`].
    #[cold]
    pub fn visit_versions(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        key_hash: u64,
        snapshot: Seqno,
        mut visit: impl FnMut(FoundVersion<'_>) -> ControlFlow<()>,
    ) {
        let numbers = self.segment.numbers_through(snapshot);
        // Where the order covers all that is left, it has the versions side by side.
        if numbers <= self.order.covered() {
            return self.visit_order(keyspace, key, numbers, visit);
        }
        let hash = hash_in(keyspace, key_hash);
        for part in self.index.parts() {
            let mut link = part.newest(hash);
            while link != 0 {
                let number = link - 1;
                if number < numbers {
                    if number < self.order.covered() {
                        return self.visit_order(keyspace, key, number + 1, visit);
                    }
                    let entry = self.entry(number).expect("indexed entries are filled");
                    if entry.key == key
                        && entry.keyspace == keyspace
                        && visit(self.found(number, entry)).is_break()
                    {
                        return;
                    }
                }
                link = self.segment.nodes().node(number).older.load(Ordering::Acquire);
            }
        }
    }

    /// The same among the first `numbers` entries, which the order covers.
    fn visit_order(
        &self,
        keyspace: KeyspaceId,
        key: &[u8],
        numbers: u32,
        mut visit: impl FnMut(FoundVersion<'_>) -> ControlFlow<()>,
    ) {
        for run in self.order.runs().iter().rev() {
            let Some(part) = run.part(keyspace) else { continue };
            let from = part.seek(&self.segment, key, numbers);
            for item in part.items().get(from..).unwrap_or_default() {
                let entry = self.segment.entry(item.place());
                if entry.key != key {
                    break;
                }
                if visit(self.found(item.number(), entry)).is_break() {
                    return;
                }
            }
        }
    }
}
