//! The versions of one keyspace of a MemTable, in order: a merge of its runs. A flush reads one run.
//!
//! A lane is a place in the sorted part of one run. Moving on, the cursor is on the lane with
//! the smallest version; moving back, on the one with the greatest. Where the direction turns, the
//! other lanes are placed anew around the version that the cursor is on.
//!
//! After every move the entry it is on is inspected, and the move fails if the MemTable is not sound.

use crate::MemTable;
use crate::sorted_run::{KeyspaceRun, PrefixRebase};
use esker_base::key::compare_versions;
use esker_base::{Entry, EntryCursor, Kind, MAX_SEQNO, Result, Seqno};
use std::cmp::Ordering;
use std::sync::Arc;

/// How many items ahead an entry is asked for, so that it has arrived when the cursor does.
const AHEAD: usize = 8;

/// An [`EntryCursor`] over a MemTable. It keeps the MemTable alive.
pub struct MemTableCursor {
    memtable: Arc<MemTable>,
    /// Entries from this number on are not seen.
    numbers: u32,
    lanes: Vec<Lane>,
    /// The lane that the cursor is on.
    current: Option<usize>,
    direction: Direction,
    /// Whether it goes over everything once, for no reader.
    passes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Back,
}

/// A place in a part, or off its end: going back, the place before the first is `usize::MAX`.
struct Lane {
    part: Arc<KeyspaceRun>,
    /// To the prefix that the keys of all lanes have in common.
    rebase: PrefixRebase,
    at: usize,
    /// Eight bytes of the key here, after that prefix: they order most lanes without a read of the
    /// segment. Not valid off the end.
    word: u64,
}

impl MemTableCursor {
    pub(crate) fn new(memtable: Arc<MemTable>, numbers: u32, parts: Vec<Arc<KeyspaceRun>>) -> Self {
        let bytes = KeyspaceRun::common_bytes(&parts);
        let lane = |part: Arc<KeyspaceRun>| {
            let rebase = part.rebase(bytes);
            Lane { part, rebase, at: usize::MAX, word: 0 }
        };
        let lanes = parts.into_iter().map(lane).collect();
        let direction = Direction::Forward;
        MemTableCursor { memtable, numbers, lanes, current: None, direction, passes: false }
    }

    /// For a pass over everything, which the latency of a slower medium does not delay at each entry.
    pub fn for_sequential_scan(self) -> Self {
        MemTableCursor { passes: true, ..self }
    }

    #[inline]
    fn before_read(&self, bytes: usize) {
        if !self.passes {
            self.memtable.segment().before_read(bytes);
        }
    }

    /// Whether there is no version that the cursor could come to.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// How many versions the cursor may come to, at most.
    pub fn versions(&self) -> usize {
        self.lanes.iter().map(|lane| lane.part.items().len()).sum()
    }

    /// The length of the value that the cursor is on, which is not read.
    #[inline]
    pub fn value_len(&self) -> usize {
        self.entry().value.len()
    }

    /// Places every lane at or after what `seek` says, and picks the smallest.
    fn place_forward(&mut self, seek: impl Fn(&MemTable, &KeyspaceRun) -> usize) {
        self.direction = Direction::Forward;
        for lane in &mut self.lanes {
            let at = seek(&self.memtable, &lane.part);
            lane.place(at, &self.memtable, self.numbers, 1);
        }
        self.pick();
    }

    /// Places every lane before what `seek` says, and picks the greatest.
    fn place_back(&mut self, seek: impl Fn(&MemTable, &KeyspaceRun) -> usize) {
        self.direction = Direction::Back;
        for lane in &mut self.lanes {
            let at = seek(&self.memtable, &lane.part).wrapping_sub(1);
            lane.place(at, &self.memtable, self.numbers, usize::MAX);
        }
        self.pick();
    }

