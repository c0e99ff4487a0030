//! A handle on an extent: memory for one segment.

use crate::persist_state::Flushed;
use crate::pool::Pool;
use crate::region::{FRAME_HEADER_BYTES, LINE_BYTES};
use esker_base::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const WORD_BYTES: usize = size_of::<u64>();

/// One use of an extent, for the segment of one epoch. While there is a handle, the extent is not
/// given to another segment and the pool stays mapped.
pub struct Extent {
    pool: Arc<Pool>,
    start: *mut u8,
    /// Where the extent starts in the pool.
    at: usize,
    len: usize,
    index: u32,
    epoch: u32,
    writable: bool,
    delays_reads: bool,
}

// SAFETY: `start` points into the pool's region, which is Send and Sync and kept alive by `pool`.
unsafe impl Send for Extent {}
// SAFETY: as above; what is stored through `&self` is the caller's to keep apart.
unsafe impl Sync for Extent {}

/// A range of an extent, in bytes from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentRange {
    /// The segment.
    pub epoch: u32,
    /// Where it starts.
    pub at: usize,
    /// Its length.
    pub len: usize,
}

impl Extent {
    /// The pool has counted this handle.
    pub(crate) fn new(pool: Arc<Pool>, index: u32, epoch: u32) -> Extent {
        let at = pool.extent_at(index);
        let start = pool.region.base().wrapping_add(at);
        let (len, writable) = (pool.extent_bytes(), pool.writable());
        let delays_reads = pool.region.delays_reads();
        Extent { pool, start, at, len, index, epoch, writable, delays_reads }
    }

    /// The first byte, aligned to 4096.
    pub fn pointer(&self) -> *mut u8 {
        self.start
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes: never.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Which of the pool's extents it is.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The segment it holds.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The pool it is in.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Where it starts in the pool, in bytes.
    pub fn offset(&self) -> u64 {
        self.at as u64
    }

    /// Stores `bytes` at `at` and starts their way to the medium.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes the range until the fence.
    #[inline]
    pub unsafe fn write(&self, at: usize, bytes: &[u8]) -> Flushed<'_, ExtentRange> {
        self.check(at, bytes.len());
        // SAFETY: in the extent, as checked, and the caller's alone.
        unsafe { self.pool.write(self.at + at, bytes) };
        Flushed::new(&self.pool, ExtentRange { epoch: self.epoch, at, len: bytes.len() })
    }

