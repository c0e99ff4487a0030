//! Persistent memory that loses power: the one test that sees a missing flush or fence.
//!
//! A [`SimRegion`] is ordinary memory with a [medium](Medium) that knows, for each aligned 8 byte
//! word, its durable value and every value stored since. In a crash each word takes one of those, for
//! itself: a store may reach the medium without any flush, by eviction, and a flush without a fence
//! promises nothing. A fence makes durable what its own thread stored and flushed.
//!
//! * [`SimRegion::crash`] is the [`CrashState`] of this point in time: all images that a crash may leave, to be
//!   counted, enumerated, or sampled.
//! * [`SimRegion::record`] keeps a [`History`], and that gives the crash state after each event. Marks
//!   in it say what had been acknowledged by then.
//! * [`SimRegion::kill`] is what the next process finds if this one dies and the power stays: all that
//!   was stored, but no fence of the next process counts for it.
//! * [`SimRegion::interrupt_after`] stops all threads between two events in the middle of a call.
//! * [`SimRegion::watch_fences`] holds a writer up at its fence, so that others overtake it.
//! * A [`ImageLoader`] turns images into regions, one after another, at the cost of what differs.
//! * [`SimRegion::drop_flush`] and [`SimRegion::drop_fence`] break a protocol on purpose.
//!
//! Words of one store are independent, so the images after a store include all images in the middle of
//! it: crash states between events are all there are.

mod crash;
mod history;
mod image_loader;
mod medium;
mod pause_point;

pub use crash::{CrashState, Image};
pub use history::{Event, History, Replay};
pub use image_loader::ImageLoader;
pub use medium::Medium;
pub use pause_point::{PausePoint, Trigger};

use crate::domain::Domain;
use crate::region::{FRAME_HEADER_BYTES, LINE_BYTES, Region};
use medium::WORD_BYTES;
use parking_lot::{Mutex, MutexGuard};
use pause_point::{FenceWatch, Interrupt};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Simulated persistent memory. As fit for many threads as any region.
pub struct SimRegion {
    memory: Memory,
    inner: Mutex<Inner>,
    fence_watch: Mutex<Option<FenceWatch>>,
}

struct Inner {
    medium: Medium,
    history: Option<History>,
    /// Words stored to since an image was loaded, on a [`ImageLoader`].
    touched: Option<Vec<u32>>,
    flushes: u64,
    fences: u64,
    drop_flush: Option<u64>,
    drop_fence: Option<u64>,
    interrupt: Option<Interrupt>,
}

