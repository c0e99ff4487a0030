//! The writer's side: one write at a time goes to the MemTable that is active.

use super::list::Scratch;
use super::log::Log;
use super::node::{Version, node_bytes_max};
use super::shared::{Full, Next, Shared};
use super::table::MemTable;
use esker_api::WriteBatch;
use esker_base::{Clock, Error, MAX_KEY_BYTES, Result, Seqno};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Under the writer's lock.
pub(super) struct Writer {
    active: Option<Active>,
    /// MemTables made so far.
    tables: u64,
    seqno: Seqno,
    scratch: Scratch,
    limits: Limits,
}

struct Active {
    table: Arc<MemTable>,
    /// None in persistent memory.
    log: Option<Log>,
}

/// The largest batch: `encoded_bytes` and `entries` for the tables, `memory_bytes` for an empty MemTable.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) encoded_bytes: usize,
    pub(super) entries: usize,
    pub(super) memory_bytes: usize,
}

fn add(counter: &AtomicU64, more: usize) {
    // Only the writer counts.
    counter.store(counter.load(Ordering::Relaxed) + more as u64, Ordering::Relaxed);
}

impl Writer {
    pub(super) fn new(seed: u64, limits: Limits) -> Writer {
        Writer { active: None, tables: 0, seqno: 0, scratch: Scratch::new(seed), limits }
    }

    /// Applies a batch of puts and deletes.
    pub(super) fn write(&mut self, shared: &Shared, batch: &WriteBatch) -> Result<()> {
        let memory_bytes = self.check(batch)?;
        self.make_room(shared, memory_bytes, batch.encoded().len())?;
        let counts = &shared.counts;
        let active = self.active.as_mut().expect("there is one after `make_room`");
        if let Some(log) = &mut active.log {
            add(&counts.log_bytes, log.append(self.seqno + 1, batch)?);
            add(&counts.dram_writes, batch.len());
        } else {
            add(&counts.pmem_writes, batch.len());
        }
        for entry in batch.iter() {
            self.seqno += 1;
            let (key, kind, value) = (entry.key, entry.kind, entry.value);
            let version = Version { key, seqno: self.seqno, kind, value };
            active.table.list.insert(&version, &mut self.scratch);
        }
        add(&counts.user_bytes, batch.encoded().len());
        shared.visible.store(self.seqno, Ordering::Release);
        Ok(())
    }

    /// The memory that a batch takes at most, or why it can't be written.
    fn check(&self, batch: &WriteBatch) -> Result<usize> {
        if batch.has_empty_key() {
            return Err(Error::EmptyKey);
        }
        if batch.longest_key() > MAX_KEY_BYTES {
            return Err(Error::KeyTooLong { bytes: batch.longest_key() });
        }
        if batch.has_merges() {
            let (store, instead) = ("NoveLSM", "read the value and put it");
            return Err(Error::NotOffered { store, what: "merge", instead });
        }
        if batch.has_ttl() {
            let (store, instead) = ("NoveLSM", "put without a time to live");
            return Err(Error::NotOffered { store, what: "put values that expire", instead });
        }
        let entries = batch.iter();
        let memory_bytes =
            entries.map(|entry| node_bytes_max(entry.key.len(), entry.value.len())).sum();
        let (bytes, limit) = (batch.encoded().len(), self.limits.encoded_bytes);
        let (entries, entries_limit) = (batch.len(), self.limits.entries);
        if bytes > limit || entries > entries_limit || memory_bytes > self.limits.memory_bytes {
            return Err(Error::BatchTooLarge { bytes, limit, entries, entries_limit });
        }
        Ok(memory_bytes)
    }

    /// Leaves an active MemTable with so much free space: in DRAM, as soon as there is any.
    fn make_room(
        &mut self,
        shared: &Shared,
        memory_bytes: usize,
        batch_bytes: usize,
    ) -> Result<()> {
        let stays = self.active.as_ref().is_some_and(|active| {
            let fits = match &active.log {
                Some(log) => log.fits(batch_bytes),
                None => !shared.has_dram.load(Ordering::Relaxed),
            };
            fits && active.table.list.room() >= memory_bytes
        });
        if stays { Ok(()) } else { self.rotate(shared) }
    }

    fn rotate(&mut self, shared: &Shared) -> Result<()> {
        self.retire(shared);
        let started = shared.clock.now();
        let number = self.tables + 1;
        let next = shared.next(number)?;
        add(&shared.counts.stall_us, (shared.clock.now() - started).as_micros() as usize);
        self.tables = number;
        let (table, log) = match next {
            Next::Dram(mut log) => {
                add(&shared.counts.dram_tables, 1);
                log.begin(number);
                (MemTable::in_dram(number, &shared.blocks), Some(log))
            }
            Next::Pmem(table) => {
                add(&shared.counts.pmem_tables, 1);
                (table, None)
            }
        };
        let table = Arc::new(table);
        shared.show(&table);
        self.active = Some(Active { table, log });
        Ok(())
    }

    /// Hands the active MemTable to the flush.
    fn retire(&mut self, shared: &Shared) {
        if let Some(Active { table, log }) = self.active.take() {
            shared.retire(Full { table, log });
        }
    }

    /// Hands everything to the flush, and gives the number of the last MemTable.
    pub(super) fn retire_all(&mut self, shared: &Shared) -> u64 {
        if self.active.as_ref().is_some_and(|active| !active.table.list.is_empty()) {
            self.retire(shared);
        }
        match &self.active {
            // An empty one stays.
            Some(active) => active.table.number - 1,
            None => self.tables,
        }
    }
}
