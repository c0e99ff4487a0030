//! Counts of what goes to the medium, cheap enough for every frame: each thread has counters of its
//! own, on their own cache line, so that counting is a load and a store without a lock.

use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// What went to the medium.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MediaWriteStats {
    /// Bytes stored.
    pub bytes: u64,
    /// Cache lines started on their way, by a flush or a streaming store.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
}

impl std::ops::Sub for MediaWriteStats {
    type Output = MediaWriteStats;

    fn sub(self, earlier: MediaWriteStats) -> MediaWriteStats {
        MediaWriteStats {
            bytes: self.bytes - earlier.bytes,
            flushes: self.flushes - earlier.flushes,
            fences: self.fences - earlier.fences,
        }
    }
}

/// The number of cache lines that a range touches.
#[inline]
pub(crate) fn lines(at: usize, bytes: usize) -> usize {
    if bytes == 0 { 0 } else { (at + bytes).div_ceil(64) - at / 64 }
}

/// Threads that have counters of their own at a time; others share some, at the cost of a lock.
const OWN_SHARDS: usize = 64;

/// The counters that are shared, behind those that are owned.
const SHARED: usize = OWN_SHARDS;

#[repr(align(64))]
#[derive(Default)]
struct Shard {
    bytes: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
}

/// The counters of one pool.
pub(crate) struct Counters {
    shards: Box<[Shard; OWN_SHARDS + 1]>,
}

/// The shards that no thread owns. One number is a thread's in all pools.
static UNOWNED: Mutex<Option<Vec<usize>>> = Mutex::new(None);

/// Gives a thread's shard back when the thread ends. The lock orders its counts before those of the
/// shard's next owner.
struct Owned(usize);

impl Drop for Owned {
    fn drop(&mut self) {
        SHARD.set(SHARED);
        UNOWNED.lock().get_or_insert_default().push(self.0);
    }
}

const UNKNOWN: usize = usize::MAX;

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(UNKNOWN) };
    static OWNED: Cell<Option<Owned>> = const { Cell::new(None) };
}

#[inline]
fn shard() -> usize {
    let known = SHARD.get();
    if known == UNKNOWN { own_shard() } else { known }
}

#[cold]
fn own_shard() -> usize {
    let taken = {
        let mut unowned = UNOWNED.lock();
        unowned.get_or_insert_with(|| (0..OWN_SHARDS).rev().collect()).pop()
    };
    let number = match taken {
        // A thread that is ending can't keep a shard.
        Some(number) if OWNED.try_with(|owned| owned.set(Some(Owned(number)))).is_ok() => number,
        _ => SHARED,
    };
    SHARD.set(number);
    number
}

/// Adds to a counter that only this thread writes. A locked addition would wait for the thread's
/// streaming stores, which costs as much as the fence: 250 ns and more a frame when measured.
#[inline]
fn add(counter: &AtomicU64, number: u64, owned: bool) {
    if owned {
        counter.store(counter.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    } else {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

impl Counters {
    pub fn new() -> Self {
        Counters { shards: Box::new(std::array::from_fn(|_| Shard::default())) }
    }

    #[inline]
    pub fn stored(&self, bytes: usize, flushes: usize) {
        let number = shard();
        let shard = &self.shards[number];
        add(&shard.bytes, bytes as u64, number != SHARED);
        add(&shard.flushes, flushes as u64, number != SHARED);
    }

    #[inline]
    pub fn fenced(&self) {
        let number = shard();
        add(&self.shards[number].fences, 1, number != SHARED);
    }

    pub fn sum(&self) -> MediaWriteStats {
        let mut sum = MediaWriteStats::default();
        for shard in self.shards.iter() {
            sum.bytes += shard.bytes.load(Ordering::Relaxed);
            sum.flushes += shard.flushes.load(Ordering::Relaxed);
            sum.fences += shard.fences.load(Ordering::Relaxed);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_many_threads_count() {
        let counters = Counters::new();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..OWN_SHARDS + 20 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            counters.stored(10, 2);
                            counters.fenced();
                        }
                    });
                }
            });
        }
        let counts = 3 * (OWN_SHARDS as u64 + 20) * 100;
        let expected = MediaWriteStats { bytes: counts * 10, flushes: counts * 2, fences: counts };
        assert_eq!(counters.sum(), expected);
    }

    #[test]
    fn a_range_touches_the_lines_from_its_first_byte_to_its_last() {
        for (at, bytes, expected) in
            [(0, 0, 0), (0, 1, 1), (63, 1, 1), (63, 2, 2), (0, 64, 1), (1, 64, 2), (60, 69, 3)]
        {
            assert_eq!(lines(at, bytes), expected, "{bytes} at {at}");
        }
    }
}
