//! The completion ring: tracks up to which seqno all writes are indexed, while writers index in any
//! order.
//!
//! Each frame takes a ticket when its space is reserved; tickets are dense and in seqno order. A
//! writer that finishes marks its ticket's slot. Any writer that passes advances over all
//! consecutive marked slots, so no writer waits for its turn to publish. A writer behind a slower
//! one spins briefly, then parks.
//!
//! Invariants:
//! 1. `published` counts the tickets that are all done; a slot is reused only after its ticket was
//!    published.
//! 2. `indexed` never decreases, and never passes a seqno whose ticket, or any before it, is not
//!    done.

use crate::primitives::{
    AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, order_sequentially, spin_loop,
};
use esker_base::Seqno;

/// How long a writer spins before it parks. About a microsecond: longer than the tail of another
/// writer's index insert, shorter than a context switch.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

#[derive(Default)]
struct Slot {
    /// The ticket that was marked here last, plus one.
    marked: AtomicU64,
    /// The last seqno of its frame. Valid once `marked` says so.
    last_seqno: AtomicU64,
}

/// See the file's head.
pub(crate) struct CompletionQueue {
    slots: Box<[Slot]>,
    /// Tickets below this one are published.
    published: AtomicU64,
    indexed: AtomicU64,
    parked: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
}

impl CompletionQueue {
    /// A ring for at most `slots` (a power of two) frames in flight; everything up to `indexed` is
    /// indexed already.
    pub(crate) fn new(slots: usize, indexed: Seqno) -> Self {
        assert!(slots.is_power_of_two());
        CompletionQueue {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            published: AtomicU64::new(0),
            indexed: AtomicU64::new(indexed),
            parked: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// The last seqno that is indexed, and all before it.
    #[inline]
    pub(crate) fn indexed(&self) -> Seqno {
        self.indexed.load(Ordering::Acquire)
    }

    fn slot(&self, ticket: u64) -> &Slot {
        &self.slots[ticket as usize & (self.slots.len() - 1)]
    }

    /// Whether the slot of `ticket` is free to be marked. False only with more frames in flight than
    /// slots.
    #[inline]
    pub(crate) fn has_room(&self, ticket: u64) -> bool {
        ticket < self.published.load(Ordering::Acquire) + self.slots.len() as u64
    }

    /// Says that the frame of `ticket`, whose last entry is `last_seqno`, is done, and publishes
    /// what can be. `has_room(ticket)` must have held.
    #[inline]
    pub(crate) fn mark(&self, ticket: u64, last_seqno: Seqno) {
        let slot = self.slot(ticket);
        slot.last_seqno.store(last_seqno, Ordering::Relaxed);
        slot.marked.store(ticket + 1, Ordering::SeqCst);
        // Of two who mark neighbours at once, at least one sees the other's mark and publishes both.
        order_sequentially();
        self.advance();
    }

    /// Publishes every ticket in a row that is marked.
    fn advance(&self) {
        let mut moved = false;
        loop {
            let ticket = self.published.load(Ordering::SeqCst);
            let slot = self.slot(ticket);
            if slot.marked.load(Ordering::SeqCst) != ticket + 1 {
                break;
            }
            // Read before the exchange: after it, the slot may be reused. If the exchange fails,
            // somebody else publishes this ticket.
            let last_seqno = slot.last_seqno.load(Ordering::Relaxed);
            let next = ticket + 1;
            let ours =
                self.published.compare_exchange(ticket, next, Ordering::SeqCst, Ordering::SeqCst);
            if ours.is_ok() {
                self.indexed.fetch_max(last_seqno, Ordering::SeqCst);
                moved = true;
            }
        }
        if moved {
            // A waiter that is not counted yet will find what was published.
            order_sequentially();
            if self.parked.load(Ordering::SeqCst) > 0 {
                self.wake_all();
            }
        }
    }

    /// Wakes every parked waiter, to look again: after publishing, or after a failure.
    pub(crate) fn wake_all(&self) {
        drop(self.lock.lock());
        self.wake.notify_all();
    }

    /// Waits until `seqno` is indexed, and all before it (true), or `given_up` says that it never will be (false).
    #[inline]
    pub(crate) fn wait_indexed(&self, seqno: Seqno, given_up: &dyn Fn() -> bool) -> bool {
        if self.indexed() >= seqno {
            return true;
        }
        for _ in 0..SPINS {
            spin_loop();
            if self.indexed() >= seqno {
                return true;
            }
        }
        self.park_until(|| self.indexed.load(Ordering::SeqCst) >= seqno, given_up)
    }

    /// Waits until `has_room(ticket)` (true), or `given_up` (false).
    pub(crate) fn wait_room(&self, ticket: u64, given_up: &dyn Fn() -> bool) -> bool {
        self.has_room(ticket) || self.park_until(|| self.has_room(ticket), given_up)
    }

    fn park_until(&self, done: impl Fn() -> bool, given_up: &dyn Fn() -> bool) -> bool {
        let mut guard = self.lock.lock();
        self.parked.fetch_add(1, Ordering::SeqCst);
        order_sequentially();
        let outcome = loop {
            if done() {
                break true;
            }
            if given_up() {
                break false;
            }
            self.wake.wait(&mut guard);
        };
        self.parked.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NEVER: &dyn Fn() -> bool = &|| false;

    #[test]
    fn a_hole_holds_back_what_comes_after_it() {
        let ring = CompletionQueue::new(8, 10);
        ring.mark(1, 14);
        assert_eq!(ring.indexed(), 10);
        ring.mark(0, 12);
        assert_eq!(ring.indexed(), 14);
    }

    #[test]
    fn slots_are_reused_lap_after_lap() {
        let ring = CompletionQueue::new(2, 0);
        for ticket in 0..100 {
            assert!(ring.has_room(ticket));
            ring.mark(ticket, ticket + 1);
            assert_eq!(ring.indexed(), ticket + 1);
        }
        assert!(!ring.has_room(102));
    }

    #[test]
    fn a_waiter_whose_cause_is_lost_gives_up() {
        let ring = CompletionQueue::new(2, 0);
        assert!(!ring.wait_indexed(5, &|| true));
        assert!(!ring.wait_room(2, &|| true));
    }

    #[test]
    fn many_threads_publish_everything_in_order() {
        let ring = CompletionQueue::new(16, 0);
        let tickets = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let ticket = tickets.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        assert!(ring.wait_room(ticket, NEVER));
                        ring.mark(ticket, ticket + 1);
                        assert!(ring.wait_indexed(ticket + 1, NEVER));
                    }
                });
            }
        });
        assert_eq!(ring.indexed(), 16_000);
    }
}

