//! Which writes of each record have begun and ended, so that a verified run can distinguish a read that is
//! out of date.
//!
//! Any thread may write any record, several at once. A run numbers the writes of each record from 1
//! on. Writes whose times overlap, one with the next, are a **group**: any of them may be the last
//! to take effect. What a read may give follows:
//! 1. not a write that had not begun when the read ended;
//! 2. not a write before the **floor**, as it was when the read began. Where a group ends, its first
//!    write becomes the floor. So a read that no write overlaps gives the last group's, which mostly
//!    is a single write; and if it does while several are possible, what it gives is the floor from
//!    then on;
//! 3. while this run has acknowledged no write of a record, what it held before: which write that
//!    was the first read shows, and all others must give the same.
//!
//! Writes that failed may or may not have happened: they stay in their group, which never ends.
//!
//! The versions of a run are counted from a start drawn at random, so that no two writes of a record
//! have the same one, whichever runs they are of. Sixteen bytes a record, in segments of doubling
//! size so that records can be added (so it is up to twice that); all atomic, each step sequentially
//! consistent.

use crate::checker::Version;
use crate::worker::MOST_THREADS;
use esker_base::seed_from_os;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The records of the first segment, as a power of two.
const FIRST_BITS: u32 = 16;

/// Enough segments for 2^63 records.
const SEGMENTS: usize = 64 - FIRST_BITS as usize;

/// How a record's writes are counted: `begun` in the high bits, so that a record takes 2^36 of them,
/// then those of the present group, then those in flight.
const GROUP_SHIFT: u32 = 12;
const BEGUN_SHIFT: u32 = 28;
const FLIGHT_MASK: u64 = (1 << GROUP_SHIFT) - 1;
const GROUP_MASK: u64 = (1 << (BEGUN_SHIFT - GROUP_SHIFT)) - 1;

// Each thread may have a write in flight.
const _: () = assert!(MOST_THREADS as u64 <= FLIGHT_MASK);

/// The most writes of a record in one run.
const MOST_WRITES: u64 = u64::MAX >> BEGUN_SHIFT;

#[derive(Debug, Default)]
struct Record {
    writes: AtomicU64,
    /// A version of this run, or one from before it, or zero if none is known.
    floor: AtomicU64,
}

/// The counts in [`Record::writes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Writes {
    begun: u64,
    /// Saturates: then the group's first write is not known.
    group: u64,
    in_flight: u64,
}

impl Writes {
    fn of(word: u64) -> Self {
        Writes {
            begun: word >> BEGUN_SHIFT,
            group: word >> GROUP_SHIFT & GROUP_MASK,
            in_flight: word & FLIGHT_MASK,
        }
    }

    fn word(self) -> u64 {
        self.begun << BEGUN_SHIFT | self.group << GROUP_SHIFT | self.in_flight
    }

    fn begin(self) -> Self {
        let before = if self.in_flight == 0 { 0 } else { self.group };
        Writes {
            begun: self.begun + 1,
            group: (before + 1).min(GROUP_MASK),
            in_flight: self.in_flight + 1,
        }
    }

    fn end(self) -> Self {
        Writes { in_flight: self.in_flight - 1, ..self }
    }
}

/// What was known of a record when a read of it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    writes: u64,
    floor: u64,
}

/// The writes of one run, shared between its threads.
#[derive(Debug)]
pub(super) struct History {
    /// The first record that is followed.
    first: u64,
    /// The version before the first write of any record.
    start: u64,
    segments: [OnceLock<Box<[Record]>>; SEGMENTS],
}

impl History {
    /// Of `count` records from `first` on, and of those that are added.
    pub(super) fn new(first: u64, count: u64) -> Self {
        // Not out of the seed: two runs with one seed may follow each other on one store.
        let start = seed_from_os();
        let segments = [const { OnceLock::new() }; SEGMENTS];
        let history = History { first, start, segments };
        // Now rather than within an operation that is measured.
        let mut made = 0;
        while made < count {
            history.record(first + made);
            made = 2 * made + (1 << FIRST_BITS);
        }
        history
    }

    fn record(&self, number: u64) -> Option<&Record> {
        let at = number.checked_sub(self.first)? + (1 << FIRST_BITS);
        let bits = at.ilog2();
        let segment = self.segments.get((bits - FIRST_BITS) as usize)?;
        let records =
            segment.get_or_init(|| (0..1u64 << bits).map(|_| Record::default()).collect());
        records.get((at - (1 << bits)) as usize)
    }

