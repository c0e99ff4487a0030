//! Memory that operations work on: owned, of a fixed length, aligned for direct I/O.
//!
//! A buffer refers to its memory by a raw pointer rather than a `Box`, so that moving the buffer
//! while the kernel works on the memory makes no claim on the bytes.
//!
//! A thread that makes buffers to be filled keeps some memory of its larger ones that are gone for them: neither the system nor
//! the allocator has to come by it again, and no thread makes it zero.
//!
//! Long buffers are mappings of their own, so that the system has their memory again when they are
//! gone. What an allocator gets back it may keep, for the sake of what is behind it.
//!
//! What devices fill may be of a [region](crate::region), where it is contiguous for them, too.

#![expect(unsafe_code, reason = "the memory is allocated by hand, for its alignment")]

use crate::region::Region;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// What buffers of at least this size are aligned to: a page, which satisfies direct I/O on every
/// device that Linux knows.
const PAGE_BYTES: usize = 4096;

/// The same for buffers that may hold a sector but no page.
const SECTOR_BYTES: usize = 512;

/// The same for anything smaller: a line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Buffers of at least this size are mappings. A mapping is more expensive than an allocation, and of such
/// buffers threads keep some.
const MAPPED_BYTES: usize = 64 << 10;

/// Memory that a thread keeps, at most, and in how many pieces: enough for what is on its way to a device at a time.
const SPARE_BYTES: usize = 8 << 20;
const SPARE_COUNT: usize = 256;

/// Buffers whose memory is kept. Smaller ones are cheap to make.
const KEPT_BYTES: std::ops::RangeInclusive<usize> = PAGE_BYTES..=2 << 20;

/// Memory of buffers that are gone, the oldest first.
#[derive(Default)]
struct BufferPool {
    buffers: VecDeque<Buffer>,
    bytes: usize,
    /// Whether this thread ever asked for some: to others it would be of no use.
    is_wanted: bool,
}

thread_local! {
    static SPARE: RefCell<BufferPool> = RefCell::default();
    /// Made when it is first asked for; none, if the system refuses.
    static REGION: Option<Arc<Region>> = Region::new().ok().map(Arc::new);
}

impl BufferPool {
    fn take(&mut self, len: usize) -> Option<Buffer> {
        self.is_wanted = true;
        let place = self.buffers.iter().rposition(|buffer| buffer.len == len)?;
        self.bytes -= len;
        self.buffers.remove(place)
    }

    fn keep(&mut self, buffer: Buffer) {
        if !self.is_wanted {
            return buffer.free();
        }
        self.bytes += buffer.len;
        self.buffers.push_back(buffer);
        while self.bytes > SPARE_BYTES || self.buffers.len() > SPARE_COUNT {
            let Some(oldest) = self.buffers.pop_front() else { return };
            self.bytes -= oldest.len;
            oldest.free();
        }
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        self.buffers.drain(..).for_each(Buffer::free);
    }
}

/// Bytes that an operation reads into or writes from.
///
/// Its address never changes. Buffers of at least 512 bytes are aligned to 512, those of at least
/// 4096 to 4096.
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    /// Where the memory is from, if not from the allocator.
    region: Option<Arc<Region>>,
}

