//! `esker-lab bench ycsb`.

use super::campaign::{Campaign, Case, Places, Rate};
use super::options::{CampaignOptions, parse_engines};
use super::plan::{Task, YcsbTask, YcsbWorkload};
use crate::failure::{Failure, Outcome};
use crate::output::tell;
use clap::Args;
use esker_workload::ycsb::{self, Preset};
use std::path::{Path, PathBuf};

/// The Yahoo! Cloud Serving Benchmark, on one engine or several
///
/// Each engine loads the records and then runs every workload on a copy of what it loaded, in a
/// process of its own. A table of throughput goes to standard output; with --out everything is
/// written down: results.json and report.html.
#[derive(Args)]
pub struct Ycsb {
    /// The workloads by their letters: a to f are YCSB's, g inserts, h inserts and reads half and
    /// half, rmw reads and writes the same record; `load` alone only loads
    #[arg(long, value_name = "LIST", default_value = "a-h")]
    workload: String,
    /// A workload in a file of properties as YCSB has them; flags go before it
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    property_file: Option<PathBuf>,
    /// Records to begin with [default: 1000000]
    #[arg(long, value_name = "N")]
    records: Option<u64>,
    /// Operations of each workload [default: as many as --records]
    #[arg(long, value_name = "N")]
    operations: Option<u64>,
    /// Bytes of a record, instead of fields
    #[arg(long, value_name = "BYTES", conflicts_with_all = ["fields", "field_size"])]
    value_size: Option<usize>,
    /// Fields of a record [default: 10]
    #[arg(long, value_name = "N")]
    fields: Option<usize>,
    /// Bytes of a field [default: 100]
    #[arg(long, value_name = "BYTES")]
    field_size: Option<usize>,
    /// Threads, which divide the operations between them [default: 1]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Check every value that is read
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    campaign: CampaignOptions,
}

impl Ycsb {
    pub fn run(self) -> Outcome {
        self.campaign.check()?;
        let workloads = match &self.property_file {
            Some(file) => vec![read(file)?],
            None => parse_workloads(&self.workload)?.into_iter().map(preset).collect(),
        };
        // Something to load even if nothing is run afterwards.
        let (_, first) = workloads.first().cloned().unwrap_or_else(|| preset(Preset::A));
        let first = self.task(first);
        let settings = self.campaign.settings();
        let pair_bytes = Task::YcsbRun(first.clone()).pair_bytes()?;
        let engines = parse_engines(&self.campaign.engines, &settings, pair_bytes)?;
        let places = Places { dir: self.campaign.dir.clone(), out: self.campaign.out.clone() };
        places.check()?;
        for warning in first.resolve()?.warnings {
            tell(format_args!("{warning}"));
        }
        let cases = workloads.into_iter().map(|(name, workload)| self.case(name, workload));
        let campaign = Campaign {
            experiment: "ycsb".to_owned(),
            scale: scale(&first)?,
            engines,
            settings,
            rounds: self.campaign.rounds,
            load: Some(load(first.clone())?),
            shared: None,
            analysis: None,
            uses_memory: false,
            memory_limit: None,
            cases: cases.collect::<Outcome<_>>()?,
            warm_up: self.campaign.warm_up.into(),
            seed: self.campaign.seed,
            run_settings: run_settings(&first)?.into_iter().chain(self.campaign.named()).collect(),
            groups: Vec::new(),
            published: Vec::new(),
        };
        campaign.run(&places)
    }

    fn task(&self, workload: YcsbWorkload) -> YcsbTask {
        YcsbTask {
            workload,
            records: self.records,
            operations: self.operations,
            threads: self.threads,
            fields: if self.value_size.is_some() { Some(1) } else { self.fields },
            field_bytes: self.value_size.or(self.field_size),
            verify: self.verify,
            seed: self.campaign.seed,
        }
    }

    fn case(&self, name: String, workload: YcsbWorkload) -> Outcome<Case> {
        let task = self.task(workload);
        let mut case = run(name, task)?;
        case.duration = self.campaign.duration.or(case.duration);
        case.rate = self.campaign.rate.map(Rate::Fixed).or(case.rate);
        Ok(case)
    }
}

/// The load that `task` starts with, as a case.
pub fn load(task: YcsbTask) -> Outcome<Case> {
    let threads = task.resolve()?.options.threads;
    let task = Task::YcsbLoad(task);
    Ok(Case::new("load", task, threads))
}

/// The workload of `task` as a case.
pub fn run(name: String, task: YcsbTask) -> Outcome<Case> {
    let found = task.resolve()?;
    let case = Case::new(&name, Task::YcsbRun(task), found.options.threads);
    Ok(Case { duration: found.duration, rate: found.rate.map(Rate::Fixed), ..case })
}

/// A workload that has a letter, by its name in the rows.
pub fn preset(preset: Preset) -> (String, YcsbWorkload) {
    (preset.name().to_uppercase(), YcsbWorkload::Preset(preset.name().to_owned()))
}

/// What the report says of the load.
pub fn run_settings(task: &YcsbTask) -> Outcome<esker_bench::results::Settings> {
    let ycsb::Options { records, operations, threads, fields, field_bytes, verify, .. } =
        task.resolve()?.options;
    let given = [
        ("records", records.to_string()),
        ("operations", operations.to_string()),
        ("threads", threads.to_string()),
        ("fields", fields.to_string()),
        ("field_bytes", field_bytes.to_string()),
        ("verify", verify.to_string()),
    ];
    let mut settings: esker_bench::results::Settings =
        given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    if let YcsbWorkload::File { text, .. } = &task.workload {
        // Two files of one name may ask for different things.
        settings.insert(
            "property_file".to_owned(),
            text.split_whitespace().collect::<Vec<_>>().join(" "),
        );
    }
    Ok(settings)
}

fn scale(task: &YcsbTask) -> Outcome<String> {
    let options = task.resolve()?.options;
    let (records, bytes) = (options.records, options.value_bytes() as u64);
    Ok(format!("{} of {}", crate::units::counted(records, "record"), crate::units::bytes(bytes)))
}

fn read(file: &Path) -> Outcome<(String, YcsbWorkload)> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Failure::io("read", &name, error))?;
    let stem = file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    Ok((stem, YcsbWorkload::File { name, text }))
}

/// The workloads of a list: letters, ranges such as `a-h`, `rmw`. `load` is none of them, and may be
/// alone.
fn parse_workloads(list: &str) -> Outcome<Vec<Preset>> {
    let mut parsed = Vec::new();
    for item in list.split(',').map(str::trim) {
        if item == "load" {
            continue;
        }
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        let (from, to): (Preset, Preset) = (from.trim().parse()?, to.trim().parse()?);
        if from > to {
            return Err(Failure::Usage(format!("{item} runs backwards; say {to}-{from}")));
        }
        for preset in Preset::ALL.into_iter().filter(|preset| (from..=to).contains(preset)) {
            if parsed.contains(&preset) {
                return Err(Failure::Usage(format!("workload {preset} is named twice")));
            }
            parsed.push(preset);
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_letters_and_ranges() {
        assert_eq!(parse_workloads("a-h").unwrap(), Preset::LETTERS);
        assert_eq!(parse_workloads("RMW,f").unwrap(), [Preset::Rmw, Preset::F]);
        assert_eq!(parse_workloads("g, b-c").unwrap(), [Preset::G, Preset::B, Preset::C]);
        assert_eq!(parse_workloads("load").unwrap(), []);
        for bad in ["", "x", "c-a", "a,,b", "a-b,b"] {
            assert!(matches!(parse_workloads(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }
}
