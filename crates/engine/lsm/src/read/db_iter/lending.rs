//! Lends the blocks that a walk is in, so that a scan merges them itself.

use super::{DbIter, IterState};
use crate::read::block_merge::{BlockMerge, Refill};
use crate::read::source::Source;
use esker_base::{EntryCursor, Result};
use esker_table::{BlockScan, ScanEnd};

impl DbIter {
    /// Lends the rest of the current block of each run, from the current entry on. Returns false if
    /// a MemTable has entries in what follows, or if the next key is not stored as given.
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

    fn lend_blocks(&self, blocks: &mut BlockMerge) -> Result<bool> {
        let sources = self.merge.children();
        let is_in_range = |source: &Source| source.valid() && !self.range.ends_before(source.key());
        let in_range = || sources.iter().enumerate().filter(|(_, source)| is_in_range(source));
        let is_lent = |source: &Source| match source {
            Source::Run(run) => !self.keys.is_edge(run.key()),
            Source::MemTable(_) => false,
        };
        if !in_range().all(|(_, source)| is_lent(source)) {
            return Ok(false);
        }
        blocks.begin(sources.len(), self.snapshot, self.view.tombstones(), self.expired);
        for (at, source) in in_range() {
            if let Source::Run(run) = source {
                run.scan_block(self.snapshot, self.limit(), blocks.scan_mut(at))?;
                blocks.add(at);
            }
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
        let Source::Run(run) = self.merge.child_mut(source) else { return Ok(Refill::Lost) };
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

    fn limit(&self) -> Option<&[u8]> {
        self.limit.as_ref().map(|limit| &limit.key[..])
    }
}
