//! What a database reports of itself: errors, statistics, levels and files.

use super::Db;
use crate::compaction::space::budget;
use crate::compaction::space::budget::PickerContext;
use crate::engine::Engine;
use crate::log::torn_tail::TornTail;
use crate::recovery::report;
use crate::recovery::unlisted_files;
use crate::stats;
use crate::stats::events::Event;
use crate::stats::{KeyspaceLevels, LiveData, LiveStatus, SpaceAmpStatus, Stats};
use crate::version::unreadable::UnreadableTable;
use esker_base::{Error, Result};
use esker_memtable::DramTableStats;
use esker_storage::{Encryption, ReadPath};
use std::sync::Arc;

impl Db {
    /// Returns the error that stops or limits background work now, or `None`.
    ///
    /// It is the failure of the log, of the flush or of a compaction, such as a full disk. Of a
    /// [follower](Db::open_follower) it is the failure of the last [`Db::catch_up`].
    /// Otherwise it is [`Error::TableUnreadable`] if compaction skips a table;
    /// [`Db::unreadable_tables`] lists all of these.
    pub fn background_error(&self) -> Option<Error> {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            return inner.tree.check_usable().err();
        }
        let of_tables = || inner.tree.unreadable_error();
        let of_follower = || self.handle.follower.get().and_then(|follower| follower.error());
        report::failure(inner).or_else(of_follower).or_else(of_tables)
    }

    /// Returns the tables that compaction skips because a read of them failed. Empty in a forked
    /// child.
    ///
    /// Reads still use the intact parts of such a table. After an I/O error, compaction tries the
    /// table again after a pause. The next open tries all tables again.
    pub fn unreadable_tables(&self) -> Vec<UnreadableTable> {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            return Vec::new();
        }
        inner.tree.view.pin().version.unreadable_tables(inner.tree.keys)
    }

    /// Returns the statistics of the database.
    ///
    /// May wait for a sync of the manifest. In a forked child, only `background_error` is set.
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            let background_error = self.background_error().map(|error| error.to_string());
            return Stats { background_error, ..Stats::default() };
        }
        let background_error = self.background_error().map(|error| error.to_string());
        report::stats(inner, background_error, self.follower_stats())
    }

    /// Returns the statistics, and has calls watched for three minutes from now on, so that
    /// [`Stats::call_times`] has their times.
    ///
    /// For a page of metrics that is made again and again, at least every three minutes. A watched call
    /// is counted, and about 10,000 a second of each kind read the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// assert_eq!(db.watched_stats().call_times.write.count(), 0);
    /// db.default_keyspace().put("key", "value")?;
    /// assert_eq!(db.watched_stats().call_times.write.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn watched_stats(&self) -> Stats {
        let inner = self.inner();
        if inner.tree.owner.is_current() {
            report::watch_calls(inner);
        }
        self.stats()
    }

    /// Returns the status of the database, as `esker top` shows it in another process.
    ///
    /// Calls are counted, and a sample of them timed, for ten seconds after each status. So rates and
    /// latencies are the difference of two statuses. Most calls then read no clock: about 10,000 a second
    /// of each kind are timed. [`Settings::answers_requests`](crate::Settings::answers_requests) has a thread answer
    /// other processes that ask for it.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::stats::CallKind;
    /// use esker::{Db, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let before = db.status()?;
    /// db.default_keyspace().put("key", "value")?;
    /// let after = db.status()?;
    /// let writes = |status: &esker::stats::LiveStatus| {
    ///     status.calls.iter().find(|it| it.call == CallKind::Write).map_or(0, |it| it.count)
    /// };
    /// assert_eq!(writes(&after) - writes(&before), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`] once the database is closed, [`Error::Forked`] in a forked child.
    pub fn status(&self) -> Result<LiveStatus> {
        self.usable().map(|inner| report::status(inner, false))
    }

    /// Returns what happened after the event with the number `after`: flushes, compactions, stalls,
    /// checkpoints, errors, changes of settings, and slow calls.
    ///
    /// The latest 256 events are kept, and in addition the latest 64 slow calls. With the feature
    /// `tracing`, each is also an event of the crate `tracing`, and flushes, compactions and checkpoints are spans.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::stats::EventKind;
    /// use esker::{Db, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// db.default_keyspace().put("key", "value")?;
    /// db.flush()?;
    /// let events = db.events(0);
    /// assert!(events.iter().any(|event| matches!(event.kind, EventKind::Flush { .. })));
    /// // Later, what is new since then.
    /// let seen = events[events.len() - 1].number;
    /// assert!(db.events(seen).iter().all(|event| event.number > seen));
    /// # Ok(())
    /// # }
    /// ```
    pub fn events(&self, after: u64) -> Vec<Event> {
        self.inner().tree.events.after(after)
    }

    /// Calls `listener` for each event from now on: those of [`Db::events`]. It replaces an earlier listener.
    ///
    /// The thread that has done or met what the event describes calls it, before it goes on: a background job,
    /// a writer that stalled, a caller of a slow read, of [`Db::set`] or of a checkpoint. So it must return
    /// soon, and must neither write nor wait for background work. Calls may overlap. Events of a thread that is
    /// in the listener do not call it again. A panic in it is discarded.
    ///
    /// Let it hold no [`Db`]: a handle keeps the database open, and the database holds the listener until it is
    /// closed.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::stats::EventKind;
    /// use esker::{Db, Settings};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let flushed = Arc::new(AtomicU64::new(0));
    /// let total = flushed.clone();
    /// db.listen(move |event| {
    ///     if let EventKind::Flush { bytes, .. } = event.kind {
    ///         total.fetch_add(bytes, Ordering::Relaxed);
    ///     }
    /// });
    /// db.default_keyspace().put("key", "value")?;
    /// db.flush()?;
    /// assert!(flushed.load(Ordering::Relaxed) > 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.inner().tree.events.listener.set(Arc::new(listener));
    }

    /// Returns how reads of many blocks at once are done: by `io_uring`, by threads, or by the threads
    /// that call, before the first such read and where nothing else is possible.
    pub fn wide_reads(&self) -> ReadPath {
        self.inner().tree.cache.reader().path()
    }

    /// Returns the encryption of the files, if they are encrypted.
    pub fn encryption(&self) -> Option<Encryption> {
        self.inner().tree.storage.encryption()
    }

    /// Returns the bytes that table files and the log segments of MemTables use. 0 in a forked
    /// child.
    ///
    /// Takes no lock that is held across I/O.
    pub fn used_bytes(&self) -> u64 {
        let inner = self.inner();
        if !inner.tree.owner.is_current() {
            return 0;
        }
        let in_memory: u64 = inner.tree.view.load().memtables.iter().map(|m| m.bytes_used()).sum();
        inner.tree.table_space().bytes + in_memory
    }

    /// Returns the statistics of the DRAMTable without waiting: the field of [`Db::stats`] by
    /// itself.
    pub fn dram_table(&self) -> DramTableStats {
        let inner = self.inner();
        match inner.tree.owner.is_current() {
            true => report::dram_table(inner),
            false => DramTableStats::default(),
        }
    }

    /// Returns what the open rejected at the end of the log, or `None` if the log ended cleanly.
    ///
    /// Causes are a crash during writes, power loss before a sync, or later damage to the file. A
    /// read-only database reports only an end with whole frames after it: an incomplete frame
    /// without any may be a write in progress.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.inner().torn_log.as_ref()
    }

    /// Returns the new names, `lost-NAME`, of the files that this open set aside.
    ///
    /// The manifest does not list these files, and they may hold writes that are nowhere else.
    /// After a crash, none of these writes was acknowledged as durable.
    pub fn set_aside(&self) -> &[String] {
        &self.inner().set_aside
    }

    /// Returns the names and the lengths in bytes of all files that this and earlier opens set
    /// aside.
    ///
    /// Esker never removes them; an operator does.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be listed, [`Error::Forked`] in a forked child,
    /// [`Error::Closed`] once the database is closed.
    pub fn lost_files(&self) -> Result<Vec<(String, u64)>> {
        unlisted_files::lost_files(&*self.usable()?.tree.storage)
    }

    /// Estimates the live data in tables from samples of their keys. `None` if a table cannot be
    /// opened.
    pub fn estimate_live_data(&self) -> Option<LiveData> {
        let inner = self.usable().ok()?;
        let snapshots = inner.tree.snapshots.list();
        stats::live_data(&inner.tree.opened_version(), &snapshots, inner.tree.time.now_if_used())
    }

    /// Returns the space usage of each keyspace that has a space-amplification limit.
    pub fn space_amp_status(&self) -> Vec<SpaceAmpStatus> {
        let Ok(inner) = self.usable() else { return Vec::new() };
        // All that waits for others comes before the version: merged files stay while it is held.
        let segment_bytes = inner.tree.known_segment_bytes();
        let around = PickerContext {
            snapshots: inner.tree.snapshots.list(),
            zombie_bytes: inner.tree.installer.zombie_bytes(),
            now: inner.tree.time.now_if_used(),
            ..PickerContext::default()
        };
        budget::goals(&inner.tree.opened_version(), segment_bytes, &around)
    }

    /// Whether the empty key is valid. True except in databases that pre-release builds created.
    pub fn takes_empty_key(&self) -> bool {
        self.inner().tree.keys.takes_empty_key()
    }

    /// Returns the levels, runs and tables of every keyspace. Empty once the database is closed.
    pub fn levels(&self) -> Vec<KeyspaceLevels> {
        // A flush that has just ended may not have come to opening its tables; one that can't be opened
        // leaves its level's figures out.
        let levels = |inner: &Engine| stats::levels(&inner.tree.opened_version(), inner.tree.keys);
        self.usable().map_or_else(|_| Vec::new(), levels)
    }
}
