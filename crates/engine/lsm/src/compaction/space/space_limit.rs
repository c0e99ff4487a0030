//! Picks compactions under a space-amplification limit: keeps a tiered tree within a multiple of
//! its live bytes, with the fewest bytes written.
//!
//! **The tree.** Flushes accumulate in level 0. The last level is one run, the *base*, and contains
//! most of the keyspace. The output of a compaction takes the place of its oldest input run, so one
//! key range can be compacted while its neighbours wait:
//!
//! ```text
//!   level 0   ▒▒▒▒▒▒▒▒│▒▒▒▒▒▒▒▒│▒▒▒▒▒▒▒▒   flushes, cut into a few tables each
//!             ▒▒▒▒▒▒▒▒│▒▒▒▒▒▒▒▒│▒▒▒▒▒▒▒▒
//!             ▒▒│▒│▒▒▒│        │▒▒│▒│▒▒▒   compacted flushes, cut where the base's tables end
//!   base      ▒▒│▒│▒▒▒│▒▒│▒▒│▒▒│▒▒│▒│▒▒▒
//! ```
//!
//! **Space** decides when and where the base is rewritten. Nothing is rewritten while there is
//! space for the next flush and for a plan's output. Otherwise the compaction runs that frees the
//! most bytes per byte written. A candidate is a table of level 0 and its neighbours, with
//! everything older in their range. The base is thus rewritten a table or two at a time, each when
//! most obsolete data has gathered above it, and the temporary copy stays small.
//!
//! **Reads** decide when runs of level 0 are compacted with each other: when more than `runs` of
//! them overlap the newest flush. The newest runs are compacted, up to the first that is larger
//! than all newer ones together. The number of times a byte is rewritten grows with the logarithm
//! of its age.
//!
//! **Deletes** are compacted into the base once the keyspace has written as many bytes since them
//! as are live in it, whether they free anything or not. They normally follow the compactions for
//! space and reads. They precede them after half as long again, or past the age limit of the
//! settings.

use super::budget::{PickerContext, SpaceBudget};
use super::search::{height, yields};
use super::search_state::SpaceSearch;
use crate::compaction::debt::CompactionDebt;
use crate::compaction::execute::output_split::cuts;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::expired;
use crate::compaction::plan::{CompactionPlan, CompactionReason};
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::Ratio;
use crate::version::{KeyspaceVersion, LEVELS};

