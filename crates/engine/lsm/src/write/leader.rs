//! A leader role that one thread has at a time, while others wait for the result of its work.
//!
//! Unlike with a lock, a waiter does not need the role itself. It needs its bytes to be written, by
//! any leader. A leader that finishes wakes the waiters whose bytes are written, and before them
//! one other waiter, to become the leader. The next group's work thus starts before the last
//! group's writers run again. Each waiter is woken individually: a condition variable would pass
//! them through its lock one by one, with a context switch each.
//!
//! Invariants:
//! 1. A waiter that no thread will wake is in the list.
//! 2. If the role is free and the list is not empty, a thread is awake that wanted the role: the
//!    called waiter, or a thread that arrives. It takes the role. If it has nothing left to do,
//!    because another thread did it or the log failed, it calls the next waiter.
//! 3. At most one waiter is called and not yet running. Until it runs, any running thread may take
//!    the role. If each departing thread called another waiter, all would wake for one role.

use crate::primitives::{
    AtomicBool, AtomicUsize, Mutex, Ordering, Thread, current_thread, order_sequentially, park,
    spin_loop,
};
use esker_base::Seqno;

/// How long a waiter spins before it parks: as long as an append to the log takes, about a
/// microsecond. Parking and being woken takes several.
const SPINS: u32 = if cfg!(loom) { 0 } else { 100 };

/// See the file's head.
#[derive(Default)]
pub(crate) struct LeaderElection {
    taken: AtomicBool,
    /// The length of the list, for a look without the lock.
    waiting: AtomicUsize,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    list: Vec<Follower>,
    next_id: u64,
    /// The waiter that was woken to take the turn and has not got going yet.
    called: Option<u64>,
}

struct Follower {
    id: u64,
    wants: Seqno,
    thread: Thread,
}

impl Waiters {
    /// Whether `id` was called to take the turn. It has got going: another may be called now.
    fn was_called(&mut self, id: u64) -> bool {
        self.called.take_if(|called| *called == id).is_some()
    }
}

