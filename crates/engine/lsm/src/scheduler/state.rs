//! What the scheduler's lock protects.

use super::table_opening::TableOpenState;
use crate::compaction::execute::compaction_output::CompactionOutput;
use crate::compaction::execute::job::CompactionJob;
use crate::compaction::execute::pending_installs::PendingInstalls;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::plan::{CompactionPlan, CompactionReason};
use crate::log::segment_provider::LogSegment;
use crate::resources::lanes::JobClass;
use crate::version::aging::Ages;
use crate::version::unreadable::Retry;
use esker_base::{Error, KeyspaceId, Result, Seqno};
use esker_memtable::{MemTable, Room};
use esker_storage::Pace;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The pause before a failed job is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// One piece of work.
pub(crate) enum Job {
    Prepare,
    /// Has there be so much of the active segment.
    Grow(LogSegment, Room, Pace),
    /// Gives back the log space that an idle database does not need.
    GiveBack,
    Sort(Arc<MemTable>),
    Flush(Arc<MemTable>),
    /// Ends the active MemTable, if this one still is, so that it is flushed.
    Seal(Arc<MemTable>),
    /// Of everything up to this seqno.
    Sync(Seqno),
    Compact(CompactionPlan),
    /// Of a merge that was deferred.
    Install(Box<CompactionOutput>),
    /// Of these keyspaces, entries have expired up to these seqnos.
    Expire(Vec<(KeyspaceId, Seqno)>),
    /// Tries tables again whose reads failed.
    RetryTables,
}

/// What the schedule's lock protects.
///
/// # Locking
///
/// The lock is never held across I/O. It is taken under the tail of the writers, before the locks of
/// back-pressure and of the view.
#[derive(Default)]
pub(crate) struct SchedulerState {
    pub(crate) closing: bool,
    pub(crate) has_threads: bool,
    /// Of the tables that the database was opened with.
    pub(crate) opening: TableOpenState,
    /// A writer came, so segments are worth preparing.
    pub(crate) wants_segment: bool,
    /// A writer needs the next segment, however little of the active one is used. No writer does once one
    /// has begun a segment.
    pub(crate) needs_segment: bool,
    /// How many segments a large batch waits for.
    pub(crate) segments_wanted: usize,
    /// A writer of a small batch was delayed because of a large one.
    pub(crate) small_waits: bool,
    /// It has waited for one large batch, and goes before the next.
    pub(crate) small_is_next: bool,
    /// Segments prepared for a large batch that was refused. The manifest may list them.
    pub(crate) unneeded: Vec<LogSegment>,
    /// Segments that writers may begin, the next one first.
    pub(crate) prepared: VecDeque<LogSegment>,
    /// The active segment, as long as it can grow.
    pub(crate) growing: Option<LogSegment>,
    pub(crate) log_space: LogSpace,
    /// What writers wait for: how much of the segment of which epoch.
    pub(crate) expected_entries: Option<(u32, Room)>,
    /// Segments whose listing failed: the manifest may list them until it is mended.
    pub(crate) doubtful: Vec<u32>,
    /// MemTables flushed, kept for the memory if no other thread holds them.
    pub(crate) retired: Vec<Arc<MemTable>>,
    pub(crate) busy: InProgressCompactions,
    /// Their plans are busy.
    pub(crate) deferred: PendingInstalls,
    /// A plan is in progress, or another comes right after the last one.
    pub(crate) is_compacting: bool,
    /// When the database was opened.
    pub(crate) opened_at: Duration,
    /// The last flush since the database was opened.
    pub(crate) flushed: Option<Flushed>,
    /// The epoch of the active MemTable that was last seen with something in it, and when that was first, in
    /// seconds of the calendar.
    pub(crate) active_since: Option<(u32, u64)>,
    /// When writes became visible, once a keyspace has a time to live.
    pub(crate) ages: Option<Ages>,
    /// When that was last inspected.
    pub(crate) aged_at: Duration,
    /// When what had expired of a keyspace last moved on, in milliseconds of the calendar.
    pub(crate) expired_at: BTreeMap<KeyspaceId, u64>,
    /// The epoch of the MemTable that is being flushed.
    pub(crate) flushing: Option<u32>,
    /// Plans in progress that have several parts.
    pub(crate) shared: Vec<Arc<CompactionJob>>,
    pub(crate) synced_at: Duration,
    pub(crate) lanes: [JobClassState; 4],
    /// When tables whose reads failed are tried again.
    pub(crate) retry: Retry,
    /// The keyspace of the plan begun last: the others come before it.
    pub(crate) served: Option<KeyspaceId>,
    /// A background thread has panicked: what it was doing will never be done.
    pub(crate) panicked: bool,
}