// SAFETY: a buffer owns its memory alone, as a `Box<[u8]>` does.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Self {
        if len >= MAPPED_BYTES {
            return Self::mapped(len);
        }
        let layout = layout_of(len);
        // SAFETY: the layout is never of size zero.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        Buffer { start, len, region: None }
    }

    fn mapped(len: usize) -> Self {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at a place that the system chooses.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags) };
        let start = start.ok().and_then(|start| NonNull::new(start.cast()));
        let Some(start) = start else { handle_alloc_error(layout_of(len)) };
        Buffer { start, len, region: None }
    }

    /// A buffer to be filled: its bytes are zeros, or what another buffer of this thread had. Who does not fill all of it
    /// must not show the rest to anybody.
    pub fn stale(len: usize) -> Self {
        let spare =
            KEPT_BYTES.contains(&len).then(|| SPARE.try_with(|spare| spare.borrow_mut().take(len)));
        spare.and_then(Result::ok).flatten().unwrap_or_else(|| Self::zeroed(len))
    }

    /// The same for a device to fill: where its pages are neighbours, they are so for the device, too, if this thread has such memory left. It is not
    /// much, and for what is over soon.
    pub fn contiguous(len: usize) -> Self {
        let pages = len.div_ceil(PAGE_BYTES);
        // A page is contiguous wherever it lies.
        let is_fitting = (2..=Region::RUN_PAGES_MAX).contains(&pages);
        let region = is_fitting.then(|| REGION.try_with(Clone::clone).ok().flatten()).flatten();
        let run = region.and_then(|region| Some((region.take(pages)?, region)));
        match run {
            Some((start, region)) => Buffer { start, len, region: Some(region) },
            None => Self::stale(len),
        }
    }

    /// Gives the memory back to whom it is from. It is not a region's.
    fn free(self) {
        let buffer = std::mem::ManuallyDrop::new(self);
        if buffer.len >= MAPPED_BYTES {
            // SAFETY: a buffer of this length is a mapping of its own, and nobody has it any more.
            let unmapped = unsafe { munmap(buffer.start.as_ptr().cast(), buffer.len) };
            return debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
        // SAFETY: the memory came from `alloc_zeroed` with the layout of this length, and nobody has it any more.
        unsafe { dealloc(buffer.start.as_ptr(), layout_of(buffer.len)) }
    }

    /// A buffer with a copy of `bytes`.
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut buffer = Self::stale(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Where it begins, for the kernel: not derived from a reference, which would have to stay valid while the kernel uses
    /// it.
    pub(crate) fn address(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The whole of it, for an operation.
    pub fn whole(self) -> Slice {
        let range = 0..self.len;
        Slice { buffer: self, range }
    }

    /// A part of it, for an operation. Panics if `range` is not inside.
    pub fn slice(self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        Slice { buffer: self, range }
    }
}

fn layout_of(len: usize) -> Layout {
    let alignment = match len {
        PAGE_BYTES.. => PAGE_BYTES,
        SECTOR_BYTES.. => SECTOR_BYTES,
        _ => LINE_BYTES,
    };
    Layout::from_size_align(len.max(1), alignment).expect("a buffer fits the address space")
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            return region.give_back(self.start, self.len.div_ceil(PAGE_BYTES));
        }
        let buffer = Buffer { start: self.start, len: self.len, region: None };
        if !KEPT_BYTES.contains(&self.len) {
            return buffer.free();
        }
        let mut buffer = Some(buffer);
        // Where the thread ends, nothing is kept any more.
        let _ = SPARE.try_with(|spare| {
            spare.borrow_mut().keep(buffer.take().expect("it was just put there"));
        });
        if let Some(buffer) = buffer {
            buffer.free();
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is `len` initialised bytes, and only its owner can change it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and the owner is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// A part of a buffer, which it owns whole. Dereferences to the part.
#[derive(Debug)]
pub struct Slice {
    buffer: Buffer,
    range: Range<usize>,
}

impl Slice {
    /// The buffer, to use again.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// The bytes of the whole buffer, which the part keeps in memory.
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Where in its buffer the part is.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// The address of the byte at `offset` of the part, for the kernel: not derived from a reference,
    /// which would have to stay valid while the kernel uses it.
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.range.len(), "an address outside of a slice");
        // SAFETY: the range lies inside the buffer's memory, and the offset inside the range.
        unsafe { self.buffer.start.as_ptr().add(self.range.start + offset) }
    }
}

impl From<Buffer> for Slice {
    fn from(buffer: Buffer) -> Self {
        buffer.whole()
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl DerefMut for Slice {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.range.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_for_direct_io_from_one_sector_on() {
        for (len, alignment) in
            [(0, 1), (1, 64), (511, 64), (512, 512), (4096, 4096), (70_000, 4096)]
        {
            let buffer = Buffer::zeroed(len);
            assert_eq!(buffer.as_ptr() as usize % alignment, 0, "{len}");
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn memory_is_used_again_by_its_thread_for_buffers_of_the_same_length() {
        let mut buffer = Buffer::stale(3 * PAGE_BYTES);
        buffer[0] = 7;
        let place = buffer.as_ptr() as usize;
        drop(buffer);
        let other = Buffer::stale(2 * PAGE_BYTES);
        assert!(other.iter().all(|&byte| byte == 0));
        let again = Buffer::stale(3 * PAGE_BYTES);
        assert_eq!((again.as_ptr() as usize, again[0]), (place, 7));
        assert!(Buffer::zeroed(3 * PAGE_BYTES).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn of_what_is_gone_only_so_much_is_kept() {
        const LEN: usize = 1 << 20;
        let make = || drop((0..20).map(|_| Buffer::zeroed(LEN)).collect::<Vec<_>>());
        make();
        SPARE.with_borrow(|spare| assert_eq!(spare.bytes, 0, "nobody asked for any"));
        drop(Buffer::stale(LEN));
        make();
        SPARE.with_borrow(|spare| {
            assert_eq!((spare.bytes, spare.buffers.len()), (SPARE_BYTES, SPARE_BYTES / LEN));
        });
        drop(Buffer::zeroed(3 << 20));
        drop(Buffer::zeroed(512));
        SPARE.with_borrow(|spare| assert_eq!(spare.bytes, SPARE_BYTES));
    }

    /// Of so many pages as fill a region.
    fn contiguous_buffers() -> Vec<Buffer> {
        let buffers = std::iter::repeat_with(|| Buffer::contiguous(2 * PAGE_BYTES - 1));
        buffers.take_while(|buffer| buffer.region.is_some()).collect()
    }

    #[test]
    fn a_regions_memory_comes_again_whichever_thread_drops_it() {
        let mut buffers = contiguous_buffers();
        let count = buffers.len();
        assert!(count > 64 && buffers.iter().all(|buffer| buffer.len() == 2 * PAGE_BYTES - 1));
        for (buffer, number) in buffers.iter_mut().zip((0..=u8::MAX).cycle()) {
            buffer.fill(number);
        }
        let mut numbers = buffers.iter().zip((0..=u8::MAX).cycle());
        assert!(numbers.all(|(buffer, number)| buffer.iter().all(|&byte| byte == number)));
        std::thread::scope(|scope| drop(scope.spawn(|| drop(buffers))));
        assert_eq!(contiguous_buffers().len(), count);
    }

    #[test]
    fn a_buffer_outlives_the_thread_whose_region_it_is_of() {
        let buffer = std::thread::scope(|scope| {
            let make = || {
                let mut buffer = Buffer::contiguous(2 * PAGE_BYTES);
                buffer.fill(7);
                buffer
            };
            scope.spawn(make).join().unwrap()
        });
        assert!(buffer.region.is_some() && buffer.iter().all(|&byte| byte == 7));
    }

    #[test]
    fn what_is_too_long_or_of_a_page_is_of_no_region() {
        for pages in [0, 1, Region::RUN_PAGES_MAX + 1] {
            let buffer = Buffer::contiguous(pages * PAGE_BYTES);
            assert!(buffer.region.is_none() && buffer.len() == pages * PAGE_BYTES);
        }
    }

    #[test]
    fn a_slice_is_its_part_and_gives_the_whole_back() {
        let mut slice = Buffer::from_slice(b"abcdef").slice(2..4);
        assert_eq!(slice[..], *b"cd");
        slice[0] = b'X';
        assert_eq!(slice.into_buffer()[..], *b"abXdef");
    }

    #[test]
    #[should_panic(expected = "2..7 of 6")]
    fn a_slice_beyond_its_buffer_is_refused() {
        let _ = Buffer::from_slice(b"abcdef").slice(2..7);
    }
}
