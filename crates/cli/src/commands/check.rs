//! `esker check`: does everything hold together?

use crate::failure::{Failure, Outcome};
use crate::output::{print_json, stdout};
use crate::place::Home;
use crate::progress::Progress;
use crate::units;
use esker::PoolDomain;
use esker::inspect::Checked;
use serde_json::json;
use std::io::Write;

/// Verify every checksum and invariant of a database
///
/// Checks the manifest, every block of every table, and every frame of the log. If another process has
/// the database open, it is checked as it is then, without what that one adds meanwhile, and without
/// a word on files that nothing names. Exit status 1 if anything is wrong.
#[derive(clap::Args)]
pub struct Check {
    #[command(flatten)]
    home: Home,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Check {
    pub fn run(self) -> Outcome {
        let inspector = self.home.inspect()?;
        let mut problems = Vec::new();
        let checked = Progress::during("checking", || {
            inspector.check(&mut |error| problems.push(error.fact()))
        })
        .map_err(Failure::of_check)?;
        if self.json {
            print_json(&json!({
                "keyspaces": checked.keyspaces,
                "tables": checked.tables,
                "table_bytes": checked.table_bytes,
                "table_entries": checked.table_entries,
                "pool_domain": inspector.pool_domain().map(|domain| domain.to_string()),
                "log_segments": checked.logs,
                "frames": checked.frames,
                "log_entries": checked.log_entries,
                "strays": checked.strays,
                "unknown": checked.unknown,
                "lost": checked.lost,
                "torn_log": checked.torn_log.as_ref().map(|torn| torn.to_string()),
                "beside_writer": checked.is_beside,
                "problems": problems,
            }))?;
        } else {
            let mut out = stdout();
            out.write_all(text(&checked, &problems, inspector.pool_domain()).as_bytes())?;
            out.flush()?;
        }
        Failure::of_problems(self.home.db.display(), problems.len(), "; see `esker repair --help`")
    }
}

fn text(checked: &Checked, problems: &[String], pool: Option<PoolDomain>) -> String {
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
    if let Some(domain) = pool {
        out.push_str(&format!("the pool of the log: {domain}\n"));
    }
    if checked.is_beside {
        out.push_str("another process has the database open: checked as it was\n");
    }
    if !checked.strays.is_empty() {
        let names = checked.strays.join(", ");
        out.push_str(&format!("left over, and removed at the next open for writing: {names}\n"));
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
        None if problems.is_empty() => out.push_str("no problems found\n"),
        None => {}
    }
    out
}
