//! Stores and flushes, by what the processor has: found out once, at run time.
//!
//! Whole lines are *streamed*: non-temporal stores go around the caches and take no flush. Anything
//! else is copied through the cache and its lines are flushed. Either way one fence makes it durable.

use crate::region::{FRAME_HEADER_BYTES, LINE_BYTES};
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
#[path = "persist/x86.rs"]
mod machine;
#[cfg(not(target_arch = "x86_64"))]
#[path = "persist/portable.rs"]
mod machine;

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod single_step_test;
#[cfg(all(test, target_arch = "x86_64"))]
mod store_trace;

pub(crate) use machine::REACHES_MEDIUM;
pub use machine::{Flush, Stream};

/// From where on whole lines are streamed. Measured on DRAM with `examples/pmem_speed.rs`, fence
/// included: a frame that was copied and flushed with `clwb` took, of the time of a streamed one, 0.69 at
/// 64 B, 0.77 at 128, 0.69 at 192, 0.97 at 256, 1.08 at 384, 1.30 at 512, 1.50 at 1088 and 2.2 at 4160.
const STREAM_FROM_BYTES: usize = 256;

/// The ways chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Persist {
    stream: Stream,
    flush: Flush,
    /// Whole lines are streamed if they are at least so many bytes.
    stream_from: usize,
}

/// A line's worth of bytes, aligned like one.
#[repr(align(64))]
struct Line([u8; LINE_BYTES]);

impl Persist {
    /// The best that this processor has. `caches_survive`: nothing needs a flush.
    pub fn detect(caches_survive: bool) -> Persist {
        let flush = if caches_survive { Flush::None } else { Flush::detect() };
        Persist { stream: Stream::detect(), flush, stream_from: STREAM_FROM_BYTES }
    }

    /// These ways, if this processor has them.
    pub fn of(stream: Stream, flush: Flush, stream_from: usize) -> Option<Persist> {
        let available = stream.available() && flush.available();
        available.then_some(Persist { stream, flush, stream_from })
    }

    /// What was chosen, for people.
    pub fn describe(&self) -> String {
        format!("{}, {}", self.stream, self.flush)
    }

