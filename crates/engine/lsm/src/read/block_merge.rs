//! Combines the blocks that runs lend to a cursor.
//!
//! ```text
//! scans:  [block of run 0] [block of run 1] [block of run 2]    newest run first
//! order:  [prefix, run 1] [prefix, run 0] [prefix, run 2]       the smallest key first
//! ```
//!
//! The blocks are memory of the cursor, so a step takes no lock and holds no table. Only at the end
//! of a block the caller's `refill` goes back to the run. Where one run alone is left, its block is
//! read without comparing keys.

use super::merging_iter::prefix;
use crate::fold::{Verdict, verdict};
use crate::version::aging::Expired;
use esker_api::Value;
use esker_base::{FragmentedTombstones, Result, Seqno};
use esker_table::{BlockScan, ScanEnd};
use std::sync::Arc;

/// After so many deleted keys in a row, or so many blocks with versions of one key, the caller goes
/// on with the walk, which skips more of them at once.
const PASSED_KEYS: u32 = 256;
const PASSED_BLOCKS: u32 = 4;

/// What became of a scan at the end of its block.
pub(crate) enum Refill {
    /// It goes on in another block.
    Started,
    /// It has no further entry in the range.
    Exhausted,
    /// The run cannot be reached from here.
    Lost,
}

/// Where a move ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moved {
    /// At an entry.
    Entry,
    /// At the end of the range.
    End,
    /// A refill was lost, or the walk gets on faster, or a version is met that only it decides. All keys below
    /// [`BlockMerge::key`] are passed, and so is that key if [`BlockMerge::is_decided`].
    Lost,
}

/// The entries of blocks of several runs, folded at a snapshot.
#[derive(Default)]
pub(crate) struct BlockMerge {
    /// One for each source of the walk.
    scans: Vec<BlockScan>,
    /// The scans that have a current version, in the order of keys, then newest first.
    order: Vec<Slot>,
    tombstones: Arc<[Arc<FragmentedTombstones>]>,
    expired: Expired,
    snapshot: Seqno,
}

#[derive(Clone, Copy)]
struct Slot {
    prefix: u64,
    scan: u32,
}

/// Whether only the walk decides such a version: it folds operands, reads value files and has the time.
#[inline]
fn is_for_walk(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Operand | Verdict::Expiring | Verdict::Separated)
}

impl BlockMerge {
    /// Begins with no scan, for as many sources.
    pub(crate) fn begin(
        &mut self,
        sources: usize,
        snapshot: Seqno,
        tombstones: &Arc<[Arc<FragmentedTombstones>]>,
        expired: Expired,
    ) {
        self.order.clear();
        self.scans.resize_with(sources, BlockScan::default);
        self.snapshot = snapshot;
        self.tombstones = tombstones.clone();
        self.expired = expired;
    }

    /// The scan of a source.
    pub(crate) fn scan_mut(&mut self, source: usize) -> &mut BlockScan {
        &mut self.scans[source]
    }

    /// Takes part of a source whose scan was started.
    pub(crate) fn add(&mut self, source: usize) {
        self.order.push(Slot { prefix: 0, scan: source as u32 });
        self.place_last_in(self.order.len());
    }

    /// Gives all blocks back.
    pub(crate) fn release(&mut self) {
        self.order.clear();
        self.scans.iter_mut().for_each(BlockScan::release);
    }

    #[inline]
    fn top(&self) -> &BlockScan {
        &self.scans[self.order[0].scan as usize]
    }

