//! Checks a database that another process has open.
//!
//! Nothing is locked or written. Files come and go meanwhile. A table that cannot be read counts only
//! if the newest manifest still lists it. Logs that do not fit the manifest are read again with the
//! next one. A pool is opened again for each try, because it lists the segments of the time when it was
//! opened. Not checked: what the writer adds meanwhile, and files that no manifest lists, because they
//! may be new.

use super::check::CheckReport;
use super::{Inspector, places};
use crate::log::torn_tail::TornTail;
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::replay;
use crate::recovery::replay::RecoveredState;
use crate::version::TableId;
use esker_base::{Error, Result};
use esker_pmem::pool::PoolRepair;
use std::collections::BTreeSet;

/// So often a manifest or its logs may be replaced while they are read.
const TRIES: u32 = 20;

impl Inspector {
    pub(super) fn check_beside(
        &self,
        checked: &mut CheckReport,
        report: &mut dyn FnMut(Error),
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        checked.is_beside = true;
        let (identity, state) = match self.newest_state() {
            Ok(found) => found,
            Err(error) => {
                report(error);
                return Ok(());
            }
        };
        self.check_log_directory(identity)?;
        self.check_tables(&state, checked, report, goes_on);
        if checked.tables_left > 0 {
            return Ok(());
        }
        match self.read_logs_beside() {
            Ok((inspector, state, recovered)) => {
                inspector.count_logs(&state, checked);
                // Any other is a frame that a writer is just at.
                checked.torn_log = recovered.torn.filter(TornTail::may_reject_acknowledged);
                if let Some(torn) = &checked.torn_log {
                    report(torn.refusal());
                }
            }
            Err(error) => report(error),
        }
        Ok(())
    }

    fn newest_state(&self) -> Result<(u64, ManifestState)> {
        let mut tries = 1;
        loop {
            match self.state() {
                Err(_) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    /// Whether the newest manifest names the table, as far as it can be read.
    pub(super) fn is_still_there(&self, table: TableId) -> bool {
        self.newest_state().map_or(true, |(_, state)| {
            let tables: BTreeSet<_> = places(&state).map(|(_, _, _, it)| it.meta.id).collect();
            tables.contains(&table)
        })
    }

    /// The logs, the state that they fit, and who sees them.
    fn read_logs_beside(&self) -> Result<(Inspector, ManifestState, RecoveredState)> {
        let mut tries = 1;
        loop {
            match self.read_logs_once() {
                Ok(found) if tries == TRIES || !may_be_torn(&found.2) => return Ok(found),
                Err(error) if tries == TRIES => return Err(error),
                _ => tries += 1,
            }
        }
    }

    fn read_logs_once(&self) -> Result<(Inspector, ManifestState, RecoveredState)> {
        let inspector = self.with_pool_opened(PoolRepair::Beside)?;
        let (_, state) = inspector.newest_state()?;
        let recovered = replay::read_logs(&inspector.log_source(), &state)?;
        Ok((inspector, state, recovered))
    }
}

fn may_be_torn(recovered: &RecoveredState) -> bool {
    recovered.torn.as_ref().is_some_and(TornTail::may_reject_acknowledged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Log, Settings};
    use esker_pmem::{Accept, Pool};

    #[test]
    fn segments_of_a_pool_that_are_begun_during_a_check_are_not_missing() {
        let tables = tempfile::tempdir().unwrap();
        let memory = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let pool = memory.path().join("pool");
        Pool::create(&pool, 8 << 20, Accept::Emulated).unwrap();
        let log = Log::Pmem { pool: pool.clone(), emulated: true };
        let settings = Settings::default().log(log).memory_bytes(64 << 20);
        let db = Db::open(tables.path(), settings).unwrap();
        let put = |number: u32| db.put(&db.default_keyspace(), number.to_be_bytes(), b"value");
        put(0).unwrap();
        let inspector = Inspector::open_with_pool(tables.path(), &pool, true).unwrap();
        let inspector = inspector.with_pool_opened(PoolRepair::Beside).unwrap();
        for number in 1..4 {
            put(number).unwrap();
            db.flush().unwrap();
        }
        put(4).unwrap();
        let (mut checked, mut problems) = (CheckReport::default(), Vec::new());
        let mut report = |it: Error| problems.push(it.to_string());
        inspector.check_beside(&mut checked, &mut report, &|| true).unwrap();
        assert_eq!(problems, [""; 0]);
        assert!(checked.logs > 0 && checked.log_entries > 0 && checked.table_entries > 0);
    }
}
