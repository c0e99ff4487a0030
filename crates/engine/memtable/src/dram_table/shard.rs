//! One shard: the entries of some hashes, and what was passed and deleted in addition.
//!
//! All of the protocol's checks are here, each under the lock under which what it checks changes.

use super::admission::AdmissionEstimator;
use super::row::{Key, Row};
use super::s3_fifo::{PutOutcome, S3Fifo};
use super::sync::RwLock;
use super::{DramTableStats, Hit};
use esker_base::{KeyspaceId, Seqno};
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets a shard. Between a reader's snapshot and its fill, few of them are passed by others.
const BUCKETS: usize = 64;

/// How many slots the collector inspects whenever something is written.
const SWEEP_STEP: usize = 8;

/// A shard begins at a cache line of its own, next to the one that is fetched with it. What a hit
/// touches comes first, in this order, to be in that line: the count of hits, the lock's word, and
/// the index. So a hit takes one line from another processor, for both of what it writes.
#[repr(C, align(128))]
pub(super) struct Shard {
    hits: AtomicU64,
    state: RwLock<State>,
    misses: AtomicU64,
    exact_hits: AtomicU64,
    exact_misses: AtomicU64,
    demand: AdmissionEstimator,
}

/// What the lock protects. The store comes first: see [`Shard`].
#[repr(C)]
struct State {
    store: S3Fifo,
    /// By bucket, the highest seqno passed, and the highest floor of any keyspace.
    passed: [Seqno; BUCKETS],
    /// By keyspace, the seqno below whose mark entries are stale; as long as there may be some.
    floors: Vec<(KeyspaceId, Seqno)>,
    /// The slots that there were when the collector was last set going. What came into later ones is
    /// above all floors.
    sweep_end: usize,
    /// How many of them the collector has yet to see before it has seen every stale one.
    sweep_left: usize,
    /// The slot that the collector sees next.
    hand: usize,
    fills: u64,
    fills_refused: u64,
    forwards: u64,
    refreshes: u64,
    invalidations: u64,
    collected: u64,
}

impl Shard {
    /// What a shard takes before it holds anything.
    pub const BYTES: usize = size_of::<Shard>();

    pub fn new(bytes: usize) -> Shard {
        let state = State {
            store: S3Fifo::new(bytes, Shard::BYTES),
            passed: [0; BUCKETS],
            floors: Vec::new(),
            sweep_end: 0,
            sweep_left: 0,
            hand: 0,
            fills: 0,
            fills_refused: 0,
            forwards: 0,
            refreshes: 0,
            invalidations: 0,
            collected: 0,
        };
        let [hits, misses, exact_hits, exact_misses] = [const { AtomicU64::new(0) }; 4];
        let demand = AdmissionEstimator::default();
        Shard { state: RwLock::new(state), hits, misses, exact_hits, exact_misses, demand }
    }

    pub fn set_bytes(&self, bytes: usize) {
        let mut state = self.state.write();
        state.store.set_budget(bytes);
        // Slots may have moved.
        state.start_sweep();
    }

