//! Opens the tables of a database in the background.
//!
//! Before anything is written, `Db::open` checks that each table file exists and is long enough,
//! and that each table in it ends with a footer that this version can read. The rest is to load
//! index, filter, range tombstones, sketches and properties, some megabytes per gigabyte of tables.
//! Threads do that while the database is in use, and a read opens the tables that it needs. A flush
//! opens its own tables. A close ends the opening.
//!
//! If tables are many or large, compared with the files that may be open and the memory budget, only
//! those are opened in advance whose content determines what is compacted: tables with deletes, and
//! those of keyspaces that count duplicates. Reads open the others ([`leave_to_reads`]).
//!
//! A table that cannot be opened is a background error, and an error of each read of it. No
//! compaction is picked before all tables are open, because the content of tables determines the
//! best one. If a keyspace has a space-amplification limit, or without threads, the open itself
//! opens all tables before it writes anything. It fails if one cannot be opened.

use super::close::EngineHandle;
use super::env::Env;
use crate::engine::Engine;
use crate::options::space_policy::Dedup;
use crate::parallel;
use crate::resources::Resources;
use crate::scheduler::PanicGuard;
use crate::scheduler::table_opening::TableOpenState;
use crate::version::{TableHandle, Version};
use esker_base::Priority;
use parking_lot::Mutex;
use std::sync::Arc;

/// Tables are opened in advance if together they take at most this part of the memory budget.
const EAGER_MEMORY_PART: u64 = 16;

/// And if there are at most so many for each file that may be open.
const EAGER_TABLES_PER_FILE: u64 = 2;

/// Leaves tables to the reads that need them, if there is too much to open all of them in advance.
/// `table_memory` is what all tables take once they are open. Returns what those take, about, that are
/// opened in advance.
pub(super) fn leave_to_reads(version: &Version, table_memory: u64, resources: &Resources) -> u64 {
    let tables = version.keyspaces.values().flat_map(|keyspace| {
        let counts_duplicates = keyspace.settings.dedup != Dedup::None;
        let tables = keyspace.tables();
        tables.map(move |(_, _, table)| (table, counts_duplicates || table.has_deletes()))
    });
    let (planned, others): (Vec<_>, Vec<_>) =
        tables.partition(|(_, is_planned_with)| *is_planned_with);
    let all = (planned.len() + others.len()) as u64;
    let is_little = table_memory <= resources.memory_bytes() as u64 / EAGER_MEMORY_PART;
    let files = resources.max_open_files() as u64;
    if others.is_empty() || (is_little && all <= files.saturating_mul(EAGER_TABLES_PER_FILE)) {
        return table_memory;
    }
    others.iter().for_each(|(table, _)| table.leave_to_reads());
    table_memory * planned.len() as u64 / all
}

/// The tables that no thread has taken up yet.
type Waiting = Arc<Mutex<std::vec::IntoIter<Arc<TableHandle>>>>;

/// Has threads open the tables that are not open. Comes before the lanes: from here on no compaction is
/// chosen until they are.
pub(crate) fn start(handle: &EngineHandle, env: &Env, table_memory: u64) {
    let inner = &handle.inner;
    let unopened = inner.tree.view.load().version.unopened();
    let newest_file = unopened.iter().map(|table| table.meta.id.file).max().unwrap_or(0);
    {
        let mut jobs = inner.schedule.jobs.lock();
        jobs.opening = TableOpenState { newest_file, table_memory, ..TableOpenState::default() };
        jobs.opened_at = inner.tree.clock.now();
    }
    let openers = (parallel::helpers() + 1).min(unopened.len());
    let waiting: Waiting = Arc::new(Mutex::new(unopened.into_iter()));
    let mut threads = handle.threads.lock();
    for number in 0..openers {
        let opener = TableOpener::new(inner.clone());
        let waiting = waiting.clone();
        let body = Box::new(move || opener.open(&waiting));
        match env.background.spawn(&format!("esker-open-{number}"), Priority::Normal, body) {
            Ok(thread) => threads.extend(thread),
            // The others do its share. If there are none, all were opened when the body was dropped.
            Err(_) => break,
        }
    }
    drop(threads);
    inner.share_memory();
}

/// One that opens tables: as long as there is one, the schedule knows.
struct TableOpener(Arc<Engine>);

impl TableOpener {
    fn new(inner: Arc<Engine>) -> TableOpener {
        inner.schedule.jobs.lock().opening.openers += 1;
        TableOpener(inner)
    }

    fn open(self, waiting: &Waiting) {
        let inner = self.0.clone();
        let _alarm = PanicGuard(&inner.schedule);
        // What it does at its end is under the alarm, too.
        let _opener = self;
        while !inner.gate.is_cancelled() {
            let Some(table) = waiting.lock().next() else { break };
            if table.reader(&inner.tree.cache).is_err() {
                inner.schedule.retry_tables(inner.tree.clock.now());
            }
        }
    }
}

impl Drop for TableOpener {
    fn drop(&mut self) {
        let inner = &self.0;
        {
            let mut jobs = inner.schedule.jobs.lock();
            jobs.opening.openers -= 1;
            jobs.opening.is_given_up |= inner.gate.is_cancelled();
        }
        if !std::thread::panicking() {
            // The last one finds all that are left; those before find others at it.
            inner.open_new_tables();
        }
        inner.schedule.wake();
        inner.schedule.progress.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Db;
    use crate::manifest::version_edit::tests::sample_table;
    use crate::options::settings::{Log, Settings};
    use crate::version::Run;
    use esker_base::background::Stepped;
    use esker_base::{Background, Error, KeyspaceId, Threads};
    use esker_storage::MemoryStorage;

    #[test]
    fn an_opener_that_panics_is_noticed_and_keeps_nobody_waiting() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default().log(Log::None)).unwrap();
        // What has no file can't be opened, and nobody asks for it.
        let impossible = TableHandle::detached(sample_table(1));
        let run = Run::new(1, vec![impossible.clone()]);
        db.inner().tree.view.change(|view| {
            let version = Arc::make_mut(&mut view.version);
            let keyspace = version.keyspaces.get_mut(&KeyspaceId::DEFAULT).unwrap();
            Arc::make_mut(keyspace).levels[1].runs.push(Arc::new(run));
        });
        let waiting = Arc::new(Mutex::new(vec![impossible].into_iter()));
        let opener = TableOpener::new(db.handle.inner.clone());
        let body = Box::new(move || opener.open(&waiting));
        let thread = Threads.spawn("esker-open", Priority::Normal, body).unwrap().unwrap();
        assert!(!thread.join(), "it has panicked");
        let jobs = db.inner().schedule.jobs.lock();
        assert!(jobs.panicked && jobs.opening.openers == 0);
        drop(jobs);
        assert!(matches!(db.compact_keyspace(&db.default_keyspace()), Err(Error::Closed)));
    }
}
