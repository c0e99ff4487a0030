//! The atomics, so that loom can take their place, and what informs loom about plain bytes.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[cfg(not(loom))]
mod races {
    /// Nothing: reads and writes of segment bytes are what they are.
    pub(crate) struct RaceCell;

    impl RaceCell {
        pub fn new(_bytes: usize) -> Self {
            RaceCell
        }
        #[inline(always)]
        pub fn read(&self, _start: usize, _bytes: usize) {}
        #[inline(always)]
        pub fn write(&self, _start: usize, _bytes: usize) {}
    }
}

#[cfg(loom)]
mod races {
    use loom::cell::UnsafeCell;

    /// A shadow of the segment, a cell for every eight bytes, in which loom sees data races that
    /// raw pointers hide from it.
    pub(crate) struct RaceCell(Vec<UnsafeCell<()>>);

    impl RaceCell {
        pub fn new(bytes: usize) -> Self {
            RaceCell((0..bytes.div_ceil(8)).map(|_| UnsafeCell::new(())).collect())
        }
        pub fn read(&self, start: usize, bytes: usize) {
            self.cells(start, bytes).iter().for_each(|cell| cell.with(|_| ()));
        }
        pub fn write(&self, start: usize, bytes: usize) {
            self.cells(start, bytes).iter().for_each(|cell| cell.with_mut(|_| ()));
        }
        fn cells(&self, start: usize, bytes: usize) -> &[UnsafeCell<()>] {
            &self.0[start / 8..(start + bytes).div_ceil(8)]
        }
    }
}

pub(crate) use races::RaceCell;
