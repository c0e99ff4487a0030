//! The space budget of a keyspace: what it uses, what it may use, and what is left.

use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::l0_delay::FlushCadence;
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::{Dedup, Ratio};
use crate::stats::SpaceAmpStatus;
use crate::stats::write_history::WriteHistory;
use crate::version::derived::GarbageEstimate;
use crate::version::{KeyspaceVersion, Version};
use esker_base::{KeyspaceId, Seqno};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the pickers have to know in addition to the version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PickerContext {
    /// The registered snapshots.
    pub snapshots: Vec<Seqno>,
    /// By keyspace, bytes of its tables that are in no version any more and that readers hold.
    pub zombie_bytes: BTreeMap<KeyspaceId, u64>,
    /// What keyspaces have of the MemTable that is being flushed, in bytes. Empty if none is.
    pub flushing_bytes: BTreeMap<KeyspaceId, u64>,
    /// What keyspaces have written. Of one that is not here, every write counts as its own.
    pub histories: BTreeMap<KeyspaceId, Arc<WriteHistory>>,
    /// The last flush, unless nothing is to wait for the next one.
    pub arrival: Option<FlushCadence>,
    /// Deletes up to this write have stayed for too long. 0 if none have.
    pub aged_through: Seqno,
    /// The time by which entries have expired, in milliseconds since 1970-01-01.
    pub now: u64,
    /// The keyspaces whose tables a full compaction rewrites: for their compaction filter, or a new key.
    pub filtered: BTreeSet<KeyspaceId>,
    /// What expired before this time has stayed for too long.
    pub expired_before: u64,
    /// By keyspace with windows, the last write that was flushed a window ago. 0 if none was.
    pub windows_over: BTreeMap<KeyspaceId, Seqno>,
    /// By keyspace whose value files hold too much obsolete data, those to be collected.
    pub overdue_values: BTreeMap<KeyspaceId, BTreeSet<u64>>,
}

impl PickerContext {
    /// What `keyspace` has written.
    pub fn history(&self, keyspace: &KeyspaceVersion) -> Arc<WriteHistory> {
        let known = self.histories.get(&keyspace.id).cloned();
        known.unwrap_or_else(|| Arc::new(WriteHistory::after(keyspace.newest_seqno())))
    }
}

/// Of the four segments that a goal allows in addition to its share, these are kept for the error of the estimates.
const SPARE_SEGMENTS: u64 = 1;
const SLACK_SEGMENTS: u64 = 4;

/// See [`SpaceBudget::most_in_a_stack`].
const STACK_SHARE: f64 = 0.3;

/// See the file's head. In bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SpaceBudget {
    /// What stays if everything is merged; the least of it, if that is in doubt.
    pub whole: GarbageEstimate,
    /// The most bytes that table files may use at any time: the goal, what snapshots pin, and the segments.
    pub ceiling: f64,
    /// What they may take by any plan.
    pub limit: f64,
    /// What they take, with what a running flush and running plans may add.
    pub used: f64,
    /// Of that, tables that are in no version any more.
    pub left: f64,
    /// What the next flush may add: a segment, for it may be of this keyspace alone. Less what one that runs
    /// adds, which is part of what is used: there is time to free space for the one after it.
    pub flush: f64,
    /// What a plan that frees obsolete data adds before its inputs are removed.
    pub plan: f64,
}

impl SpaceBudget {
    /// The ledger of a keyspace whose goal is `amp`. `None` if a table could not be opened yet.
    pub fn of(
        keyspace: &KeyspaceVersion,
        amp: Ratio,
        busy: &InProgressCompactions,
        sizes: SizeTargets,
        around: &PickerContext,
    ) -> Option<SpaceBudget> {
        let whole = keyspace.estimate_at(&around.snapshots, around.now)?;
        Some(Self::for_estimate(keyspace, whole, amp, busy, sizes, around))
    }

