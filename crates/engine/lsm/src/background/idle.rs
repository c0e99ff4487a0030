//! Waits until everything is flushed, until the background is idle, or until a keyspace is fully
//! compacted. Callers of the methods of `db/upkeep` ask for that.

use super::executor::{install_deferred, run_plan, update_debt};
use super::log_space::{has_surplus, log_used};
use super::picker::next_plan;
use super::picker_context;
use super::segments::{can_prepare, wants_segments};
use super::wait::{WaitFor, flush_may_make_room};
use crate::compaction::pick::manual;
use crate::compaction::value_collection;
use crate::engine::Engine;
use crate::resources::crew::IDLE;
use crate::resources::lanes::JobClass;
use crate::scheduler::ForceInstallGuard;
use crate::scheduler::state::{LogUsed, SchedulerState};
use crate::version::readers::super_version::SuperVersion;
use crate::version::{table_file_name, value_file_name};
use esker_base::{Error, KeyspaceId, Result, Seqno};
use esker_memtable::MemTable;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Seals the active MemTable and waits until everything written before this call is in tables.
    pub(crate) fn flush_all(&self) -> Result<()> {
        let through = {
            let mut tail = self.commit.lock_active();
            tail.seal();
            tail.last_seqno()
        };
        update_debt(self);
        self.schedule.wake();
        self.await_flushed(through)
    }

    /// Waits until all MemTables with a write up to `through`, which are sealed, are in tables, and
    /// statistics and events include that.
    pub(crate) fn await_flushed(&self, through: Seqno) -> Result<()> {
        let failed = || self.commit.failure();
        let flushed = self.wait_until(|jobs, view| {
            let flushed = |memtable: &Arc<MemTable>| memtable.first_seqno() > through;
            let over = view.memtables.iter().all(flushed) && !ends_flush(jobs, view);
            if over || failed().is_some() { WaitFor::Over } else { WaitFor::For(JobClass::Flush) }
        });
        match failed() {
            Some(cause) => Err(Error::LogFailed { cause: Arc::new(cause) }),
            None => flushed,
        }
    }

    /// Waits until background work has nothing left to do, and compacts small keyspaces to one run.
    pub(crate) fn settle(&self) -> Result<()> {
        let used = log_used(&self.tree.view.pin());
        self.wait_until(|jobs, view| {
            let busy = jobs.lane(JobClass::Flush).running > 0;
            let waiting = view.memtables.iter().any(|memtable| memtable.is_sealed());
            if busy || waiting { WaitFor::For(JobClass::Flush) } else { WaitFor::Over }
        })?;
        // There is room for it now, if there ever is. If it fails, the next write will say so.
        let _ = self.wait_until(|jobs, view| {
            let is_running = jobs.lane(JobClass::Prepare).running > 0;
            let is_due = wants_segments(self, jobs, view);
            let has_room = !flush_may_make_room(jobs, view) && can_prepare(self, jobs, view);
            let waits = is_running || (is_due && has_room);
            if waits { WaitFor::For(JobClass::Prepare) } else { WaitFor::Over }
        });
        self.retry_tables(None);
        let _hurry = ForceInstallGuard::begin(&self.schedule);
        self.wait_for_compactions()?;
        self.compact_small_keyspaces()?;
        self.wait_for_compactions()?;
        self.give_log_space_back(used);
        self.tree.installer.retry_left_tables();
        Ok(())
    }

    /// Waits until the prepare lane has given back the log space that an idle database does not need. Does
    /// nothing if anything was written since the log used `used`.
    fn give_log_space_back(&self, used: LogUsed) {
        let before = {
            let space = &mut self.schedule.jobs.lock().log_space;
            space.waiters += 1;
            space.used_for_waiters = used;
            space.rounds
        };
        let _ = self.wait_until(|jobs, view| {
            let is_running = jobs.lane(JobClass::Prepare).running > 0;
            let space = &jobs.log_space;
            let is_idle = log_used(view) == used && space.used_for_waiters == used;
            let is_done = space.rounds > before || !is_idle || !has_surplus(self, jobs, view);
            let waits = is_running || !is_done;
            if waits { WaitFor::For(JobClass::Prepare) } else { WaitFor::Over }
        });
        self.schedule.jobs.lock().log_space.waiters -= 1;
    }

    fn wait_for_compactions(&self) -> Result<()> {
        self.wait_until(|jobs, _| {
            let busy = jobs.lane(JobClass::Compaction).running > 0 || jobs.opening.openers > 0;
            if busy || !jobs.deferred.is_empty() || next_plan(self, jobs).is_some() {
                WaitFor::For(JobClass::Compaction)
            } else {
                WaitFor::Over
            }
        })
    }

    /// Compacts level 0 of each small keyspace into its base, in the calling thread.
    fn compact_small_keyspaces(&self) -> Result<()> {
        // Runs flushed from here on are left to the next call.
        let before_file = self.tree.installer.next_file();
        let view = self.tree.view.load();
        let keyspaces: Vec<KeyspaceId> = view.version.keyspaces.keys().copied().collect();
        drop(view);
        for keyspace in keyspaces {
            install_deferred(self)?;
            let plan = {
                let mut jobs = self.schedule.jobs.lock();
                let may_begin = !jobs.closing && !jobs.panicked && jobs.opening.openers == 0;
                let view = self.tree.view.pin();
                let keyspace = view.version.keyspaces.get(&keyspace).filter(|_| may_begin);
                let plan = keyspace.and_then(|keyspace| {
                    manual::to_one_run(keyspace, before_file, &jobs.busy, self.tree.sizes)
                });
                let Some(plan) = plan.filter(|plan| jobs.busy.permits(plan)) else { continue };
                jobs.begin_plan(&plan);
                plan
            };
            run_plan(self, plan)?;
        }
        Ok(())
    }

    /// Compacts everything in `keyspace` down to one level, in the calling thread and concurrently with the lanes. If a
    /// table can't be read, compacts all that can be without it and then fails with [`Error::TableUnreadable`].
    pub(crate) fn compact_fully(&self, keyspace: KeyspaceId) -> Result<()> {
        self.flush_all()?;
        self.retry_tables(Some(keyspace));
        let failures = self.tree.filters.failures(keyspace);
        let _hurry = ForceInstallGuard::begin(&self.schedule);
        let old = self.files_with_old_keys(keyspace)?;
        // Runs flushed from here on are left to the lanes, or this might never end.
        let before_file = self.tree.installer.next_file();
        loop {
            install_deferred(self)?;
            let plan = {
                let mut jobs = self.schedule.jobs.lock();
                if jobs.closing || jobs.panicked {
                    return Err(Error::Closed);
                }
                if jobs.opening.openers > 0 {
                    self.schedule.progress.wait_for(&mut jobs, IDLE);
                    continue;
                }
                let view = self.tree.view.load();
                let Some(keyspace) = view.version.keyspaces.get(&keyspace) else {
                    return Err(crate::tree::unknown_keyspace(keyspace));
                };
                let mut around = picker_context::collect(self, &view, &jobs);
                // So that all of its tables are rewritten.
                around.filtered.extend(old.exist().then_some(keyspace.id));
                let (busy, sizes) = (&jobs.busy, self.tree.sizes);
                let of_values = || {
                    // Flushes and other compactions meanwhile may carry places of values.
                    let values = value_collection::readable(&view.version.values, &old.values);
                    value_collection::pick(keyspace, &values, busy, sizes)
                };
                let wanted = manual::full(keyspace, before_file, busy, sizes, &around);
                let wanted = wanted.or_else(of_values);
                let wanted = wanted.map(|plan| plan.collecting(old.values.clone()));
                let (id, is_idle) = (keyspace.id, jobs.busy.is_idle(keyspace.id));
                let unreadable = keyspace.unreadable(self.tree.keys);
                drop(view);
                match wanted {
                    Some(plan) if jobs.busy.permits(&plan) => {
                        jobs.begin_plan(&plan);
                        plan
                    }
                    // The table was marked just now: there may be another plan that does not need it.
                    Some(plan) if plan.takes_unreadable() => continue,
                    _ if is_idle => {
                        let filter = || self.tree.filters.failed_since(id, failures);
                        return unreadable.or_else(filter).map_or(Ok(()), Err);
                    }
                    _ => {
                        self.schedule.progress.wait_for(&mut jobs, IDLE);
                        continue;
                    }
                }
            };
            run_plan(self, plan)?;
        }
    }

    /// The files of `keyspace` that are encrypted with another key than a new file would be.
    fn files_with_old_keys(&self, keyspace: KeyspaceId) -> Result<OldFiles> {
        let (storage, view) = (&self.tree.storage, self.tree.view.load());
        if storage.encryption().is_none() {
            return Ok(OldFiles::default());
        }
        let keyspaces = view.version.keyspaces.get(&keyspace).into_iter();
        let tables = keyspaces.flat_map(|keyspace| keyspace.tables());
        let files: BTreeSet<u64> = tables.map(|(_, _, table)| table.meta.id.file).collect();
        let mut names = files.into_iter().map(table_file_name);
        let is_old = |old: bool, name: String| Ok::<_, Error>(old || storage.has_old_key(&name)?);
        let has_table = names.try_fold(false, is_old)?;
        let mut values = BTreeSet::new();
        for listed in view.version.values.of(keyspace) {
            let file = listed.meta.file;
            if storage.has_old_key(&value_file_name(file))? {
                values.insert(file);
            }
        }
        Ok(OldFiles { has_table, values: Arc::new(values) })
    }
}

