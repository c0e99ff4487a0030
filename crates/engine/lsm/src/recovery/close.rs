//! Close: stop background work, flush MemTables, install pending compactions, write the closing
//! record; then release threads, files and locks even if other handles exist.
//!
//! In a forked child nothing of this can be done: the threads are the parent's, and a lock may be held by
//! one of them permanently. The child releases nothing and leaks it all.

use crate::background::executor::{flush_oldest, install_deferred};
use crate::engine::Engine;
use crate::follow::catch_up::Follower;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::write_rate::BackgroundWriteRate;
use crate::resources::crew::Member;
use crate::stats::cumulative::CumulativeStats;
use crate::version::Version;
use crate::version::readers::super_version::SuperVersion;
use esker_base::background::Running;
use esker_base::{Error, Result};
use parking_lot::{Mutex, RwLockReadGuard};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Closes the database when the last [`Db`] goes.
pub(crate) struct EngineHandle {
    pub(crate) inner: Arc<Engine>,
    /// Those that open tables.
    pub(crate) threads: Mutex<Vec<Box<dyn Running>>>,
    /// The database as the background threads serve it, if there are any.
    pub(crate) member: Mutex<Option<Arc<Member>>>,
    /// What follows another process, if this open does.
    pub(crate) follower: OnceLock<Arc<Follower>>,
}

impl EngineHandle {
    pub(crate) fn close(&self) -> Result<()> {
        if !self.inner.tree.owner.is_current() {
            return self.inner.tree.check_usable();
        }
        let closed = self.close_once();
        // A cursor that was left over ends here, however the closing went.
        self.inner.tree.leases.recall();
        closed
    }

    fn close_once(&self) -> Result<()> {
        let inner = &self.inner;
        if inner.tree.read_only {
            self.end_following();
            inner.release();
            return Ok(());
        }
        // Held to the end: a second call waits for the first.
        let mut threads = self.threads.lock();
        if inner.gate.is_cancelled() {
            return Ok(());
        }
        // A caller waits for what is left to do.
        inner.gate.limiter.set(BackgroundWriteRate::Unlimited);
        inner.flush_within_goals();
        inner.gate.cancel();
        inner.schedule.close();
        let mut sound = true;
        let builders = std::mem::take(&mut *inner.indexes.builders.lock());
        for thread in threads.drain(..).chain(builders) {
            sound &= thread.join();
        }
        if let Some(member) = self.member.lock().take() {
            inner.share.resources().crew().leave(&member);
        }
        sound &= !inner.schedule.jobs.lock().panicked;
        let finished = if sound { inner.finish_close() } else { Err(Error::Closed) };
        inner.release();
        inner.tree.events.listener.clear();
        finished
    }
}

impl EngineHandle {
    fn end_following(&self) {
        let Some(follower) = self.follower.get() else { return };
        follower.stop(&self.inner);
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(|thread| _ = thread.join());
        follower.release();
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        if !self.inner.tree.owner.is_current() {
            std::mem::forget(std::mem::take(self.threads.get_mut()));
            std::mem::forget(self.inner.clone());
            return;
        }
        // A drop can't report. What matters is in the log.
        let _ = self.close();
    }
}

/// A database that is not closed meanwhile.
pub(crate) struct Upkeep<'a> {
    inner: &'a Engine,
    _guard: RwLockReadGuard<'a, ()>,
}

impl<'a> Upkeep<'a> {
    pub(crate) fn begin(inner: &'a Engine) -> Self {
        Upkeep { inner, _guard: inner.upkeep.read_recursive() }
    }
}

impl std::ops::Deref for Upkeep<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        self.inner
    }
}

impl Engine {
    /// Releases files and locks. Every call through another handle fails from here on.
    fn release(&self) {
        self.tree.closed.store(true, Ordering::Release);
        // Handles may live on, and other databases of the process must not pay for them.
        self.calls.close();
        let nothing = Arc::new(Version::default());
        self.tree.view.change(|view| {
            *view = SuperVersion::of(nothing);
        });
        self.tree.installer.release();
        self.tree.leases.recall();
        self.commit.release_failed();
        self.commit.signal.announce();
        self.tree.logs.release();
        // Upkeep that another thread is just at may be writing files.
        let _exclusive = self.upkeep.write();
        self.locks.lock().clear();
        // Handles of keyspaces may live on, and after a failed log or a panic the segments are still here.
        self.schedule.release();
        if let Some(dram_table) = &self.tree.dram_table {
            dram_table.set_bytes(0);
        }
        self.tree.cache.reader().close();
        self.share.give_back();
    }

    /// Flushes while there are lanes, if a keyspace has a space-amplification limit: they do the compactions that a flush
    /// has to wait for. After them only what is written meanwhile is flushed regardless. A failure here shows
    /// again when that is flushed.
    fn flush_within_goals(&self) {
        if self.tree.view.load().version.has_space_goal() {
            let _ = self.flush_all();
        }
    }

