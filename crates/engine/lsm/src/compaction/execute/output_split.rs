//! Splits the outputs of compactions under a space-amplification limit at the table boundaries of
//! the base. A later compaction then reads whole tables, and only those that it needs.

use crate::compaction::plan::{CompactionPlan, Cutting};
use crate::compaction::space::search_state::{BASE, SpaceSearch};
use crate::version::TableHandle;
use crate::version::key_bounds::KeyBounds;
use std::sync::Arc;

/// The first keys of `tables`, so many bytes of them apart at least. Not that of the first.
pub(in crate::compaction) fn cuts(
    tables: &[Arc<TableHandle>],
    apart: u64,
) -> impl Iterator<Item = &Vec<u8>> {
    let mut since = 0;
    let mut before = 0;
    tables.iter().filter_map(move |table| {
        since += before;
        before = table.meta.bytes;
        let is_cut = since > 0 && since >= apart;
        since = if is_cut { 0 } else { since };
        is_cut.then_some(&table.meta.smallest)
    })
}

impl SpaceSearch<'_> {
    /// Cuts the output into tables of the base's size, where its tables end now if that will do.
    pub(in crate::compaction) fn cut_for_base(&self, mut plan: CompactionPlan) -> CompactionPlan {
        let keys = self.base_cuts(&plan.span, 0);
        let target = self.sizes.goal_table_bytes();
        plan.cutting = Some(Cutting { keys, least_bytes: target / 2, most_bytes: target * 3 / 2 });
        plan
    }

    /// Cuts the output, which stays in level 0, where the base's tables end.
    pub(in crate::compaction) fn cut_finely(&self, mut plan: CompactionPlan) -> CompactionPlan {
        let keys = self.base_cuts(&plan.span, 0);
        let (least_bytes, most_bytes) = (self.sizes.goal_piece_bytes(), self.sizes.table_bytes());
        plan.cutting = Some(Cutting { keys, least_bytes, most_bytes });
        plan
    }

    /// The keys within `span` at which tables of the base begin, so many bytes of them apart at least.
    pub(in crate::compaction) fn base_cuts(&self, span: &KeyBounds, apart: u64) -> Vec<Vec<u8>> {
        let base = self.keyspace.levels[BASE].runs.first();
        let tables = base.map_or(&[][..], |run| span.tables_of(run));
        cuts(tables, apart).filter(|start| **start > span.smallest).cloned().collect()
    }
}