/// A number that no other thread ever has.
fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(u64::MAX) };
    }
    if NUMBER.get() == u64::MAX {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

impl SimRegion {
    /// Durable zeros.
    pub fn new(bytes: usize) -> SimRegion {
        Self::holding(vec![0; bytes.div_ceil(WORD_BYTES)])
    }

    /// Memory that holds `bytes`, durably.
    pub fn from_bytes(bytes: &[u8]) -> SimRegion {
        assert!(bytes.len().is_multiple_of(WORD_BYTES), "a region is whole words");
        let words = bytes.chunks_exact(WORD_BYTES);
        Self::holding(words.map(|word| esker_base::coding::u64_at(word, 0)).collect())
    }

    fn holding(words: Vec<u64>) -> SimRegion {
        Self::on(Medium::new(words))
    }

    /// Memory that shows what `medium` shows.
    fn on(medium: Medium) -> SimRegion {
        let words = medium.shown();
        let mut memory = Memory::new(words.len());
        memory.fill(&words);
        let inner = Inner {
            medium,
            history: None,
            touched: None,
            flushes: 0,
            fences: 0,
            drop_flush: None,
            drop_fence: None,
            interrupt: None,
        };
        SimRegion { memory, inner: Mutex::new(inner), fence_watch: Mutex::new(None) }
    }

    /// What a crash now may leave.
    pub fn crash(&self) -> CrashState {
        self.lock().medium.crash()
    }

    /// Starts to record. Panics if anything is stored that is not durable yet.
    pub fn record(&self) {
        let mut inner = self.lock();
        let durable =
            inner.medium.durable_if_settled().expect("a history starts without undecided stores");
        inner.history = Some(History::new(durable));
    }

    /// Says something in the history, such as that a write has been acknowledged.
    pub fn mark(&self, what: u64) {
        if let Some(history) = &mut self.lock().history {
            history.push(Event::Mark(what));
        }
    }

    /// Ends recording, and gives what was recorded.
    pub fn take_history(&self) -> Option<History> {
        self.lock().history.take()
    }

    /// The number of lines flushed or streamed so far.
    pub fn flushes(&self) -> u64 {
        self.lock().flushes
    }

    /// The number of fences so far.
    pub fn fences(&self) -> u64 {
        self.lock().fences
    }

    /// The flush with this number, counted from the region's first as zero, will do nothing.
    pub fn drop_flush(&self, number: u64) {
        self.lock().drop_flush = Some(number);
    }

    /// The fence with this number, counted from the region's first as zero, will do nothing.
    pub fn drop_fence(&self, number: u64) {
        self.lock().drop_fence = Some(number);
    }

    /// The offset of a word that was stored without the region's methods, if there is one.
    pub fn untracked_store(&self) -> Option<usize> {
        let inner = self.lock();
        let found = (0..self.memory.words)
            .find(|&word| self.memory.load(word) != inner.medium.latest(word as u32));
        found.map(|word| word * WORD_BYTES)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Stores bytes in the memory, by `store`, and says so to the medium.
    fn stored(&self, at: usize, bytes: usize, store: impl FnOnce(*mut u8)) {
        assert!(at <= self.len() && bytes <= self.len() - at, "stores stay in the region");
        let mut inner = self.lock();
        store(self.memory.start.as_ptr().wrapping_add(at));
        let first = at / WORD_BYTES;
        let end = (at + bytes).div_ceil(WORD_BYTES);
        let words: Vec<u64> = (first..end).map(|word| self.memory.load(word)).collect();
        let unflushed = inner.count_flushes(first, end);
        let event = Event::Write { thread: thread(), first: first as u32, words, unflushed };
        if let Some(touched) = &mut inner.touched {
            touched.extend(first as u32..end as u32);
        }
        inner.happen(event);
    }
}

impl Inner {
    /// Counts the flush of each line of a range of words; gives those of a line not to be flushed.
    fn count_flushes(&mut self, first: usize, end: usize) -> std::ops::Range<u32> {
        let words_a_line = LINE_BYTES / WORD_BYTES;
        let lines = first / words_a_line..end.div_ceil(words_a_line);
        let mut unflushed = 0..0;
        for line in lines {
            if self.drop_flush == Some(self.flushes) {
                let from = (line * words_a_line).max(first);
                let to = ((line + 1) * words_a_line).min(end);
                unflushed = from as u32..to as u32;
            }
            self.flushes += 1;
        }
        unflushed
    }

    fn happen(&mut self, event: Event) {
        self.medium.apply(&event);
        if let Some(history) = &mut self.history {
            history.push(event);
        }
        self.count_down();
    }
}

// SAFETY: the memory is owned, zeroed at first, aligned to a page, and stays until the value is dropped;
// stores check their bounds. The rest is simulated.
unsafe impl Region for SimRegion {
    fn base(&self) -> *mut u8 {
        self.memory.start.as_ptr()
    }

    fn len(&self) -> usize {
        self.memory.words * WORD_BYTES
    }

    fn domain(&self) -> Domain {
        Domain::Emulated
    }

    unsafe fn write(&self, at: usize, bytes: &[u8]) {
        // SAFETY: `stored` has checked the range, which is the caller's alone.
        self.stored(at, bytes.len(), |to| unsafe {
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        });
    }

    unsafe fn write_frame(
        &self,
        at: usize,
        header: &[u8; FRAME_HEADER_BYTES],
        entries: &[u8],
        whole: usize,
    ) {
        let mut frame = [&header[..], entries].concat();
        frame.resize(whole, 0);
        // SAFETY: the caller's.
        unsafe { self.write(at, &frame) };
    }

    unsafe fn store_word(&self, at: usize, word: u64) {
        assert!(at.is_multiple_of(WORD_BYTES), "words are aligned");
        // SAFETY: `stored` has checked the range; others reach the word atomically, says the caller.
        self.stored(at, WORD_BYTES, |to| unsafe {
            AtomicU64::from_ptr(to.cast()).store(word.to_le(), Ordering::Release);
        });
    }

    fn fence(&self) {
        let watch = self.fence_watch.lock().clone();
        let tell = |when| watch.iter().for_each(|watch| watch(when));
        tell(Trigger::Before);
        let mut inner = self.lock();
        let number = inner.fences;
        inner.fences += 1;
        if inner.drop_fence != Some(number) {
            inner.happen(Event::Fence { thread: thread() });
        }
        drop(inner);
        tell(Trigger::After);
    }
}

/// Page-aligned words.
struct Memory {
    start: NonNull<u8>,
    words: usize,
}

// SAFETY: the value owns its memory, which is plain bytes.
unsafe impl Send for Memory {}
// SAFETY: as above; stores happen under the region's lock or are atomic.
unsafe impl Sync for Memory {}

impl Memory {
    fn layout(words: usize) -> Layout {
        Layout::from_size_align(words * WORD_BYTES, 4096).expect("the size is below isize::MAX")
    }

    fn new(words: usize) -> Memory {
        assert!(words > 0, "a region has bytes");
        let layout = Self::layout(words);
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Memory { start, words }
    }

    fn word(&self, number: usize) -> &AtomicU64 {
        assert!(number < self.words, "words are in the region");
        // SAFETY: in bounds and aligned, and the memory lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().cast::<u64>().add(number)) }
    }

    /// Loads the word as little-endian bytes give it.
    fn load(&self, number: usize) -> u64 {
        u64::from_le(self.word(number).load(Ordering::Relaxed))
    }

    /// Before anybody else has the memory.
    fn fill(&mut self, words: &[u64]) {
        assert_eq!(words.len(), self.words, "there is a value for each word");
        for (number, &word) in words.iter().enumerate() {
            // SAFETY: in bounds, as just checked; nobody else has the memory yet.
            unsafe { self.start.as_ptr().cast::<u64>().add(number).write(word.to_le()) };
        }
    }

    fn store(&self, number: usize, word: u64) {
        self.word(number).store(word.to_le(), Ordering::Relaxed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.words)) };
    }
}
