//! Which data block of an open table has a version, and where that block is: from the whole index, or
//! from the part of it that is about the block.

use crate::index::Index;
use crate::part_cache::PartUse;
use crate::parts::{Part, Parts};
use crate::reader::Table;
use crate::table_index::{HeldPart, Patience, TableIndex, TableParts};
use esker_base::{Error, MAX_SEQNO, Result, Seqno};
use std::ops::Range;
use std::sync::Arc;

impl Table {
    /// Whether a version of `key` at or below `snapshot` may be here. False is certain. A filter that is damaged
    /// excludes no key.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] as `patience` says, and a read that fails for another reason than damage.
    #[doc(hidden)]
    #[inline]
    pub fn may_contain(
        &self,
        key: &[u8],
        key_hash: u64,
        snapshot: Seqno,
        patience: Patience,
    ) -> Result<bool> {
        match &self.index {
            TableIndex::Whole(_, filter) => Ok(filter.may_contain(key_hash)),
            TableIndex::Parts(it) => self.part_may_contain(it, key, key_hash, snapshot, patience),
        }
    }

    fn part_may_contain(
        &self,
        it: &TableParts,
        key: &[u8],
        key_hash: u64,
        snapshot: Seqno,
        patience: Patience,
    ) -> Result<bool> {
        let at = it.parts.find(key, snapshot);
        if at == it.parts.len() {
            return Ok(false);
        }
        if let Some(part) = &*it.slots.get(at, PartUse::Lookup) {
            return Ok(part.filter.may_contain(key_hash));
        }
        match self.load_part(it, at, patience) {
            Ok(part) => Ok(part.filter.may_contain(key_hash)),
            // The lookup that follows reports it.
            Err(error) if error.is_corruption() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Where the data block is that holds the first version at or after `(key, seqno)`, if there is one.
    #[inline]
    pub(crate) fn find_place(
        &self,
        key: &[u8],
        seqno: Seqno,
        patience: Patience,
    ) -> Result<Option<Range<u64>>> {
        match &self.index {
            TableIndex::Whole(index, _) => {
                let n = index.find(key, seqno);
                Ok((n < index.len()).then(|| self.in_file(0, index.block(n))))
            }
            TableIndex::Parts(it) => self.find_place_in_part(it, key, seqno, patience),
        }
    }

    fn find_place_in_part(
        &self,
        it: &TableParts,
        key: &[u8],
        seqno: Seqno,
        patience: Patience,
    ) -> Result<Option<Range<u64>>> {
        let at = it.parts.find(key, seqno);
        if at == it.parts.len() {
            return Ok(None);
        }
        let start = it.parts.data_of(at).start;
        let place = |part: &Part| {
            let n = part.index.find(key, seqno);
            (n < part.index.len()).then(|| self.in_file(start, part.index.block(n)))
        };
        if let Some(part) = &*it.slots.get(at, PartUse::Walk) {
            return Ok(place(part));
        }
        self.load_part(it, at, patience).map(|part| place(&part))
    }

    /// Part `at`, which no slot has.
    #[cold]
    fn load_part(&self, it: &TableParts, at: usize, patience: Patience) -> Result<Arc<Part>> {
        if patience == Patience::FromMemory {
            return Err(Error::WouldBlock);
        }
        let part = Arc::new(self.read_part(&it.parts, at, |_| {})?);
        self.cache.insert_part(&it.slots, at, &part, PartUse::Lookup);
        Ok(part)
    }

    /// Part `at`, from the file. `report` gets damage of its filter.
    pub(crate) fn read_part(
        &self,
        parts: &Parts,
        at: usize,
        report: impl FnOnce(Error),
    ) -> Result<Part> {
        let place = self.in_file(0, parts.place(at));
        let stored = self.source.read(place.start, (place.end - place.start) as usize)?;
        parts.read(at, &self.source, &stored, report)
    }

    /// The part that a lookup needs and that is not in memory, and where it is in the file.
    pub(crate) fn missing_part(&self, key: &[u8], seqno: Seqno) -> Option<(usize, Range<u64>)> {
        let TableIndex::Parts(it) = &self.index else { return None };
        let at = it.parts.find(key, seqno);
        let is_missing = at < it.parts.len() && it.slots.get(at, PartUse::Walk).is_none();
        is_missing.then(|| (at, self.in_file(0, it.parts.place(at))))
    }

    /// Gives the cache part `at`, unless its `stored` bytes are damaged.
    pub(crate) fn keep_part(&self, at: usize, stored: &[u8]) {
        let TableIndex::Parts(it) = &self.index else { return };
        if let Ok(part) = it.parts.read(at, &self.source, stored, |_| {}) {
            self.cache.insert_part(&it.slots, at, &Arc::new(part), PartUse::Lookup);
        }
    }

    /// Part `at` for a cursor.
    fn held_part<'h>(
        &self,
        it: &TableParts,
        at: usize,
        held: &'h mut HeldPart,
        purpose: PartUse,
    ) -> Result<&'h Part> {
        if held.0.as_ref().is_none_or(|(held, _)| *held != at) {
            let part = match &*it.slots.get(at, purpose) {
                Some(part) => part.clone(),
                None => {
                    let part = Arc::new(self.read_part(&it.parts, at, |_| {})?);
                    self.cache.insert_part(&it.slots, at, &part, purpose);
                    part
                }
            };
            held.0 = Some((at, part));
        }
        Ok(&held.0.as_ref().expect("it was just put there").1)
    }

