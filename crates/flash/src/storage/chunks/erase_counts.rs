//! Counts the resets of each chunk since the device was formatted.
//!
//! The journal's snapshots contain all counts, and its edits contain the resets since. The resets
//! are recorded with the next edit of any kind, as a separate block would cost more than a count is
//! worth. A crash or a close therefore forgets the last few resets.

use crate::storage::format::{JournalRecord, Resets};

/// A count takes so many bytes at the most.
const COUNT_BYTES_MAX: usize = 5;

/// Counts by the place of the chunk.
pub(crate) struct EraseCounter {
    counts: Vec<u32>,
    /// Chunks whose resets are not yet in the journal.
    unreported: Vec<u32>,
}

impl EraseCounter {
    /// Of a device of so many chunks that were never reset.
    pub(crate) fn new(chunks: usize) -> Self {
        EraseCounter { counts: vec![0; chunks], unreported: Vec::new() }
    }

    pub(crate) fn of(&self, index: usize) -> u32 {
        self.counts[index]
    }

    /// How often all of them were, together.
    pub(crate) fn all(&self) -> u64 {
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// How much more often one chunk was reset than another.
    pub(crate) fn spread(&self, one: usize, other: usize) -> u32 {
        self.counts[one].saturating_sub(self.counts[other])
    }

    /// A chunk is reset now.
    pub(crate) fn count(&mut self, index: usize) {
        self.counts[index] += 1;
        self.unreported.push(index as u32);
    }

    /// What has to be recorded in the journal next, if anything.
    pub(crate) fn unreported(&self) -> Option<JournalRecord> {
        (!self.unreported.is_empty()).then(|| JournalRecord::Reset(self.unreported.clone()))
    }

    /// The same, and marks it as recorded.
    pub(crate) fn tell(&mut self) -> Option<JournalRecord> {
        let unreported = self.unreported();
        self.unreported.clear();
        unreported
    }

    /// All of it, for a snapshot, in so many bytes at the most: where there are too many chunks, neighbours are one.
    pub(crate) fn snapshot(&self, bytes_max: usize) -> JournalRecord {
        let counts_max = (bytes_max / COUNT_BYTES_MAX).max(1);
        let chunks_each = self.counts.len().div_ceil(counts_max).max(1);
        let mean = |some: &[u32]| {
            let sum: u64 = some.iter().map(|count| u64::from(*count)).sum();
            (sum as f64 / some.len() as f64).round() as u32
        };
        let counts = self.counts.chunks(chunks_each).map(mean).collect();
        JournalRecord::Resets(Resets { chunks_each: chunks_each as u32, counts })
    }

    /// The journal says that these chunks were reset.
    pub(crate) fn learn_more(&mut self, chunks: &[u32]) {
        for chunk in chunks {
            if let Some(count) = self.counts.get_mut(*chunk as usize) {
                *count += 1;
            }
        }
    }

    /// The journal says this of all chunks.
    pub(crate) fn learn(&mut self, resets: &Resets) {
        let each = resets.chunks_each as usize;
        for (chunks, count) in self.counts.chunks_mut(each).zip(&resets.counts) {
            chunks.fill(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worn() -> EraseCounter {
        let mut wear = EraseCounter::new(5);
        [0, 0, 3, 4, 4, 4].into_iter().for_each(|index| wear.count(index));
        wear
    }

    fn learned(op: &JournalRecord) -> Vec<u32> {
        let mut wear = EraseCounter::new(5);
        let JournalRecord::Resets(resets) = op else { unreachable!("{op:?}") };
        wear.learn(resets);
        wear.counts
    }

    #[test]
    fn counts_are_told_whole_where_there_is_room_and_otherwise_as_means() {
        let wear = worn();
        assert_eq!(learned(&wear.snapshot(25)), [2, 0, 0, 1, 3]);
        assert_eq!(learned(&wear.snapshot(15)), [1, 1, 1, 1, 3]);
        assert_eq!(learned(&wear.snapshot(0)), [1; 5]);
    }

    #[test]
    fn a_reset_is_told_once() {
        let (mut wear, mut again) = (worn(), EraseCounter::new(5));
        let Some(JournalRecord::Reset(chunks)) = wear.tell() else {
            unreachable!("some were reset")
        };
        again.learn_more(&chunks);
        assert_eq!(again.counts, wear.counts);
        assert_eq!(wear.tell(), None);
    }
}
