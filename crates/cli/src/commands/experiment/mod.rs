//! `esker experiment`: comparisons that are known by name and can be repeated by anybody. Each is a
//! campaign of its own module; this is what they share.

mod room;
mod wbl;
mod ycsb;

use super::bench::campaign::{Campaign, Places};
use super::bench::engines;
use crate::failure::{Failure, Outcome};
use clap::Args;
use room::Room;
use std::path::PathBuf;

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
    /// Makes the campaign, for these engines or for those that the experiment is about, on a
    /// machine with this room. Makes no file.
    campaign: fn(Scale, Option<&str>, &Room) -> Outcome<Campaign>,
}

static EXPERIMENTS: [Experiment; 2] = [
    Experiment {
        name: "ycsb",
        about: "workloads A to H on every engine",
        campaign: ycsb::campaign,
    },
    Experiment {
        name: "wbl",
        about: "write-behind logging on persistent memory",
        campaign: wbl::campaign,
    },
];

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
        places.check()?;
        let room = Room::of(places.dir.as_deref())?;
        (experiment.campaign)(scale, self.engines.as_deref(), &room)?.run(&places)
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    #[test]
    fn every_experiment_makes_a_campaign_at_either_scale() {
        for experiment in &EXPERIMENTS {
            for scale in [Scale::Quick, Scale::Full] {
                let campaign = (experiment.campaign)(scale, None, &ROOMY).unwrap();
                assert!(!campaign.cases.is_empty() && !campaign.engines.is_empty());
                assert_eq!(campaign.scale, scale.name());
            }
        }
    }
}
