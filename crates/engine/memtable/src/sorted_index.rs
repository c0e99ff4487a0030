//! The order: sorted runs over ranges of entry numbers, that together cover the first so many
//! entries without gaps.
//!
//! Off the put path, whenever a chunk of entries has closed and is visible, it is sorted into a run,
//! and runs merge so that each is several times as large as the next: few runs, and each entry is
//! merged a handful of times. Cursors extend the order to the entry by the same rule, by small
//! runs at its end. Runs are immutable; the list of them is replaced as a whole, so readers keep
//! what they took. Of an immutable MemTable everything becomes one run before it is flushed.
//!
//! One thread at a time merges large runs, without the lock of the list. The runs that it merges stay
//! in the list, and other threads add theirs behind.

use crate::segment::Segment;
use crate::sorted_run::{KeyspaceRun, RunBuilder};
use arc_swap::ArcSwap;
use esker_base::{KeyspaceId, Kind};
use parking_lot::{Mutex, MutexGuard};
use std::cmp::Ordering as Compared;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The entries of a chunk: sorted in a fraction of a millisecond, and few chunks make a segment.
pub(crate) const CHUNK_ENTRIES: u32 = 4096;

/// How far runs are merged.
#[derive(Clone, Copy)]
struct Merging {
    /// A run is merged with the one after it unless it is more than this many times larger. Larger
    /// ratios leave fewer runs to a cursor, smaller ones merge less.
    ratio: usize,
    /// Two runs with more entries than this are left alone.
    most: usize,
}

/// What the background does: few runs.
const BACKGROUND: Merging = Merging { ratio: 4, most: usize::MAX };

/// What a cursor does on its way: the same, but nothing that takes longer than about a millisecond.
const FOREGROUND: Merging = Merging { ratio: 4, most: 32 * CHUNK_ENTRIES as usize };

/// What is merged while others wait for the list: that takes some 30 microseconds.
const AT_ONCE: Merging = Merging { ratio: 4, most: CHUNK_ENTRIES as usize };

/// What is done to an immutable MemTable: one run.
const EVERYTHING: Merging = Merging { ratio: usize::MAX, most: usize::MAX };

impl Merging {
    fn wants(self, older: &Run, newer: &Run) -> bool {
        let (older, newer) = (older.numbers.len(), newer.numbers.len());
        older <= self.ratio.saturating_mul(newer) && older + newer <= self.most
    }

    /// Of the runs from `from` on, the place of one that is merged with the one after it: the smallest two,
    /// so that what is large takes part in few merges.
    fn next(self, runs: &SortedRuns, from: usize) -> Option<usize> {
        let entries = |at: &usize| runs[*at].numbers.len() + runs[at + 1].numbers.len();
        let pairs = from..runs.len().saturating_sub(1);
        pairs.rev().filter(|&at| self.wants(&runs[at], &runs[at + 1])).min_by_key(entries)
    }
}

/// A cursor sorts up to this many entries for itself rather than wait for the list of runs: that takes
/// no longer than to be woken.
const PRIVATE_ENTRIES: usize = 64;

/// The sorted versions of a range of entry numbers.
pub(crate) struct Run {
    numbers: Range<u32>,
    /// By keyspace, ascending.
    parts: Vec<Arc<KeyspaceRun>>,
}

impl Run {
    /// Sorts the entries `numbers`, all of which are filled.
    fn sort(segment: &Segment, numbers: Range<u32>) -> Run {
        let mut collectors: Vec<RunBuilder> = Vec::new();
        let mut by_keyspace: BTreeMap<KeyspaceId, usize> = BTreeMap::new();
        let mut last = usize::MAX;
        for number in numbers.clone() {
            let place = segment.nodes().place(number).expect("visible entries are filled");
            let entry = segment.entry(place);
            if entry.kind == Kind::RangeDelete {
                continue;
            }
            if collectors.get(last).is_none_or(|part| part.keyspace() != entry.keyspace) {
                last = *by_keyspace.entry(entry.keyspace).or_insert(collectors.len());
                if last == collectors.len() {
                    let room = if last == 0 { numbers.len() } else { 0 };
                    collectors.push(RunBuilder::new(entry.keyspace, room));
                }
            }
            collectors[last].push(entry.key, number, place);
        }
        let sorted = collectors.into_iter().map(|part| Arc::new(part.sort(segment)));
        let mut parts: Vec<Arc<KeyspaceRun>> = sorted.collect();
        parts.sort_unstable_by_key(|part| part.keyspace());
        Run { numbers, parts }
    }