    /// Stores `header`, `entries` and zeros, `whole` bytes in all, in whole cache lines, and starts
    /// their way to the medium. `at` and `whole` must be multiples of 64.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes the range until the fence.
    #[inline]
    pub unsafe fn write_frame(
        &self,
        at: usize,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
        whole: usize,
    ) -> Flushed<'_, ExtentRange> {
        self.check(at, whole);
        assert!(whole > 0 && (at | whole).is_multiple_of(LINE_BYTES), "frames are whole lines");
        assert!(entries.len() <= whole - FRAME_HEADER_BYTES, "the frame has space for its parts");
        self.pool.counters.stored(whole, whole / LINE_BYTES);
        // SAFETY: in the extent and whole lines, as checked, and the caller's alone.
        unsafe { self.pool.region.write_frame(self.at + at, header, entries, whole) };
        Flushed::new(&self.pool, ExtentRange { epoch: self.epoch, at, len: whole })
    }

    /// The word at `at`, which no thread stores to but by `store_word`.
    #[inline]
    pub(crate) fn load_word(&self, at: usize) -> u64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.len, "the word is in the extent");
        // SAFETY: as asserted, by the callers' own checks: aligned and in the extent.
        let word = unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) };
        u64::from_le(word.load(Ordering::Acquire))
    }

    /// Stores a word that others reach only by `load_word` and this.
    #[inline]
    pub(crate) fn store_word(&self, at: usize, word: u64) {
        debug_assert!(at.is_multiple_of(8), "words are aligned");
        self.check(at, size_of::<u64>());
        self.pool.counters.stored(size_of::<u64>(), 1);
        // SAFETY: aligned, in the extent as checked, and stored and loaded atomically.
        unsafe { self.pool.region.store_word(self.at + at, word) };
    }

    /// Copies bytes out, for another process that inspects the pool: the holder of a pool opened for writing does so only
    /// while nothing is written. While another process writes, what is copied is any mix of old and
    /// new bytes; if [`Pool::holds`] the segment afterwards, at least they are of no other segment.
    ///
    /// What can't be read is an error.
    pub fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        assert!(at <= self.len && out.len() <= self.len - at, "the range is in the extent");
        let Some(read) = self.pool.region.read_safely(self.at + at, out) else {
            self.expect(at..at + out.len())?;
            self.load(at, out);
            return Ok(());
        };
        // What is looked at next, such as the state word, is looked at after the bytes.
        fence(Ordering::Acquire);
        read.map_err(|source| Error::io("read", self.pool.describe(), source))
    }

    /// Makes sure that all bytes of `range` can be loaded: fails where a load would end the process, such as where
    /// the medium can't be read.
    pub fn expect(&self, range: Range<usize>) -> Result<()> {
        assert!(range.end <= self.len, "the range is in the extent");
        let found = self.pool.region.expect(self.at + range.start, range.len());
        found.map_err(|source| {
            let place =
                format!("{}, extent {} at offset {}", self.pool.describe(), self.index, self.at);
            Error::io("read", place, source)
        })
    }

    /// Copies bytes of memory that has all its pages.
    fn load(&self, at: usize, out: &mut [u8]) {
        let skew = at % WORD_BYTES;
        let (head, rest) = out.split_at_mut(out.len().min((WORD_BYTES - skew) % WORD_BYTES));
        if !head.is_empty() {
            head.copy_from_slice(&self.word_at(at - skew)[skew..][..head.len()]);
        }
        let mut at = at + head.len();
        let mut words = rest.chunks_exact_mut(WORD_BYTES);
        for word in &mut words {
            word.copy_from_slice(&self.word_at(at));
            at += WORD_BYTES;
        }
        let tail = words.into_remainder();
        if !tail.is_empty() {
            tail.copy_from_slice(&self.word_at(at)[..tail.len()]);
        }
        // As for `read`.
        fence(Ordering::Acquire);
    }

    /// The bytes of an aligned word, loaded at once: an atomic load bears that another process stores.
    #[inline]
    fn word_at(&self, at: usize) -> [u8; WORD_BYTES] {
        debug_assert!(at.is_multiple_of(WORD_BYTES) && at + WORD_BYTES <= self.len, "inside");
        // SAFETY: extents are whole pages, so a word that holds a byte of this one, as the callers have
        // checked, lies in it; it is aligned and initialised.
        let word = unsafe { AtomicU64::from_ptr(self.start.add(at).cast()) };
        u64::from_le(word.load(Ordering::Relaxed)).to_le_bytes()
    }

    /// Stores the bytes of `range` as they are once more, and waits until they are durable: a
    /// process that died after a store and before its fence leaves bytes that can be read, and that
    /// power loss would still take back.
    ///
    /// # Safety
    ///
    /// No other thread reads or writes the extent meanwhile.
    pub unsafe fn make_durable(&self, range: Range<usize>) {
        const PIECE: usize = 4096;
        self.check(range.start, range.len());
        let mut piece = [0; PIECE];
        for at in range.clone().step_by(PIECE) {
            let piece = &mut piece[..PIECE.min(range.end - at)];
            self.load(at, piece);
            // SAFETY: in the extent, as checked, and the caller's alone.
            unsafe { self.pool.write(self.at + at, piece) };
        }
        self.pool.fence();
    }

    #[inline]
    fn check(&self, at: usize, bytes: usize) {
        assert!(self.writable, "the pool was opened for inspection");
        assert!(at <= self.len && bytes <= self.len - at, "the range is in the extent");
    }

    /// To be called before `bytes` bytes are read as one piece: where an emulation adds the latency
    /// of a slower medium. Costs nothing otherwise.
    #[inline]
    pub fn before_read(&self, bytes: usize) {
        if self.delays_reads {
            self.pool.region.before_read(bytes);
        }
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.pool.let_go(self.index);
    }
}
