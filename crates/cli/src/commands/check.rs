//! `esker check`: does everything hold together?

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::output::show;
use crate::place::Home;
use crate::progress::Progress;
use crate::units;
use esker::index::CheckedIndex;
use esker::inspect::CheckReport;
use esker::pmem::Domain as PoolDomain;
use serde_json::{Value as Json, json};

/// Verify every checksum and invariant of a database
///
/// Checks the manifest, every block of every table, and every frame of the log. If all of that is
/// sound, looks for the rows of all index entries. Exit status 1 if anything is wrong. If another process has the database open, the check covers the database at that
/// time: it skips later writes and does not list orphaned files.
#[derive(clap::Args)]
pub struct Check {
    #[command(flatten)]
    home: Home,
}

impl Check {
    pub fn run(self) -> Outcome {
        let interrupt =
            Interrupt::listen().map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let inspector = self.home.inspect()?;
        let mut problems = Vec::new();
        let checked = Progress::during("checking", || {
            let mut report = |error: esker::Error| problems.push(error.fact());
            inspector.check_while(&mut report, &|| !interrupt.is_set())
        })
        .map_err(Failure::of_check)?;
        let pool = inspector.pool_domain();
        drop(inspector);
        let may_open = problems.is_empty() && checked.tables_left == 0;
        let mut index_entries = 0;
        if may_open && checked.indexes > 0 {
            for index in self.home.open_for_reading()?.check_indexes()? {
                index_entries += index.found.entries;
                problems.extend(problem_of(&index));
            }
        }
        let shown = show(
            || json(&checked, &problems, pool, index_entries),
            || text(&checked, &problems, pool, index_entries),
        );
        let verdict = match checked.tables_left {
            0 => {
                let advice = "; see `esker repair --help`";
                Failure::of_problems(self.home.db.display(), problems.len(), advice)
            }
            left => Err(Failure::Interrupted(format!(
                "interrupted; {} and the log were not checked; nothing was changed",
                units::counted(left, "table")
            ))),
        };
        Failure::after_output(shown, verdict)
    }
}

/// What is wrong with an index, if anything is.
fn problem_of(CheckedIndex { keyspace, index, found, .. }: &CheckedIndex) -> Option<String> {
    let entries = found.entries_without_row;
    let key =
        found.first.as_ref().map(|key| format!("; the first names row {}", key.escape_ascii()));
    (entries > 0).then(|| {
        format!(
            "index {index} of keyspace {keyspace}: {} without a row{}; drop the index, and create it \
             again",
            units::counted(entries, "key"),
            key.unwrap_or_default()
        )
    })
}

fn json(
    checked: &CheckReport,
    problems: &[String],
    pool: Option<PoolDomain>,
    index_entries: u64,
) -> Json {
    json!({
        "keyspaces": checked.keyspaces,
        "indexes": checked.indexes,
        "index_entries": index_entries,
        "tables": checked.tables,
        "tables_left": checked.tables_left,
        "table_bytes": checked.table_bytes,
        "table_entries": checked.table_entries,
        "value_files": checked.value_files,
        "values": checked.values,
        "pool_domain": pool.map(|domain| domain.to_string()),
        "log_segments": checked.logs,
        "frames": checked.frames,
        "log_entries": checked.log_entries,
        "strays": checked.strays,
        "unknown": checked.unknown,
        "lost": checked.lost,
        "torn_log": checked.torn_log.as_ref().map(|torn| torn.to_string()),
        "beside_writer": checked.is_beside,
        "problems": problems,
    })
}

fn text(
    checked: &CheckReport,
    problems: &[String],
    pool: Option<PoolDomain>,
    index_entries: u64,
) -> String {
    let mut out = String::new();
    for problem in problems {
        out.push_str(&format!("{problem}\n"));
    }
    out.push_str(&format!(
        "checked {} in {}, {}, with {} versions; {}, {}, with {} writes\n",
        units::counted(checked.tables, "table"),
        units::counted(checked.keyspaces, "keyspace"),
        units::bytes(checked.table_bytes),
        units::count(checked.table_entries),
        units::counted(checked.logs, "log segment"),
        units::counted(checked.frames, "frame"),
        units::count(checked.log_entries),
    ));
    if checked.value_files > 0 {
        let files = units::counted(checked.value_files, "value file");
        out.push_str(&format!("read {} values in {files}\n", units::count(checked.values)));
    }
    if index_entries > 0 {
        let keys = units::counted(index_entries, "key");
        out.push_str(&format!("looked for the rows of {keys} in indexes\n"));
    }
    if let Some(domain) = pool {
        out.push_str(&format!("the pool of the log: {domain}\n"));
    }
    if checked.is_beside {
        out.push_str("another process has the database open: checked as it was\n");
    }
    if !checked.strays.is_empty() {
        let names = checked.strays.join(", ");
        out.push_str(&format!("orphaned, and deleted by the next open for writing: {names}\n"));
    }
    if !checked.unknown.is_empty() {
        let names = checked.unknown.join(", ");
        out.push_str(&format!(
            "not listed, and renamed to lost-NAME at the next open for writing: {names}\n"
        ));
    }
    if !checked.lost.is_empty() {
        let names = checked.lost.join(", ");
        out.push_str(&format!("set aside by earlier opens, and yours to remove: {names}\n"));
    }
    match &checked.torn_log {
        // It is among the problems.
        Some(torn) if torn.may_reject_acknowledged() => {}
        Some(torn) => out.push_str(&format!("{torn}\n")),
        None if problems.is_empty() && checked.tables_left == 0 => {
            out.push_str("no problems found\n")
        }
        None => {}
    }
    out
}
