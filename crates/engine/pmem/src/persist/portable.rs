//! Processors whose flushes are not known here: plain stores. Only emulated pools are opened there.

use std::fmt;
use std::sync::atomic::{Ordering, fence as atomic_fence};

/// Whether what is flushed here reaches the medium.
pub const REACHES_MEDIUM: bool = false;

/// How whole lines are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Like any other store.
    Plain,
}

/// How a line is driven out of the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// Not at all.
    None,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain stores")
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no flush")
    }
}

impl Stream {
    /// All of them.
    pub const ALL: [Stream; 1] = [Stream::Plain];

    /// Always.
    pub fn available(self) -> bool {
        true
    }

    /// The only one.
    pub fn detect() -> Stream {
        Stream::Plain
    }

    /// Stores `count` lines.
    ///
    /// # Safety
    ///
    /// Both ranges are valid and apart.
    #[inline]
    pub unsafe fn lines(self, to: *mut u8, from: *const u8, count: usize) {
        // SAFETY: the caller's.
        unsafe { to.copy_from_nonoverlapping(from, count * crate::region::LINE_BYTES) };
    }
}

impl Flush {
    /// All of them.
    pub const ALL: [Flush; 1] = [Flush::None];

    /// Always.
    pub fn available(self) -> bool {
        true
    }

    /// The only one.
    pub fn detect() -> Flush {
        Flush::None
    }

    /// Does nothing.
    ///
    /// # Safety
    ///
    /// None is needed.
    #[inline]
    pub unsafe fn range(self, _at: *mut u8, _bytes: usize) {}
}

/// Orders this thread's stores.
#[inline]
pub fn fence() {
    atomic_fence(Ordering::SeqCst);
}
