//! Decides whether a level 0 compaction waits for further runs.
//!
//! A compaction of level 0 rewrites the data below, however little it adds. During a series of
//! flushes, the next run arrives before a compaction of the last ones would finish, and one
//! compaction of all of them writes the level below once. Level 0 therefore grows beyond
//! its trigger, until it has [`LEVEL_0_RUNS_MOST`], or no run arrived for as long as the
//! compaction would take. A longer wait would cost reads more than it could save writes, as in the
//! ski-rental problem.

use crate::options::sizes::LEVEL_0_RUNS_MOST;
use crate::version::Run;
use esker_base::Seqno;
use std::sync::Arc;

/// The last flush, as far as it says that another one follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushCadence {
    /// Keyspaces with something newer in level 0 had a part in it.
    pub after: Seqno,
    /// So many bytes could merges have taken out of level 0 since then. None as long as MemTables wait.
    pub drained_bytes: u64,
}

/// Whether `runs` of level 0, newest first, are to be merged by now. They are due if there are `trigger`
/// of them.
pub(in crate::compaction) fn is_level_0_due(
    runs: &[Arc<Run>],
    trigger: usize,
    arrival: Option<FlushCadence>,
) -> bool {
    let bytes = || runs.iter().map(|run| run.bytes()).sum::<u64>();
    let waits = |arrival: FlushCadence| {
        runs.len() < LEVEL_0_RUNS_MOST
            && bytes() > arrival.drained_bytes
            && runs.first().is_some_and(|run| reaches_beyond(run, arrival.after))
    };
    runs.len() >= trigger && !arrival.is_some_and(waits)
}

fn reaches_beyond(run: &Arc<Run>, seqno: Seqno) -> bool {
    run.tables().iter().any(|table| table.meta.max_seqno > seqno)
}
