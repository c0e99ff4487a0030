//! How other threads interrupt a reactor that waits.
//!
//! A state says whether the reactor waits, so that waking one that does not costs no system call:
//!
//! | state | set by | a wake then |
//! |---|---|---|
//! | awake | the reactor, after a wait | leaves a notice |
//! | asleep | the reactor, before a wait, unless there is a notice: then it does not wait | leaves a notice and adds to the event's count, which ends the wait |
//! | noticed | a wake | does nothing: the next wait ends at once |

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTICED: u8 = 2;

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    event: OwnedFd,
}

/// Ends a reactor's wait, from any thread. Clones wake the same reactor.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Waker(Arc::new(Shared { state: AtomicU8::new(AWAKE), event })))
    }

    /// Ends the reactor's wait, or the next one if it does not wait just now.
    pub fn wake(&self) {
        // Release: what was put down for the reactor is seen by it after its wait.
        if self.0.state.swap(NOTICED, Ordering::AcqRel) == ASLEEP {
            // It fails only if 2^64 - 2 wakes were not taken notice of.
            let _ = rustix::io::write(&self.0.event, &1u64.to_le_bytes());
        }
    }

    /// Says that the reactor is about to wait. False if it must not.
    pub(crate) fn fall_asleep(&self) -> bool {
        let asleep =
            self.0.state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        if asleep.is_err() {
            // A swap, so that what was put down before the latest notice is seen.
            self.0.state.swap(AWAKE, Ordering::AcqRel);
        }
        asleep.is_ok()
    }

    /// Says that the reactor does not wait any more.
    pub(crate) fn wake_up(&self) {
        self.0.state.swap(AWAKE, Ordering::AcqRel);
    }

    /// The event whose count a wake raises.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}
