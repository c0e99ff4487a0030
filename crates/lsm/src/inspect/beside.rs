//! A check beside the process that has the database open.
//!
//! Nothing is locked and nothing is written. Files come and go meanwhile: a table that can't be read
//! counts only if the newest manifest still names it, and logs that do not fit the manifest are read
//! again with the next one. What the writer adds meanwhile is not checked, nor are files that no
//! manifest names: they may just have been made.

use super::check::Checked;
use super::{Inspector, places};
use crate::manifest::State;
use crate::recover::{self, Recovered};
use crate::version::TableId;
use esker_base::{Error, Result};
use std::collections::BTreeSet;

/// So often a manifest or its logs may be replaced while they are read.
const TRIES: u32 = 20;

impl Inspector {
    pub(super) fn check_beside(
        &self,
        checked: &mut Checked,
        report: &mut dyn FnMut(Error),
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
        self.check_tables_beside(&state, checked, report);
        match self.read_logs_beside() {
            Ok((state, recovered)) => {
                self.count_logs(&state, checked);
                // A last frame that does not hold is one that the writer is just at.
                checked.torn_log = recovered.torn.filter(|torn| torn.later.is_some());
                if let Some(torn) = &checked.torn_log {
                    report(torn.refusal());
                }
            }
            Err(error) => report(error),
        }
        Ok(())
    }

    fn newest_state(&self) -> Result<(u64, State)> {
        let mut tries = 1;
        loop {
            match self.state() {
                Err(_) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }

    fn check_tables_beside(
        &self,
        state: &State,
        checked: &mut Checked,
        report: &mut dyn FnMut(Error),
    ) {
        checked.keyspaces = state.version.keyspaces.len() as u64;
        for (keyspace, _, _, table) in places(state) {
            match self.table(&table.meta) {
                Ok(reader) => {
                    checked.table_entries += reader.verify(report);
                    self.compare(keyspace, &table.meta, &reader, report);
                }
                // It was compacted away.
                Err(_) if !self.is_still_there(table.meta.id) => continue,
                Err(error) => report(error),
            }
            checked.tables += 1;
            checked.table_bytes += table.meta.bytes;
        }
    }

    /// Whether the newest manifest names the table, as far as it can be read.
    fn is_still_there(&self, table: TableId) -> bool {
        self.newest_state().map_or(true, |(_, state)| {
            let tables: BTreeSet<_> = places(&state).map(|(_, _, _, it)| it.meta.id).collect();
            tables.contains(&table)
        })
    }

    /// The logs, and the state that they fit.
    fn read_logs_beside(&self) -> Result<(State, Recovered)> {
        let mut tries = 1;
        loop {
            let (_, state) = self.newest_state()?;
            match recover::read_logs(&self.log_source(), &state) {
                Ok(recovered) if recovered.torn.is_none() || tries == TRIES => {
                    return Ok((state, recovered));
                }
                Err(error) if tries == TRIES => return Err(error),
                _ => tries += 1,
            }
        }
    }
}