/// What shows whether the database is idle, so that log space may be given back.
#[derive(Default)]
pub(crate) struct LogSpace {
    /// How much of the log was used when it was last seen to change.
    pub(crate) used: LogUsed,
    /// When it was last seen to change.
    pub(crate) since: Duration,
    /// Callers that wait until the database is idle.
    pub(crate) waiters: usize,
    /// How much of the log was used when the last of them came: if that changes, others write.
    pub(crate) used_for_waiters: LogUsed,
    /// How often space was given back.
    pub(crate) rounds: u64,
}

/// The epoch of the active segment, and the bytes used of it. `None` without one.
pub(crate) type LogUsed = Option<(u32, u32)>;

/// A flush that has ended.
#[derive(Clone, Copy)]
pub(crate) struct Flushed {
    pub(crate) at: Duration,
    /// What came before its MemTable.
    pub(crate) after: Seqno,
}

/// How a lane's jobs fare.
#[derive(Default)]
pub(crate) struct JobClassState {
    /// Jobs that run now.
    pub(crate) running: usize,
    pub(crate) error: Option<Error>,
    pub(crate) retry_at: Duration,
    pub(crate) attempts: u64,
}

impl JobClassState {
    pub(crate) fn ready(&self, now: Duration) -> bool {
        self.error.is_none() || now >= self.retry_at
    }

    /// What came of a job, whose thread still cleans up after it.
    pub(crate) fn record(&mut self, outcome: Result<()>, now: Duration) {
        self.attempts += 1;
        self.retry_at = now + RETRY;
        self.error = outcome.err();
    }
}

impl SchedulerState {
    pub(crate) fn lane(&mut self, lane: JobClass) -> &mut JobClassState {
        &mut self.lanes[lane as usize]
    }

    /// Whether `count` segments are prepared that are all there.
    pub(crate) fn has_segments(&self, count: usize) -> bool {
        let whole = self.prepared.iter().take(count).filter(|it| it.memtable.is_whole());
        whole.count() == count
    }

    /// Whether a large batch may take `count` segments. If a writer of a small batch waits, one stays.
    pub(crate) fn are_gathered(&self, count: usize) -> bool {
        self.prepared.len() >= self.with_one_for_others(count) && self.has_segments(count)
    }

    /// How many segments are prepared so that a large batch gets `count`.
    pub(crate) fn with_one_for_others(&self, count: usize) -> usize {
        if count > 0 && self.small_waits { count + 1 } else { count }
    }

    /// Whether prepared segments are for a large batch that gathers them, and for no other writer.
    pub(crate) fn are_segments_held_back(&self) -> bool {
        self.has_threads && self.segments_wanted > 0 && !self.small_is_next
    }

    /// A merge of which a part is left, for a thread of the compaction lane that has nothing else to do.
    pub(crate) fn next_to_help(&mut self, lane: JobClass) -> Option<Arc<CompactionJob>> {
        let left = self.shared.iter().find(|merge| merge.parts.are_left());
        let merge = left.filter(|_| lane == JobClass::Compaction)?.clone();
        self.lane(lane).running += 1;
        Some(merge)
    }

    /// Takes up a merge that was deferred.
    pub(crate) fn begin_install(&mut self, merged: CompactionOutput) -> Job {
        // What it was in the way of comes next.
        self.is_compacting = true;
        self.deferred.begin_install();
        self.lane(JobClass::Compaction).running += 1;
        Job::Install(Box::new(merged))
    }

    /// Takes up a plan, by a lane or by a caller.
    pub(crate) fn begin_plan(&mut self, plan: &CompactionPlan) {
        self.busy.claim(plan);
        self.served = Some(plan.keyspace);
        // What is done in idle time holds no writer to a pace.
        self.is_compacting |= plan.reason != CompactionReason::Deletes;
        self.lane(JobClass::Compaction).running += 1;
    }

    /// Sets the prepared segments beyond `ahead` aside, unless a large batch waits for them.
    pub(crate) fn set_unneeded_aside(&mut self, ahead: usize) {
        if self.segments_wanted == 0 && self.prepared.len() > ahead {
            self.unneeded.extend(self.prepared.split_off(ahead));
        }
    }
}