    /// Merges two runs, `newer` following on `older`.
    fn merge(segment: &Segment, older: &Run, newer: &Run) -> Run {
        debug_assert_eq!(older.numbers.end, newer.numbers.start);
        let mut parts = Vec::with_capacity(older.parts.len().max(newer.parts.len()));
        let (mut a, mut b) = (older.parts.iter().peekable(), newer.parts.iter().peekable());
        loop {
            let compared = match (a.peek(), b.peek()) {
                (Some(a), Some(b)) => a.keyspace().cmp(&b.keyspace()),
                (Some(_), None) => Compared::Less,
                (None, Some(_)) => Compared::Greater,
                (None, None) => break,
            };
            match compared {
                Compared::Less => parts.extend(a.next().cloned()),
                Compared::Greater => parts.extend(b.next().cloned()),
                Compared::Equal => {
                    if let (Some(a), Some(b)) = (a.next(), b.next()) {
                        parts.push(Arc::new(KeyspaceRun::merge(segment, a, b)));
                    }
                }
            }
        }
        Run { numbers: older.numbers.start..newer.numbers.end, parts }
    }

    /// Whether one of the first `numbers` entries is here.
    pub fn starts_below(&self, numbers: u32) -> bool {
        self.numbers.start < numbers
    }

    /// The keyspaces that have versions here.
    pub fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.parts.iter().map(|part| part.keyspace())
    }

    /// The versions of `keyspace`, if there are any.
    pub fn part(&self, keyspace: KeyspaceId) -> Option<&Arc<KeyspaceRun>> {
        let at = self.parts.binary_search_by_key(&keyspace, |part| part.keyspace()).ok()?;
        Some(&self.parts[at])
    }
}

/// Runs, oldest first, from entry 0 on without gaps.
pub(crate) type SortedRuns = Vec<Arc<Run>>;

/// How many entries `runs` cover.
pub(crate) fn covered(runs: &SortedRuns) -> u32 {
    runs.last().map_or(0, |run| run.numbers.end)
}

/// See the module's text.
pub(crate) struct SortedIndex {
    runs: ArcSwap<SortedRuns>,
    /// Held to sort new entries and to replace the list. The number is that of the first runs that must
    /// stay, because a thread merges the last two of them: 0 if none does.
    list: Mutex<usize>,
    /// Held by the thread that merges.
    merging: Mutex<()>,
}

impl SortedIndex {
    /// No runs.
    pub fn new() -> SortedIndex {
        let (runs, list, merging) = Default::default();
        SortedIndex { runs, list, merging }
    }

    /// Whether there are runs to be merged that are too large for a cursor.
    pub fn has_large_runs_to_merge(&self) -> bool {
        let runs = self.runs.load();
        let waits = |pair: &[Arc<Run>]| {
            BACKGROUND.wants(&pair[0], &pair[1]) && !FOREGROUND.wants(&pair[0], &pair[1])
        };
        runs.windows(2).any(waits)
    }

    /// Whether one run covers `entries` entries.
    pub fn is_one_run(&self, entries: u32) -> bool {
        let runs = self.runs.load();
        covered(&runs) == entries && runs.len() <= 1
    }

    /// The runs there are.
    pub fn runs(&self) -> Arc<SortedRuns> {
        self.runs.load_full()
    }

    /// The number of entries that the runs cover.
    #[inline]
    pub fn covered(&self) -> u32 {
        covered(&self.runs.load())
    }

    /// The bytes of memory that the runs take.
    pub fn memory_bytes(&self) -> usize {
        let runs = self.runs.load();
        runs.iter().flat_map(|run| &run.parts).map(|part| part.memory_bytes()).sum()
    }

    /// Covers the first `to` entries, all of which are filled and visible, by few runs.
    pub fn extend(&self, segment: &Segment, to: u32) {
        let _merging = self.merging.lock();
        self.cover(segment, to, self.list.lock());
        self.merge(segment, BACKGROUND);
    }

    /// Covers all of a sealed MemTable's `entries` entries by one run.
    pub fn collapse(&self, segment: &Segment, entries: u32) {
        if self.is_one_run(entries) {
            return;
        }
        let _merging = self.merging.lock();
        self.cover(segment, entries, self.list.lock());
        self.merge(segment, EVERYTHING);
    }

