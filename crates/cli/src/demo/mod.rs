//! `esker demo`: real data in, read back, a writer killed in mid-write, and the proof that nothing it
//! had been promised was lost.
//!
//! Each step checks what it shows. If a check fails, the demo says which and ends with status 2.

mod crash;
mod dataset;
mod proof;
mod show;
pub mod writer;

use crate::failure::{Failure, Outcome};
use crate::output::is_json;
use crate::style::Style;
use crate::temporary::Temporary;
use crate::tree;
use crate::units;
use esker::{Db, Error, Settings};
use esker_base::{Clock, SystemClock};
use show::Show;
use std::path::{Path, PathBuf};

/// What the name of a temporary directory begins with.
const PREFIX: &str = "esker-demo-";

/// Import real data, kill a writer, and verify what is left
///
/// Imports the Unicode character database, reads and scans it, kills a writing process with SIGKILL,
/// and verifies that every acknowledged write is there and none is torn.
#[derive(clap::Args)]
pub struct Demo {
    /// Work in this directory, which must be empty or missing, and leave the database there
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep the temporary directory
    #[arg(long)]
    keep: bool,
}

impl Demo {
    pub fn run(self) -> Outcome {
        if is_json() {
            return Err(Failure::Usage("--json: the demo prints text for people only".into()));
        }
        let Some(dir) = self.dir else {
            return if self.keep {
                let made = tempfile::Builder::new().prefix(PREFIX).tempdir();
                let failed = |error| Failure::io("create", "a temporary directory", error);
                // The directory is the user's, however the demo ends.
                demonstrate(&made.map_err(failed)?.keep(), true)
            } else {
                demonstrate(Temporary::create(PREFIX)?.path(), false)
            };
        };
        let is_used = dir.read_dir().is_ok_and(|mut files| files.next().is_some());
        if is_used || dir.is_file() {
            let dir = dir.display();
            return Err(Failure::new(format!(
                "{dir} is not an empty directory; the demo needs one"
            )));
        }
        demonstrate(&dir, true)
    }
}

fn demonstrate(dir: &Path, stays: bool) -> Outcome {
    let clock = SystemClock::new();
    let mut show = Show::on_stdout();
    show.title("Esker demo", &format!("in {}", dir.display()))?;

    let db = Db::open(dir, Settings::default())?;
    show.step("Import", "the Unicode character database, keyed by code point")?;
    dataset::import(&db, &mut show)?;
    show.step("Read", "points, ranges in both directions, prefixes")?;
    dataset::read(&db, &mut show)?;
    db.close()?;

    show.step("Kill", "a process that writes, with SIGKILL, and inspect what is left")?;
    crash::demonstrate(dir, &mut show)?;

    show.step("Look", "at the tree of tables, after a flush")?;
    let db = Db::open_existing(dir, Settings::default())?;
    dataset::verify(&db, &mut show)?;
    look(&db, &mut show)?;
    db.close()?;

    let seconds = clock.now().as_secs_f64();
    show.end(&format!("Every check passed, in {seconds:.1} s."))?;
    if stays {
        let dir = dir.display();
        show.note(&format!(
            "The database stays in {dir}. Try: esker scan {dir} -k unicode --prefix 26"
        ))?;
    }
    Ok(())
}

fn look(db: &Db, show: &mut Show) -> Outcome {
    db.flush()?;
    let mut drawing = Vec::new();
    tree::draw(&mut drawing, &db.levels(), false, Style::of_stdout())?;
    show.block(&String::from_utf8_lossy(&drawing))?;
    let stats = db.stats();
    show.line(&format!(
        "{} in {}, where keys and values are {}; last write {}",
        units::counted(stats.tables, "table"),
        units::bytes(stats.table_bytes),
        units::bytes(raw_bytes(db)),
        units::count(stats.visible_seqno)
    ))
}

fn raw_bytes(db: &Db) -> u64 {
    let trees = db.levels();
    let levels = trees.iter().flat_map(|tree| &tree.levels);
    levels
        .flat_map(|level| &level.runs)
        .flat_map(|run| &run.tables)
        .map(|table| table.raw_bytes)
        .sum()
}

/// A check that must hold.
fn prove(show: &mut Show, holds: bool, claim: &str) -> Outcome {
    show.check(holds, claim)?;
    if holds { Ok(()) } else { Err(Failure::new(format!("the demo found this untrue: {claim}"))) }
}

/// What a failed read inside a proof means: damage is a finding, not an accident.
fn finding(error: Error) -> Failure {
    Failure::new(format!("the demo could not read what was written: {error}"))
}
