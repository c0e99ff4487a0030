//! Writes that are one behind the other, gathered into one.
//!
//! A partition lays out what is stored one record behind the other. Many small writes cost a device and the system much more than a large
//! one of the same bytes. So a write whose neighbour in front is in progress waits until that is done; all that have come behind each other by then begin
//! together. A write without such a neighbour begins at once, and no write waits for more than the one in front.

use esker_uring::Slice;
use std::collections::VecDeque;

/// What has been gathered waits no longer when it is so large: more would cost a device as much.
const ENOUGH_BYTES: u64 = 256 << 10;

/// Writes one behind the other.
struct AdjacentWrites {
    /// Whose they are: what fails, fails for one alone.
    owner: usize,
    offset: u64,
    end: u64,
    /// By which they are reported.
    tags: Vec<u64>,
    slices: Vec<Slice>,
}

/// A run that has begun.
struct SubmittedWrite {
    end: u64,
    tags: Vec<u64>,
}

/// What is to be written at `offset`, all of it under the name `tag`: that of its first write.
pub(crate) struct CoalescedWrite {
    pub(crate) tag: u64,
    pub(crate) offset: u64,
    pub(crate) slices: Vec<Slice>,
}

/// See the file's head.
#[derive(Default)]
pub(crate) struct WriteCoalescer {
    under_way: Vec<SubmittedWrite>,
    /// Where each begins, something in progress ends, but for what is to begin now.
    waiting: VecDeque<AdjacentWrites>,
}

impl WriteCoalescer {
    /// Takes a write on. [`next`](Self::next) says when it begins.
    pub(crate) fn add(&mut self, owner: usize, tag: u64, offset: u64, slice: Slice) {
        let end = offset + slice.len() as u64;
        // What is large enough begins as it is, whatever else came in the same round.
        let goes_on = |run: &&mut AdjacentWrites| {
            (run.owner, run.end) == (owner, offset) && run.end - run.offset < ENOUGH_BYTES
        };
        match self.waiting.iter_mut().find(goes_on) {
            Some(run) => {
                run.end = end;
                run.tags.push(tag);
                run.slices.push(slice);
            }
            None => {
                let (tags, slices) = (vec![tag], vec![slice]);
                self.waiting.push_back(AdjacentWrites { owner, offset, end, tags, slices });
            }
        }
    }

    /// What begins now, if anything does.
    pub(crate) fn next(&mut self) -> Option<CoalescedWrite> {
        let begins = |run: &AdjacentWrites| {
            run.end - run.offset >= ENOUGH_BYTES || !self.follows_another(run)
        };
        let place = self.waiting.iter().position(begins)?;
        let AdjacentWrites { offset, end, tags, slices, .. } = self.waiting.remove(place)?;
        let tag = *tags.first()?;
        self.under_way.push(SubmittedWrite { end, tags });
        Some(CoalescedWrite { tag, offset, slices })
    }

    /// Whether the neighbour in front is in progress.
    fn follows_another(&self, run: &AdjacentWrites) -> bool {
        self.under_way.iter().any(|begun| begun.end == run.offset)
    }

    /// What began under this name has ended. Gives the tags of all writes of it.
    pub(crate) fn ended(&mut self, tag: u64) -> Vec<u64> {
        let place = self.under_way.iter().position(|begun| begun.tags[0] == tag);
        place.map(|place| self.under_way.swap_remove(place).tags).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_uring::Buffer;

    /// The tags and places of what begins, and of how many writes each is.
    fn begun(gather: &mut WriteCoalescer) -> Vec<(u64, u64, usize)> {
        let next = std::iter::from_fn(|| gather.next());
        next.map(|write| (write.tag, write.offset, write.slices.len())).collect()
    }

    fn add(gather: &mut WriteCoalescer, owner: usize, tag: u64, offset: u64, bytes: usize) {
        gather.add(owner, tag, offset, Buffer::zeroed(bytes).whole());
    }

    /// A gather with write 1 in progress, of a byte at offset 0.
    fn busy() -> WriteCoalescer {
        let mut gather = WriteCoalescer::default();
        add(&mut gather, 0, 1, 0, 1);
        assert_eq!(begun(&mut gather), [(1, 0, 1)]);
        gather
    }

    #[test]
    fn neighbours_of_what_is_under_way_begin_together_when_that_ends() {
        let mut gather = busy();
        for tag in 2..5 {
            add(&mut gather, 0, tag, tag - 1, 1);
            assert_eq!(begun(&mut gather), []);
        }
        assert_eq!(gather.ended(1), [1]);
        assert_eq!(begun(&mut gather), [(2, 1, 3)]);
        assert_eq!(gather.ended(2), [2, 3, 4]);
    }

    #[test]
    fn what_follows_nothing_begins_at_once() {
        let mut gather = busy();
        for tag in 2..20 {
            add(&mut gather, 0, tag, 100 * tag, 1);
            assert_eq!(begun(&mut gather), [(tag, 100 * tag, 1)]);
        }
    }

    #[test]
    fn nobody_waits_for_more_than_the_one_in_front() {
        let mut gather = busy();
        add(&mut gather, 0, 2, 100, 1);
        assert_eq!(begun(&mut gather), [(2, 100, 1)]);
        for (tag, offset) in [(3, 1), (4, 101), (5, 2)] {
            add(&mut gather, 0, tag, offset, 1);
            assert_eq!(begun(&mut gather), []);
        }
        assert_eq!((gather.ended(2), begun(&mut gather)), (vec![2], vec![(4, 101, 1)]));
        assert_eq!((gather.ended(1), begun(&mut gather)), (vec![1], vec![(3, 1, 2)]));
    }

    #[test]
    fn what_is_large_enough_does_not_wait() {
        let mut gather = busy();
        add(&mut gather, 0, 2, 1, ENOUGH_BYTES as usize - 1);
        assert_eq!(begun(&mut gather), []);
        add(&mut gather, 0, 3, ENOUGH_BYTES, 1);
        assert_eq!(begun(&mut gather), [(2, 1, 2)]);
        add(&mut gather, 0, 4, ENOUGH_BYTES + 1, ENOUGH_BYTES as usize);
        assert_eq!(begun(&mut gather), [(4, ENOUGH_BYTES + 1, 1)]);
    }

    #[test]
    fn what_comes_at_once_begins_in_pieces_that_are_large_enough() {
        let mut gather = WriteCoalescer::default();
        let half = ENOUGH_BYTES / 2;
        for tag in 0..6 {
            add(&mut gather, 0, tag, tag * half, half as usize);
        }
        let pieces = [0, 2, 4].map(|tag| (tag, tag * half, 2));
        assert_eq!(begun(&mut gather), pieces);
    }

    /// A write that fails, fails for one partition.
    #[test]
    fn writes_of_two_owners_are_not_gathered() {
        let mut gather = busy();
        add(&mut gather, 0, 2, 1, 1);
        add(&mut gather, 1, 3, 2, 1);
        assert_eq!(begun(&mut gather), [(3, 2, 1)]);
        gather.ended(1);
        assert_eq!(begun(&mut gather), [(2, 1, 1)]);
    }
}