    /// The current key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.top().key()
    }

    /// The value of the current key.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.top().value()
    }

    /// The value of the current key, in the memory of its block.
    #[inline]
    pub(crate) fn shared_value(&self) -> Value {
        match self.top().shared_value() {
            Some((block, range)) => Value::shared(block, range),
            None => Value::default(),
        }
    }

    /// Whether nothing of the current key is left to be yielded.
    pub(crate) fn is_decided(&self) -> bool {
        self.top().is_decided() && !is_for_walk(self.verdict())
    }

    /// Goes to the next entry without a refill. Returns false, and may have gone on, if that takes
    /// [`BlockMerge::advance`].
    #[inline]
    pub(crate) fn advance_alone(&mut self) -> bool {
        let [slot] = &self.order[..] else { return false };
        let scan = &mut self.scans[slot.scan as usize];
        if !self.tombstones.is_empty() || self.expired.below > 0 {
            return false;
        }
        for _ in 0..PASSED_KEYS {
            if scan.advance().is_err() {
                return false;
            }
            if scan.is_decided() {
                match verdict(scan.kind(), || false) {
                    Verdict::Value => return true,
                    Verdict::Operand | Verdict::Expiring | Verdict::Separated => return false,
                    Verdict::Absent => {}
                }
            }
        }
        false
    }

    /// Goes to the next entry.
    pub(crate) fn advance(
        &mut self,
        mut refill: impl FnMut(usize, &mut BlockScan, ScanEnd) -> Result<Refill>,
    ) -> Result<Moved> {
        // Only `advance_alone` leaves such a version here.
        if is_for_walk(verdict(self.top().kind(), || false)) {
            return Ok(Moved::Lost);
        }
        for _ in 0..PASSED_KEYS {
            // What older runs have of a decided key is not seen.
            while self.top().is_decided()
                && let [top, next, ..] = &self.order[..]
                && top.prefix == next.prefix
                && self.scans[next.scan as usize].key() == self.key()
            {
                if !self.pass(1, &mut refill)? {
                    return Ok(Moved::Lost);
                }
            }
            if !self.pass(0, &mut refill)? {
                return Ok(Moved::Lost);
            }
            if self.order.is_empty() {
                return Ok(Moved::End);
            }
            if self.top().is_decided() {
                match self.verdict() {
                    Verdict::Value => return Ok(Moved::Entry),
                    Verdict::Operand | Verdict::Expiring | Verdict::Separated => {
                        return Ok(Moved::Lost);
                    }
                    Verdict::Absent => {}
                }
            }
        }
        Ok(Moved::Lost)
    }

    /// What the current version decides, given that it is decided.
    #[inline]
    fn verdict(&self) -> Verdict {
        let top = self.top();
        let covering = |list: &Arc<FragmentedTombstones>| list.covering(top.key(), self.snapshot);
        let is_covered = || {
            self.expired.has(top.seqno())
                || self.tombstones.iter().any(|list| covering(list) > top.seqno())
        };
        verdict(top.kind(), is_covered)
    }

    /// Moves the scan of a slot on, and the slot to its place. Returns false if a refill was lost,
    /// or too many blocks have only versions of one key.
    #[inline]
    fn pass(
        &mut self,
        at: usize,
        refill: &mut impl FnMut(usize, &mut BlockScan, ScanEnd) -> Result<Refill>,
    ) -> Result<bool> {
        let scan = self.order[at].scan as usize;
        let mut blocks = 0;
        while let Err(end) = self.scans[scan].advance() {
            match refill(scan, &mut self.scans[scan], end)? {
                Refill::Started if blocks < PASSED_BLOCKS => blocks += 1,
                // Nothing of the block is read.
                Refill::Started => return Ok(false),
                Refill::Exhausted => {
                    self.order.remove(at);
                    return Ok(true);
                }
                Refill::Lost => return Ok(false),
            }
        }
        self.place(at);
        Ok(true)
    }

    /// Moves the slot at `at`, whose scan has gone on, to its place behind.
    #[inline]
    fn place(&mut self, mut at: usize) {
        let slot = Slot { prefix: prefix(self.scan_of(at).key()), ..self.order[at] };
        while let Some(&next) = self.order.get(at + 1)
            && self.comes_before(next, slot)
        {
            self.order[at] = next;
            at += 1;
        }
        self.order[at] = slot;
    }

    /// Moves the last of the first `slots` slots to its place among them.
    fn place_last_in(&mut self, slots: usize) {
        let mut at = slots - 1;
        let slot = Slot { prefix: prefix(self.scan_of(at).key()), ..self.order[at] };
        while at > 0 && self.comes_before(slot, self.order[at - 1]) {
            self.order[at] = self.order[at - 1];
            at -= 1;
        }
        self.order[at] = slot;
    }

    #[inline]
    fn scan_of(&self, at: usize) -> &BlockScan {
        &self.scans[self.order[at].scan as usize]
    }

    /// Whether the scan of `a` has the smaller key, or the same key in a newer run.
    #[inline]
    fn comes_before(&self, a: Slot, b: Slot) -> bool {
        let key = |slot: Slot| self.scans[slot.scan as usize].key();
        a.prefix < b.prefix || a.prefix == b.prefix && (key(a), a.scan) < (key(b), b.scan)
    }
}
