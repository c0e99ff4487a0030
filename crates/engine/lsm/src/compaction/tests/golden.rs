//! Golden scripts: trees in, plans out. They are in `tests/compaction/`; with `ESKER_REWRITE=1` in
//! the environment a run writes what the pickers say now into them.
//!
//! A script is steps of a command, its input, `----`, its output, and an empty line.
//!
//! * `tree leveled 10 segment=64` (or `tiered 4`, with `per-level=1.6` or not after it): one run a
//!   line, `level/run: tables`. A table is `smallest-largest:bytes`, `)` after `largest` if it is
//!   exclusive, then `d` and the deletes among its 100 entries, `t` and its range tombstones, `s` and its
//!   highest seqno, `u` and its bytes before compression, `x` if it is unreadable. Instead of bytes there may be `k`
//!   and a range of numbers, `k0..100`: its keys, of a byte each. Nothing is busy then. The output is empty.
//! * `pick`: one plan, which is busy from then on. `pick all`: plans until there is none.
//! * `release`: nothing is busy any more.
//! * `arrival after 10 drained 64`: the last flush brought what is newer than seqno 10, and merges could have
//!   taken 64 bytes out of level 0 since. `arrival none`: no other flush is expected, as at first.
//! * `full`: a full compaction's next plan, with tables in files from 1000 on new.
//! * `debt`, `parts n` (of the last plan).
//! * `merge`: the last plan is done: each key of its inputs stays once. The output is the tree, with
//!   the duplicate rate of each level.

use super::{lose, table_of};
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::l0_delay::FlushCadence;
use crate::compaction::pick::manual::full;
use crate::compaction::pick::{debt, pick};
use crate::compaction::plan::CompactionPlan;
use crate::compaction::space::budget::PickerContext;
use crate::options::settings::{KeyspaceSettings, Shape};
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::{Dedup, Ratio};
use crate::version::derived::Derived;
use crate::version::{KeyspaceVersion, Run, TableHandle, TableId, TableMeta};
use esker_base::{KeyspaceId, hash64};
use esker_table::Sketches;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;

struct Script {
    keyspace: KeyspaceVersion,
    sizes: SizeTargets,
    busy: InProgressCompactions,
    around: PickerContext,
    last_plan: Option<CompactionPlan>,
    next_file: u64,
    /// Of the tables that were given some.
    keys: HashMap<TableId, BTreeSet<u64>>,
}