    /// Notes that record `number` is about to be written, and gives the write its version.
    pub(super) fn begin(&self, number: u64) -> Version {
        let Some(record) = self.record(number) else { return Version(self.start) };
        let mut begun = 0;
        update(&record.writes, |writes| {
            let writes = writes.begin();
            begun = writes.begun;
            writes
        });
        Version(self.start.wrapping_add(begun))
    }

    /// Notes that a write of record `number` was acknowledged.
    pub(super) fn end(&self, number: u64) {
        let Some(record) = self.record(number) else { return };
        let Writes { begun, group, in_flight } = update(&record.writes, Writes::end);
        if in_flight == 0 && group < GROUP_MASK {
            self.raise(record, begun - group + 1);
        }
    }

    /// Notes that a read of record `number` is about to begin. `None` if it is not followed.
    pub(super) fn before_read(&self, number: u64) -> Option<Before> {
        let record = self.record(number)?;
        let floor = record.floor.load(SeqCst);
        Some(Before { writes: record.writes.load(SeqCst), floor })
    }

    /// Whether a read of record `number` that has just ended may have given `seen`; if not, why.
    pub(super) fn judge(&self, number: u64, before: Before, seen: Version) -> Result<(), Stale> {
        let Some(record) = self.record(number) else { return Ok(()) };
        let now = Writes::of(record.writes.load(SeqCst));
        let oldest = self.write(before.floor);
        let Some(seen_write) = self.write(seen.0) else {
            if oldest.is_some() {
                return Err(Stale::BeforeTheRun);
            }
            return self.adopt(record, seen.0);
        };
        if seen_write > now.begun {
            return Err(Stale::NeverBegun);
        }
        if oldest.is_some_and(|oldest| seen_write < oldest) {
            return Err(Stale::Overwritten);
        }
        if now.in_flight == 0 && before.writes == now.word() {
            self.raise(record, seen_write);
        }
        Ok(())
    }

    /// Takes `seen` for what the record held before the run, unless another read gave something else.
    fn adopt(&self, record: &Record, seen: u64) -> Result<(), Stale> {
        match record.floor.compare_exchange(0, seen, SeqCst, SeqCst) {
            Err(known) if known != seen && self.write(known).is_none() => Err(Stale::Differs),
            _ => Ok(()),
        }
    }

    /// Makes `write` the floor, unless it is higher.
    fn raise(&self, record: &Record, write: u64) {
        let higher = |floor| match self.write(floor) {
            Some(known) if known >= write => None,
            _ => Some(self.start.wrapping_add(write)),
        };
        // Fails if it is higher.
        let _ = record.floor.fetch_update(SeqCst, SeqCst, higher);
    }

    /// The number of the write that `version` is, if it is one of this run.
    fn write(&self, version: u64) -> Option<u64> {
        let write = version.wrapping_sub(self.start);
        (version != 0 && (1..=MOST_WRITES).contains(&write)).then_some(write)
    }
}

/// Why a read can't have given a whole value of the right key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stale {
    /// A later write was acknowledged before the read.
    Overwritten,
    /// The same, and it is from before the run.
    BeforeTheRun,
    /// No client wrote it until the read ended.
    NeverBegun,
    /// An earlier read gave another, and no client wrote the record meanwhile.
    Differs,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stale::Overwritten => "it gave a value that an acknowledged write had replaced",
            Stale::BeforeTheRun => {
                "it gave the value from before the run, which an acknowledged write had replaced"
            }
            Stale::NeverBegun => "it gave a value that was not written yet",
            Stale::Differs => {
                "it gave another value than an earlier read, and the record was not written"
            }
        })
    }
}

