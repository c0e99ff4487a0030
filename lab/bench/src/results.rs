//! All that a run gives: numbers, curves, and what a reader needs to judge them.
//!
//! The JSON is an object with the fields of [`Results`] in their order. The lists have one element a
//! line, so that two results can be compared with plain tools. Fields may be added, never renamed.

mod file;
mod group;
mod machine;
mod merge;
mod paired;
mod summary;

pub use file::{FILE_NAME, read, write};
pub use group::{Across, Comparison, Figure, Group, Line, Place, Plane, Published, PublishedRow};
pub use paired::Paired;
pub use summary::{Spread, geometric_mean, spread, summary_table};

use crate::Row;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The key of [`Results::settings`] for what the run itself was configured with, whatever the engine.
pub const RUN: &str = "run";

/// The settings of one engine or of the run, by name.
pub type Settings = BTreeMap<String, String>;

/// The results of a run, or of several that were merged.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// What was run.
    pub experiment: String,
    /// How large it was: `quick`, `full`, or what the user asked for in words.
    pub scale: String,
    /// The command line.
    pub command: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// When it started, in UTC, as RFC 3339 has it.
    pub started: String,
    /// What only replaced the real thing: to be said wherever results are shown.
    pub emulated: Vec<String>,
    /// Settings of each engine by its name, and under [`RUN`] those of the run.
    pub settings: BTreeMap<String, Settings>,
    /// The numbers.
    pub rows: Vec<Row>,
    /// What changed over time.
    #[serde(default)]
    pub series: Vec<Series>,
    /// How latencies were distributed.
    #[serde(default)]
    pub distributions: Vec<Distribution>,
    /// Which cases belong together; if there are none, all of them.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// What others published of the same.
    #[serde(default)]
    pub published: Vec<Published>,
    /// Whether the run came to its end.
    pub complete: bool,
    /// Why the run ended before that; empty while it goes on, and if nothing could be written at its end.
    #[serde(default)]
    pub ended: String,
    /// The version of the program that ran.
    #[serde(default)]
    pub version: String,
    /// The commit that it was built from, or `unknown`.
    #[serde(default)]
    pub commit: String,
}

/// The machine that results come from.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// How many processors a program may use.
    pub cores: usize,
    /// Memory.
    pub memory_bytes: u64,
    /// The kernel's name and release.
    pub kernel: String,
    /// The type of the file system that the data was on.
    pub filesystem: String,
    /// The device under it.
    pub disk: String,
    /// The distribution of the operating system.
    pub os: String,
}

/// A metric over the time of one load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    /// The engine.
    pub engine: String,
    /// The load.
    pub case: String,
    /// The round.
    pub round: u32,
    /// What is shown.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Seconds since the load's start at the end of each interval, and the value.
    pub points: Vec<[f64; 2]>,
}

/// The cumulative distribution of an operation's latency in one load.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Distribution {
    /// The engine.
    pub engine: String,
    /// The load.
    pub case: String,
    /// The round.
    pub round: u32,
    /// The kind of operation, or `all`.
    pub operation: String,
    /// A latency in microseconds, and the part of all operations at or below it. Both only grow.
    pub points: Vec<[f64; 2]>,
}

impl Results {
    /// The results as JSON.
    pub fn to_json(&self) -> String {
        let fields = [
            field("experiment", &self.experiment),
            field("scale", &self.scale),
            field("command", &self.command),
            field("machine", &self.machine),
            field("started", &self.started),
            field("emulated", &self.emulated),
            field("settings", &self.settings),
            list("rows", &self.rows),
            list("series", &self.series),
            list("distributions", &self.distributions),
            list("groups", &self.groups),
            list("published", &self.published),
            field("complete", &self.complete),
            field("ended", &self.ended),
            field("version", &self.version),
            field("commit", &self.commit),
        ];
        format!("{{\n{}\n}}\n", fields.join(",\n"))
    }

    /// The numbers as CSV: a line for each, with the fields of [`Row`] in their order.
    pub fn to_csv(&self) -> String {
        let mut out = "engine,case,metric,value,unit,round\n".to_owned();
        for row in &self.rows {
            let words = [&row.engine, &row.case, &row.metric].map(|word| csv_field(word));
            let [engine, case, metric] = words;
            let (value, unit, round) = (row.value, csv_field(&row.unit), row.round);
            out += &format!("{engine},{case},{metric},{value},{unit},{round}\n");
        }
        out
    }

    /// The results of a JSON text that [`Results::to_json`] wrote, now or in a later release.
    pub fn from_json(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// The metric by which a round says that it measured nothing: above zero if so.
    pub const VOID: &str = "void";

    /// Without what was measured in void rounds, but for what says why they are. Of an engine that has no
    /// other round of a case, nothing else is left.
    pub fn sound(&self) -> Results {
        let place = |row: &Row| (row.engine.clone(), row.case.clone(), row.round);
        let is_void = |row: &&Row| row.metric == Self::VOID && row.value > 0.0;
        let void: BTreeSet<_> = self.rows.iter().filter(is_void).map(place).collect();
        let says_why = |row: &Row| row.metric == Self::VOID || row.metric.starts_with("service_");
        let mut sound = self.clone();
        sound.rows.retain(|row| says_why(row) || !void.contains(&place(row)));
        sound
    }

    /// The names of the engines in order of their appearance.
    pub fn engines(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| &row.engine[..]))
    }

    /// The names of the cases in order of their appearance.
    pub fn cases(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| &row.case[..]))
    }

    /// The values of a metric in all rounds.
    pub fn values(&self, engine: &str, case: &str, metric: &str) -> Vec<f64> {
        let is_meant =
            |row: &&Row| row.engine == engine && row.case == case && row.metric == metric;
        self.rows.iter().filter(is_meant).map(|row| row.value).collect()
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

/// A field of CSV, in quotes where it must be.
fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn field(name: &str, value: &impl Serialize) -> String {
    format!("\"{name}\":{}", json(value))
}

fn list(name: &str, elements: &[impl Serialize]) -> String {
    if elements.is_empty() {
        return format!("\"{name}\":[]");
    }
    let lines: Vec<_> = elements.iter().map(json).collect();
    format!("\"{name}\":[\n{}\n]", lines.join(",\n"))
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("results are strings and numbers")
}

#[cfg(test)]
mod tests;