    #[inline]
    pub fn get<R>(
        &self,
        key: &Key<'_>,
        snapshot: Seqno,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<Hit<R>> {
        let state = self.state.read();
        if let Some(at) = state.store.find(key) {
            let cell = state.store.cell(at);
            let seqno = cell.entry.seqno();
            if seqno <= snapshot && !state.is_stale(&cell.entry) {
                cell.note_read();
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Some(Hit { seqno, value: read(cell.entry.value_of(key)) });
            }
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        None
    }

    #[inline]
    pub fn get_exact<R>(
        &self,
        key: &Key<'_>,
        seqno: Seqno,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let state = self.state.read();
        if let Some(at) = state.store.find(key) {
            let cell = state.store.cell(at);
            // Asked for, if in vain: the entry is worth being refreshed.
            cell.note_read();
            self.demand.asked();
            if cell.entry.seqno() == seqno {
                self.exact_hits.fetch_add(1, Ordering::Relaxed);
                return Some(read(cell.entry.value_of(key)));
            }
        }
        None
    }

    /// Counts a read of a MemTable for want of a copy. [`Shard::get_exact`] can't: it may be asked
    /// several times for one read, once for each entry that the MemTable's index can't distinguish.
    pub fn note_segment_read(&self) {
        self.exact_misses.fetch_add(1, Ordering::Relaxed);
    }

    pub fn fill(&self, key: &Key<'_>, seqno: Seqno, value: &[u8], snapshot: Seqno) -> bool {
        let mut state = self.state.write();
        let admitted = state.admits(key, snapshot);
        let taken = admitted.then(|| state.take(key, seqno, snapshot, value));
        match taken {
            Some(PutOutcome::Stored) => state.fills += 1,
            // Another reader was quicker.
            Some(PutOutcome::Held) => {}
            _ => state.fills_refused += 1,
        }
        state.sweep(SWEEP_STEP);
        taken.is_some_and(PutOutcome::is_held)
    }

    pub fn pass(&self, key: &Key<'_>, seqno: Seqno, value: Option<&[u8]>, through: Seqno) {
        let mut state = self.state.write();
        let passed = &mut state.passed[bucket(key)];
        *passed = seqno.max(*passed);
        state.refresh(key, seqno, value, through);
        state.sweep(SWEEP_STEP);
    }

    pub fn forward(&self, key: &Key<'_>, seqno: Seqno, value: Option<&[u8]>) -> bool {
        let mut state = self.state.write();
        let taken = match value {
            Some(value) if state.admits(key, seqno) => Some(state.take(key, seqno, seqno, value)),
            Some(_) => None,
            None => {
                state.drop_older(key, seqno);
                None
            }
        };
        state.forwards += u64::from(taken == Some(PutOutcome::Stored));
        state.sweep(SWEEP_STEP);
        taken.is_some_and(PutOutcome::is_held)
    }

    /// Whether a put of `key` replaces an entry that was read, and its copy would likely be read
    /// before its MemTable is flushed.
    pub fn would_use(&self, key: &Key<'_>) -> bool {
        if !self.demand.offered() {
            return false;
        }
        let state = self.state.read();
        state.store.find(key).is_some_and(|at| state.store.cell(at).reads() > 0)
    }

    pub fn raise_invalidation_floor(&self, keyspace: KeyspaceId, seqno: Seqno) {
        let mut state = self.state.write();
        // Outlives the floor, which goes once everything below it is collected.
        state.passed.iter_mut().for_each(|passed| *passed = seqno.max(*passed));
        state.set_floor(keyspace, seqno);
    }

    pub fn drop_keyspace(&self, keyspace: KeyspaceId) {
        self.state.write().set_floor(keyspace, Seqno::MAX);
    }

    pub fn collect(&self) {
        self.state.write().sweep(usize::MAX);
    }

    pub fn add_stats(&self, sum: &mut DramTableStats) {
        let state = self.state.read();
        sum.bytes += state.store.memory_bytes() as u64;
        sum.entries += state.store.len() as u64;
        sum.hits += self.hits.load(Ordering::Relaxed);
        sum.misses += self.misses.load(Ordering::Relaxed);
        sum.exact_hits += self.exact_hits.load(Ordering::Relaxed);
        sum.exact_misses += self.exact_misses.load(Ordering::Relaxed);
        sum.fills += state.fills;
        sum.fills_refused += state.fills_refused;
        sum.forwards += state.forwards;
        sum.refreshes += state.refreshes;
        sum.invalidations += state.invalidations;
        sum.evictions += state.store.evictions;
        sum.collected += state.collected;
    }
}

#[inline]
fn bucket(key: &Key<'_>) -> usize {
    (key.hash >> 40) as usize % BUCKETS
}

impl State {
    #[inline]
    fn invalidation_floor(&self, keyspace: KeyspaceId) -> Seqno {
        if self.floors.is_empty() {
            return 0;
        }
        let floor = self.floors.iter().find(|(other, _)| *other == keyspace);
        floor.map_or(0, |&(_, seqno)| seqno)
    }

    /// Whether `entry` may no longer be what its key is.
    #[inline]
    fn is_stale(&self, entry: &Row) -> bool {
        entry.as_of() < self.invalidation_floor(entry.keyspace())
    }

    /// Whether what was true of `key` at a seqno may come in: nothing newer left the MemTables.
    fn admits(&self, key: &Key<'_>, as_of: Seqno) -> bool {
        as_of >= self.passed[bucket(key)] && as_of >= self.invalidation_floor(key.keyspace)
    }

    /// Makes a version the entry of its key, unless a newer one is or there is no space.
    fn take(&mut self, key: &Key<'_>, seqno: Seqno, as_of: Seqno, value: &[u8]) -> PutOutcome {
        let Some(at) = self.store.find(key) else {
            return self.store.insert(key, seqno, as_of, value);
        };
        let entry = self.store.entry_mut(at);
        match entry.seqno().cmp(&seqno) {
            std::cmp::Ordering::Less => {
                let taken = self.store.replace(at, key, seqno, as_of, value);
                self.invalidations += u64::from(taken == PutOutcome::TooLarge);
                taken
            }
            std::cmp::Ordering::Equal => {
                entry.set_as_of(as_of.max(entry.as_of()));
                PutOutcome::Held
            }
            std::cmp::Ordering::Greater => PutOutcome::Outrun,
        }
    }

    /// Brings the entry of `key` up to the version that is passed, or drops it.
    fn refresh(&mut self, key: &Key<'_>, seqno: Seqno, value: Option<&[u8]>, through: Seqno) {
        let Some(at) = self.store.find(key) else { return };
        if self.store.cell(at).entry.seqno() > seqno {
            return;
        }
        match value {
            Some(value) if self.admits(key, through) => {
                let taken = self.take(key, seqno, through, value);
                self.refreshes += u64::from(taken == PutOutcome::Stored);
            }
            _ => {
                self.store.remove(at);
                self.invalidations += 1;
            }
        }
    }

    /// Drops the entry of `key` if it is older than `seqno`.
    fn drop_older(&mut self, key: &Key<'_>, seqno: Seqno) {
        if let Some(at) = self.store.find(key)
            && self.store.cell(at).entry.seqno() < seqno
        {
            self.store.remove(at);
            self.invalidations += 1;
        }
    }

    fn set_floor(&mut self, keyspace: KeyspaceId, seqno: Seqno) {
        if self.store.len() == 0 {
            return;
        }
        match self.floors.iter_mut().find(|(other, _)| *other == keyspace) {
            Some((_, floor)) => *floor = seqno.max(*floor),
            None => self.floors.push((keyspace, seqno)),
        }
        self.start_sweep();
        self.count_floors();
    }

    /// Has the collector see every slot that there is. It goes on from where it is, so that floors
    /// that come often do not keep it from the last ones.
    fn start_sweep(&mut self) {
        self.sweep_end = self.store.slots();
        self.sweep_left = self.sweep_end;
    }

    /// Looks for stale entries in up to `steps` slots. Once all are seen, the floors may go: what
    /// came in since is above them.
    fn sweep(&mut self, steps: usize) {
        if self.floors.is_empty() {
            return;
        }
        for _ in 0..steps.min(self.sweep_left) {
            if self.hand >= self.sweep_end {
                self.hand = 0;
            }
            if let Some(at) = self.store.find_slot(self.hand as u32)
                && self.is_stale(&self.store.cell(at).entry)
            {
                self.store.remove(at);
                self.collected += 1;
            }
            self.hand += 1;
            self.sweep_left -= 1;
        }
        if self.sweep_left == 0 {
            self.floors = Vec::new();
            self.count_floors();
        }
    }

    fn count_floors(&mut self) {
        let floors = self.floors.capacity() * size_of::<(KeyspaceId, Seqno)>();
        self.store.set_beside(Shard::BYTES + floors);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::index::Index;
    use super::*;
    use std::ptr::from_ref;

    #[test]
    fn what_a_hit_touches_of_a_shard_lies_in_one_cache_line() {
        let shard = Shard::new(0);
        let state = shard.state.read();
        // The lock's word before it, the index at its beginning.
        let index_end = from_ref(&*state).addr() + size_of::<Index>();
        for end in [index_end, from_ref(&shard.hits).addr() + size_of::<AtomicU64>()] {
            assert!(end - from_ref(&shard).addr() <= 64);
        }
    }
}
