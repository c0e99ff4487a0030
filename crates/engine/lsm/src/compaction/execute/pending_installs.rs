//! Finished compactions whose outputs are not installed yet.
//!
//! The outputs of a compaction are stored where the device is being written, so reads of them wait
//! for writes. A storage that knows its device reports when a file is no longer in such a place
//! ([`Storage::is_settled`](esker_storage::Storage::is_settled)). Until then, readers keep using
//! the inputs: they have the same content, and nothing is written near them.
//!
//! ```text
//! compaction ──► outputs written ──► deferred ──────────────────────► installed
//!                                     the plan keeps its claim,        when they are settled, block others,
//!                                     readers read its inputs          or a caller waits
//! ```
//!
//! * The claim ([`InProgressCompactions`](crate::compaction::in_progress::InProgressCompactions)) keeps other plans off the inputs
//!   and the keys between. The edit therefore fits whenever it is made, and can be retried after a
//!   failure.
//! * Only compactions below the base are deferred, since one that claims a part of the base would
//!   block level 0.
//! * If writers wait for compaction, or a level has no other compaction that can run, the oldest
//!   deferred one is installed.
//! * After a crash, a deferred compaction was never done. Its outputs are removed like any file
//!   that no manifest lists.
//!
//! A deferred compaction uses space twice. The storage limits how much of the written data may be
//! deferred. Compactions that free much are not deferred, so what the others would free is at most
//! as much again. If a job runs out of space, all deferred compactions are installed before it is
//! retried.

use super::compaction_output::CompactionOutput;
use crate::compaction::debt::PendingMoves;
use crate::version::{LEVELS, Version};
use esker_base::KeyspaceId;
use std::collections::BTreeMap;
use std::time::Duration;

/// A merge is installed after this at the latest. Where little is written files would never be quiescent, and what
/// was merged would use its space permanently.
pub(crate) const LATEST: Duration = Duration::from_secs(600);

/// Outputs that are not installed may be one part in so many of the level they go to: what their merges claim is kept
/// from others.
const OF_LEVEL: u64 = 4;

/// The compactions of a database that are done and not installed.
#[derive(Default)]
pub(crate) struct PendingInstalls {
    /// In the order in which they were done.
    pub(crate) merges: Vec<PendingInstall>,
    /// How many callers wait for all that is to be done.
    hurried: usize,
    /// Compactions that were taken and are being installed.
    installing: usize,
}

/// What decides whether one is installed now.
pub(crate) struct InstallContext<'a> {
    pub(crate) now: Duration,
    /// Whether writers are throttled by the compaction debt.
    pub(crate) do_writers_wait: bool,
    pub(crate) version: &'a Version,
    /// Whether the outputs' files are no longer where the device is being written.
    pub(crate) is_settled: &'a dyn Fn(&CompactionOutput) -> bool,
}

/// One of them.
pub(crate) struct PendingInstall {
    pub(crate) merged: CompactionOutput,
    /// When it is installed at the latest.
    pub(crate) latest: Duration,
}

impl PendingInstalls {
    /// Puts a merge off.
    pub(crate) fn add(&mut self, merged: CompactionOutput, now: Duration) {
        self.merges.push(PendingInstall { merged, latest: now + LATEST });
    }

    /// Whether a caller waits for all compactions, so that none is put off.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried > 0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.merges.len()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.merges.is_empty()
    }

    /// Takes one back that could not be installed, to be tried again.
    pub(crate) fn put_back(&mut self, merged: CompactionOutput) {
        self.merges.push(PendingInstall { merged, latest: Duration::ZERO });
    }

    /// One that was taken is being installed.
    pub(crate) fn begin_install(&mut self) {
        self.installing += 1;
    }

    /// One that was being installed is installed, or was put back.
    pub(crate) fn end_install(&mut self) {
        self.installing -= 1;
    }

    /// Whether there is none, nor one that is being installed.
    pub(crate) fn is_over(&self) -> bool {
        self.is_empty() && !self.is_installing()
    }

    /// Whether one is being installed.
    pub(crate) fn is_installing(&self) -> bool {
        self.installing > 0
    }

    /// One that is to be installed now.
    pub(crate) fn take_due(&mut self, context: &InstallContext<'_>) -> Option<CompactionOutput> {
        let is_owed = self.hurried > 0 || context.do_writers_wait;
        let is_due = |waiting: &PendingInstall| {
            is_owed
                || context.now >= waiting.latest
                || !context.version.keyspaces.contains_key(&waiting.merged.keyspace())
                || (context.is_settled)(&waiting.merged)
        };
        let at = self.merges.iter().position(is_due)?;
        Some(self.take(at))
    }

    /// Where the first one is that `is_asked` holds for, in the order in which they were done.
    pub(crate) fn find(&self, is_asked: impl Fn(&CompactionOutput) -> bool) -> Option<usize> {
        self.merges.iter().position(|waiting| is_asked(&waiting.merged))
    }

    /// Takes the one at `at`.
    pub(crate) fn take(&mut self, at: usize) -> CompactionOutput {
        self.merges.remove(at).merged
    }

    /// Whether the outputs of `merged`, with the pending ones of its level, are a small part of the
    /// `level_bytes` there.
    pub(crate) fn is_small_part(&self, merged: &CompactionOutput, level_bytes: u64) -> bool {
        (self.bytes_into(merged) + merged.bytes()) * OF_LEVEL <= level_bytes
    }

    /// Defers no compaction from now on: a caller waits for all of them.
    pub(crate) fn begin_hurry(&mut self) {
        self.hurried += 1;
    }

    /// Such a caller waits no more.
    pub(crate) fn end_hurry(&mut self) {
        self.hurried -= 1;
    }

    /// The bytes that wait to go to the level that `merged` goes to, too.
    fn bytes_into(&self, merged: &CompactionOutput) -> u64 {
        let place = |merged: &CompactionOutput| (merged.keyspace(), merged.level());
        let alike = self.merges.iter().filter(|it| place(&it.merged) == place(merged));
        alike.map(|waiting| waiting.merged.bytes()).sum()
    }

    /// By keyspace, the bytes that were merged from each level into the next.
    pub(crate) fn moved(&self) -> BTreeMap<KeyspaceId, PendingMoves> {
        let mut moved: BTreeMap<KeyspaceId, PendingMoves> = BTreeMap::new();
        for waiting in &self.merges {
            let (level, bytes) = waiting.merged.moved();
            moved.entry(waiting.merged.keyspace()).or_insert([0; LEVELS])[level] += bytes;
        }
        moved
    }

    /// How many there are of `keyspace`.
    pub(crate) fn count(&self, keyspace: KeyspaceId) -> usize {
        self.merges.iter().filter(|waiting| waiting.merged.keyspace() == keyspace).count()
    }
}
