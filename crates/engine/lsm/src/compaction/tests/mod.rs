//! Tests of compaction as a whole.

mod estimates;
mod failure;
mod goal;
mod goal_plans;
mod golden;
mod model;
mod monitor;
mod second_count;
mod simulated;
mod store;

use crate::version::{TableHandle, TableId, TableMeta, table_file_name};
use esker_base::Error;
use esker_table::Sketches;
use std::sync::Arc;

/// A table of as many puts as `entries` says, from the first of `ends` to the last.
fn table_of(
    id: TableId,
    ends: [Vec<u8>; 2],
    entries: u64,
    bytes: u64,
    sketches: Sketches,
) -> Arc<TableHandle> {
    let [smallest, largest] = ends;
    let meta = TableMeta::new(id, smallest, largest);
    let meta = TableMeta { bytes, entries, raw_bytes: bytes, ..meta };
    TableHandle::sketched(meta, sketches)
}

/// From now on a read of the table is known to fail.
pub(super) fn lose(table: &TableHandle) {
    let TableId { file, offset } = table.meta.id;
    let what = "the chunk has gone bad".to_owned();
    table.mark_unreadable(&Error::Lost { file: table_file_name(file), offset, what });
}
