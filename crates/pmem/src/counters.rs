//! Counts of what goes to the medium, cheap enough for every frame: each thread has counters of its
//! own, on their own cache line, so that counting is a load and a store without a lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What went to the medium.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Bytes stored.
    pub bytes: u64,
    /// Cache lines started on their way, by a flush or a streaming store.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
}

impl std::ops::Sub for Traffic {
    type Output = Traffic;

    fn sub(self, earlier: Traffic) -> Traffic {
        Traffic {
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

const SHARDS: usize = 64;

#[repr(align(64))]
#[derive(Default)]
struct Shard {
    bytes: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
}

/// The counters of one pool.
pub(crate) struct Counters {
    shards: Box<[Shard]>,
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[inline]
fn shard() -> usize {
    let known = SHARD.get();
    if known != usize::MAX { known } else { new_shard() }
}

#[cold]
fn new_shard() -> usize {
    let shard = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    SHARD.set(shard);
    shard
}

impl Counters {
    pub fn new() -> Self {
        Counters { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    #[inline]
    pub fn stored(&self, bytes: usize, flushes: usize) {
        let shard = &self.shards[shard()];
        shard.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        shard.flushes.fetch_add(flushes as u64, Ordering::Relaxed);
    }

    #[inline]
    pub fn fenced(&self) {
        self.shards[shard()].fences.fetch_add(1, Ordering::Relaxed);
    }

    pub fn sum(&self) -> Traffic {
        let mut sum = Traffic::default();
        for shard in &self.shards {
            sum.bytes += shard.bytes.load(Ordering::Relaxed);
            sum.flushes += shard.flushes.load(Ordering::Relaxed);
            sum.fences += shard.fences.load(Ordering::Relaxed);
        }
        sum
    }
}