    /// Runs that cover the first `to` entries, and maybe more, for a cursor; as few as can be if that
    /// `is_everything`. Waits for no thread that merges.
    pub fn covering(&self, segment: &Segment, to: u32, is_everything: bool) -> Arc<SortedRuns> {
        let runs = self.runs.load_full();
        let missing = covered(&runs)..to;
        if missing.is_empty() && !(is_everything && runs.len() > 1) {
            return runs;
        }
        if !missing.is_empty() {
            let list = match self.list.try_lock() {
                Some(list) => list,
                None if missing.len() <= PRIVATE_ENTRIES => {
                    let mut own = SortedRuns::clone(&runs);
                    own.push(Arc::new(Run::sort(segment, missing)));
                    return Arc::new(own);
                }
                None => self.list.lock(),
            };
            self.cover(segment, to, list);
        }
        let merging = if is_everything { EVERYTHING } else { FOREGROUND };
        if merging.next(&self.runs.load(), 0).is_some()
            && let Some(_merging) = self.merging.try_lock()
        {
            self.merge(segment, merging);
        }
        self.runs.load_full()
    }

    /// Sorts what no run covers up to `to`, and merges what is small.
    fn cover(&self, segment: &Segment, to: u32, list: MutexGuard<'_, usize>) {
        let covered = self.covered();
        if covered >= to {
            return;
        }
        let mut runs = SortedRuns::clone(&self.runs.load());
        runs.push(Arc::new(Run::sort(segment, covered..to)));
        while let Some(at) = AT_ONCE.next(&runs, *list) {
            let merged = Run::merge(segment, &runs[at], &runs[at + 1]);
            replace(&mut runs, at, merged);
        }
        self.runs.store(Arc::new(runs));
    }

    /// Merges all that `merging` wants. The caller holds the lock of merging.
    fn merge(&self, segment: &Segment, merging: Merging) {
        while self.merge_next(merging, |older, newer| Run::merge(segment, older, newer)) {}
    }

    /// Merges two runs by `merge`, without the lock of the list. Returns false if there is nothing to do.
    fn merge_next(&self, merging: Merging, merge: impl FnOnce(&Run, &Run) -> Run) -> bool {
        let mut list = self.list.lock();
        *list = 0;
        let before = self.runs.load_full();
        let Some(at) = merging.next(&before, 0) else { return false };
        *list = at + 2;
        let merge = || merge(&before[at], &before[at + 1]);
        let merged = MutexGuard::unlocked(&mut list, merge);
        *list = 0;
        // Meanwhile others may have changed what is behind.
        let mut runs = SortedRuns::clone(&self.runs.load());
        replace(&mut runs, at, merged);
        let replaced = self.runs.swap(Arc::new(runs));
        // To free what was merged may take long: not with the lock, which goes first.
        drop(list);
        drop((before, replaced));
        true
    }
}

