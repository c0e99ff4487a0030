//! Golden scripts: trees in, plans out. They are in `tests/compaction/`; with `ESKER_REWRITE=1` in
//! the environment a run writes what the pickers say now into them.
//!
//! A script is steps of a command, its input, `----`, its output, and an empty line.
//!
//! * `tree leveled 10 segment=64` (or `tiered 4`): one run a line, `level/run: tables`. A table is
//!   `smallest-largest:bytes`, `)` after `largest` if it is exclusive, then `d` and the deletes among
//!   its 100 entries, `t` and its range tombstones. Nothing is busy then. The output is empty.
//! * `pick`: one plan, which is busy from then on. `pick all`: plans until there is none.
//! * `release`: nothing is busy any more.
//! * `full`: a full compaction's next plan, with tables in files from 1000 on new.
//! * `debt`, `parts n` (of the last plan).

use crate::compaction::{Busy, Plan, Sizes, debt, full, pick};
use crate::settings::{KeyspaceSettings, Shape};
use crate::version::{KeyspaceVersion, Run, TableHandle, TableId, TableMeta};
use esker_base::KeyspaceId;
use std::fmt::Write;
use std::sync::Arc;

struct Script {
    keyspace: KeyspaceVersion,
    sizes: Sizes,
    busy: Busy,
    last_plan: Option<Plan>,
    next_file: u64,
}

impl Script {
    fn new() -> Self {
        let settings = KeyspaceSettings::default();
        Script {
            keyspace: KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings),
            sizes: Sizes { segment_bytes: 64 },
            busy: Busy::default(),
            last_plan: None,
            next_file: 1,
        }
    }

    fn step(&mut self, command: &str, input: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["tree", shape, number, segment] => {
                self.plant(shape, number.parse().unwrap(), segment, input);
                String::new()
            }
            ["pick"] => self.pick().unwrap_or("nothing\n".into()),
            ["pick", "all"] => std::iter::from_fn(|| self.pick()).collect(),
            ["release"] => {
                self.busy = Busy::default();
                String::new()
            }
            ["full"] => {
                self.last_plan = full(&self.keyspace, 1000, self.sizes);
                self.last_plan.as_ref().map_or("nothing\n".into(), describe)
            }
            ["debt"] => format!("{:?}\n", debt(&self.keyspace, self.sizes)),
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
        let plan = pick(&self.keyspace, &self.busy, self.sizes)?;
        assert!(plan.keeps_order(&self.keyspace));
        self.busy.claim(&plan);
        let text = describe(&plan);
        self.last_plan = Some(plan);
        Some(text)
    }

    fn plant(&mut self, shape: &str, number: u32, segment: &str, input: &str) {
        let shape = match shape {
            "leveled" => Shape::Leveled { ratio: number },
            "tiered" => Shape::Tiered { runs: number },
            _ => panic!("{shape:?} is no shape"),
        };
        let settings = KeyspaceSettings { shape, ..KeyspaceSettings::default() };
        self.keyspace = KeyspaceVersion::new(KeyspaceId(0), "k".into(), settings);
        let segment_bytes = segment.strip_prefix("segment=").unwrap().parse().unwrap();
        self.sizes = Sizes { segment_bytes };
        self.busy = Busy::default();
        for line in input.lines() {
            let (place, tables) = line.split_once(':').expect("a run is level/run: tables");
            let (level, id) = place.split_once('/').expect("a place is level/run");
            let tables = tables.split_whitespace().map(|table| self.table(table)).collect();
            let run = Run { id: id.parse().unwrap(), tables };
            self.keyspace.levels[level.parse::<usize>().unwrap()].runs.push(Arc::new(run));
        }
    }

    fn table(&mut self, text: &str) -> Arc<TableHandle> {
        let (range, numbers) = text.split_once(':').expect("a table is range:numbers");
        let (smallest, largest) = range.split_once('-').expect("a range is smallest-largest");
        let letter = |c: char| {
            let (_, rest) = numbers.split_once(c)?;
            rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().ok()
        };
        let bytes = numbers.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        self.next_file += 1;
        TableHandle::detached(TableMeta {
            id: TableId { file: letter('f').unwrap_or(self.next_file), offset: 0 },
            bytes,
            smallest: smallest.into(),
            largest: largest.trim_end_matches(')').into(),
            largest_is_exclusive: largest.ends_with(')'),
            entries: 100,
            deletes: letter('d').unwrap_or(0),
            range_tombstones: letter('t').unwrap_or(0),
            raw_bytes: bytes,
            min_seqno: 0,
            max_seqno: 0,
            global_seqno: None,
        })
    }
}

fn describe(plan: &Plan) -> String {
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
fn leveled_plans_are_as_written_down() {
    check("leveled");
}

#[test]
fn tiered_plans_are_as_written_down() {
    check("tiered");
}

#[test]
fn full_compactions_are_as_written_down() {
    check("full");
}
