//! What writers, readers and the flush share: which MemTables there are, and what becomes of them.

use super::log::Log;
use super::memory::Blocks;
use super::table::MemTable;
use super::tree::Tree;
use arc_swap::ArcSwap;
use esker_base::{Error, Result, SystemClock};
use esker_pmem::Pool;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The MemTables that are not in tables yet, newest first.
pub(super) type View = Vec<Arc<MemTable>>;

/// A full MemTable, which waits for its flush.
pub(super) struct Full {
    pub(super) table: Arc<MemTable>,
    pub(super) log: Option<Log>,
}

/// See the module's text. Lock order: the writer's, then `state`.
pub(super) struct Shared {
    // Constant after construction.
    pub(super) tree: Tree,
    pub(super) pool: Arc<Pool>,
    pub(super) blocks: Blocks,
    pub(super) clock: SystemClock,
    // For readers.
    pub(super) view: ArcSwap<View>,
    /// Versions up to here are whole batches.
    pub(super) visible: AtomicU64,
    /// Whether a MemTable in DRAM can be had.
    pub(super) has_dram: AtomicBool,
    pub(super) counts: Counts,
    state: Mutex<State>,
    /// Notified of every change of `state`.
    changed: Condvar,
}

struct State {
    full: VecDeque<Full>,
    /// One for each MemTable that DRAM has space for.
    logs: Vec<Log>,
    /// MemTables up to here are in tables.
    flushed: u64,
    failure: Option<Error>,
    stops: bool,
}

/// Counts since the store was opened.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) user_bytes: AtomicU64,
    pub(super) log_bytes: AtomicU64,
    pub(super) stall_us: AtomicU64,
    pub(super) dram_tables: AtomicU64,
    pub(super) pmem_tables: AtomicU64,
    pub(super) dram_writes: AtomicU64,
    pub(super) pmem_writes: AtomicU64,
    pub(super) waits: AtomicU64,
    /// Reads that a MemTable in DRAM answered.
    pub(super) dram_hits: AtomicU64,
}

/// Where the next MemTable is.
pub(super) enum Next {
    Dram(Log),
    Pmem(MemTable),
}

impl Shared {
    pub(super) fn new(tree: Tree, pool: Arc<Pool>, blocks: Blocks, logs: Vec<Log>) -> Shared {
        Shared {
            tree,
            pool,
            blocks,
            clock: SystemClock::new(),
            view: ArcSwap::default(),
            visible: AtomicU64::new(0),
            has_dram: AtomicBool::new(!logs.is_empty()),
            counts: Counts::default(),
            state: Mutex::new(State {
                full: VecDeque::new(),
                logs,
                flushed: 0,
                failure: None,
                stops: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Hands a full MemTable to the flush.
    pub(super) fn retire(&self, full: Full) {
        self.state.lock().full.push_back(full);
        self.changed.notify_all();
    }

    /// The place of MemTable `number`: DRAM if there is space, or else the pool. Waits for the flush if
    /// both are full. There is always something to wait for: a log is in the hands of a full MemTable,
    /// or here.
    pub(super) fn next(&self, number: u64) -> Result<Next> {
        let mut state = self.state.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(log) = state.logs.pop() {
                self.has_dram.store(!state.logs.is_empty(), Ordering::Relaxed);
                return Ok(Next::Dram(log));
            }
            if let Some(table) = MemTable::in_pool(number, &self.pool)? {
                return Ok(Next::Pmem(table));
            }
            self.counts.waits.fetch_add(1, Ordering::Relaxed);
            self.wait(&mut state);
        }
    }

    /// Makes a MemTable the one that is written to.
    pub(super) fn show(&self, table: &Arc<MemTable>) {
        let _state = self.state.lock();
        let mut view = vec![table.clone()];
        view.extend(self.view.load().iter().cloned());
        self.view.store(Arc::new(view));
    }

    /// Waits until all MemTables up to `number` are in tables.
    pub(super) fn await_flush(&self, number: u64) -> Result<()> {
        let mut state = self.state.lock();
        while state.flushed < number {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            self.wait(&mut state);
        }
        Ok(())
    }

    fn wait(&self, state: &mut MutexGuard<'_, State>) {
        self.changed.wait(state);
    }

    /// Ends the flush, whatever is left.
    pub(super) fn stop(&self) {
        self.state.lock().stops = true;
        self.changed.notify_all();
    }

    /// Flushes full MemTables, oldest first, until it is stopped, or one fails.
    pub(super) fn flush_all(&self) {
        let _ending = Ending(self);
        while let Some(table) = self.oldest_full() {
            match self.tree.take(&*table.list).and_then(|()| self.release(&table)) {
                Ok(()) => self.flushed(table),
                Err(error) => return self.fail(error),
            }
        }
    }

    fn oldest_full(&self) -> Option<Arc<MemTable>> {
        let mut state = self.state.lock();
        loop {
            if state.stops {
                return None;
            }
            if let Some(full) = state.full.front() {
                return Some(full.table.clone());
            }
            self.wait(&mut state);
        }
    }

    /// Gives the extent back, which is free when the last reader is gone.
    fn release(&self, table: &MemTable) -> Result<()> {
        table.epoch.map_or(Ok(()), |epoch| self.pool.release(epoch))
    }

    fn flushed(&self, table: Arc<MemTable>) {
        let mut state = self.state.lock();
        let full = state.full.pop_front().expect("nobody else takes one out");
        let view = self.view.load();
        let left = view.iter().filter(|other| other.number != table.number).cloned();
        self.view.store(Arc::new(left.collect()));
        // Before anybody looks for its memory.
        drop((view, table, full.table));
        if let Some(log) = full.log {
            state.logs.push(log);
            self.has_dram.store(true, Ordering::Relaxed);
        }
        state.flushed += 1;
        self.changed.notify_all();
    }

    fn fail(&self, error: Error) {
        self.state.lock().failure.get_or_insert(error);
        self.changed.notify_all();
    }
}

/// Notifies the waiters that no thread flushes any more.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.fail(Error::Closed);
    }
}
