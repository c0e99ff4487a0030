//! A MemTable: a list of versions, and what it holds of log and pool.

use super::list::{List, SkipList};
use super::memory::Blocks;
use esker_base::Result;
use esker_pmem::{Arena, Pool};
use std::sync::Arc;

/// A MemTable. Those of a store follow one another in time: whatever one holds is newer than all in
/// those of lower numbers.
pub(super) struct MemTable {
    pub(super) number: u64,
    pub(super) list: Box<dyn List>,
    /// The extent that it is in, if it is in persistent memory.
    pub(super) epoch: Option<u32>,
}

impl MemTable {
    pub(super) fn in_dram(number: u64, blocks: &Blocks) -> MemTable {
        MemTable { number, list: Box::new(SkipList::new(blocks.take())), epoch: None }
    }

    /// `None` if the pool is full.
    pub(super) fn in_pool(number: u64, pool: &Arc<Pool>) -> Result<Option<MemTable>> {
        // No store makes four billion MemTables of 64 KiB and more.
        let epoch = u32::try_from(number).expect("an epoch for each MemTable");
        // Nobody recovers it: no header says what it is.
        let Some(extent) = pool.acquire(epoch, &[])? else { return Ok(None) };
        let list = Box::new(SkipList::new(Arena::new(extent, 0)));
        Ok(Some(MemTable { number, list, epoch: Some(epoch) }))
    }

    pub(super) fn is_in_dram(&self) -> bool {
        self.epoch.is_none()
    }
}

/// Makes the pages of all free extents present, so that no writer waits for that later.
pub(super) fn touch(pool: &Arc<Pool>) -> Result<()> {
    let mut extents = Vec::new();
    while let Some(extent) = pool.acquire(1 + extents.len() as u32, &[])? {
        extents.push(extent);
    }
    extents.iter().try_for_each(|extent| pool.release(extent.epoch()))
}
