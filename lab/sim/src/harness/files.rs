//! What the files of a closed database say.

use super::Harness;
use crate::settings::LogMode;

impl Harness {
    /// Closes the last process, with which nothing goes wrong, and checks its files.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.drop_readers();
        let db = self.db.take().expect("a database is open");
        db.close().map_err(|error| format!("the last close fails: {error}"))?;
        self.check_files()
    }

    /// Checks all files of a closed database: nothing is damaged or orphaned, and tables refer to as many
    /// values in value files as the manifest counts.
    pub(super) fn check_files(&mut self) -> Result<(), String> {
        let inspector = self.machine.inspector(self.settings.log == LogMode::Pmem);
        let mut problems = Vec::new();
        let checked = inspector
            .check(&mut |problem| problems.push(problem.to_string()))
            .map_err(|error| format!("a check fails: {error}"))?;
        if let Some(problem) = problems.first() {
            return Err(format!("a check reports: {problem}"));
        }
        // A log that is flushed may wait for the next open.
        let mut orphaned = checked.strays.iter().chain(&checked.unknown);
        if let Some(name) = orphaned.find(|name| !name.ends_with(".log")) {
            return Err(format!("a close leaves {name}, which nothing refers to"));
        }
        let tables = inspector.tables().map_err(|error| format!("no tables: {error}"))?;
        let counted = tables.iter().flat_map(|place| &place.meta.value_files);
        let counted = counted.map(|of| of.values).sum::<u64>();
        if checked.values != counted {
            let found = checked.values;
            return Err(format!("tables refer to {found} values, and {counted} are counted"));
        }
        self.outcome.separated_values += counted;
        Ok(())
    }
}
