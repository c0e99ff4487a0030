//! Which chunks are free.
//!
//! The chunks of a removed file are not free at once: power loss may bring its name back, and then its bytes must be
//! there. They wait until a directory without the name is durable.

use super::format::Extent;
use std::collections::BTreeMap;

pub(super) struct ChunkAllocator {
    /// Free chunks: the first of a run, and how many. No two runs touch.
    free: BTreeMap<u32, u32>,
    /// Chunks of removed files, and the directory that does without them.
    waiting: Vec<(u64, Vec<Extent>)>,
}

impl ChunkAllocator {
    /// All `chunks` chunks, free.
    pub(super) fn new(chunks: u32) -> Self {
        let free = (chunks > 0).then_some((0, chunks)).into_iter().collect();
        ChunkAllocator { free, waiting: Vec::new() }
    }

    /// Takes a run out, as a file that is there has it. Says whether it was free.
    pub(super) fn take(&mut self, run: Extent) -> bool {
        let Some((&first, &count)) = self.free.range(..=run.first).next_back() else {
            return false;
        };
        let Some(end) = run.first.checked_add(run.count) else { return false };
        if run.count == 0 || end > first + count {
            return false;
        }
        self.free.remove(&first);
        if first < run.first {
            self.free.insert(first, run.first - first);
        }
        if end < first + count {
            self.free.insert(end, first + count - end);
        }
        true
    }

    /// Gives out `count` chunks, in one run if there is one, or else in as few as there are. `None`, and nothing taken,
    /// if there are not so many.
    pub(super) fn allocate(&mut self, count: u32) -> Option<Vec<Extent>> {
        if let Some((&first, _)) = self.free.iter().find(|(_, free)| **free >= count) {
            let run = Extent { first, count };
            self.take(run);
            return Some(vec![run]);
        }
        if self.free.values().map(|free| u64::from(*free)).sum::<u64>() < u64::from(count) {
            return None;
        }
        let (mut runs, mut left) = (Vec::new(), count);
        while left > 0 {
            let (&first, &free) = self.free.iter().max_by_key(|(_, free)| **free)?;
            let run = Extent { first, count: free.min(left) };
            self.take(run);
            left -= run.count;
            runs.push(run);
        }
        Some(runs)
    }

    /// Frees `runs` as soon as the directory `sequence` is durable.
    pub(super) fn free_after(&mut self, sequence: u64, runs: Vec<Extent>) {
        self.waiting.push((sequence, runs));
    }

    /// The directory `sequence` is durable.
    pub(super) fn durable(&mut self, sequence: u64) {
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(at, _)| *at <= sequence);
        self.waiting = waiting;
        let ready: Vec<(u64, Vec<Extent>)> = ready;
        ready.into_iter().flat_map(|(_, runs)| runs).for_each(|run| self.give(run));
    }

    fn give(&mut self, run: Extent) {
        let Extent { mut first, mut count } = run;
        if let Some(after) = self.free.remove(&(first + count)) {
            count += after;
        }
        if let Some((&before, &length)) = self.free.range(..first).next_back()
            && before + length == first
        {
            self.free.remove(&before);
            (first, count) = (before, length + count);
        }
        self.free.insert(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_given_out_once_and_again_when_its_removal_is_durable() {
        let mut space = ChunkAllocator::new(10);
        let a = space.allocate(6).unwrap();
        assert_eq!(a, [Extent { first: 0, count: 6 }]);
        assert_eq!(space.allocate(5), None);
        space.free_after(3, a);
        space.durable(2);
        assert_eq!(space.allocate(5), None, "its name may come back");
        space.durable(3);
        assert_eq!(space.allocate(10).unwrap(), [Extent { first: 0, count: 10 }]);
    }

    #[test]
    fn space_in_pieces_is_used() {
        let mut space = ChunkAllocator::new(10);
        assert!(
            space.take(Extent { first: 2, count: 1 }) && space.take(Extent { first: 6, count: 2 })
        );
        assert!(!space.take(Extent { first: 1, count: 2 }), "taken");
        let runs = space.allocate(7).unwrap();
        assert_eq!(runs.iter().map(|run| run.count).sum::<u32>(), 7);
        assert_eq!(space.allocate(1), None);
        space.free_after(1, runs);
        space.durable(1);
        assert_eq!(space.allocate(3).unwrap(), [Extent { first: 3, count: 3 }]);
    }

    #[test]
    fn runs_beyond_the_device_are_not_there_to_take() {
        let mut space = ChunkAllocator::new(10);
        assert!(
            !space.take(Extent { first: 9, count: 2 })
                && !space.take(Extent { first: 10, count: 1 })
        );
        assert!(
            !space.take(Extent { first: 5, count: u32::MAX })
                && !space.take(Extent { first: 0, count: 0 })
        );
    }
}
