//! Stores and flushes, by what the processor has: found out once, at run time.
//!
//! Whole lines are *streamed*: non-temporal stores go around the caches and take no flush. Anything
//! else is copied through the cache and its lines are flushed. Either way one fence makes it durable.

use crate::region::LINE_BYTES;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
#[path = "persist/x86.rs"]
mod machine;
#[cfg(not(target_arch = "x86_64"))]
#[path = "persist/portable.rs"]
mod machine;

pub use machine::{Flush, Stream};

/// The ways chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Persist {
    stream: Stream,
    flush: Flush,
}

/// A line's worth of bytes, aligned like one.
#[repr(align(64))]
struct Line([u8; LINE_BYTES]);

impl Persist {
    /// The best that this processor has. `caches_survive`: nothing needs a flush.
    pub fn detect(caches_survive: bool) -> Persist {
        let flush = if caches_survive { Flush::None } else { Flush::detect() };
        Persist { stream: Stream::detect(), flush }
    }

    /// These ways, if this processor has them.
    pub fn of(stream: Stream, flush: Flush) -> Option<Persist> {
        (stream.available() && flush.available()).then_some(Persist { stream, flush })
    }

    /// What was chosen, for people.
    pub fn describe(&self) -> String {
        format!("{}, {}", self.stream, self.flush)
    }

    /// Stores `bytes` at `to` and starts their way to the medium.
    ///
    /// # Safety
    ///
    /// The range is writable memory that nobody else reads or writes.
    #[inline]
    pub unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        let whole = bytes.len().is_multiple_of(LINE_BYTES) && to.addr().is_multiple_of(LINE_BYTES);
        // SAFETY: the caller's; whole lines are streamed.
        unsafe {
            if whole {
                self.stream.lines(to, bytes.as_ptr(), bytes.len() / LINE_BYTES);
            } else {
                self.copy(to, bytes);
                self.flush.range(to, bytes.len());
            }
        }
    }

    /// Copies through the cache.
    ///
    /// # Safety
    ///
    /// As for `write`.
    unsafe fn copy(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller's.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Stores `header`, `entries` and zeros up to `whole` bytes, as whole lines in one pass.
    ///
    /// # Safety
    ///
    /// As for `write`; `to` and `whole` are multiples of a line, and both parts fit in `whole`.
    #[inline]
    pub unsafe fn write_frame(&self, to: *mut u8, header: &[u8], entries: &[u8], whole: usize) {
        debug_assert!(to.addr().is_multiple_of(LINE_BYTES) && whole.is_multiple_of(LINE_BYTES));
        debug_assert!(header.len() <= LINE_BYTES && header.len() + entries.len() <= whole);
        // The line in which the header ends and the entries begin.
        let mut line = Line([0; LINE_BYTES]);
        line.0[..header.len()].copy_from_slice(header);
        let room = LINE_BYTES - header.len();
        let (head, rest) = entries.split_at(entries.len().min(room));
        line.0[header.len()..header.len() + head.len()].copy_from_slice(head);
        let middle = rest.len() / LINE_BYTES;
        // SAFETY: the caller's; line for line, up to `whole` in all.
        unsafe {
            self.stream.lines(to, line.0.as_ptr(), 1);
            self.stream.lines(to.add(LINE_BYTES), rest.as_ptr(), middle);
        }
        let mut at = (1 + middle) * LINE_BYTES;
        let mut tail = &rest[middle * LINE_BYTES..];
        while at < whole {
            let mut line = Line([0; LINE_BYTES]);
            line.0[..tail.len()].copy_from_slice(tail);
            // SAFETY: the caller's; `at` is below `whole`.
            unsafe { self.stream.lines(to.add(at), line.0.as_ptr(), 1) };
            tail = &[];
            at += LINE_BYTES;
        }
    }

    /// Stores an aligned word at once and starts its way to the medium.
    ///
    /// # Safety
    ///
    /// The word is aligned, writable, and reached by others only atomically.
    pub unsafe fn store_word(&self, to: *mut u8, word: u64) {
        // SAFETY: the caller's.
        unsafe {
            AtomicU64::from_ptr(to.cast()).store(word.to_le(), Ordering::Release);
            self.flush.range(to, size_of::<u64>());
        }
    }

    /// Waits until all that this thread stored has arrived.
    #[inline]
    pub fn fence(&self) {
        machine::fence();
    }
}