    /// Stores `bytes` at `to` and starts their way to the medium.
    ///
    /// # Safety
    ///
    /// The range is writable memory that no other thread reads or writes.
    #[inline]
    pub unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        let whole = bytes.len() >= self.stream_from
            && bytes.len().is_multiple_of(LINE_BYTES)
            && to.addr().is_multiple_of(LINE_BYTES);
        // SAFETY: the caller's; whole lines are streamed.
        unsafe {
            if whole {
                self.stream.lines(to, bytes.as_ptr(), bytes.len() / LINE_BYTES);
            } else {
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                self.flush.range(to, bytes.len());
            }
        }
    }

    /// Stores `header`, `entries` and zeros up to `whole` bytes, in one pass.
    ///
    /// # Safety
    ///
    /// As for `write`; `to` and `whole` are multiples of a line, and both parts fit in `whole`.
    #[inline]
    pub unsafe fn write_frame(
        &self,
        to: *mut u8,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
        whole: usize,
    ) {
        debug_assert!(to.addr().is_multiple_of(LINE_BYTES) && whole.is_multiple_of(LINE_BYTES));
        debug_assert!(FRAME_HEADER_BYTES + entries.len() <= whole);
        // SAFETY: the caller's.
        unsafe {
            if whole >= self.stream_from {
                self.stream_frame(to, header, entries, whole);
            } else {
                let used = FRAME_HEADER_BYTES + entries.len();
                to.copy_from_nonoverlapping(header.as_ptr(), FRAME_HEADER_BYTES);
                let body = to.add(FRAME_HEADER_BYTES);
                body.copy_from_nonoverlapping(entries.as_ptr(), entries.len());
                to.add(used).write_bytes(0, whole - used);
                self.flush.range(to, whole);
            }
        }
    }

    /// The same in whole lines around the cache. Only the lines that are put together, the first and
    /// the last, go through a buffer.
    ///
    /// # Safety
    ///
    /// As for `write_frame`.
    unsafe fn stream_frame(
        &self,
        to: *mut u8,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
        whole: usize,
    ) {
        let mut line = Line([0; LINE_BYTES]);
        line.0[..FRAME_HEADER_BYTES].copy_from_slice(header);
        let (head, rest) = entries.split_at(entries.len().min(LINE_BYTES - FRAME_HEADER_BYTES));
        line.0[FRAME_HEADER_BYTES..][..head.len()].copy_from_slice(head);
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

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    #[repr(align(64))]
    struct Aligned([u8; 2048]);

    /// All ways that this processor has, streaming always, never, and from the measured size on.
    fn all() -> Vec<Persist> {
        let sizes = [0, STREAM_FROM_BYTES, usize::MAX];
        let ways = Stream::ALL.into_iter().flat_map(|stream| {
            let flushes = Flush::ALL.into_iter().chain([Flush::None]);
            flushes.flat_map(move |flush| sizes.map(move |from| Persist::of(stream, flush, from)))
        });
        ways.flatten().collect()
    }

    #[test]
    fn every_way_writes_the_same_frame_and_nothing_around_it() {
        let mut source = [0; 1200];
        Rng::new(1).fill(&mut source);
        let header: [u8; FRAME_HEADER_BYTES] = source[..FRAME_HEADER_BYTES].try_into().unwrap();
        for ways in all() {
            for bytes in (0..300).chain([479, 480, 481, 544, 1000, 1099]) {
                let entries = &source[100..100 + bytes];
                let least = (FRAME_HEADER_BYTES + bytes).next_multiple_of(LINE_BYTES);
                for whole in [least, least + LINE_BYTES] {
                    let mut memory = Aligned([0x77; 2048]);
                    // SAFETY: the frame lies in the memory, which nobody else has.
                    unsafe {
                        let to = memory.0.as_mut_ptr().add(LINE_BYTES);
                        ways.write_frame(to, &header, entries, whole);
                    }
                    ways.fence();
                    let mut expected = [0x77; 2048];
                    let frame = &mut expected[LINE_BYTES..LINE_BYTES + whole];
                    frame.fill(0);
                    frame[..FRAME_HEADER_BYTES].copy_from_slice(&header);
                    frame[FRAME_HEADER_BYTES..][..bytes].copy_from_slice(entries);
                    assert!(memory.0 == expected, "{ways:?}, {bytes} in {whole}");
                }
            }
        }
    }

    #[test]
    fn every_way_writes_any_range_and_nothing_around_it() {
        let mut source = [0; 1200];
        Rng::new(2).fill(&mut source);
        for ways in all() {
            for at in [0, 1, 63, 64, 65, 127, 128] {
                for bytes in [0, 1, 8, 63, 64, 65, 128, 511, 512, 513, 1024] {
                    let mut memory = Aligned([0x77; 2048]);
                    // SAFETY: the range lies in the memory, which nobody else has.
                    unsafe { ways.write(memory.0.as_mut_ptr().add(at), &source[..bytes]) };
                    ways.fence();
                    let mut expected = [0x77; 2048];
                    expected[at..at + bytes].copy_from_slice(&source[..bytes]);
                    assert!(memory.0 == expected, "{ways:?}, {bytes} at {at}");
                }
            }
        }
    }

    #[test]
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    #[ignore = "what the processor executes is looked at on x86-64 with Linux only"]
    fn flushes_streams_and_fences_are_instructions() {}

    #[test]
    fn a_word_is_stored_little_endian() {
        let mut memory = Aligned([0; 2048]);
        let ways = Persist::detect(false);
        // SAFETY: the word is aligned and lies in the memory, which nobody else has.
        unsafe { ways.store_word(memory.0.as_mut_ptr().add(8), 0x0102_0304_0506_0708) };
        ways.fence();
        assert_eq!(memory.0[8..16], [8, 7, 6, 5, 4, 3, 2, 1]);
    }
}
