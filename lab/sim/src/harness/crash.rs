//! The ends of processes, and what the next one finds.

use super::{Check, Halt, Harness};
use crate::operations::Recovery;
use crate::settings::LogMode;
use esker_base::Error;
use esker_lsm::Db;
use std::collections::BTreeMap;

impl Harness {
    /// Goes on after an operation: if it has cost the power or the log, with another process.
    pub(super) fn pick_up(&mut self, mut halted: Check) -> Result<(), String> {
        loop {
            match halted {
                Err(Halt::Wrong(what)) => return Err(what),
                Err(Halt::Over) | Ok(()) if self.machine.is_over() => {
                    let recovery = std::mem::take(&mut self.recovery);
                    halted = self.next_process(false, &recovery);
                }
                Err(Halt::Over) => return Err("the process is over, and it is not".into()),
                Ok(()) if self.log_failed => halted = self.leave_failed_log(),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// With a failed log reads go on, and writes fail; another process gets over it.
    fn leave_failed_log(&mut self) -> Check {
        self.outcome.failed_logs += 1;
        self.check_all()?;
        let change = crate::operations::Change::Put(0, 1, 1, 1);
        self.write(&[change], false)?;
        self.drop_readers();
        let closed = self.db.take().expect("a database is open").close();
        if closed.is_ok() {
            return Err(Halt::Wrong(
                "a database with a failed log closes as if all were well".into(),
            ));
        }
        let power_fails = self.machine.has_lost_power() || self.rng.one_in(2);
        let recovery = std::mem::take(&mut self.recovery);
        self.next_process(power_fails, &recovery)
    }

    pub(super) fn reopen(&mut self, recovery: &Recovery) -> Check {
        self.drop_readers();
        let calls = self.machine.calls();
        let db = self.db.take().expect("a database is open");
        self.count_work(&db);
        match db.close() {
            Ok(()) => {
                self.model.all_durable();
                self.outcome.closes += 1;
                self.closed = true;
                // Until it is opened again, a database keeps the tables of an edit that failed.
                if self.machine.was_calm() {
                    self.check_files()?;
                }
            }
            Err(error) => match self.excuse("closing", &error, calls) {
                Err(Halt::Wrong(what)) => return Err(Halt::Wrong(what)),
                Ok(()) | Err(Halt::Over) => {}
            },
        }
        let power_fails = self.machine.has_lost_power() || self.rng.one_in(2);
        self.next_process(power_fails, recovery)
    }

    /// Ends this process, if it has not closed, and starts the next.
    pub(super) fn next_process(&mut self, power_fails: bool, recovery: &Recovery) -> Check {
        // Dropping what they hold may remove files, and cost the power.
        self.drop_readers();
        let power_fails = power_fails || self.machine.has_lost_power();
        self.outcome.cut_off += u64::from(self.machine.was_cut_off());
        let promised = self.model.promised(self.survives_process() && !power_fails);
        let old = self.db.take();
        if let Some(old) = &old {
            self.outcome.crashes += 1;
            self.outcome.crashes_before_force += u64::from(old.stats().compactions_deferred > 0);
            self.count_work(old);
        }
        if power_fails {
            self.machine.lose_power()
        } else {
            self.machine.end_process()
        }
        // Its disks are gone by now, so that what it does on its way out has no effect.
        drop(old);
        self.log_failed = false;
        let closed = std::mem::take(&mut self.closed);
        let before = self.settings.log;
        if let Some(settings) = recovery.settings {
            self.settings = settings.if_encrypted(self.machine.is_encrypted());
        }
        if !closed && !self.settings.log.finds_logs_of(before) {
            match self.open_elsewhere()? {
                Some(db) => return self.adopt(db, promised),
                None => self.settings.log = before,
            }
        }
        self.start_process(recovery, promised)
    }

    /// Opens the database where its logs are not. It must refuse if there is anything in them; and if
    /// it does not, all must be there. `None` if it refused, or could not be opened just now.
    fn open_elsewhere(&mut self) -> Check<Option<Db>> {
        let calls = self.machine.calls();
        let env = self.machine.env();
        let error = match Db::open_with(env, self.opening()) {
            Ok(db) => return Ok(Some(db)),
            Err(error) => error,
        };
        let refused = error.is_corruption()
            || matches!(error, Error::PoolRefused { .. } | Error::InvalidSetting { .. });
        if refused && error.to_string().contains("log") {
            self.outcome.refused += 1;
            return Ok(None);
        }
        self.excuse("opening with another log", &error, calls).map(|()| None)
    }

    /// Opens the database, which must hold at least `promised` batches of the model's.
    pub(super) fn start_process(&mut self, recovery: &Recovery, mut promised: usize) -> Check {
        let db = match self.open_with_faults(recovery, &mut promised)? {
            Some(db) => db,
            None => self.open_at_last()?,
        };
        self.adopt(db, promised)
    }

    /// Goes on with `db`, which must hold at least `promised` batches of the model's.
    fn adopt(&mut self, db: Db, promised: usize) -> Check {
        self.outcome.calls = self.machine.calls().iter().sum();
        let seqno = db.stats().visible_seqno;
        let names: BTreeMap<_, _> =
            db.keyspaces().into_iter().map(|info| (info.name, info.id.0)).collect();
        self.db = Some(db);
        self.reach_mark();
        let had_failed_ingest = self.model.has_failed_ingest();
        let with_failed = self.model.recover(seqno, promised)?;
        self.model.recover_names(&names)?;
        if had_failed_ingest && matches!(self.check_all(), Err(Halt::Wrong(_))) {
            self.model.go_on_from(with_failed);
            self.outcome.failed_ingests_found += 1;
        }
        self.check_all()
    }

    /// Tries to open while faults strike. `None` if that never worked.
    fn open_with_faults(&mut self, recovery: &Recovery, promised: &mut usize) -> Check<Option<Db>> {
        for &fault in &recovery.faults {
            self.machine.plan(fault);
            let calls = self.machine.calls();
            let env = self.machine.env();
            let error = match Db::open_with(env, self.opening()) {
                Ok(db) => return Ok(Some(db)),
                Err(error) => error,
            };
            match self.excuse("opening", &error, calls) {
                Err(Halt::Over) => {
                    self.outcome.cut_off += u64::from(self.machine.was_cut_off());
                    *promised = (*promised).min(self.model.promised(false));
                    self.machine.lose_power();
                }
                Err(wrong) => return Err(wrong),
                // Another process, or the same one tries again.
                Ok(()) if self.rng.one_in(2) => self.machine.end_process(),
                Ok(()) => {}
            }
        }
        Ok(None)
    }

    /// Opens with nothing in the way but perhaps a full disk.
    fn open_at_last(&mut self) -> Check<Db> {
        // Another process, so that faults which have not struck are forgotten.
        self.machine.end_process();
        loop {
            let calls = self.machine.calls();
            let env = self.machine.env();
            let error = match Db::open_with(env, self.opening()) {
                Ok(db) => return Ok(db),
                Err(error) => error,
            };
            match self.excuse("opening", &error, calls) {
                Err(Halt::Over) => self.machine.lose_power(),
                Err(wrong) => return Err(wrong),
                Ok(()) => self.machine.free_space(),
            }
        }
    }

    pub(super) fn drop_readers(&mut self) {
        self.snapshots.iter_mut().for_each(|slot| *slot = None);
        self.cursors.iter_mut().for_each(|slot| *slot = None);
    }

    fn count_work(&mut self, db: &Db) {
        let stats = db.stats();
        self.outcome.flushes += stats.flushes;
        if self.settings.log == LogMode::Pmem {
            self.outcome.pool_flushes += stats.flushes;
        }
        self.outcome.dram_hits += stats.dram_table.hits + stats.dram_table.exact_hits;
        self.outcome.compactions += stats.compactions;
        self.outcome.compactions_done += stats.compactions_done;
        self.outcome.deferrals += stats.deferrals;
    }
}
