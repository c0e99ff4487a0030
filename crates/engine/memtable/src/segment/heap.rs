//! Zeroed memory, mapped by the operating system. It is touched before it is used, so that no page
//! fault strikes a put, and in huge pages where the system has them, so that a random access costs no
//! walk of page tables.
//!
//! Memory is either touched as a whole when it is made, or reserved and touched step by step ahead of its
//! user. Memory that was not touched takes no space, reads as zeros, and may be written to: that is only
//! slower.

use std::ops::Range;
use std::ptr::NonNull;

const PAGE_BYTES: usize = 4 << 10;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed memory. See the file's head.
pub struct HeapMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// What is mapped: more than is used, for the alignment.
    mapping: (NonNull<u8>, usize),
}

// SAFETY: the value owns its memory, which is plain bytes.
unsafe impl Send for HeapMemory {}
// SAFETY: as above; nothing here writes through `&self`.
unsafe impl Sync for HeapMemory {}

impl HeapMemory {
    /// At least `bytes` bytes, in whole pages, all of them touched. Takes a millisecond for every few
    /// MiB: this is for the background.
    pub fn new(bytes: usize) -> HeapMemory {
        let memory = HeapMemory::reserve(bytes);
        memory.touch(0..memory.bytes);
        memory
    }

    /// At least `bytes` bytes, in whole pages, none of them touched.
    pub fn reserve(bytes: usize) -> HeapMemory {
        let align = if bytes < HUGE_PAGE_BYTES { PAGE_BYTES } else { HUGE_PAGE_BYTES };
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let mapped_bytes =
            bytes.checked_add(align - PAGE_BYTES).expect("the size is below isize::MAX");
        let mapped = map(mapped_bytes);
        let before = mapped.as_ptr().align_offset(align);
        // SAFETY: the mapping has `align` bytes less a page more than `bytes`, and starts at a page.
        let start = unsafe { mapped.add(before) };
        HeapMemory { start, bytes, mapping: (mapped, mapped_bytes) }
    }

    /// The same, for a user who will need all of it: in huge pages from the first one on.
    pub fn reserve_huge(bytes: usize) -> HeapMemory {
        let memory = HeapMemory::reserve(bytes);
        let huge_end = memory.bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if huge_end > 0 {
            memory.advise(0..huge_end, Advice::Huge);
        }
        memory
    }

    /// Has the system back the pages of `range` now. It keeps what is in them, and others may use them
    /// meanwhile. Whole huge pages are asked for beyond the first: the first is for what stays small.
    pub fn touch(&self, range: Range<usize>) {
        let start = range.start / PAGE_BYTES * PAGE_BYTES;
        let end = range.end.next_multiple_of(PAGE_BYTES).min(self.bytes);
        if start >= end {
            return;
        }
        let huge = match start == 0 && end == self.bytes {
            true => 0,
            false => start.next_multiple_of(HUGE_PAGE_BYTES).max(HUGE_PAGE_BYTES),
        };
        let huge_end = end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        if huge < huge_end {
            self.advise(huge..huge_end, Advice::Huge);
        }
        self.advise(start..end, Advice::Populate);
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is owned and initialised, and writing to it here takes `&mut self`;
        // once it is a segment's memory it is owned by the segment, out of this method's reach.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// The bytes, to read a segment into before it is recovered.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is owned and initialised, and `&mut self` says that nobody reads it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }

    /// The first byte.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Zeroes all bytes.
    pub fn clear(&mut self) {
        self.bytes_mut().fill(0);
    }

    /// A wish, not a need: without it, small pages do, and are backed when they are first written to.
    #[cfg(target_os = "linux")]
    fn advise(&self, range: Range<usize>, advice: Advice) {
        let advice = match advice {
            Advice::Huge => rustix::mm::Advice::LinuxHugepage,
            Advice::Populate => rustix::mm::Advice::LinuxPopulateWrite,
        };
        let bytes = range.end - range.start;
        debug_assert!(range.end <= self.bytes, "the range is in the memory");
        // SAFETY: the range is owned and page-aligned, and neither advice changes its content.
        let _ = unsafe {
            rustix::mm::madvise(self.start.as_ptr().add(range.start).cast(), bytes, advice)
        };
    }

    #[cfg(not(target_os = "linux"))]
    fn advise(&self, _: Range<usize>, _: Advice) {}
}

enum Advice {
    /// Huge pages, please.
    Huge,
    /// Backed as if it had been written to.
    Populate,
}

/// Fresh pages, all zeros.
fn map(bytes: usize) -> NonNull<u8> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // Without a reservation of swap: most of it is never used.
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the system chooses an address that nothing else has.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, flags) };
    match mapped.ok().and_then(|start| NonNull::new(start.cast())) {
        Some(start) => start,
        None => {
            let layout = std::alloc::Layout::from_size_align(bytes, PAGE_BYTES);
            std::alloc::handle_alloc_error(layout.expect("the size is below isize::MAX"))
        }
    }
}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        let (start, bytes) = self.mapping;
        // SAFETY: mapped in `reserve` with the same length, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), bytes) };
    }
}

