//! `esker experiment`: comparisons that are known by name and can be repeated by anybody.

use super::bench::campaign::{Campaign, Places};
use super::bench::engines::{self, EngineSettings, ForwardingName};
use super::bench::options::parse_engines;
use super::bench::plan::{Task, YcsbTask};
use super::bench::pool::PoolSettings;
use super::bench::ycsb;
use crate::failure::{Failure, Outcome};
use clap::Args;
use esker_workload::ycsb::Preset;
use std::path::PathBuf;
use std::time::Duration;

/// Run a named comparison and write a report
///
/// The results go to a directory: results.json and report.html. --quick takes about a minute and
/// shows that everything works and roughly how engines compare; --full takes hours.
#[derive(Args)]
#[command(after_help = after_help())]
pub struct Run {
    /// The experiment
    name: String,
    /// About a minute [default]
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Hours, on an otherwise idle machine
    #[arg(long)]
    full: bool,
    /// The engines, compared with the first [default: all that are built in]
    #[arg(long, value_name = "LIST")]
    engines: Option<String>,
    /// An empty directory for the stores [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A directory for results.json and report.html [default: NAME-results]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scale {
    Quick,
    Full,
}

/// A comparison known by name.
struct Experiment {
    name: &'static str,
    about: &'static str,
    /// Makes the campaign, for these engines or for those that the experiment is about.
    campaign: fn(Scale, Option<&str>) -> Outcome<Campaign>,
}

static EXPERIMENTS: [Experiment; 1] = [Experiment {
    name: "ycsb",
    about: "workloads A to H on every engine",
    campaign: ycsb_campaign,
}];

impl Run {
    pub fn run(self) -> Outcome {
        let found = EXPERIMENTS.iter().find(|experiment| experiment.name == self.name);
        let experiment = found.ok_or_else(|| {
            let name = &self.name;
            Failure::Usage(format!("there is no experiment {name:?}; there are {}", listed(", ")))
        })?;
        let scale = if self.full { Scale::Full } else { Scale::Quick };
        let out = self.out.unwrap_or_else(|| PathBuf::from(format!("{}-results", experiment.name)));
        let places = Places { dir: self.dir, out: Some(out), json: self.json };
        (experiment.campaign)(scale, self.engines.as_deref())?.run(&places)
    }
}

/// The experiments with what they are about.
fn listed(between: &str) -> String {
    let line = |experiment: &Experiment| format!("{} ({})", experiment.name, experiment.about);
    EXPERIMENTS.iter().map(line).collect::<Vec<_>>().join(between)
}

fn after_help() -> String {
    format!("Experiments: {}\nEngines: {}", listed(", "), engines::names().join(", "))
}

impl Scale {
    fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick",
            Scale::Full => "full",
        }
    }
}

/// The time that all measuring of a quick run may take, shared among its cases.
const QUICK_SECONDS: f64 = 40.0;

/// Workloads A to H. The full size is five times what the engines have of memory; the quick one still
/// fills several write buffers.
fn ycsb_campaign(scale: Scale, engines: Option<&str>) -> Outcome<Campaign> {
    let list = engines.map_or_else(|| engines::built_in().join(","), str::to_owned);
    let (records, threads, memory_bytes, segment_bytes, rounds) = match scale {
        Scale::Quick => (50_000, 1, 64 << 20, 8 << 20, 1),
        Scale::Full => (5_000_000, 2, 1 << 30, 64 << 20, 3),
    };
    let settings = EngineSettings {
        memory_bytes,
        segment_bytes,
        background_threads: 2,
        compression: "none".to_owned(),
        dram_table_bytes: None,
        forwarding: ForwardingName::default(),
        pool: PoolSettings::default(),
    };
    let task = |preset| YcsbTask {
        workload: ycsb::preset(preset).1,
        records: Some(records),
        operations: None,
        threads: Some(threads),
        fields: None,
        field_bytes: None,
        verify: false,
        seed: 1,
    };
    let pair_bytes = Task::YcsbRun(task(Preset::A)).pair_bytes()?;
    let engines = parse_engines(&list, &settings, pair_bytes)?;
    let duration = match scale {
        Scale::Quick => {
            let cases = (Preset::ALL.len() * engines.len()) as f64;
            Duration::from_secs_f64((QUICK_SECONDS / cases).clamp(0.5, 3.0))
        }
        Scale::Full => Duration::from_secs(60),
    };
    let cases = Preset::ALL.into_iter().map(|preset| {
        let mut case = ycsb::run(ycsb::preset(preset).0, task(preset))?;
        case.duration = Some(duration);
        Ok(case)
    });
    let mut run_settings = ycsb::run_settings(&task(Preset::A))?;
    run_settings.remove("operations");
    run_settings.insert("duration_seconds".to_owned(), duration.as_secs_f64().to_string());
    Ok(Campaign {
        experiment: "ycsb".to_owned(),
        scale: scale.name().to_owned(),
        engines,
        settings,
        rounds,
        load: Some(ycsb::load(task(Preset::A))?),
        cases: cases.collect::<Outcome<_>>()?,
        warm_up: match scale {
            Scale::Quick => Duration::ZERO,
            Scale::Full => Duration::from_secs(10),
        },
        seed: 1,
        run_settings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_makes_a_campaign_at_either_scale() {
        for experiment in &EXPERIMENTS {
            for scale in [Scale::Quick, Scale::Full] {
                let campaign = (experiment.campaign)(scale, None).unwrap();
                assert!(!campaign.cases.is_empty() && !campaign.engines.is_empty());
                assert_eq!(campaign.scale, scale.name());
            }
        }
    }
}