    /// After the lanes are gone: waits for the writers, flushes, and says in the manifest that all is
    /// well.
    fn finish_close(&self) -> Result<()> {
        if !self.commit.close() {
            let cause = self.commit.failure().expect("only a failed log leaves writers behind");
            return Err(Error::LogFailed { cause: Arc::new(cause) });
        }
        self.schedule.release();
        if let Some(cause) = self.commit.failure() {
            return Err(Error::LogFailed { cause: Arc::new(cause) });
        }
        // Before the flushes: what was merged makes room for them. If that fails it is lost, and no write with it: what
        // is in memory must not be lost for it.
        let _ = install_deferred(self);
        loop {
            let view = self.tree.view.load();
            let Some(memtable) = view.memtables.last().cloned() else { break };
            drop(view);
            if memtable.entries() == 0 {
                self.tree.view.change(|view| view.memtables.retain(|m| !Arc::ptr_eq(m, &memtable)));
                continue;
            }
            flush_oldest(self)?;
            self.look_at_space();
        }
        // Logs that were prepared and not used.
        let mut unused = Vec::new();
        self.tree.install(
            CumulativeStats::default(),
            |state| {
                unused.extend(state.logs.keys().copied());
                let gone = unused.iter().map(|&epoch| VersionChange::RemoveLog(epoch));
                let time = &self.tree.time;
                let mark = time.is_used().then(|| VersionChange::ExpiryMark(time.end()));
                Ok(VersionEdit::of(gone.chain(mark).chain([VersionChange::Closed])))
            },
            |_| {},
        )?;
        self.tree.installer.seal();
        unused.into_iter().for_each(|epoch| self.tree.logs.retire(epoch));
        self.tree.logs.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::background::steps::step_lane;
    use crate::resources::lanes::JobClass;
    use crate::{Db, Env, Log, Settings, SyncPolicy};
    use esker_base::background::Stepped;
    use esker_base::{Error, Rng};
    use esker_memtable::MemTable;
    use esker_storage::fault::FaultKind;
    use esker_storage::{FaultStorage, MemoryStorage};
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    #[test]
    fn a_closed_database_makes_no_call_of_others_count() {
        for slow_call in [Duration::MAX, Duration::from_secs(1)] {
            let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
            let settings = Settings {
                slow_call,
                segment_bytes: 64 << 10,
                memory_bytes: 8 << 20,
                ..Settings::default()
            };
            let db = Db::open_with(env, settings).unwrap();
            db.status().unwrap();
            let inner = db.handle.inner.clone();
            assert!(inner.calls.is_on());
            db.close().unwrap();
            assert!(!inner.calls.is_on());
        }
    }

    /// A handle keeps the database's state, but neither segments nor the DRAMTable.
    #[test]
    fn a_close_frees_memory_although_handles_of_keyspaces_live() {
        for fails in [false, true] {
            let disk = FaultStorage::new(Rng::new(1));
            let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
            let settings = Settings {
                log: Log::File { dir: None, sync: SyncPolicy::Always },
                segment_bytes: 64 << 10,
                memory_bytes: 8 << 20,
                ..Settings::default()
            };
            let db = Db::open_with(env, settings).unwrap();
            let (keyspace, inner) = (db.default_keyspace(), db.handle.inner.clone());
            (0..60u8).for_each(|key| keyspace.put([key], [1; 1_000]).unwrap());
            // Of these, the DRAMTable takes small ones only.
            keyspace.put([60], [1; 10]).unwrap();
            while step_lane(&inner, JobClass::Prepare) {}
            // The segment is kept for reuse.
            db.flush().unwrap();
            (0..=60u8).for_each(|key| assert!(keyspace.get([key]).unwrap().is_some()));
            keyspace.put([1], [2; 1_000]).unwrap();
            let segments: Vec<Weak<MemTable>> = {
                let (view, jobs) = (inner.tree.view.load(), inner.schedule.jobs.lock());
                view.memtables.iter().chain(&jobs.retired).map(Arc::downgrade).collect()
            };
            let dram_table = inner.tree.dram_table.as_ref().unwrap();
            assert!(segments.len() == 2 && dram_table.stats().entries > 0);
            if fails {
                disk.fail_after(0, FaultKind::Io);
                keyspace.put(b"key", b"value").unwrap_err();
            }
            assert_eq!(db.close().is_err(), fails);
            assert!(matches!(keyspace.get([1]), Err(Error::Closed)));
            assert!(segments.iter().all(|segment| segment.strong_count() == 0), "fails: {fails}");
            let left = dram_table.stats();
            assert!(left.entries == 0 && left.bytes < 64 << 10, "{left:?}");
            assert_eq!(inner.share.charged_bytes(), 0);
        }
    }
}