impl LeaderElection {
    /// Takes the turn if it is free.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives the turn back, everything up to `achieved` being done. Those who waited for that go on.
    #[inline]
    pub(crate) fn give_back(&self, achieved: Seqno) {
        self.taken.store(false, Ordering::SeqCst);
        order_sequentially();
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake(achieved);
        }
    }

    #[cold]
    fn wake(&self, achieved: Seqno) {
        let (next, done) = {
            let mut waiters = self.waiters.lock();
            let list = &mut waiters.list;
            list.sort_unstable_by_key(|waiter| waiter.wants);
            let done = list.partition_point(|waiter| waiter.wants <= achieved);
            let done: Vec<_> = list.drain(..done).collect();
            let call = waiters.called.is_none() && !waiters.list.is_empty();
            let next = call.then(|| waiters.list.remove(0));
            if let Some(next) = &next {
                waiters.called = Some(next.id);
            }
            self.waiting.store(waiters.list.len(), Ordering::SeqCst);
            (next, done)
        };
        next.iter().chain(&done).for_each(|waiter| waiter.thread.unpark());
    }

    /// Waits until the turn is free or `is_done`, which holds once `wants` is achieved, or never will
    /// be. Returns whether the caller was called to take the turn. If it does not take it then, it must
    /// [`LeaderElection::pass_on`], or others sleep although the turn is free.
    pub(crate) fn wait(&self, wants: Seqno, is_done: impl Fn() -> bool) -> bool {
        for _ in 0..SPINS {
            if !self.taken.load(Ordering::Relaxed) || is_done() {
                return false;
            }
            spin_loop();
        }
        let id = {
            let mut waiters = self.waiters.lock();
            let id = waiters.next_id;
            waiters.next_id += 1;
            waiters.list.push(Follower { id, wants, thread: current_thread() });
            self.waiting.store(waiters.list.len(), Ordering::SeqCst);
            id
        };
        order_sequentially();
        // Whoever gives the turn back from here on finds the waiter; whoever did before is seen.
        while self.taken.load(Ordering::SeqCst) && !is_done() {
            park();
            let mut waiters = self.waiters.lock();
            if !waiters.list.iter().any(|waiter| waiter.id == id) {
                return waiters.was_called(id);
            }
        }
        let mut waiters = self.waiters.lock();
        waiters.list.retain(|waiter| waiter.id != id);
        self.waiting.store(waiters.list.len(), Ordering::SeqCst);
        waiters.was_called(id)
    }

    /// For one that was called and leaves without taking the turn: sees to it that another is awake to take
    /// it, and that all who wait for no more than `achieved` leave, too.
    pub(crate) fn pass_on(&self, achieved: Seqno) {
        order_sequentially();
        // If the turn is not free, whoever has it will see to the rest.
        if self.waiting.load(Ordering::SeqCst) > 0 && self.take() {
            self.give_back(achieved);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn a_free_turn_is_taken_once() {
        let turn = LeaderElection::default();
        assert!(turn.take() && !turn.take());
        turn.give_back(0);
        assert!(turn.take());
    }

    #[test]
    fn everybody_gets_done_however_many_want_it() {
        let (turn, wanted, done) =
            (LeaderElection::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let mine = wanted.fetch_add(1, Ordering::SeqCst) + 1;
                        while done.load(Ordering::SeqCst) < mine {
                            if turn.take() {
                                done.store(wanted.load(Ordering::SeqCst), Ordering::SeqCst);
                                turn.give_back(done.load(Ordering::SeqCst));
                            } else {
                                turn.wait(mine, || done.load(Ordering::SeqCst) >= mine);
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
/// `RUSTFLAGS="--cfg loom" cargo test -p esker-lsm --release --lib leader::loom_tests`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    /// The work of a log's group, without the log: see `GroupCommit::reach`.
    #[derive(Default)]
    struct World {
        turn: LeaderElection,
        wanted: AtomicU64,
        done: AtomicU64,
        failed: AtomicBool,
    }

    impl World {
        fn want(&self) -> u64 {
            self.wanted.fetch_add(1, Ordering::SeqCst) + 1
        }

        /// What a writer does: its work is done by itself or by another, or never will be.
        fn reach(&self, mine: u64) {
            let mut is_next = false;
            loop {
                let done = self.done.load(Ordering::SeqCst);
                let failed = self.failed.load(Ordering::SeqCst);
                if done >= mine || failed {
                    if is_next {
                        self.turn.pass_on(if failed { Seqno::MAX } else { done });
                    }
                    return;
                }
                if !self.turn.take() {
                    is_next = self.turn.wait(mine, || {
                        self.done.load(Ordering::SeqCst) >= mine
                            || self.failed.load(Ordering::SeqCst)
                    });
                    continue;
                }
                // One at a time, as when a frame before the next is not filled yet.
                let done = self.done.load(Ordering::SeqCst) + 1;
                self.done.fetch_max(done, Ordering::SeqCst);
                self.turn.give_back(self.done.load(Ordering::SeqCst));
            }
        }
    }

    fn model(disturb: fn(&World)) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let world = Arc::new(World::default());
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let (world, mine) = (world.clone(), world.want());
                    thread::spawn(move || world.reach(mine))
                })
                .collect();
            disturb(&world);
            writers.into_iter().for_each(|writer| writer.join().unwrap());
        });
    }

    #[test]
    fn no_waiter_is_forgotten() {
        model(|world| world.reach(world.want()));
    }

    #[test]
    fn what_is_done_without_the_turn_strands_nobody() {
        model(|world| {
            world.done.fetch_max(1, Ordering::SeqCst);
        });
    }

    #[test]
    fn a_failure_elsewhere_strands_nobody() {
        model(|world| {
            // Whoever fails has another turn, and so gives this one back to nobody.
            if world.turn.take() {
                world.failed.store(true, Ordering::SeqCst);
                world.turn.give_back(0);
            } else {
                world.failed.store(true, Ordering::SeqCst);
            }
        });
    }
}
