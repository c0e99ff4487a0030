//! Memory of the heap that is touched before it is used, so that no page fault strikes a put, and
//! in huge pages where the system has them, so that a random access costs no walk of page tables.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

const PAGE_BYTES: usize = 4 << 10;
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Zeroed memory of the heap, all of it touched.
pub struct HeapMemory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value owns its memory, which is plain bytes.
unsafe impl Send for HeapMemory {}
// SAFETY: as above; nothing here writes through `&self`.
unsafe impl Sync for HeapMemory {}

impl HeapMemory {
    /// At least `bytes` bytes, in whole pages. Takes a millisecond for every few MiB: this is for
    /// the background.
    pub fn new(bytes: usize) -> HeapMemory {
        let align = if bytes < HUGE_PAGE_BYTES { PAGE_BYTES } else { HUGE_PAGE_BYTES };
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        let layout = Layout::from_size_align(bytes, align).expect("the size is below isize::MAX");
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        let memory = HeapMemory { start, layout };
        memory.ask_for_huge_pages();
        // SAFETY: the memory is `bytes` long and nobody else knows of it.
        unsafe { start.as_ptr().write_bytes(0, bytes) };
        memory
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is owned and initialised, and writing to it here takes `&mut self`;
        // once it is a segment's memory it is owned by the segment, out of this method's reach.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    /// The bytes, to read a segment into before it is recovered.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is owned and initialised, and `&mut self` says that nobody reads it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }

    /// The first byte.
    pub(super) fn pointer(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The number of bytes.
    #[allow(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.layout.size()
    }

    /// Zeroes all bytes.
    pub fn clear(&mut self) {
        self.bytes_mut().fill(0);
    }

    /// A wish, not a need: where there are no huge pages, small ones do.
    fn ask_for_huge_pages(&self) {
        #[cfg(target_os = "linux")]
        if self.layout.align() == HUGE_PAGE_BYTES {
            let start = self.start.as_ptr().cast();
            let advice = rustix::mm::Advice::LinuxHugepage;
            // SAFETY: the range is owned, page-aligned, and the advice does not change its content.
            let _ = unsafe { rustix::mm::madvise(start, self.layout.size(), advice) };
        }
    }
}

impl Drop for HeapMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
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
pub(crate) struct Zeroed<T> {
    memory: HeapMemory,
    len: usize,
    values: std::marker::PhantomData<T>,
}

#[cfg(not(loom))]
impl<T: Zeroable> Zeroed<T> {
    /// `len` fresh values.
    pub fn new(len: usize) -> Self {
        let bytes = len.checked_mul(size_of::<T>()).expect("the array fits memory");
        Zeroed { memory: HeapMemory::new(bytes), len, values: std::marker::PhantomData }
    }

    /// Makes all values fresh again.
    pub fn clear(&mut self) {
        self.memory.clear();
    }
}

#[cfg(not(loom))]
impl<T: Zeroable> std::ops::Deref for Zeroed<T> {
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
pub(crate) struct Zeroed<T>(Vec<T>);

#[cfg(loom)]
impl<T: Zeroable> Zeroed<T> {
    /// `len` fresh values.
    pub fn new(len: usize) -> Self {
        Zeroed((0..len).map(|_| T::zero()).collect())
    }

    /// Makes all values fresh again.
    pub fn clear(&mut self) {
        *self = Self::new(self.0.len());
    }
}

#[cfg(loom)]
impl<T> std::ops::Deref for Zeroed<T> {
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
            memory.bytes_mut().fill(9);
            memory.clear();
            assert!(memory.bytes_mut().iter().all(|&byte| byte == 0));
        }
    }
}