fn update(word: &AtomicU64, mut change: impl FnMut(Writes) -> Writes) -> Writes {
    let mut now = word.load(SeqCst);
    loop {
        let changed = change(Writes::of(now));
        match word.compare_exchange_weak(now, changed.word(), SeqCst, SeqCst) {
            Ok(_) => return changed,
            Err(other) => now = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADED: Version = Version(1);

    fn read(history: &History, seen: Version) -> Result<(), Stale> {
        history.judge(7, history.before_read(7).unwrap(), seen)
    }

    fn written(history: &History) -> Version {
        let version = history.begin(7);
        history.end(7);
        version
    }

    #[test]
    fn after_an_acknowledged_write_only_that_write_is_allowed() {
        let history = History::new(7, 1);
        let (first, second) = (written(&history), written(&history));
        assert_eq!(read(&history, second), Ok(()));
        assert_eq!(read(&history, first), Err(Stale::Overwritten));
        assert_eq!(read(&history, LOADED), Err(Stale::BeforeTheRun));
        assert_eq!(read(&history, Version(second.0.wrapping_add(1))), Err(Stale::NeverBegun));
    }

    #[test]
    fn what_was_there_before_the_run_stays_the_same_until_it_is_written() {
        let history = History::new(0, 0);
        assert_eq!(read(&history, LOADED), Ok(()));
        assert_eq!(read(&history, LOADED), Ok(()));
        assert_eq!(read(&history, Version(2)), Err(Stale::Differs));
        let version = history.begin(7);
        assert_eq!((read(&history, LOADED), read(&history, version)), (Ok(()), Ok(())));
        assert_eq!(read(&history, Version(2)), Err(Stale::Differs));
        history.end(7);
        assert_eq!(read(&history, LOADED), Err(Stale::BeforeTheRun));
    }

    #[test]
    fn a_read_that_a_write_overlaps_may_give_either_side_of_it() {
        let history = History::new(0, 0);
        let (oldest, old) = (written(&history), written(&history));
        let before = history.before_read(7).unwrap();
        let new = written(&history);
        assert_eq!(history.judge(7, before, old), Ok(()));
        assert_eq!(history.judge(7, before, new), Ok(()));
        assert_eq!(history.judge(7, before, oldest), Err(Stale::Overwritten));
    }

    #[test]
    fn of_writes_that_overlapped_any_may_be_the_last_until_a_read_tells() {
        let history = History::new(0, 0);
        let old = written(&history);
        let (a, b) = (history.begin(7), history.begin(7));
        history.end(7);
        assert_eq!(read(&history, old), Ok(()), "the other one is still in flight");
        history.end(7);
        assert_eq!(read(&history, old), Err(Stale::Overwritten));
        assert_eq!(read(&history, a), Ok(()));
        assert_eq!(read(&history, b), Ok(()));
        assert_eq!(read(&history, a), Err(Stale::Overwritten), "b was there");
    }

    #[test]
    fn a_write_that_failed_may_have_happened_or_not() {
        let history = History::new(0, 0);
        let old = written(&history);
        let failed = history.begin(7);
        for _ in 0..3 {
            assert_eq!((read(&history, failed), read(&history, old)), (Ok(()), Ok(())));
        }
    }

    #[test]
    fn a_group_too_large_to_count_allows_more_and_never_less() {
        let history = History::new(0, 0);
        let old = written(&history);
        history.begin(7);
        let mut last = Version(0);
        for _ in 0..GROUP_MASK + 5 {
            last = written(&history);
        }
        history.end(7);
        assert_eq!((read(&history, old), read(&history, last)), (Ok(()), Ok(())));
        assert_eq!(read(&history, old), Err(Stale::Overwritten), "the last one was seen");
    }

    #[test]
    fn versions_are_not_used_twice_by_threads_or_runs() {
        let (one, other) = (History::new(0, 0), History::new(0, 0));
        let mut versions: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = [&one, &one, &one, &other]
                .map(|history| {
                    scope.spawn(move || (0..5_000).map(|_| written(history).0).collect::<Vec<_>>())
                })
                .into();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions.len(), 20_000);
        assert_eq!(Writes::of(one.record(7).unwrap().writes.load(SeqCst)).in_flight, 0);
    }

    #[test]
    fn records_are_followed_from_the_first_on_however_many_are_added() {
        let history = History::new(100, 70_000);
        assert!(history.before_read(99).is_none());
        for number in [100, 101, 100 + (1 << FIRST_BITS) - 1, 100 + (1 << FIRST_BITS), 400_000] {
            history.begin(number);
            history.end(number);
            let before = history.before_read(number).unwrap();
            assert_eq!(history.judge(number, before, LOADED), Err(Stale::BeforeTheRun));
        }
        assert_eq!(size_of::<Record>(), 16);
    }
}