    /// Is on the lane whose version comes first in the direction of travel.
    fn pick(&mut self) {
        let first = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Back => Ordering::Greater,
        };
        let mut best: Option<usize> = None;
        for (at, lane) in self.lanes.iter().enumerate() {
            if lane.number().is_none() {
                continue;
            }
            let is_first = best.is_none_or(|best| {
                let best = &self.lanes[best];
                let by_keys = || lane.compare(best, &self.memtable);
                lane.word.cmp(&best.word).then_with(by_keys) == first
            });
            if is_first {
                best = Some(at);
            }
        }
        self.current = best;
    }

    /// Moves the lane that the cursor is on by `step` and picks anew.
    #[inline]
    fn advance(&mut self, step: usize) {
        let Some(current) = self.current else { return };
        let lane = &mut self.lanes[current];
        lane.place(lane.at.wrapping_add(step), &self.memtable, self.numbers, step);
        lane.prefetch(&self.memtable, step);
        let ended = lane.number().is_none();
        if self.lanes.len() > 1 {
            self.pick();
        } else if ended {
            self.current = None;
        }
    }

    /// Fails if this or any other entry was found damaged.
    #[inline]
    fn check(&self) -> Result<()> {
        if self.current.is_some() {
            let lane = self.standing();
            self.memtable.segment().look_at(lane.part.items()[lane.at].place());
            self.before_read(1);
        }
        self.memtable.sound()
    }

    #[inline]
    fn standing(&self) -> &Lane {
        &self.lanes[self.current.expect("the cursor is valid")]
    }

    #[inline]
    fn entry(&self) -> Entry<'_> {
        let lane = self.standing();
        self.memtable.segment().entry(lane.part.items()[lane.at].place())
    }

    /// The key that the cursor is on, and how many entries precede the version.
    fn turning_point(&self) -> Option<(Vec<u8>, u32)> {
        let number = self.lanes[self.current?].number()?;
        Some((self.entry().key.to_vec(), number))
    }
}

impl Lane {
    /// The number of the version here, if there is one.
    #[inline]
    fn number(&self) -> Option<u32> {
        Some(self.part.items().get(self.at)?.number())
    }

    /// Compares the versions here and on another lane, both of which have one.
    fn compare(&self, other: &Lane, memtable: &MemTable) -> Ordering {
        compare_versions(self.version(memtable), other.version(memtable))
    }

    fn version<'a>(&self, memtable: &'a MemTable) -> (&'a [u8], Seqno) {
        let item = self.part.items()[self.at];
        let key = memtable.segment().entry(item.place()).key;
        (key, memtable.first_seqno() + u64::from(item.number()))
    }

    /// Goes to `at`, or in the direction of `step` to the first version from there that is seen.
    #[inline]
    fn place(&mut self, at: usize, memtable: &MemTable, numbers: u32, step: usize) {
        self.at = at;
        while self.number().is_some_and(|number| number >= numbers) {
            self.at = self.part.pass_unseen(memtable.segment(), self.at, numbers, step);
        }
        if let Some(item) = self.part.items().get(self.at) {
            self.word = item.word(self.rebase);
        }
    }

    /// Asks for the entry some items ahead.
    #[inline]
    fn prefetch(&self, memtable: &MemTable, step: usize) {
        let ahead = self.at.wrapping_add(step.wrapping_mul(AHEAD));
        if let Some(item) = self.part.items().get(ahead) {
            memtable.segment().prefetch(item.place());
        }
    }
}

impl EntryCursor for MemTableCursor {
    #[inline]
    fn valid(&self) -> bool {
        self.current.is_some()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.place_forward(|_, _| 0);
        self.check()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place_back(|_, part| part.items().len());
        self.check()
    }

    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.place_forward(|memtable, part| {
            let segment = memtable.segment();
            part.seek(segment, key, segment.numbers_through(seqno))
        });
        self.check()
    }

    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.place_back(|memtable, part| {
            let segment = memtable.segment();
            part.seek(segment, key, segment.numbers_through(seqno))
        });
        self.check()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Back
            && self.lanes.len() > 1
            && let Some((key, number)) = self.turning_point()
        {
            // The first version after this one: the same key's with a smaller number, or beyond.
            self.place_forward(|memtable, part| part.seek(memtable.segment(), &key, number));
            return self.check();
        }
        self.direction = Direction::Forward;
        self.advance(1);
        self.check()
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward
            && self.lanes.len() > 1
            && let Some((key, number)) = self.turning_point()
        {
            self.place_back(|memtable, part| part.seek(memtable.segment(), &key, number + 1));
            return self.check();
        }
        self.direction = Direction::Back;
        self.advance(usize::MAX);
        self.check()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.entry().key
    }

    #[inline]
    fn seqno(&self) -> Seqno {
        let number = self.standing().number().unwrap_or_default();
        debug_assert!(self.memtable.first_seqno() + u64::from(number) <= MAX_SEQNO);
        self.memtable.first_seqno() + u64::from(number)
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.entry().kind
    }

    #[inline]
    fn value(&self) -> &[u8] {
        let value = self.entry().value;
        self.before_read(value.len());
        value
    }
}