    /// The same for the admission of flushes. What has expired counts as live, so that writers do not
    /// wait because time has passed.
    pub fn of_flushes(
        keyspace: &KeyspaceVersion,
        amp: Ratio,
        busy: &InProgressCompactions,
        sizes: SizeTargets,
        around: &PickerContext,
    ) -> Option<SpaceBudget> {
        let whole = keyspace.estimate(&around.snapshots)?;
        Some(Self::for_estimate(keyspace, whole, amp, busy, sizes, around))
    }

    fn for_estimate(
        keyspace: &KeyspaceVersion,
        whole: GarbageEstimate,
        amp: Ratio,
        busy: &InProgressCompactions,
        sizes: SizeTargets,
        around: &PickerContext,
    ) -> SpaceBudget {
        let whole = whole.least();
        let segments = |count: u64| (count * sizes.segment_bytes) as f64;
        let ceiling =
            amp.get() * whole.live_bytes + whole.pinned_bytes() + segments(SLACK_SEGMENTS);
        let left = around.zombie_bytes.get(&keyspace.id).copied().unwrap_or(0);
        let flushing = around.flushing_bytes.get(&keyspace.id).copied().unwrap_or(0);
        let running = left + busy.expected_bytes(keyspace.id) + flushing;
        SpaceBudget {
            whole,
            ceiling,
            limit: ceiling - segments(SPARE_SEGMENTS),
            used: (keyspace.bytes() + running) as f64,
            left: left as f64,
            flush: sizes.segment_bytes.saturating_sub(flushing) as f64,
            plan: sizes.goal_reserve_bytes() as f64,
        }
    }

    /// How many compactions may free obsolete data at once. The copy that each makes uses space in which obsolete data
    /// could wait, and one that is begun while another is about to free space is begun too early, for less.
    pub fn merges_most(&self, segment_bytes: u64) -> usize {
        /// The copy that a compaction makes is small compared to so much obsolete data.
        const SEGMENTS_A_MERGE: f64 = 8.0;
        let kept = self.whole.live_bytes + self.whole.pinned_bytes();
        let garbage = (self.limit - kept) / segment_bytes as f64;
        ((garbage / SEGMENTS_A_MERGE) as usize).max(1)
    }

    /// What a plan may write at once.
    pub fn room(&self) -> f64 {
        self.limit - self.used
    }

    /// What a plan may write with the next flush still finding space.
    pub fn room_beside_flush(&self) -> f64 {
        self.room() - self.flush
    }

    /// What a compaction that frees little may write: freeing space for a larger one costs more than it saves.
    pub fn most_in_a_stack(&self) -> f64 {
        ((self.limit - self.whole.live_bytes) * STACK_SHARE).max(self.plan)
    }

    /// Whether after a flush of `bytes` there still is space for a plan that frees some.
    pub fn admits(&self, bytes: u64) -> bool {
        bytes as f64 + self.plan <= self.room()
    }
}

/// The space that the keyspaces of `version` with a goal use and may use, with segments of so many bytes. One whose
/// tables can't be opened is left out.
pub(crate) fn goals(
    version: &Version,
    segment_bytes: Option<u64>,
    around: &PickerContext,
) -> Vec<SpaceAmpStatus> {
    let sizes = SizeTargets { segment_bytes: segment_bytes.unwrap_or(0) };
    let goal = |keyspace: &KeyspaceVersion| {
        let Dedup::SpaceGoal { amp } = keyspace.settings.dedup else { return None };
        let ledger =
            SpaceBudget::of(keyspace, amp, &InProgressCompactions::default(), sizes, around)?;
        Some(SpaceAmpStatus {
            keyspace: keyspace.name.clone(),
            amp,
            live_bytes: ledger.whole.live_bytes,
            pinned_bytes: ledger.whole.pinned_bytes(),
            ceiling_bytes: segment_bytes.map(|_| ledger.ceiling),
            bytes: ledger.used as u64,
        })
    };
    version.keyspaces.values().filter_map(|keyspace| goal(keyspace)).collect()
}
