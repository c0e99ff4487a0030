//! The progress of level 0 compactions, for back-pressure.
//!
//! A compaction removes many runs from level 0 at once, when its edit is installed. If the runs
//! there throttled writers, these would be fast after each compaction and ever slower until the end
//! of the next. So a compaction that is half done counts as half of its runs removed, whenever a
//! MemTable is sealed or a job ends. Progress is the bytes written relative to the bytes expected,
//! so a compaction that drops much is underestimated. Keyspaces with a space-amplification limit
//! count no runs and are not included.

use crate::compaction::plan::{CompactionInput, CompactionPlan};
use crate::version::KeyspaceVersion;
use esker_base::KeyspaceId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Merges of level 0 that are being done.
#[derive(Default)]
pub(crate) struct L0CompactionProgress {
    merges: Mutex<Vec<Arc<JobProgress>>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct JobProgress {
    keyspace: KeyspaceId,
    /// So many runs less will level 0 have.
    runs: usize,
    expected_bytes: u64,
    written_bytes: AtomicU64,
}

impl JobProgress {
    pub(crate) fn of(plan: &CompactionPlan, keyspace: &KeyspaceVersion) -> JobProgress {
        let is_whole = |input: &&CompactionInput| {
            let mut runs = keyspace.levels[0].runs.iter();
            runs.any(|run| run.id == input.run && run.tables().len() == input.tables.len())
        };
        let of_level_0 = plan.inputs.iter().filter(|input| input.level == 0);
        let taken = of_level_0.filter(is_whole).count();
        let stays = plan.output_level == 0 || !plan.held_back.is_empty();
        JobProgress {
            keyspace: plan.keyspace,
            runs: taken.saturating_sub(usize::from(stays)),
            expected_bytes: plan.expected_bytes,
            written_bytes: AtomicU64::new(0),
        }
    }

    /// So many bytes more of outputs are written.
    pub(crate) fn wrote(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The runs, by the part of the work that is done.
    fn runs_done(&self) -> f64 {
        let written = self.written_bytes.load(Ordering::Relaxed);
        let done = written as f64 / self.expected_bytes.max(1) as f64;
        self.runs as f64 * done.min(1.0)
    }
}

/// Takes a merge off the list when it is dropped.
pub(crate) struct ProgressGuard<'a> {
    list: &'a L0CompactionProgress,
    progress: Arc<JobProgress>,
}

impl L0CompactionProgress {
    /// Enters a merge until what is returned is dropped: when its runs are gone, or it has failed.
    pub(crate) fn enter(&self, progress: Arc<JobProgress>) -> ProgressGuard<'_> {
        if progress.runs > 0 {
            self.merges.lock().push(progress.clone());
        }
        ProgressGuard { list: self, progress }
    }

    /// The runs of level 0 that compactions have read, but not yet installed.
    pub(crate) fn runs_done(&self, keyspace: KeyspaceId) -> f64 {
        let merges = self.merges.lock();
        let own = merges.iter().filter(|merge| merge.keyspace == keyspace);
        own.map(|merge| merge.runs_done()).sum()
    }
}

impl Drop for ProgressGuard<'_> {
    fn drop(&mut self) {
        self.list.merges.lock().retain(|merge| !Arc::ptr_eq(merge, &self.progress));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(keyspace: u32, runs: usize) -> Arc<JobProgress> {
        let (expected_bytes, written_bytes) = (1_000, AtomicU64::new(0));
        Arc::new(JobProgress {
            keyspace: KeyspaceId(keyspace),
            runs,
            expected_bytes,
            written_bytes,
        })
    }

    #[test]
    fn a_merge_counts_by_what_is_written_of_what_was_expected_until_it_ends() {
        let (list, merge) = (L0CompactionProgress::default(), merge(1, 20));
        let done = |keyspace| list.runs_done(KeyspaceId(keyspace));
        let entered = list.enter(merge.clone());
        assert_eq!(done(1), 0.0);
        merge.wrote(250);
        assert_eq!((done(1), done(2)), (5.0, 0.0), "of its own keyspace alone");
        merge.wrote(5_000);
        assert_eq!(done(1), 20.0, "no more than there were");
        drop(entered);
        assert_eq!(done(1), 0.0);
    }

    #[test]
    fn merges_side_by_side_add_up() {
        let (list, one, two) = (L0CompactionProgress::default(), merge(1, 8), merge(1, 4));
        let (first, _second) = (list.enter(one.clone()), list.enter(two.clone()));
        one.wrote(500);
        two.wrote(500);
        assert_eq!(list.runs_done(KeyspaceId(1)), 6.0);
        drop(first);
        assert_eq!(list.runs_done(KeyspaceId(1)), 2.0, "the other one goes on");
    }
}