impl Script {
    fn new() -> Self {
        let settings = KeyspaceSettings::default();
        Script {
            keyspace: KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings),
            sizes: SizeTargets { segment_bytes: 64 },
            busy: InProgressCompactions::default(),
            around: PickerContext::default(),
            last_plan: None,
            next_file: 1,
            keys: HashMap::new(),
        }
    }

    fn step(&mut self, command: &str, input: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["tree", shape, number, segment, ref dedup @ ..] => {
                self.plant(shape, number.parse().unwrap(), segment, dedup, input);
                String::new()
            }
            ["merge"] => {
                self.merge();
                self.tree()
            }
            ["pick"] => self.pick().unwrap_or("nothing\n".into()),
            ["pick", "all"] => std::iter::from_fn(|| self.pick()).collect(),
            ["release"] => {
                self.busy = InProgressCompactions::default();
                String::new()
            }
            ["arrival", "none"] => {
                self.around.arrival = None;
                String::new()
            }
            ["arrival", "after", after, "drained", drained] => {
                let (after, drained_bytes) = (after.parse().unwrap(), drained.parse().unwrap());
                self.around.arrival = Some(FlushCadence { after, drained_bytes });
                String::new()
            }
            ["full"] => {
                let (busy, around) = (InProgressCompactions::default(), PickerContext::default());
                self.last_plan = full(&self.keyspace, 1000, &busy, self.sizes, &around);
                self.last_plan.as_ref().map_or("nothing\n".into(), describe)
            }
            ["debt"] => format!("{:?}\n", debt(&self.keyspace, self.sizes, &Default::default())),
            ["parts", most] => {
                let plan = self.last_plan.as_ref().expect("a plan before its parts");
                let bound = |key: &Option<Vec<u8>>| {
                    key.as_ref().map_or(String::new(), |key| String::from_utf8_lossy(key).into())
                };
                let parts = plan.parts(most.parse().unwrap());
                let parts =
                    parts.iter().map(|p| format!("{}..{}\n", bound(&p.start), bound(&p.end)));
                parts.collect()
            }
            _ => panic!("{command:?} is no command"),
        }
    }

    fn pick(&mut self) -> Option<String> {
        let plan = pick(&self.keyspace, &self.busy, self.sizes, &self.around)?;
        assert!(plan.keeps_order(&self.keyspace));
        self.busy.claim(&plan);
        let text = describe(&plan);
        self.last_plan = Some(plan);
        Some(text)
    }

    fn plant(&mut self, shape: &str, number: u32, segment: &str, dedup: &[&str], input: &str) {
        let shape = match shape {
            "leveled" => Shape::Leveled { ratio: number },
            "tiered" => Shape::Tiered { runs: number },
            _ => panic!("{shape:?} is no shape"),
        };
        let dedup = match dedup {
            [] => Dedup::None,
            [dedup] => parse_dedup(dedup),
            _ => panic!("{dedup:?} is no way to deduplicate"),
        };
        let settings = KeyspaceSettings::default().shape(shape).dedup(dedup);
        self.keyspace = KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings);
        let segment_bytes = segment.strip_prefix("segment=").unwrap().parse().unwrap();
        self.sizes = SizeTargets { segment_bytes };
        self.busy = InProgressCompactions::default();
        for line in input.lines() {
            let (place, tables) = line.split_once(':').expect("a run is level/run: tables");
            let (level, id) = place.split_once('/').expect("a place is level/run");
            let tables = tables.split_whitespace().map(|table| self.table(table)).collect();
            let run = Run::new(id.parse().unwrap(), tables);
            self.keyspace.levels[level.parse::<usize>().unwrap()].runs.push(Arc::new(run));
        }
    }

    fn table(&mut self, text: &str) -> Arc<TableHandle> {
        let (range, numbers) = text.split_once(':').expect("a table is range:numbers");
        let (smallest, largest) = range.split_once('-').expect("a range is smallest-largest");
        let is_lost = numbers.ends_with('x');
        let numbers = numbers.trim_end_matches('x');
        let letter = |c: char| {
            let (_, rest) = numbers.split_once(c)?;
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().ok()
        };
        if let Some((from, to)) = numbers.strip_prefix('k').and_then(|keys| keys.split_once("..")) {
            let keys = from.parse::<u64>().unwrap()..to.parse().unwrap();
            let table = self.table_of(smallest, largest, keys.collect());
            if is_lost {
                lose(&table);
            }
            return table;
        }
        let bytes = numbers.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        self.next_file += 1;
        let id = TableId { file: letter('f').unwrap_or(self.next_file), offset: 0 };
        let table = TableHandle::detached(TableMeta {
            bytes,
            largest_is_exclusive: largest.ends_with(')'),
            entries: 100,
            deletes: letter('d').unwrap_or(0),
            range_tombstones: letter('t').unwrap_or(0),
            raw_bytes: letter('u').unwrap_or(bytes),
            max_seqno: letter('s').unwrap_or(0),
            ..TableMeta::new(id, smallest, largest.trim_end_matches(')'))
        });
        if is_lost {
            lose(&table);
        }
        table
    }

    fn table_of(&mut self, smallest: &str, largest: &str, keys: BTreeSet<u64>) -> Arc<TableHandle> {
        self.next_file += 1;
        let id = TableId { file: self.next_file, offset: 0 };
        let mut sketches = Sketches::default();
        keys.iter().for_each(|key| sketches.insert(hash64(&key.to_le_bytes()), 1));
        let count = keys.len() as u64;
        self.keys.insert(id, keys);
        table_of(id, [smallest.into(), largest.into()], count, count, sketches)
    }

    /// Does the last plan, with one output table.
    fn merge(&mut self) {
        let plan = self.last_plan.take().expect("a plan before it is done");
        let gone: Vec<TableId> = plan.tables().map(|table| table.meta.id).collect();
        for level in &mut self.keyspace.levels {
            for run in &mut level.runs {
                Arc::make_mut(run).tables_mut().retain(|table| !gone.contains(&table.meta.id));
            }
            level.runs.retain(|run| !run.tables().is_empty());
        }
        let keys = gone.iter().flat_map(|id| self.keys[id].clone()).collect();
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        let (smallest, largest) = (text(&plan.span.smallest), text(&plan.span.largest));
        let tables = vec![self.table_of(&smallest, &largest, keys)];
        let runs = &mut self.keyspace.levels[plan.output_level].runs;
        let at = runs.partition_point(|run| run.id > plan.output_run);
        runs.insert(at, Arc::new(Run::new(plan.output_run, tables)));
        self.keyspace.derived = Derived::default();
        self.busy = InProgressCompactions::default();
    }

    fn tree(&self) -> String {
        let mut out = String::new();
        for (level, runs) in self.keyspace.levels.iter().enumerate() {
            let runs: Vec<_> =
                runs.runs.iter().map(|run| format!("{}:{}", run.id, run.bytes())).collect();
            if !runs.is_empty() {
                let rate = self.keyspace.duplicate_rate(level).unwrap();
                writeln!(out, "L{level} {} rate {rate:.2}", runs.join(" ")).unwrap();
            }
        }
        out
    }
}

