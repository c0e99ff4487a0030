//! `esker-lab experiment`: comparisons that are known by name and can be repeated by anybody. Each is a
//! campaign, or a model, of its own module; this is what they share.

mod fabric;
mod isolation;
mod plexdb;
mod room;
mod wal;
mod wbl;
mod ycsb;

use crate::bench::campaign::{Campaign, Places};
use crate::bench::engines;
use crate::failure::{Failure, Outcome};
use crate::output::tell;
use crate::units::parse_bytes;
use clap::Args;
use esker_bench::Results;
use room::Room;
use std::path::{Path, PathBuf};

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
    /// The cases. Of wbl, by their names in the report [default: all, such as A,D-burst]; of plexdb, each a distribution and a number of updates of each key
    /// [default: uniform-9,uniform-20,zipf-9,zipf-20]; of wal, each a benchmark and its clients
    /// [default: linkbench-10,linkbench-64,tpcc-10,tpcc-64]; of fabric, each a durability, an access and the
    /// size of a value [default: all, such as paper-same-32k]; of isolation, its parts
    /// [default: capacity,policies,sequential and, of a full run, engine,ycsb]
    #[arg(long, value_name = "LIST", verbatim_doc_comment)]
    cases: Option<String>,
    /// Of plexdb: the keys, with write buffers and memory in proportion
    #[arg(long, value_name = "N")]
    records: Option<u64>,
    /// Of plexdb: the size of a log segment, or of another engine's write buffer
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    segment: Option<usize>,
    /// Of wbl, wal and fabric: how often everything is measured, the engines taking turns: as many pairs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Of fabric: some cases twice more, over a link of 10 Gigabit Ethernet that is emulated by a relay in user
    /// space, and over that relay alone, which is what the emulation costs
    #[arg(long)]
    network: bool,
    /// Of wal: a directory on the device that the engines *-log-disk log to [default: the store's own]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Of wal: nanoseconds that each fence of persistent memory, and each cache line read, takes longer
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pool_delay: Option<u64>,
    /// An empty directory for the stores [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A directory for results.json and report.html [default: NAME-results]
    #[arg(long)]
    out: Option<PathBuf>,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Scale {
    #[default]
    Quick,
    Full,
}

/// A comparison known by name.
struct Experiment {
    name: &'static str,
    about: &'static str,
    /// The flags that it has beside those of all.
    flags: &'static [&'static str],
    how: How,
}

/// Keeps results as far as they are known.
type Keep<'a> = &'a mut dyn FnMut(&Results) -> Outcome;

/// How a comparison is made.
enum How {
    /// On engines, one after the other. Makes the campaign as it was asked for, on a machine with this
    /// room. Makes no file.
    Campaign(fn(&Wishes<'_>, &Room) -> Outcome<Campaign>),
    /// On a model, in this process. Hands on what is known so far, too.
    Model(fn(&Wishes<'_>, Keep<'_>) -> Outcome<Results>),
}

/// What was asked for; what was not, the experiment says.
#[derive(Clone, Copy, Debug, Default)]
struct Wishes<'a> {
    scale: Scale,
    engines: Option<&'a str>,
    cases: Option<&'a str>,
    records: Option<u64>,
    segment_bytes: Option<usize>,
    rounds: Option<u32>,
    network: bool,
    log_dir: Option<&'a Path>,
    pool_delay: Option<u64>,
}

static EXPERIMENTS: [Experiment; 6] = [
    Experiment {
        name: "ycsb",
        about: "workloads A to H on every engine",
        flags: &[],
        how: How::Campaign(|wishes, room| ycsb::campaign(wishes.scale, wishes.engines, room)),
    },
    Experiment {
        name: "wbl",
        about: "write-behind logging on persistent memory",
        flags: &["--cases", "--rounds"],
        how: How::Campaign(wbl::campaign),
    },
    Experiment {
        name: "plexdb",
        about: "writes against space under updates",
        flags: &["--cases", "--records", "--segment"],
        how: How::Campaign(plexdb::campaign),
    },
    Experiment {
        name: "wal",
        about: "what the log costs, by the device it lies on",
        flags: &["--cases", "--rounds", "--log-dir", "--pool-delay"],
        how: How::Campaign(wal::campaign),
    },
    Experiment {
        name: "isolation",
        about: "what reads lose beside writes inside a flash device, on a model",
        flags: &["--cases"],
        how: How::Model(isolation::results),
    },
    Experiment {
        name: "fabric",
        about: "engines before and behind the network",
        flags: &["--cases", "--rounds", "--network"],
        how: How::Campaign(fabric::campaign),
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
        let places = Places { dir: self.dir.clone(), out: Some(out) };
        places.check()?;
        match experiment.how {
            How::Campaign(campaign) => {
                let room = Room::of(places.dir.as_deref())?;
                campaign(&wishes, &room)?.run(&places)
            }
            How::Model(results) => {
                places.keep(&results(&wishes, &mut |so_far| places.write(so_far))?)
            }
        }
    }

    fn wishes(&self) -> Wishes<'_> {
        Wishes {
            scale: if self.full { Scale::Full } else { Scale::Quick },
            engines: self.engines.as_deref(),
            cases: self.cases.as_deref(),
            records: self.records,
            segment_bytes: self.segment,
            rounds: self.rounds,
            network: self.network,
            log_dir: self.log_dir.as_deref(),
            pool_delay: self.pool_delay,
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
            ("--rounds", self.rounds.is_some()),
            ("--network", self.network),
            ("--log-dir", self.log_dir.is_some()),
            ("--pool-delay", self.pool_delay.is_some()),
        ];
        let is_refused =
            |(flag, is_given): &(&str, bool)| *is_given && !experiment.flags.contains(flag);
        match given.into_iter().find(is_refused) {
            Some((flag, _)) => {
                let name = experiment.name;
                Err(Failure::Usage(format!("{flag}: {name} has no such choice")))
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
        tell(format_args!(
            "left out, for they are not built in: {missing}. To have them: \
             scripts/install-peers, then cargo build --release -p esker-lab --features peers"
        ));
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
                let wishes = Wishes { scale, ..Wishes::default() };
                wishes.check(experiment).unwrap();
                let How::Campaign(campaign) = experiment.how else { continue };
                let campaign = campaign(&wishes, &ROOMY).unwrap();
                assert!(!campaign.cases.is_empty() && !campaign.engines.is_empty());
                assert_eq!(campaign.scale, scale.name());
            }
        }
    }

    #[test]
    fn sizes_are_taken_by_those_that_have_some_alone() {
        let wishes = Wishes { records: Some(1_000), ..Wishes::default() };
        for experiment in &EXPERIMENTS {
            assert_eq!(wishes.check(experiment).is_ok(), experiment.name == "plexdb");
        }
    }
}
