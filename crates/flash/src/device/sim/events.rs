//! The event queue of the model.
//!
//! Almost every event occurs a constant delay after it is scheduled: a sense, or a transfer of a
//! given number of bytes. Events of the same delay occur in the order of scheduling. Each delay
//! therefore has a *lane*, a FIFO queue, and the next event is the earliest head of a few lanes.
//! Events that do not arrive in the order of their lane go to a heap.
//!
//! Events at the same time occur in the order in which they were scheduled, so every run is
//! deterministic.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Which delay an event has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DelayQueue {
    Arrival,
    Sense,
    SenseUpper,
    BusOut,
    BusIn,
    ToHost,
    FromHost,
    Program,
    /// No one delay: the heap.
    Other,
}

const LANES: usize = DelayQueue::Other as usize;
const WHAT_BITS: u32 = 28;

/// An event's time and kind in one number that orders as events do: the time in nanoseconds, the
/// number of events scheduled before, and [`Event::what`].
type Key = u128;

const NEVER: Key = Key::MAX;

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Event {
    pub(super) at: u64,
    /// Different for every event.
    pub(super) order: u64,
    pub(super) what: u32,
}

/// All that is going to happen.
#[derive(Debug)]
pub(super) struct Events {
    lanes: [VecDeque<Key>; LANES],
    heads: [Key; LANES + 1],
    heap: BinaryHeap<Reverse<Key>>,
    order: u64,
}

impl Events {
    pub(super) fn new() -> Self {
        Events {
            lanes: std::array::from_fn(|_| VecDeque::with_capacity(256)),
            heads: [NEVER; LANES + 1],
            heap: BinaryHeap::with_capacity(256),
            order: 0,
        }
    }

    /// Adds an event and returns its order.
    #[inline]
    pub(super) fn push(&mut self, lane: DelayQueue, at: u64, what: u32) -> u64 {
        debug_assert!(what < 1 << WHAT_BITS);
        let order = self.order;
        self.order += 1;
        let low = order << WHAT_BITS | u64::from(what);
        let key = Key::from(at) << 64 | Key::from(low);
        let mut number = lane as usize;
        if number == LANES || self.lanes[number].back().is_some_and(|last| *last > key) {
            number = LANES;
            self.heap.push(Reverse(key));
        } else {
            self.lanes[number].push_back(key);
        }
        self.heads[number] = self.heads[number].min(key);
        order
    }

    /// How many events became known so far.
    pub(super) fn count(&self) -> u64 {
        self.order
    }

    /// When the next event happens.
    #[inline]
    pub(super) fn next_at(&self) -> Option<u64> {
        let key = self.heads.iter().min().expect("there are lanes");
        (*key != NEVER).then_some((key >> 64) as u64)
    }

    /// Takes the next event.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Event> {
        let (mut number, mut key) = (LANES, self.heads[LANES]);
        for lane in 0..LANES {
            if self.heads[lane] < key {
                (number, key) = (lane, self.heads[lane]);
            }
        }
        if key == NEVER {
            return None;
        }
        self.heads[number] = match number {
            LANES => {
                self.heap.pop();
                self.heap.peek().map_or(NEVER, |next| next.0)
            }
            _ => {
                self.lanes[number].pop_front();
                self.lanes[number].front().copied().unwrap_or(NEVER)
            }
        };
        let low = key as u64;
        let what = (low & ((1 << WHAT_BITS) - 1)) as u32;
        Some(Event { at: (key >> 64) as u64, order: low >> WHAT_BITS, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    #[test]
    fn events_come_by_time_and_then_in_the_order_in_which_they_became_known() {
        let lanes = [DelayQueue::Sense, DelayQueue::BusOut, DelayQueue::Other, DelayQueue::ToHost];
        let mut rng = Rng::new(5);
        let mut events = Events::new();
        let mut expected = Vec::new();
        for what in 0..5_000 {
            let at = rng.below(700);
            let order = events.push(lanes[rng.below(4) as usize], at, what);
            expected.push((at, order, what));
        }
        expected.sort_unstable();
        for (at, order, what) in expected {
            assert_eq!(events.pop(), Some(Event { at, order, what }));
        }
        assert_eq!(events.pop(), None);
    }
}
