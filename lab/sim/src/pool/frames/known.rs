//! What the manifest and the writers know at each point of a history, from marks in it.

use std::collections::BTreeSet;

/// What a mark in the pool's history says.
#[derive(Clone, Copy)]
pub(super) enum Mark {
    /// The manifest lists the segment of this epoch.
    Listed(u32),
    /// So many of the history's batches are acknowledged.
    Acknowledged(u32),
    /// The segment of this epoch is in tables, and so are so many batches.
    Flushed(u32, u32),
    /// The extent of this epoch's segment is free.
    Released(u32),
}

impl Mark {
    pub(super) fn encode(self) -> u64 {
        let (kind, a, b) = match self {
            Mark::Listed(epoch) => (0, epoch, 0),
            Mark::Acknowledged(batches) => (1, batches, 0),
            Mark::Flushed(epoch, batches) => (2, epoch, batches),
            Mark::Released(epoch) => (3, epoch, 0),
        };
        kind << 60 | u64::from(a) << 28 | u64::from(b)
    }

    fn decode(mark: u64) -> Mark {
        let (a, b) = ((mark >> 28) as u32, mark as u32 & 0xfff_ffff);
        match mark >> 60 {
            0 => Mark::Listed(a),
            1 => Mark::Acknowledged(a),
            2 => Mark::Flushed(a, b),
            _ => Mark::Released(a),
        }
    }
}

/// What the manifest and the writers knew at some point in time.
#[derive(Default)]
pub(super) struct Known {
    pub(super) listed: BTreeSet<u32>,
    pub(super) released: BTreeSet<u32>,
    pub(super) acknowledged: usize,
    pub(super) flushed: usize,
}

impl Known {
    pub(super) fn at(marks: &[u64]) -> Known {
        let mut known = Known::default();
        for &mark in marks {
            match Mark::decode(mark) {
                Mark::Listed(epoch) => drop(known.listed.insert(epoch)),
                Mark::Released(epoch) => drop(known.released.insert(epoch)),
                Mark::Acknowledged(batches) => known.acknowledged = batches as usize,
                Mark::Flushed(epoch, batches) => {
                    known.listed.remove(&epoch);
                    known.flushed = batches as usize;
                }
            }
        }
        known
    }
}
