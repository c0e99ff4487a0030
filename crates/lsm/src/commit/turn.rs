//! A turn that one thread has at a time, while others wait for what its work achieves.
//!
//! Unlike a lock, a waiter does not want the turn itself: it wants its bytes to be down, and whoever
//! has the turn may see to that. So whoever gives the turn back wakes those whose bytes are down, and
//! of the others only one, first of all, to take the turn: the next group's work starts before the
//! last group's writers have got going again. Each waiter is woken by itself. A condition variable
//! would pass them through its lock one after the other, a context switch each.
//!
//! Invariants:
//! 1. A waiter that nobody wakes is in the list.
//! 2. If the turn is free and the list not empty, somebody is awake who wanted the turn: it takes it,
//!    or finds its bytes down because a third had it, who in turn woke another.

use super::sync::{
    AtomicBool, AtomicUsize, Mutex, Ordering, Thread, current_thread, order_sequentially, park,
    spin_loop,
};
use esker_base::Seqno;

/// How long a waiter spins before it parks: as long as an append to the log takes, about a
/// microsecond. Parking and being woken takes several.
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// See the file's head.
#[derive(Default)]
pub(crate) struct Turn {
    taken: AtomicBool,
    /// The length of the list, for a look without the lock.
    waiting: AtomicUsize,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    list: Vec<Waiter>,
    next_id: u64,
}

/// Waiters whose bytes are down, to be woken when this is dropped. Whoever achieved that may see to
/// its own write first: those behind it would wait for it anyway.
#[derive(Default)]
#[must_use = "dropped at once, it wakes them at once"]
pub(crate) struct Done(Vec<Waiter>);

impl Drop for Done {
    #[inline]
    fn drop(&mut self) {
        self.0.iter().for_each(|waiter| waiter.thread.unpark());
    }
}

struct Waiter {
    id: u64,
    wants: Seqno,
    thread: Thread,
}

impl Turn {
    /// Takes the turn if it is free.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives the turn back, everything up to `achieved` being done. Those who waited for that go on
    /// when what this returns is dropped.
    #[inline]
    pub(crate) fn give_back(&self, achieved: Seqno) -> Done {
        self.taken.store(false, Ordering::SeqCst);
        order_sequentially();
        if self.waiting.load(Ordering::SeqCst) > 0 { self.wake(achieved) } else { Done::default() }
    }

    #[cold]
    fn wake(&self, achieved: Seqno) -> Done {
        let (next, done) = {
            let mut waiters = self.waiters.lock();
            // In the order in which they publish, so that few have to wait for one before.
            waiters.list.sort_unstable_by_key(|waiter| waiter.wants);
            let done = waiters.list.partition_point(|waiter| waiter.wants <= achieved);
            let done: Vec<_> = waiters.list.drain(..done).collect();
            let next = (!waiters.list.is_empty()).then(|| waiters.list.remove(0));
            self.waiting.store(waiters.list.len(), Ordering::SeqCst);
            (next, done)
        };
        if let Some(next) = next {
            next.thread.unpark();
        }
        Done(done)
    }

    /// Waits until the turn is free or `wants` may be done.
    pub(crate) fn wait(&self, wants: Seqno) {
        for _ in 0..SPINS {
            if !self.taken.load(Ordering::Relaxed) {
                return;
            }
            spin_loop();
        }
        let id = {
            let mut waiters = self.waiters.lock();
            let id = waiters.next_id;
            waiters.next_id += 1;
            waiters.list.push(Waiter { id, wants, thread: current_thread() });
            self.waiting.store(waiters.list.len(), Ordering::SeqCst);
            id
        };
        order_sequentially();
        // Whoever gives the turn back from here on finds the waiter; whoever did before is seen.
        while self.taken.load(Ordering::SeqCst) {
            park();
            if !self.waiters.lock().list.iter().any(|waiter| waiter.id == id) {
                return;
            }
        }
        let mut waiters = self.waiters.lock();
        waiters.list.retain(|waiter| waiter.id != id);
        self.waiting.store(waiters.list.len(), Ordering::SeqCst);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_free_turn_is_taken_once() {
        let turn = Turn::default();
        assert!(turn.take() && !turn.take());
        drop(turn.give_back(0));
        assert!(turn.take());
    }

    #[test]
    fn everybody_gets_done_however_many_want_it() {
        let (turn, wanted, done) = (Turn::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mine = wanted.fetch_add(1, Ordering::SeqCst) + 1;
                        while done.load(Ordering::SeqCst) < mine {
                            if turn.take() {
                                done.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst);
                                drop(turn.give_back(done.load(Ordering::SeqCst)));
                            } else {
                                turn.wait(mine);
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 16_000);
    }
}

/// Every interleaving that loom explores:
/// `RUSTFLAGS="--cfg loom" cargo test -p esker-lsm --release --lib commit::turn::loom_tests`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    #[derive(Default)]
    struct World {
        turn: Turn,
        wanted: AtomicU64,
        done: AtomicU64,
    }

    impl World {
        /// What a writer does: its work is done by itself or by another, and it never waits for ever.
        fn write(&self) {
            let mine = self.wanted.fetch_add(1, Ordering::SeqCst) + 1;
            while self.done.load(Ordering::SeqCst) < mine {
                if self.turn.take() {
                    let all = self.wanted.load(Ordering::SeqCst);
                    self.done.store(all, Ordering::SeqCst);
                    drop(self.turn.give_back(all));
                } else {
                    self.turn.wait(mine);
                }
            }
        }
    }

    #[test]
    fn no_waiter_is_forgotten() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let world = Arc::new(World::default());
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let world = world.clone();
                    thread::spawn(move || world.write())
                })
                .collect();
            world.write();
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }
}
