//! Lends what follows on a walk, so that a scan merges it by itself: blocks of runs, and copies of
//! entries of MemTables.
//!
//! A short scan uses few entries of a MemTable, and copies cost time. So the first copy is of one
//! entry, and each further one of a scan is of twice as many.

use super::{DbIter, IterState};
use crate::read::block_merge::{BlockMerge, Refill};
use crate::read::skip;
use crate::read::source::Source;
use crate::user_keys::KeyFormat;
use esker_api::KeyRange;
use esker_base::{EntryCursor, Kind, Result};
use esker_memtable::MemTableCursor;
use esker_table::{BlockScan, LentVersions, ScanEnd};

/// So many entries of a MemTable are copied at once at most.
const COPIED_MAX: u32 = 32;
/// No entry is added to a copy of this size.
const COPIED_BYTES: usize = 4 << 10;
/// A longer value of a MemTable is not copied in advance.
const COPIED_VALUE_MAX: usize = 16 << 10;
/// So many moves after a MemTable had an entry that is not copied, its entries are copied again.
const PAUSE_MOVES: u32 = 64;

/// What a walk knows of its copies of MemTable entries.
#[derive(Default)]
pub(super) struct Copies {
    versions: LentVersions,
    /// Entries of the next copy at most.
    entries: u32,
    /// So many moves no entry is copied.
    pause: u32,
}

impl Copies {
    /// Collects the newest version of each key from where `source` is, and leaves `source` behind them.
    fn collect(
        &mut self,
        source: &mut MemTableCursor,
        range: &KeyRange,
        keys: KeyFormat,
    ) -> Result<()> {
        for _ in 0..self.entries {
            let is_full = self.versions.bytes() >= COPIED_BYTES;
            if is_full || !is_in_range(source, range) || !is_copied(source, keys) {
                break;
            }
            self.versions.add(source.key(), source.seqno(), source.kind(), source.value());
            pass_last(source, self.versions.last_key())?;
        }
        self.entries = (self.entries * 2).min(COPIED_MAX);
        Ok(())
    }
}

/// Takes `source` past all versions of `key`, on one of which it is.
fn pass_last(source: &mut MemTableCursor, key: &[u8]) -> Result<()> {
    for _ in 0..skip::STEPS {
        source.next()?;
        if !source.valid() || source.key() != key {
            return Ok(());
        }
    }
    source.seek(key, 0)?;
    while source.valid() && source.key() == key {
        source.next()?;
    }
    Ok(())
}

#[inline]
fn is_in_range(source: &impl EntryCursor, range: &KeyRange) -> bool {
    source.valid() && !range.ends_before(source.key())
}

/// Whether the entry of a MemTable decides its key by itself and is worth a copy.
#[inline]
fn is_copied(source: &MemTableCursor, keys: KeyFormat) -> bool {
    matches!(source.kind(), Kind::Put | Kind::Delete)
        && source.value_len() <= COPIED_VALUE_MAX
        && !keys.is_edge(source.key())
}

impl DbIter {
    /// Lends the rest of the current block of each run, and copies of the next entries of each MemTable,
    /// from the current entry on. Returns false if the next entry of a source cannot be lent. Otherwise
    /// the walk must be positioned again before it is moved.
    pub(crate) fn lend(&mut self, blocks: &mut BlockMerge) -> Result<bool> {
        if self.stand != IterState::OnVersion {
            return Ok(false);
        }
        let lent = self.lend_blocks(blocks);
        if lent.is_err() {
            self.stand = IterState::Nowhere;
        }
        lent
    }

    fn lend_blocks(&mut self, blocks: &mut BlockMerge) -> Result<bool> {
        let DbIter { merge, range, keys, copies, snapshot, limit, .. } = self;
        let mut copies_any = false;
        for source in merge.children().iter().filter(|source| is_in_range(*source, range)) {
            let is_lent = match source {
                Source::Run(run) => !keys.is_edge(run.key()),
                Source::MemTable(memtable) => {
                    copies_any = true;
                    is_copied(memtable, *keys)
                }
            };
            if !is_lent {
                copies.pause = if copies_any { PAUSE_MOVES } else { 0 };
                return Ok(false);
            }
        }
        if copies_any && copies.pause > 0 {
            copies.pause -= 1;
            return Ok(false);
        }
        blocks.begin(merge.children().len(), *snapshot, self.view.tombstones(), self.expired);
        let limit = limit.as_ref().map(|limit| &limit.key[..]);
        for at in 0..merge.children().len() {
            let source = merge.child_mut(at);
            if !is_in_range(source, range) {
                continue;
            }
            match source {
                Source::Run(run) => run.scan_block(*snapshot, limit, blocks.scan_mut(at))?,
                Source::MemTable(memtable) => {
                    copies.entries = 1;
                    copies.collect(memtable, range, *keys)?;
                    let is_started = copies.versions.start(*snapshot, blocks.scan_mut(at));
                    assert!(is_started, "the entry was checked before");
                }
            }
            blocks.add(at);
        }
        Ok(true)
    }

    /// Takes `scan`, which has come to an end, on to the next block of its run.
    pub(crate) fn refill(
        &mut self,
        source: usize,
        scan: &mut BlockScan,
        end: ScanEnd,
    ) -> Result<Refill> {
        let limit = self.limit.as_ref();
        let run = match self.merge.child_mut(source) {
            Source::Run(run) => run,
            Source::MemTable(memtable) => {
                if !is_in_range(memtable, &self.range) {
                    return Ok(Refill::Exhausted);
                }
                self.copies.collect(memtable, &self.range, self.keys)?;
                if self.copies.versions.go_on(scan) {
                    return Ok(Refill::Started);
                }
                // The walk decides the next key.
                self.copies.pause = PAUSE_MOVES;
                return Ok(Refill::Lost);
            }
        };
        match end {
            ScanEnd::Block => {
                let key = limit.map(|limit| &limit.key[..]);
                let is_started = run.scan_next_block(key, scan)?;
                Ok(if is_started { Refill::Started } else { Refill::Exhausted })
            }
            ScanEnd::Limit if limit.is_some_and(|limit| limit.ends_range) => Ok(Refill::Exhausted),
            ScanEnd::Limit => Ok(Refill::Lost),
            ScanEnd::Damaged => run.damage(scan).map_or(Ok(Refill::Lost), Err),
        }
    }

    /// Has no current entry any more, at the end of what was lent.
    pub(crate) fn leave(&mut self) {
        self.stand = IterState::Nowhere;
    }
}
