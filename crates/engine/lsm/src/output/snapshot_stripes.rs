//! Snapshot stripes: which versions no snapshot can distinguish.
//!
//! Snapshots cut the seqnos into stripes. Every reader is at a snapshot or at the present, so it
//! sees all of a stripe or nothing of it:
//!
//! ```text
//! seqnos:      1 2 3 4 5 │ 6 7 8 │ 9 10 …
//! snapshots:           5       8
//! stripe:          0         1       2
//! ```
//!
//! So of two versions of a key in one stripe, no reader ever sees the older.

use esker_base::{MAX_SEQNO, Seqno};

/// The stripes that a set of snapshots makes.
#[derive(Clone, Debug, Default)]
pub struct SnapshotStripes {
    /// Ascending, without repeats.
    snapshots: Vec<Seqno>,
}

impl SnapshotStripes {
    /// The stripes between `snapshots`, given in any order.
    ///
    /// The snapshots must be read after the last of the versions to be judged became visible: a
    /// snapshot registered later then sees all of them.
    pub fn new(mut snapshots: Vec<Seqno>) -> Self {
        snapshots.sort_unstable();
        snapshots.dedup();
        SnapshotStripes { snapshots }
    }

    /// The number of the stripe of `seqno`, 0 for the oldest.
    #[inline]
    pub fn of(&self, seqno: Seqno) -> usize {
        match &self.snapshots[..] {
            [] => 0,
            snapshots => snapshots.partition_point(|&snapshot| snapshot < seqno),
        }
    }

    /// Whether no snapshot sees a stripe.
    #[inline]
    pub fn is_unseen(&self, stripe: usize) -> bool {
        stripe == self.snapshots.len()
    }

    /// The last seqno of a stripe.
    #[inline]
    pub fn last_of(&self, stripe: usize) -> Seqno {
        self.snapshots.get(stripe).copied().unwrap_or(MAX_SEQNO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_the_last_seqno_of_its_stripe() {
        let stripes = SnapshotStripes::new(vec![8, 5, 8]);
        let of: Vec<usize> = (1..=10).map(|seqno| stripes.of(seqno)).collect();
        assert_eq!(of, [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!([0, 1, 2].map(|stripe| stripes.last_of(stripe)), [5, 8, MAX_SEQNO]);
        assert_eq!([0, 1, 2].map(|stripe| stripes.is_unseen(stripe)), [false, false, true]);
    }

    #[test]
    fn without_snapshots_there_is_one_stripe() {
        assert_eq!(SnapshotStripes::default().of(MAX_SEQNO), 0);
    }
}