/// Every interleaving and reordering that loom explores:
/// `RUSTFLAGS="--cfg loom" cargo test -p esker-lsm --release --lib completion_queue::loom_tests`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;
    use loom::thread;

    const NEVER: &dyn Fn() -> bool = &|| false;

    /// A ring, and one word for each ticket that stands for what its writer indexed.
    struct World {
        ring: CompletionQueue,
        indexed: [AtomicU64; 3],
        failed: AtomicBool,
    }

    fn world(slots: usize) -> Arc<World> {
        let indexed = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
        Arc::new(World {
            ring: CompletionQueue::new(slots, 0),
            indexed,
            failed: AtomicBool::new(false),
        })
    }

    impl World {
        fn write(&self, ticket: u64) {
            assert!(self.ring.wait_room(ticket, NEVER));
            self.indexed[ticket as usize].store(1, Ordering::Relaxed);
            self.ring.mark(ticket, ticket + 1);
            assert!(self.ring.wait_indexed(ticket + 1, NEVER));
            self.read();
        }

        /// What is visible is indexed, and can be seen to be.
        fn read(&self) {
            for word in &self.indexed[..self.ring.indexed() as usize] {
                assert_eq!(word.load(Ordering::Relaxed), 1, "visible before it was indexed");
            }
        }
    }

    fn start(world: &Arc<World>, ticket: u64) -> thread::JoinHandle<()> {
        let world = world.clone();
        thread::spawn(move || world.write(ticket))
    }

    #[test]
    fn two_writers_are_published_and_neither_waits_for_ever() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let world = world(2);
            let writers = [start(&world, 0), start(&world, 1)];
            world.read();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert_eq!(world.ring.indexed(), 2);
        });
    }

    #[test]
    fn a_slot_is_not_reused_before_its_ticket_is_published() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let world = world(1);
            let writers = [start(&world, 1), start(&world, 0)];
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            assert_eq!(world.ring.indexed(), 2);
        });
    }

    #[test]
    fn a_waiter_behind_a_failure_is_let_go() {
        loom::model(|| {
            let world = world(2);
            let waiter = {
                let world = world.clone();
                thread::spawn(move || {
                    world.ring.mark(1, 2);
                    let failed = || world.failed.load(Ordering::SeqCst);
                    assert!(!world.ring.wait_indexed(2, &failed));
                })
            };
            // The writer of ticket 0 fails: the cause first, then the call.
            world.failed.store(true, Ordering::SeqCst);
            world.ring.wake_all();
            waiter.join().unwrap();
        });
    }
}
