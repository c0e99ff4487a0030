//! A compaction whose outputs are written, and the edits that install them.

use super::subcompaction::CompactionResult;
use crate::compaction::in_progress::CompactionClaim;
use crate::compaction::plan::CompactionPlan;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::stats::compaction_counts::CompactionEvent;
use crate::stats::events::EventKind;
use crate::version::{TableId, TableMeta};
use esker_base::{KeyspaceId, Seqno};

/// Whether a compaction asks the filter of its keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Filtering {
    On,
    /// Every entry stays.
    Off,
}

/// What became of the outputs of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Installed {
    Yes,
    /// They were removed, because a snapshot would see what a filter changed. Nothing has changed.
    No,
}

/// A plan whose outputs are written. It holds no files: what of its inputs goes meanwhile, as with a keyspace, is gone.
pub(crate) struct CompactionOutput {
    /// What the plan has claimed.
    pub(crate) held: CompactionClaim,
    pub(super) keyspace: KeyspaceId,
    pub(super) inputs: Vec<TableId>,
    /// The level and the run of the outputs.
    pub(super) place: (usize, u64),
    /// Those of what was retained.
    pub(super) held_place: (usize, u64),
    pub(crate) outcome: CompactionResult,
    /// The newest level of the inputs, and their bytes there.
    pub(super) moved: (usize, u64),
    pub(super) done: CompactionEvent,
    /// The snapshots that the compaction knew, if it has to know all: a filter changed what others see.
    pub(super) knows: Option<Vec<Seqno>>,
    /// What is reported once it is installed.
    pub(crate) event: Option<EventKind>,
}

impl CompactionOutput {
    pub(super) fn new(
        plan: &CompactionPlan,
        outcome: CompactionResult,
        snapshots: &[Seqno],
    ) -> Self {
        let newest = &plan.inputs[0];
        CompactionOutput {
            held: CompactionClaim::by(plan),
            keyspace: plan.keyspace,
            inputs: plan.tables().map(|table| table.meta.id).collect(),
            place: (plan.output_level, plan.output_run),
            held_place: (newest.level, newest.run),
            knows: outcome.filtered.is_seen().then(|| snapshots.to_vec()),
            outcome,
            moved: (newest.level, newest.tables.iter().map(|table| table.meta.bytes).sum()),
            done: plan.event(),
            event: None,
        }
    }

    pub(crate) fn keyspace(&self) -> KeyspaceId {
        self.keyspace
    }

    /// The level that its outputs go to.
    pub(crate) fn level(&self) -> usize {
        self.place.0
    }

    /// The bytes of its outputs.
    pub(crate) fn bytes(&self) -> u64 {
        self.outcome.written_bytes
    }

    pub(crate) fn outputs(&self) -> &[TableMeta] {
        &self.outcome.outputs
    }

    /// Whether a filter changed what readers at present see.
    pub(crate) fn is_filtered(&self) -> bool {
        self.knows.is_some()
    }

    /// Whether its inputs take more than twice the space of its outputs.
    pub(crate) fn frees_much(&self) -> bool {
        self.outcome.freed_bytes() > self.outcome.written_bytes
    }

    /// The newest level that it takes from, and how many bytes.
    pub(crate) fn moved(&self) -> (usize, u64) {
        self.moved
    }

    /// The edit that takes the inputs away and puts the outputs in their place.
    pub(super) fn edit(&self) -> VersionEdit {
        let gone = self.inputs.iter().map(|id| remove(self.keyspace, *id));
        let outputs = self.outcome.outputs.iter().map(|meta| (self.place, meta));
        let held_back = self.outcome.held_back.iter().map(|meta| (self.held_place, meta));
        let added = outputs.chain(held_back).map(|(place, meta)| add(self.keyspace, place, meta));
        let values = self.outcome.value_files.iter();
        let values =
            values.map(|meta| VersionChange::AddValueFile { keyspace: self.keyspace, meta: *meta });
        VersionEdit::of(values.chain(gone).chain(added))
    }
}

pub(super) fn remove(keyspace: KeyspaceId, id: TableId) -> VersionChange {
    VersionChange::RemoveTable { keyspace, id }
}

pub(super) fn add(
    keyspace: KeyspaceId,
    (level, run): (usize, u64),
    meta: &TableMeta,
) -> VersionChange {
    VersionChange::AddTable { keyspace, level, run, meta: meta.clone() }
}