/// Files of a keyspace that are encrypted with old keys.
#[derive(Default)]
struct OldFiles {
    has_table: bool,
    /// The value files, by ID.
    values: Arc<BTreeSet<u64>>,
}

impl OldFiles {
    fn exist(&self) -> bool {
        self.has_table || !self.values.is_empty()
    }
}

/// Whether a flush has installed its tables and is yet to be counted. Without threads, the caller that
/// flushed has counted it.
fn ends_flush(jobs: &SchedulerState, view: &SuperVersion) -> bool {
    let is_in_view = |epoch| view.memtables.iter().any(|memtable| memtable.epoch() == epoch);
    jobs.has_threads && jobs.flushing.is_some_and(|epoch| !is_in_view(epoch))
}

#[cfg(test)]
mod tests {
    use crate::{Db, Env, Settings};
    use esker_base::{Clock, SystemClock};
    use esker_storage::MemoryStorage;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    #[test]
    fn a_flush_ends_when_it_was_counted() {
        let env = Env::over(Arc::new(MemoryStorage::new()));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let schedule = &db.inner().schedule;
        // No MemTable has this epoch: a flush that was installed has it.
        schedule.jobs.lock().flushing = Some(u32::MAX);
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                db.flush().unwrap();
                has_ended.store(true, Ordering::Release);
            });
            let ended_early = (0..20).any(|_| {
                SystemClock::new().sleep(Duration::from_millis(1));
                schedule.progress.notify_all();
                has_ended.load(Ordering::Acquire)
            });
            schedule.jobs.lock().flushing = None;
            schedule.progress.notify_all();
            assert!(!ended_early);
        });
    }
}