/// Puts `merged` in the place of the run at `at` and the one after it.
fn replace(runs: &mut SortedRuns, at: usize, merged: Run) {
    runs.splice(at..at + 2, [Arc::new(merged)]);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{FrameMode, HeapMemory, MemTable, SegmentHeader};
    use esker_base::{Entry, Rng};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A MemTable of so many entries, none of which is sorted.
    fn memtable(entries: u32) -> MemTable {
        let capacity = u64::from(entries) * 200;
        let header =
            SegmentHeader { epoch: 1, capacity, alignment: 8, key_id: 0, salt: 0, flags: 0 };
        let memory = HeapMemory::new(capacity as usize);
        let memtable = MemTable::new(memory, header, FrameMode::Logged);
        let mut tail = memtable.activate(1);
        for number in 0..entries {
            let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let entry = Entry { keyspace: KeyspaceId(0), kind: Kind::Put, key: &key, value: b"" };
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            let reserved = memtable.reserve(&mut tail, bytes.len(), 1).expect("it fits");
            let durable = reserved.first_seqno() - 1;
            memtable.insert(&memtable.fill(reserved, durable, &bytes).fence());
        }
        memtable
    }

    /// The entries of each run.
    fn sizes(runs: &SortedRuns) -> Vec<usize> {
        runs.iter().map(|run| run.numbers.len()).collect()
    }

    #[test]
    fn runs_that_a_thread_merges_stay_while_cursors_add_others() {
        let memtable = memtable(8000);
        let (index, segment) = (SortedIndex::new(), memtable.segment());
        let merging = index.merging.lock();
        index.covering(segment, 5000, false);
        let before = index.covering(segment, 7000, false);
        assert_eq!(sizes(&before), [5000, 2000]);
        let is_merged = index.merge_next(BACKGROUND, |older, newer| {
            let after = index.covering(segment, 7600, false);
            assert_eq!(sizes(&after), [5000, 2000, 600]);
            assert!(
                before.iter().zip(&after[..]).all(|(before, after)| Arc::ptr_eq(before, after))
            );
            // Behind them, small runs are merged.
            assert_eq!(sizes(&index.covering(segment, 7900, false)), [5000, 2000, 900]);
            Run::merge(segment, older, newer)
        });
        assert!(is_merged);
        assert_eq!(sizes(&index.runs()), [7000, 900]);
        drop(merging);
    }

    #[test]
    fn cursors_leave_few_runs_while_a_thread_merges() {
        let memtable = memtable(60_000);
        let (index, segment) = (SortedIndex::new(), memtable.segment());
        let _merging = index.merging.lock();
        for to in (40_000..60_000).step_by(7) {
            let runs = index.covering(segment, to, false);
            assert!(runs.len() < 20, "{:?}", sizes(&runs));
        }
    }

    #[test]
    fn cursors_leave_what_is_large_to_the_background() {
        let memtable = memtable(170_000);
        let (index, segment) = (SortedIndex::new(), memtable.segment());
        index.covering(segment, 30_000, false);
        assert_eq!(sizes(&index.covering(segment, 160_000, false)), [30_000, 130_000]);
        assert!(index.has_large_runs_to_merge());
        let merging = index.merging.lock();
        index.covering(segment, 166_000, false);
        assert_eq!(sizes(&index.covering(segment, 168_000, false))[2..], [6000, 2000]);
        assert!(index.has_large_runs_to_merge(), "behind others, too");
        drop(merging);
        index.extend(segment, 168_000);
        assert!(!index.has_large_runs_to_merge());
        assert_eq!(sizes(&index.runs()), [160_000, 8000]);
    }

    #[test]
    fn a_cursor_over_everything_leaves_one_run_unless_another_thread_merges() {
        let memtable = memtable(170_000);
        let (index, segment) = (SortedIndex::new(), memtable.segment());
        index.covering(segment, 160_000, false);
        let merging = index.merging.lock();
        assert_eq!(sizes(&index.covering(segment, 170_000, true)), [160_000, 10_000]);
        drop(merging);
        assert_eq!(sizes(&index.covering(segment, 170_000, true)), [170_000]);
    }

    #[test]
    fn runs_have_no_gaps_while_threads_add_and_merge_them() {
        const ENTRIES: u32 = 60_000;
        let memtable = memtable(ENTRIES);
        let (index, segment) = (SortedIndex::new(), memtable.segment());
        let visible = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (index, visible) = (&index, &visible);
                scope.spawn(move || {
                    let mut rng = Rng::new(thread);
                    loop {
                        let more = 1 + rng.below(100) as u32;
                        let to = visible.fetch_add(more, Ordering::Relaxed) + more;
                        let to = to.min(ENTRIES);
                        if thread == 0 {
                            index.extend(segment, to);
                        }
                        let runs = index.covering(segment, to, false);
                        let numbers =
                            runs.iter().flat_map(|run| [run.numbers.start, run.numbers.end]);
                        let numbers: Vec<u32> = numbers.collect();
                        assert!(numbers[0] == 0 && numbers[numbers.len() - 1] >= to);
                        assert!(
                            numbers[1..]
                                .chunks(2)
                                .all(|next| next.len() == 1 || next[0] == next[1])
                        );
                        if to == ENTRIES {
                            return;
                        }
                    }
                });
            }
        });
        index.collapse(segment, ENTRIES);
        assert_eq!(sizes(&index.runs()), [ENTRIES as usize]);
        assert_eq!(index.runs()[0].parts[0].items().len(), ENTRIES as usize);
    }

    #[test]
    fn a_cursor_sorts_a_few_entries_for_itself_rather_than_wait_for_the_list() {
        let memtable = memtable(2000);
        let (index, segment) = (SortedIndex::new(), memtable.segment());
        index.covering(segment, 1000, false);
        let list = index.list.lock();
        let own = index.covering(segment, 1000 + PRIVATE_ENTRIES as u32, false);
        assert_eq!(sizes(&own), [1000, PRIVATE_ENTRIES]);
        assert_eq!(sizes(&index.runs()), [1000], "only the cursor has it");
        drop(list);
    }
}
