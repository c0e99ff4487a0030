//! What the outputs of a compaction say of where they come from.

use crate::compaction::plan::CompactionPlan;
use crate::tree::Tree;
use crate::version::{KeyspaceVersion, TableId, Version};
use esker_table::Origin;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the outputs of `plan` say of where they come from. A table in a file that others keep alive is still there
/// once it was replaced, and after the loss of a manifest only this shows that it was.
pub(super) fn origin_of(
    tree: &Tree,
    plan: &CompactionPlan,
    keyspace: &KeyspaceVersion,
) -> Arc<Origin> {
    let mut origin = tree.installer.origin(keyspace);
    let fields = Arc::make_mut(&mut origin);
    let version = tree.view.load().version.clone();
    fields.flushed_through = version.flushed_through;
    let files = files_of(&version);
    let mut obsolete: BTreeSet<_> = fields.obsolete.iter().copied().collect();
    for table in plan.tables() {
        fields.replaces.push((table.meta.id.file, table.meta.id.offset));
        // One that does not open fails the compaction.
        let Ok(reader) = table.reader(&tree.cache) else { continue };
        let Some(before) = &reader.properties().origin else { continue };
        let replaced = before.replaces.iter().chain(&before.obsolete);
        obsolete.extend(replaced.copied());
    }
    obsolete.retain(|(file, _)| files.contains(file));
    fields.obsolete = obsolete.into_iter().collect();
    origin
}

/// The table files that `version` uses.
fn files_of(version: &Version) -> BTreeSet<u64> {
    let tables = version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
    tables.map(|(_, _, table)| table.meta.id.file).collect()
}

/// After the loss of a manifest, only tables that are begun from now on show that `removed` are gone.
pub(super) fn note_dropped(tree: &Tree, removed: impl Iterator<Item = TableId>) {
    tree.installer.note_dropped(removed, &files_of(&tree.view.load().version));
}