fn parse_dedup(text: &str) -> Dedup {
    let ratio = |text: &str| text.parse::<Ratio>().unwrap();
    match text.split_once('=') {
        Some(("per-level", threshold)) => Dedup::PerLevel { threshold: ratio(threshold) },
        _ => panic!("{text:?} is no way to deduplicate"),
    }
}

fn describe(plan: &CompactionPlan) -> String {
    let mut out = format!("{}: ", plan.reason);
    for input in &plan.inputs {
        write!(out, "{}/{} [", input.level, input.run).unwrap();
        for (at, table) in input.tables.iter().enumerate() {
            let meta = &table.meta;
            let (space, end) =
                (if at > 0 { " " } else { "" }, if meta.largest_is_exclusive { ")" } else { "" });
            let (from, to) = (meta.smallest.escape_ascii(), meta.largest.escape_ascii());
            write!(out, "{space}{from}-{to}{end}").unwrap();
        }
        out.push_str("] ");
    }
    let verb = if plan.is_trivial_move() { "move" } else { "merge" };
    let bottom = if plan.bottommost { ", bottommost" } else { "" };
    let bytes = plan.input_bytes();
    let bound = |key: &Option<Vec<u8>>| {
        key.as_ref().map_or(String::new(), |key| key.escape_ascii().to_string())
    };
    let held = plan
        .held_back
        .iter()
        .map(|it| format!(", {}..{} held back", bound(&it.start), bound(&it.end)));
    let bottom = bottom.to_owned() + &held.collect::<String>();
    writeln!(out, "{verb} to {}/{}, {bytes} bytes{bottom}", plan.output_level, plan.output_run)
        .unwrap();
    out
}

/// Runs a script and gives it back with the outputs of now.
fn replay(script: &str) -> String {
    let mut state = Script::new();
    let mut out = String::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut input = String::new();
        for line in lines.by_ref().take_while(|line| *line != "----") {
            input.push_str(line);
            input.push('\n');
        }
        out.push_str(&input);
        out.push_str("----\n");
        out.push_str(&state.step(line, &input));
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        out.push('\n');
    }
    out
}

fn check(name: &str) {
    let path = format!("{}/tests/compaction/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(&path).unwrap();
    let replayed = replay(&script);
    if std::env::var_os("ESKER_REWRITE").is_some() {
        std::fs::write(&path, &replayed).unwrap();
    } else {
        assert_eq!(replayed, script, "{path}: set ESKER_REWRITE=1 if the new plans are better");
    }
}

#[test]
fn level_0_waits_for_more_as_written_down() {
    check("arrival");
}

#[test]
fn leveled_plans_are_as_written_down() {
    check("leveled");
}

#[test]
fn tiered_plans_are_as_written_down() {
    check("tiered");
}

#[test]
fn level_deduplication_is_as_written_down() {
    check("per_level");
}

#[test]
fn full_compactions_are_as_written_down() {
    check("full");
}
