//! x86-64: streaming stores, cache line flushes, and the store fence.

#[cfg(test)]
use super::store_trace::{Event, note};
use crate::region::LINE_BYTES;
use std::arch::asm;
use std::arch::x86_64::*;
use std::fmt;

/// Whether what is flushed here reaches the medium.
pub const REACHES_MEDIUM: bool = true;

/// How whole lines are stored around the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// A line at once.
    Avx512,
    /// In halves.
    Avx2,
    /// In quarters.
    Sse2,
}

/// How a line is driven out of the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// Written back, and perhaps kept.
    Clwb,
    /// Written back and dropped.
    ClflushOpt,
    /// The same, each line waiting for the one before.
    Clflush,
    /// Not at all: the caches survive.
    None,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stream::Avx512 => "streaming AVX-512 stores",
            Stream::Avx2 => "streaming AVX2 stores",
            Stream::Sse2 => "streaming SSE2 stores",
        })
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flush::Clwb => "clwb",
            Flush::ClflushOpt => "clflushopt",
            Flush::Clflush => "clflush",
            Flush::None => "no flush",
        })
    }
}

impl Stream {
    /// All of them, the best first.
    pub const ALL: [Stream; 3] = [Stream::Avx512, Stream::Avx2, Stream::Sse2];

    /// Whether this processor has it.
    pub fn available(self) -> bool {
        match self {
            Stream::Avx512 => is_x86_feature_detected!("avx512f"),
            Stream::Avx2 => is_x86_feature_detected!("avx2"),
            Stream::Sse2 => true,
        }
    }

    /// The best that this processor has.
    pub fn detect() -> Stream {
        Self::ALL.into_iter().find(|way| way.available()).unwrap_or(Stream::Sse2)
    }

    /// Stores `count` lines.
    ///
    /// # Safety
    ///
    /// `to` is aligned to a line; both ranges are valid and apart; the processor has the way.
    #[inline]
    pub unsafe fn lines(self, to: *mut u8, from: *const u8, count: usize) {
        #[cfg(test)]
        (0..count).for_each(|line| note(Event::Streamed(to.addr() + line * LINE_BYTES)));
        // SAFETY: the caller's.
        unsafe {
            match self {
                Stream::Avx512 => lines_avx512(to, from, count),
                Stream::Avx2 => lines_avx2(to, from, count),
                Stream::Sse2 => lines_sse2(to, from, count),
            }
        }
    }
}

/// In assembly, because the oldest compiler that builds this has no intrinsics for it. Registers from 16
/// on cost no transition to code without AVX.
///
/// # Safety
///
/// As for [`Stream::lines`].
unsafe fn lines_avx512(to: *mut u8, from: *const u8, count: usize) {
    for at in (0..count).map(|line| line * LINE_BYTES) {
        // SAFETY: the caller's: the lines lie in both ranges, `to` is aligned, and the processor has
        // AVX-512.
        unsafe {
            asm!(
                "vmovdqu64 zmm16, [{from}]",
                "vmovntdq [{to}], zmm16",
                from = in(reg) from.add(at),
                to = in(reg) to.add(at),
                out("zmm16") _,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// Halves of lines.
///
/// # Safety
///
/// As for [`Stream::lines`].
#[target_feature(enable = "avx2")]
unsafe fn lines_avx2(to: *mut u8, from: *const u8, count: usize) {
    for at in (0..count * 2).map(|half| half * 32) {
        // SAFETY: the caller's: the lines lie in both ranges.
        unsafe {
            let half = _mm256_loadu_si256(from.add(at).cast());
            _mm256_stream_si256(to.add(at).cast(), half);
        }
    }
}

/// Quarters of lines.
///
/// # Safety
///
/// As for [`Stream::lines`].
unsafe fn lines_sse2(to: *mut u8, from: *const u8, count: usize) {
    for at in (0..count * 4).map(|quarter| quarter * 16) {
        // SAFETY: the caller's: the lines lie in both ranges; SSE2 is part of x86-64.
        unsafe {
            let quarter = _mm_loadu_si128(from.add(at).cast());
            _mm_stream_si128(to.add(at).cast(), quarter);
        }
    }
}

impl Flush {
    /// All that flush, the best first.
    pub const ALL: [Flush; 3] = [Flush::Clwb, Flush::ClflushOpt, Flush::Clflush];

    /// Whether this processor has it.
    pub fn available(self) -> bool {
        // Leaf 7 exists on every processor that has either; its EBX says which.
        // SAFETY: every x86-64 processor has the instruction. Newer compilers know that.
        #[allow(unused_unsafe)]
        let has = |bit: u32| unsafe {
            let leaves = __cpuid(0).eax;
            leaves >= 7 && __cpuid_count(7, 0).ebx & 1 << bit != 0
        };
        match self {
            Flush::Clwb => has(24),
            Flush::ClflushOpt => has(23),
            Flush::Clflush | Flush::None => true,
        }
    }

    /// The best that this processor has.
    pub fn detect() -> Flush {
        Self::ALL.into_iter().find(|way| way.available()).unwrap_or(Flush::Clflush)
    }

    /// Starts the way of all lines that the range touches: from the line its first byte is in to
    /// the line its last byte is in.
    ///
    /// # Safety
    ///
    /// The range is mapped memory, and the processor has the way.
    #[inline]
    pub unsafe fn range(self, at: *mut u8, bytes: usize) {
        if self == Flush::None || bytes == 0 {
            return;
        }
        let skew = at.addr() % LINE_BYTES;
        let count = (skew + bytes).div_ceil(LINE_BYTES);
        for number in 0..count {
            // SAFETY: the line holds a byte of the range, so it is mapped.
            unsafe {
                let line = at.wrapping_sub(skew).wrapping_add(number * LINE_BYTES);
                #[cfg(test)]
                note(Event::Flushed(line.addr()));
                match self {
                    Flush::Clwb => {
                        asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags))
                    }
                    Flush::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                    Flush::Clflush => _mm_clflush(line),
                    Flush::None => {}
                }
            }
        }
    }
}

/// Waits until this thread's stores, streams and flushes have arrived.
#[inline]
pub fn fence() {
    #[cfg(test)]
    note(Event::Fenced);
    // SAFETY: SSE is part of x86-64, and a fence touches no memory.
    unsafe { _mm_sfence() };
}
