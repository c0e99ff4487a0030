//! The order: sorted runs over ranges of entry numbers, that together cover the first so many
//! entries without gaps.
//!
//! Off the put path, whenever a chunk of entries has closed and is visible, it is sorted into a run,
//! and runs merge so that each is several times as large as the next: few runs, and each entry is
//! merged a handful of times. Cursors extend the order to the entry by the same rule, by small
//! runs at its end. Runs are immutable; the list of them is replaced as a whole, so readers keep
//! what they took. Of an immutable MemTable everything becomes one run.

use crate::segment::Segment;
use crate::sorted_run::{KeyspaceRun, RunBuilder};
use arc_swap::ArcSwap;
use esker_base::{KeyspaceId, Kind};
use parking_lot::Mutex;
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
    /// A run with more entries than this is left alone.
    largest: usize,
}

/// What the background does: few runs.
const BACKGROUND: Merging = Merging { ratio: 4, largest: usize::MAX };

/// What a cursor does on its way: the same, but nothing that takes longer than half a millisecond.
const FOREGROUND: Merging = Merging { ratio: 4, largest: 16 * CHUNK_ENTRIES as usize };

/// What is done to an immutable MemTable: one run.
const EVERYTHING: Merging = Merging { ratio: usize::MAX, largest: usize::MAX };

impl Merging {
    fn wants(self, older: &Run, newer: &Run) -> bool {
        let (older, newer) = (older.numbers.len(), newer.numbers.len());
        older <= self.ratio.saturating_mul(newer) && older <= self.largest
    }
}

/// A cursor sorts up to this many entries for itself rather than wait for the thread that is merging.
const PRIVATE_ENTRIES: u32 = 2 * CHUNK_ENTRIES;

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

fn covered(runs: &SortedRuns) -> u32 {
    runs.last().map_or(0, |run| run.numbers.end)
}

/// See the module's text.
pub(crate) struct SortedIndex {
    runs: ArcSwap<SortedRuns>,
    building: Mutex<()>,
}

impl SortedIndex {
    /// No runs.
    pub fn new() -> SortedIndex {
        SortedIndex { runs: ArcSwap::default(), building: Mutex::new(()) }
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
        let _building = self.building.lock();
        self.extend_locked(segment, to, BACKGROUND);
    }

    /// Covers all of a sealed MemTable's `entries` entries by one run.
    pub fn collapse(&self, segment: &Segment, entries: u32) {
        if self.is_one_run(entries) {
            return;
        }
        let _building = self.building.lock();
        self.extend_locked(segment, entries, EVERYTHING);
    }

    /// Runs that cover the first `to` entries, and maybe more, for a cursor: never waits long.
    pub fn covering(&self, segment: &Segment, to: u32) -> Arc<SortedRuns> {
        let runs = self.runs.load_full();
        let missing = covered(&runs)..to;
        if missing.is_empty() {
            return runs;
        }
        let building = match self.building.try_lock() {
            Some(building) => building,
            None if missing.len() <= PRIVATE_ENTRIES as usize => {
                let mut own = SortedRuns::clone(&runs);
                own.push(Arc::new(Run::sort(segment, missing)));
                return Arc::new(own);
            }
            None => self.building.lock(),
        };
        self.extend_locked(segment, to, FOREGROUND);
        drop(building);
        self.runs.load_full()
    }

    /// Sorts what no run covers up to `to`, and merges. The caller holds the lock.
    fn extend_locked(&self, segment: &Segment, to: u32, merging: Merging) {
        let mut runs = SortedRuns::clone(&self.runs.load());
        let from = covered(&runs);
        if from < to {
            runs.push(Arc::new(Run::sort(segment, from..to)));
        }
        while let [.., older, newer] = &runs[..]
            && merging.wants(older, newer)
        {
            let merged = Run::merge(segment, older, newer);
            runs.truncate(runs.len() - 2);
            runs.push(Arc::new(merged));
        }
        self.runs.store(Arc::new(runs));
    }
}
