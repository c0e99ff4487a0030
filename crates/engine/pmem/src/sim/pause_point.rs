//! All threads stopped between two events.

use super::crash::CrashState;
use super::medium::Medium;
use super::{Inner, SimRegion};
use std::sync::Arc;

/// What happens after so many more events.
pub(super) struct Interrupt {
    events: u64,
    then: Box<Then>,
}

/// What is done at one point in time; it says after how many more events it is done again.
type Then = dyn FnMut(&PausePoint<'_>) -> Option<u64> + Send;

/// Who is notified of fences.
pub(super) type FenceWatch = Arc<dyn Fn(Trigger) + Send + Sync>;

/// When a fence's watch is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// The thread has stored, and is about to fence.
    Before,
    /// What it stored is durable.
    After,
}

/// The region between two events.
pub struct PausePoint<'a> {
    medium: &'a Medium,
}

impl PausePoint<'_> {
    /// What a crash now may leave.
    pub fn crash(&self) -> CrashState {
        self.medium.crash()
    }

    /// What the next process finds if this one dies now.
    pub fn kill(&self) -> SimRegion {
        SimRegion::on(self.medium.after_process())
    }
}

impl SimRegion {
    /// What the next process finds if this one dies now, and the power stays. What was not fenced is
    /// still undecided, and no later fence decides it: its thread is gone.
    pub fn kill(&self) -> SimRegion {
        SimRegion::on(self.lock().medium.after_process())
    }

    /// Calls `then` right after `events` more stores and fences, in the middle of whatever call makes
    /// the last of them, and again after as many more as it says. It must not touch the region. What is
    /// stored later goes on as if nothing had happened: a test that simulates a death ignores it.
    pub fn interrupt_after(
        &self,
        events: u64,
        then: impl FnMut(&PausePoint<'_>) -> Option<u64> + Send + 'static,
    ) {
        self.lock().interrupt = Some(Interrupt { events, then: Box::new(then) });
    }
}

impl SimRegion {
    /// Has `watch` called at every fence, on the thread that fences; while it does not return, that thread
    /// waits, and others go on. So writers overlap in an order of the caller's.
    pub fn watch_fences(&self, watch: impl Fn(Trigger) + Send + Sync + 'static) {
        *self.fence_watch.lock() = Some(Arc::new(watch));
    }

    /// Calls no watch any more.
    pub fn unwatch_fences(&self) {
        *self.fence_watch.lock() = None;
    }
}

impl Inner {
    /// Another event has happened.
    pub(super) fn count_down(&mut self) {
        let Some(mut interrupt) = self.interrupt.take() else { return };
        interrupt.events = interrupt.events.saturating_sub(1);
        if interrupt.events == 0 {
            let Some(events) = (interrupt.then)(&PausePoint { medium: &self.medium }) else {
                return;
            };
            interrupt.events = events;
        }
        self.interrupt = Some(interrupt);
    }
}
