//! `esker experiment`: comparisons that are known by name and can be repeated by anybody. Each is a
//! campaign of its own module; this is what they share.

mod plexdb;
mod room;
mod wbl;
mod ycsb;

use super::bench::campaign::{Campaign, Places};
use super::bench::engines;
use crate::failure::{Failure, Outcome};
use crate::units::parse_bytes;
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
    /// Of plexdb: the cases, each a distribution and a number of updates of each key
    /// [default: uniform-9,uniform-20,zipf-9,zipf-20]
    #[arg(long, value_name = "LIST", verbatim_doc_comment)]
    cases: Option<String>,
    /// Of plexdb: the keys, with write buffers and memory in proportion
    #[arg(long, value_name = "N")]
    records: Option<u64>,
    /// Of plexdb: the size of a log segment, or of another engine's write buffer
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    segment: Option<usize>,
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
    /// Whether its cases and sizes can be chosen.
    is_sized: bool,
    /// Makes the campaign as it was asked for, on a machine with this room. Makes no file.
    campaign: fn(&Wishes<'_>, &Room) -> Outcome<Campaign>,
}

/// What was asked for; what was not, the experiment says.
#[derive(Clone, Copy, Debug)]
struct Wishes<'a> {
    scale: Scale,
    engines: Option<&'a str>,
    cases: Option<&'a str>,
    records: Option<u64>,
    segment_bytes: Option<usize>,
}

static EXPERIMENTS: [Experiment; 3] = [
    Experiment {
        name: "ycsb",
        about: "workloads A to H on every engine",
        is_sized: false,
        campaign: |wishes, room| ycsb::campaign(wishes.scale, wishes.engines, room),
    },
    Experiment {
        name: "wbl",
        about: "write-behind logging on persistent memory",
        is_sized: false,
        campaign: |wishes, room| wbl::campaign(wishes.scale, wishes.engines, room),
    },
    Experiment {
        name: "plexdb",
        about: "writes against space under updates",
        is_sized: true,
        campaign: plexdb::campaign,
    },
];

impl Run {
    pub fn run(self) -> Outcome {
        let found = EXPERIMENTS.iter().find(|experiment| experiment.name == self.name);
        let experiment = found.ok_or_else(|| {
            let name = &self.name;
            Failure::Usage(format!("there is no experiment {name:?}; there are {}", listed(", ")))
        })?;
        let wishes = self.wishes();
        wishes.check(experiment)?;
        let out = self.out.clone();
        let out = out.unwrap_or_else(|| PathBuf::from(format!("{}-results", experiment.name)));
        let places = Places { dir: self.dir.clone(), out: Some(out), json: self.json };
        places.check()?;
        let room = Room::of(places.dir.as_deref())?;
        (experiment.campaign)(&wishes, &room)?.run(&places)
    }

    fn wishes(&self) -> Wishes<'_> {
        Wishes {
            scale: if self.full { Scale::Full } else { Scale::Quick },
            engines: self.engines.as_deref(),
            cases: self.cases.as_deref(),
            records: self.records,
            segment_bytes: self.segment,
        }
    }
}

impl Wishes<'_> {
    /// Refuses what `experiment` does not offer.
    fn check(&self, experiment: &Experiment) -> Outcome {
        let given = [
            ("--cases", self.cases.is_some()),
            ("--records", self.records.is_some()),
            ("--segment", self.segment_bytes.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given && !experiment.is_sized) {
            Some((flag, _)) => {
                let name = experiment.name;
                Err(Failure::Usage(format!("{flag}: the cases and sizes of {name} are fixed")))
            }
            None => Ok(()),
        }
    }
}

/// Those of `engines` that are built in, as a list; the user is told of the others.
fn those_built_in(engines: &[&str]) -> String {
    let built_in = engines::built_in();
    let (there, missing): (Vec<&str>, Vec<&str>) =
        engines.iter().partition(|name| built_in.contains(name));
    if !missing.is_empty() {
        let missing = missing.join(", ");
        eprintln!(
            "esker: left out, for they are not built in: {missing}. To have them: \
             scripts/install-peers, then cargo build --release -p esker-cli --features peers"
        );
    }
    there.join(",")
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
                let wishes = Wishes {
                    scale,
                    engines: None,
                    cases: None,
                    records: None,
                    segment_bytes: None,
                };
                wishes.check(experiment).unwrap();
                let campaign = (experiment.campaign)(&wishes, &ROOMY).unwrap();
                assert!(!campaign.cases.is_empty() && !campaign.engines.is_empty());
                assert_eq!(campaign.scale, scale.name());
            }
        }
    }

    #[test]
    fn sizes_are_taken_by_those_that_have_some_alone() {
        let wishes = Wishes {
            scale: Scale::Quick,
            engines: None,
            cases: None,
            records: Some(1_000),
            segment_bytes: None,
        };
        for experiment in &EXPERIMENTS {
            assert_eq!(wishes.check(experiment).is_ok(), experiment.name == "plexdb");
        }
    }
}
