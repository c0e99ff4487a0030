//! Memory that can be made durable.

use crate::domain::Domain;
use crate::media_counters::lines;
use std::io;

/// The unit that caches flush.
pub const LINE_BYTES: usize = 64;

/// What a frame starts with. Fixed, so that it is copied without a call.
pub const FRAME_HEADER_BYTES: usize = 32;

/// Mapped memory, and how a store into it becomes durable.
///
/// # Safety
///
/// `base`, `len` and `domain` always give the same values; the bytes there are initialised, readable
/// from every thread, and writable if `writable` says so, until the value is dropped; `base` is
/// aligned to 4096. `write`, `write_frame` and `store_word` touch no byte outside the given range.
/// What one thread stored is durable once `fence` returned on the same thread.
pub unsafe trait Region: Send + Sync {
    /// The first byte.
    fn base(&self) -> *mut u8;

    /// The number of bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How far a store must get.
    fn domain(&self) -> Domain;

    /// The instructions that stores are made with, for people. `None` where there are none.
    fn describe_ways(&self) -> Option<String> {
        None
    }

    /// Whether the memory may be stored to.
    fn writable(&self) -> bool {
        true
    }

    /// Stores `bytes` and starts their way to the medium.
    ///
    /// # Safety
    ///
    /// The range is in the region, which is writable, and no other thread reads or writes it until the
    /// fence.
    unsafe fn write(&self, at: usize, bytes: &[u8]);

    /// Stores `header`, `entries` and zeros up to `whole` bytes, and starts their way to the medium.
    ///
    /// # Safety
    ///
    /// As for `write`; `at` and `whole` are multiples of [`LINE_BYTES`], and the parts fit in `whole`.
    unsafe fn write_frame(
        &self,
        at: usize,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
        whole: usize,
    );

    /// Stores an aligned little-endian word at once, so that a crash leaves the old or the new one,
    /// and starts its way to the medium.
    ///
    /// # Safety
    ///
    /// The word is aligned and is in the region, which is writable; others reach it only by atomic
    /// accesses.
    unsafe fn store_word(&self, at: usize, word: u64);

    /// Waits until all that this thread has stored is durable.
    fn fence(&self);

    /// Makes the memory's pages present, so that no page fault strikes a store. Fails where a fault
    /// would find no page, and end the process.
    ///
    /// # Safety
    ///
    /// The range is in the region, which is writable, and no other thread writes it meanwhile.
    unsafe fn fault_in(&self, at: usize, bytes: usize) -> io::Result<()> {
        let _ = (at, bytes);
        Ok(())
    }

    /// Makes sure that a load from the range finds a page: where it finds none, such as in a hole of a copy on a
    /// full file system, or where the medium can't be read, the system ends the process.
    fn expect(&self, at: usize, bytes: usize) -> io::Result<()> {
        let _ = (at, bytes);
        Ok(())
    }

    /// Copies the bytes at `at` out in a way that fails where a load would end the process. `None`: a load
    /// never does.
    ///
    /// # Panics
    ///
    /// Perhaps, if the range is not in the region.
    fn read_safely(&self, at: usize, out: &mut [u8]) -> Option<io::Result<()>> {
        let _ = (at, out);
        None
    }

    /// Whether `before_read` does anything.
    fn delays_reads(&self) -> bool {
        false
    }

    /// Called before `bytes` bytes are read as one piece. A place for injected latency.
    fn before_read(&self, bytes: usize) {
        let _ = bytes;
    }
}

/// The number of lines that a range touches.
pub(crate) fn lines_of(at: usize, bytes: usize) -> usize {
    lines(at, bytes)
}
