//! `esker repair`: a database of what can still be read.

use crate::failure::{Failure, Outcome};
use crate::form::Notation;
use crate::output::show;
use crate::place::{Files, between};
use crate::progress::Progress;
use crate::text::escape;
use crate::units;
use esker::inspect::{LostKeys, MissingLogPolicy, RepairReport};
use serde_json::{Map, Value as Json, json};

/// Salvage a damaged database
///
/// Keeps intact tables, every readable block of damaged ones, and the writes of the log before the first
/// damaged one. If no manifest can be read, makes a new one from the tables and logs. Damaged files are
/// renamed to NAME.damaged; in a pool, what cannot be kept is freed. Where data is lost, an older or a
/// deleted value of a key may return: if you have a copy of the database, use the copy. Changes nothing
/// if nothing is damaged, or if a file cannot be read for another reason than damage. No other process
/// may have the database open.
#[derive(clap::Args)]
pub struct Repair {
    #[command(flatten)]
    files: Files,
    /// Continue if log files are missing; the writes in them are lost
    #[arg(long)]
    give_up_logs: bool,
}

impl Repair {
    pub fn run(self) -> Outcome {
        let missing_logs =
            if self.give_up_logs { MissingLogPolicy::GiveUp } else { MissingLogPolicy::Refuse };
        let beyond_repair = |error: esker::Error| match error.is_corruption() {
            true => Failure::new(format!(
                "{}; a repair finds nothing to go by: use a copy",
                error.fact()
            )),
            false => error.into(),
        };
        let inspector = self.files.inspect_to_repair()?;
        let repaired = Progress::during("repairing", || inspector.repair(missing_logs));
        let repaired = repaired.map_err(beyond_repair)?;
        show(|| json(&repaired), || text(&repaired))
    }
}

fn text(repaired: &RepairReport) -> String {
    let mut out = format!(
        "kept {}, and {} writes of the log, up to write {}\n",
        units::counted(repaired.tables, "table"),
        units::count(repaired.log_entries),
        units::count(repaired.last_seqno)
    );
    for problem in &repaired.given_up_manifests {
        out.push_str(&format!("dropped a manifest: {problem}\n"));
    }
    if !repaired.given_up_manifests.is_empty() && repaired.rebuilt.is_empty() {
        out.push_str(&format!("went by an older one: {}\n", repaired.manifest));
    }
    for lost in &repaired.lost_tables {
        let (smallest, largest) = (escape(&lost.smallest), escape(&lost.largest));
        let what = if lost.kept > 0 { "kept a part of" } else { "dropped" };
        out.push_str(&format!(
            "{what} a table with keys from {smallest} to {largest}: {}\n",
            lost.error
        ));
        if lost.kept == 0 {
            continue;
        }
        for keys in &lost.lost_keys {
            out.push_str(&format!("  lost: versions of keys {}\n", between(keys)));
        }
        if lost.lost_range_deletes {
            out.push_str("  lost: its range deletes, so what they deleted may be seen again\n");
        }
    }
    for line in &repaired.rebuilt {
        out.push_str(&format!("{line}\n"));
    }
    for name in &repaired.adopted_logs {
        out.push_str(&format!("found a log again that a damaged edit had named: {name}\n"));
    }
    for cut in &repaired.cut_logs {
        out.push_str(&format!("cut the log: {cut}\n"));
    }
    for problem in &repaired.mended_pool {
        out.push_str(&format!("mended the pool: {problem}\n"));
    }
    for name in &repaired.set_aside {
        out.push_str(&format!("renamed {name} to {name}.damaged\n"));
    }
    let RepairReport { given_up_manifests, lost_tables, cut_logs, torn_log, rebuilt, .. } =
        repaired;
    for name in &repaired.kept_logs {
        out.push_str(&format!("kept what was rejected of a log in {name}\n"));
    }
    if let Some(torn) = torn_log {
        out.push_str(&format!("{torn}\n"));
        if torn.may_reject_acknowledged() {
            return out;
        }
        out.push_str(
            "the next open for writing drops them: copy that file first, if they are wanted\n",
        );
        return out;
    }
    let nothing_lost = lost_tables.is_empty() && cut_logs.is_empty();
    if given_up_manifests.is_empty() && nothing_lost && rebuilt.is_empty() {
        out.push_str("nothing had to be dropped\n");
    }
    out
}

fn keys_json(keys: &LostKeys) -> Json {
    let mut object = Map::new();
    Notation::Text.insert(&mut object, "from", &keys.from);
    if let Some(to) = &keys.to {
        Notation::Text.insert(&mut object, "to", to);
    }
    object.insert("problem".into(), keys.error.clone().into());
    object.into()
}

fn json(repaired: &RepairReport) -> Json {
    let lost: Vec<_> = repaired
        .lost_tables
        .iter()
        .map(|lost| {
            let mut object = Map::new();
            object.insert("file".into(), lost.file.clone().into());
            object.insert("problem".into(), lost.error.clone().into());
            Notation::Text.insert(&mut object, "smallest", &lost.smallest);
            Notation::Text.insert(&mut object, "largest", &lost.largest);
            object.insert("kept".into(), lost.kept.into());
            let keys: Vec<_> = lost.lost_keys.iter().map(keys_json).collect();
            object.insert("lost_keys".into(), keys.into());
            object.insert("lost_range_deletes".into(), lost.lost_range_deletes.into());
            Json::from(object)
        })
        .collect();
    json!({
        "manifest": repaired.manifest,
        "given_up_manifests": repaired.given_up_manifests,
        "tables": repaired.tables,
        "log_entries": repaired.log_entries,
        "last_seqno": repaired.last_seqno,
        "lost_tables": lost,
        "adopted_logs": repaired.adopted_logs,
        "cut_logs": repaired.cut_logs,
        "torn_log": repaired.torn_log.as_ref().map(|torn| torn.to_string()),
        "kept_logs": repaired.kept_logs,
        "mended_pool": repaired.mended_pool,
        "rebuilt": repaired.rebuilt,
        "set_aside": repaired.set_aside,
    })
}