/// Types whose fresh value is all zero bytes.
///
/// # Safety
///
/// Without loom, memory of zeros must be a value equal to `zero()`, need no drop, and be aligned to
/// a page at most.
pub(crate) unsafe trait Zeroable {
    /// The fresh value.
    #[cfg_attr(not(loom), allow(dead_code))]
    fn zero() -> Self;
}

/// A fixed array of fresh values on [`HeapMemory`].
#[cfg(not(loom))]
pub(crate) struct ZeroedVec<T> {
    memory: HeapMemory,
    len: usize,
    values: std::marker::PhantomData<T>,
}

#[cfg(not(loom))]
impl<T: Zeroable> ZeroedVec<T> {
    /// `len` fresh values.
    pub fn new(len: usize) -> Self {
        let bytes = len.checked_mul(size_of::<T>()).expect("the array fits memory");
        ZeroedVec { memory: HeapMemory::new(bytes), len, values: std::marker::PhantomData }
    }

    /// The same, with no memory touched.
    pub fn reserve(len: usize) -> Self {
        let bytes = len.checked_mul(size_of::<T>()).expect("the array fits memory");
        ZeroedVec { memory: HeapMemory::reserve(bytes), len, values: std::marker::PhantomData }
    }

    /// Touches the values of `range`.
    pub fn touch(&self, range: Range<usize>) {
        self.memory.touch(range.start * size_of::<T>()..range.end * size_of::<T>());
    }

    /// Makes all values fresh again.
    pub fn clear(&mut self) {
        self.memory.clear();
    }
}

#[cfg(not(loom))]
impl<T: Zeroable> std::ops::Deref for ZeroedVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the memory holds `len` values, which began as zeros and so are valid, and is
        // aligned to a page.
        unsafe { std::slice::from_raw_parts(self.memory.start.as_ptr().cast(), self.len) }
    }
}

/// The same for loom, whose atomics are not plain memory.
#[cfg(loom)]
pub(crate) struct ZeroedVec<T>(Vec<T>);

#[cfg(loom)]
impl<T: Zeroable> ZeroedVec<T> {
    /// `len` fresh values.
    pub fn new(len: usize) -> Self {
        ZeroedVec((0..len).map(|_| T::zero()).collect())
    }

    /// The same: there is nothing to touch.
    pub fn reserve(len: usize) -> Self {
        Self::new(len)
    }

    /// Nothing to be done.
    pub fn touch(&self, _: Range<usize>) {}

    /// Makes all values fresh again.
    pub fn clear(&mut self) {
        *self = Self::new(self.0.len());
    }
}

#[cfg(loom)]
impl<T> std::ops::Deref for ZeroedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zeroed_when_new_and_when_cleared() {
        for bytes in [1, 4096, (2 << 20) + 1] {
            let mut memory = HeapMemory::new(bytes);
            assert!(memory.len() >= bytes && memory.len().is_multiple_of(PAGE_BYTES));
            assert!(memory.bytes_mut().iter().all(|&byte| byte == 0));
            assert!(memory.pointer().addr().is_multiple_of(PAGE_BYTES));
            memory.bytes_mut().fill(9);
            memory.clear();
            assert!(memory.bytes_mut().iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn touching_keeps_what_is_there() {
        let mut memory = HeapMemory::reserve((6 << 20) + 1);
        assert!(memory.pointer().addr().is_multiple_of(HUGE_PAGE_BYTES));
        memory.bytes_mut()[5_000] = 7;
        memory.bytes_mut()[5 << 20] = 9;
        [0..1, 4_000..9_000, 1 << 20..memory.len(), 3..3]
            .into_iter()
            .for_each(|range| memory.touch(range));
        let found = memory.bytes().iter().filter(|&&byte| byte != 0).collect::<Vec<_>>();
        assert_eq!(found, [&7, &9]);
    }
}