pub(in crate::compaction) fn pick(
    keyspace: &KeyspaceVersion,
    runs: usize,
    amp: Ratio,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> Option<CompactionPlan> {
    /// Where space is short all the time there is always a merge that frees more.
    /// It may take the next flush's space, which waits for it then.
    const OVERDUE: f64 = 1.5;
    let ledger = SpaceBudget::of(keyspace, amp, busy, sizes, around)?;
    let (snapshots, now) = (&around.snapshots[..], around.now);
    let search = SpaceSearch { keyspace, busy, sizes, snapshots, now };
    let old_deletes = |times: f64, room: f64| {
        let most_bytes = times * ledger.whole.live_raw_bytes();
        search.old_deletes(&around.history(keyspace), most_bytes, around.aged_through, room)
    };
    if let Some(plan) = old_deletes(OVERDUE, ledger.room()) {
        return Some(plan);
    }
    let room = ledger.room_beside_flush();
    let stack = search.tall_stack(runs, ledger.most_in_a_stack());
    let next = stack.as_ref().map_or(0.0, |plan| plan.expected_bytes as f64);
    // A narrowing holds space with its copy as any other, and makes room for those it was begun for.
    let begun_for = |reason| busy.begun_for(keyspace.id, reason);
    let running =
        begun_for(CompactionReason::ObsoleteData) + begun_for(CompactionReason::Narrowing);
    if room < next.max(ledger.plan)
        && running < ledger.merges_most(sizes.segment_bytes)
        && let Some(plan) = search.garbage(ledger.room(), ledger.left)
    {
        return Some(plan);
    }
    let stack = match stack {
        Some(plan) if plan.expected_bytes as f64 > room => search.tall_stack(runs, room),
        fitting => fitting,
    };
    // What does not fit waits for what runs.
    let stack = stack.filter(|plan| plan.expected_bytes as f64 <= room || search.is_idle());
    let old_deletes = || old_deletes(1.0, if search.is_idle() { f64::INFINITY } else { room });
    let above = keyspace.levels[0].bytes() as f64;
    let is_due = above > most_above(amp, sizes, &ledger)
        || above > most_above_a_small_base(keyspace, sizes, &ledger);
    let settling = || is_due.then(|| search.settling(room)).flatten();
    stack.or_else(old_deletes).or_else(settling)
}

/// The merge that frees most for each byte it writes, of those that take deletes into the base, if it frees half as much
/// as it writes, or the rewrite of a table of which half has expired: for idle time. The goal allows what is obsolete data
/// otherwise.
pub(in crate::compaction) fn pick_idle(
    keyspace: &KeyspaceVersion,
    amp: Ratio,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> Option<CompactionPlan> {
    let snapshots = keyspace.splitting(&around.snapshots);
    let has_deletes = || keyspace.tables().any(|(_, _, table)| table.has_deletes());
    let expired = expired::pick(keyspace, busy, sizes, expired::Which::Worthwhile(around.now));
    let is_asked = !keyspace.derived.has_none_worthwhile(snapshots) && has_deletes();
    if !is_asked && expired.is_none() {
        return None;
    }
    let ledger = SpaceBudget::of(keyspace, amp, busy, sizes, around)?;
    let search = SpaceSearch { keyspace, busy, sizes, snapshots, now: around.now };
    let plans = if is_asked { search.deletes() } else { Vec::new() };
    if is_asked && plans.is_empty() && search.is_idle() && keyspace.is_readable() {
        keyspace.derived.note_none_worthwhile(snapshots);
    }
    let room = ledger.room_beside_flush();
    let expired = expired.map(|plan| search.judged(plan));
    let fitting =
        plans.into_iter().chain(expired).filter(|plan| plan.expected_bytes as f64 <= room);
    fitting.max_by(|a, b| yields(a).total_cmp(&yields(b)))
}

/// How much may be above the base. The goal itself bounds what is obsolete data; this bounds what is new,
/// so that a keyspace that grows has a base that its merges can be cut by.
fn most_above(amp: Ratio, sizes: SizeTargets, ledger: &SpaceBudget) -> f64 {
    /// More than the goal's share, so that under overwrites it is obsolete data that decides.
    const ALLOWANCE: f64 = 1.5;
    let share = ALLOWANCE * (amp.get() - 1.0) * ledger.whole.live_bytes;
    share.max(sizes.segment_bytes as f64)
}

/// How much may be above a base that is but a small part of the keyspace: it is grown, to twice its size
/// at a time, however far away the goal is. Merges over a small base take in wide ranges of all that
/// is above it.
fn most_above_a_small_base(
    keyspace: &KeyspaceVersion,
    sizes: SizeTargets,
    ledger: &SpaceBudget,
) -> f64 {
    const SMALL: f64 = 0.5;
    let base = keyspace.levels[LEVELS - 1].bytes() as f64;
    match base < SMALL * ledger.whole.live_bytes {
        true => base.max(sizes.segment_bytes as f64),
        false => f64::INFINITY,
    }
}

/// Only level 0's runs count: space is kept by flushes that wait.
pub(in crate::compaction) fn debt(keyspace: &KeyspaceVersion, runs: usize) -> CompactionDebt {
    CompactionDebt { level_0_runs: tallest(keyspace), level_0_trigger: runs + 1, bytes: 0 }
}

/// The most runs of level 0 that are over a table of the newest.
fn tallest(keyspace: &KeyspaceVersion) -> usize {
    let newest = keyspace.levels[0].runs.first();
    let tables = newest.into_iter().flat_map(|run| run.tables());
    tables.map(|table| height(keyspace, table)).max().unwrap_or(0)
}

/// Whether a flush of `bytes` may start: it must not be the one that breaks the goal, nor add to a
/// tree that merges have to catch up with first. For the less is merged while there is space, the
/// more has to be merged at once when there is none.
pub(in crate::compaction) fn admits(
    keyspace: &KeyspaceVersion,
    runs: usize,
    amp: Ratio,
    bytes: u64,
    busy: &InProgressCompactions,
    sizes: SizeTargets,
    around: &PickerContext,
) -> bool {
    /// So much may be due and not yet done.
    const LATE_RUNS: usize = 4;
    const LATE_SEGMENTS: u64 = 2;
    // Not known: a compaction that has just ended is opening its tables.
    let ledger = SpaceBudget::of_flushes(keyspace, amp, busy, sizes, around);
    let Some(ledger) = ledger else { return false };
    let most = most_above(amp, sizes, &ledger) + (LATE_SEGMENTS * sizes.segment_bytes) as f64;
    ledger.admits(bytes)
        && keyspace.levels[0].bytes() as f64 <= most
        && tallest(keyspace) <= runs + LATE_RUNS
}

/// Where a flush is cut, so that what it adds can be merged a part at a time: at tables of the base, a
/// segment of it apart.
pub(in crate::compaction) fn flush_cuts(
    keyspace: &KeyspaceVersion,
    sizes: SizeTargets,
) -> Vec<Vec<u8>> {
    /// Each part is a table. What is over more of the base than a merge takes in is cut again later.
    const PARTS_MOST: u64 = 64;
    let Some(base) = keyspace.levels[LEVELS - 1].runs.first() else { return Vec::new() };
    let apart = sizes.segment_bytes.max(base.bytes() / PARTS_MOST);
    cuts(base.tables(), apart).cloned().collect()
}