    /// The data block that holds the first version at or after `(key, seqno)`, or the number of blocks.
    #[inline]
    pub(crate) fn find_block(
        &self,
        key: &[u8],
        seqno: Seqno,
        held: &mut HeldPart,
        purpose: PartUse,
    ) -> Result<usize> {
        match &self.index {
            TableIndex::Whole(index, _) => Ok(index.find(key, seqno)),
            TableIndex::Parts(it) => {
                let at = it.parts.find(key, seqno);
                if at == it.parts.len() {
                    return Ok(it.parts.blocks());
                }
                let part = self.held_part(it, at, held, purpose)?;
                Ok(it.parts.blocks_of(at).start + part.index.find(key, seqno))
            }
        }
    }

    /// Whether block `n`, or one before it, holds the first version of `key` or of a later one. `held` is the part of
    /// block `n`.
    #[inline]
    pub(crate) fn is_reached(&self, key: &[u8], n: usize, held: &HeldPart) -> Result<bool> {
        let it = match &self.index {
            TableIndex::Whole(index, _) => return Ok(index.find(key, MAX_SEQNO) <= n),
            TableIndex::Parts(it) => it,
        };
        // The top alone decides for all parts but that of the block.
        let (at, own) = (it.parts.find(key, MAX_SEQNO), it.parts.part_of(n));
        if at != own {
            return Ok(at < own);
        }
        let within =
            |part: &Part| it.parts.blocks_of(own).start + part.index.find(key, MAX_SEQNO) <= n;
        match &held.0 {
            Some((held, part)) if *held == own => Ok(within(part)),
            _ => self.held_part(it, own, &mut HeldPart::default(), PartUse::Walk).map(within),
        }
    }

    /// A block at or behind which the versions at or after `(key, seqno)` start: from memory, so that it may be a
    /// later one.
    pub(crate) fn block_not_before(&self, key: &[u8], seqno: Seqno) -> usize {
        match &self.index {
            TableIndex::Whole(index, _) => index.find(key, seqno),
            TableIndex::Parts(it) => match it.parts.find(key, seqno) {
                at if at < it.parts.len() => it.parts.blocks_of(at).end - 1,
                _ => it.parts.blocks(),
            },
        }
    }

    /// A block at or before which the versions at or after `(key, seqno)` start: from memory, so that
    /// it may be an earlier one.
    pub(crate) fn block_not_after(&self, key: &[u8], seqno: Seqno) -> usize {
        match &self.index {
            TableIndex::Whole(index, _) => index.find(key, seqno),
            TableIndex::Parts(it) => match it.parts.find(key, seqno) {
                at if at < it.parts.len() => it.parts.blocks_of(at).start,
                _ => it.parts.blocks(),
            },
        }
    }

    /// Where data block `n` is in the file.
    #[inline]
    pub(crate) fn block_place(
        &self,
        n: usize,
        held: &mut HeldPart,
        purpose: PartUse,
    ) -> Result<Range<u64>> {
        match &self.index {
            TableIndex::Whole(index, _) => Ok(self.in_file(0, index.block(n))),
            TableIndex::Parts(it) => {
                let at = match &held.0 {
                    Some((at, _)) if it.parts.blocks_of(*at).contains(&n) => *at,
                    _ => it.parts.part_of(n),
                };
                let part = self.held_part(it, at, held, purpose)?;
                let block = part.index.block(n - it.parts.blocks_of(at).start);
                Ok(self.in_file(it.parts.data_of(at).start, block))
            }
        }
    }

    /// Asks the processor for data block `n`, if there is one and its place is in memory.
    #[inline]
    pub(crate) fn prefetch_block(&self, n: usize) {
        if let TableIndex::Whole(index, _) = &self.index
            && n < index.len()
        {
            self.cache.prefetch(self.block_key(&self.in_file(0, index.block(n))));
        }
    }

    /// Where a range is in the file that starts so far behind the start of the table.
    #[inline]
    pub(crate) fn in_file(&self, start: u64, range: Range<u64>) -> Range<u64> {
        let start = self.source.offset + start;
        start + range.start..start + range.end
    }

    /// Removes the data blocks from the block cache. Takes a lookup for each. Those of a part that is not in memory
    /// age out: to read the part would cost more than it frees.
    pub fn leave_cache(&self) {
        if self.cache.used_bytes() == 0 {
            return;
        }
        let remove = |index: &Index, start| {
            for n in 0..index.len() {
                self.cache.remove(self.block_key(&self.in_file(start, index.block(n))));
            }
        };
        match &self.index {
            TableIndex::Whole(index, _) => remove(index, 0),
            TableIndex::Parts(it) => {
                for at in 0..it.parts.len() {
                    if let Some(part) = &*it.slots.get(at, PartUse::Walk) {
                        remove(&part.index, it.parts.data_of(at).start);
                    }
                }
            }
        }
    }

    /// The bytes of the data blocks that are wholly between `start` and `end`. Of a large table, a bound in a part
    /// that is not in memory counts as the middle of that part.
    pub fn bytes_within(&self, start: &[u8], end: &[u8]) -> u64 {
        let [first, last] = [start, end].map(|key| match &self.index {
            TableIndex::Whole(index, _) => {
                let n = index.find(key, MAX_SEQNO);
                (n < index.len()).then(|| index.block(n))
            }
            TableIndex::Parts(it) => it.about(key),
        });
        let after = first.map_or(u64::MAX, |block| block.end);
        let before = last.map_or(self.data_bytes(), |block| block.start);
        before.saturating_sub(after)
    }

    /// The bytes of all data blocks.
    pub(crate) fn data_bytes(&self) -> u64 {
        match &self.index {
            TableIndex::Whole(index, _) => index.blocks_end(),
            TableIndex::Parts(TableParts { parts, .. }) => parts.data_of(parts.len() - 1).end,
        }
    }
}
