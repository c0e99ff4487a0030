//! `esker-lab experiment`: comparisons that are known by name and can be repeated by anybody. Each is a
//! campaign, or a model, of its own module; this is what they share.

mod cassandra;
mod fabric;
mod isolation;
mod plexdb;
mod reads;
mod room;
mod rows;
mod scale;
mod wal;
mod wbl;
mod ycsb;

use crate::bench::campaign::{Campaign, Case, Places, Rate};
use crate::bench::engines;
use crate::bench::options::parse_seconds;
use crate::failure::{Failure, Outcome};
use crate::output::{show, tell};
use crate::units::parse_bytes;
use clap::{Args, Subcommand};
use esker_bench::Results;
use room::Room;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run a named comparison and write a report
///
/// The results go to a directory: results.json and report.html.
#[derive(Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true, after_help = after_help())]
pub struct Run {
    /// List the experiments
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    which: Option<Which>,
}

#[derive(Subcommand)]
enum Which {
    Ycsb(Ycsb),
    Reads(Reads),
    Wbl(Wbl),
    Plexdb(Plexdb),
    Wal(Wal),
    Isolation(Isolation),
    Fabric(Fabric),
    Scale(LargeStores),
    Cassandra(Cassandra),
}

/// YCSB's workloads A to F, and G and H, on every engine
///
/// G only inserts; H inserts and reads in equal parts. Then A again at 1, 10 and 50 percent of the rate
/// that its engine sustained. Quick takes about two minutes with Esker's engines, full takes hours. Needs
/// an otherwise idle machine.
#[derive(Args)]
struct Ycsb {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engines: Engines,
    #[command(flatten)]
    rounds: Rounds,
    /// Cases, such as A,A-1% [default: all]
    #[arg(long, value_name = "LIST")]
    cases: Option<String>,
}

/// Gets, seeks and scans, warm and after many deletes, on every engine
///
/// Are reads as fast as a B-tree's? 1 million entries of 100 B and 300,000 of 1 KB, put in random
/// order and compacted, are read and scanned by one thread. Then YCSB C, D and E, a queue, and a key
/// that is overwritten millions of times. Prints what each engine keeps after a crash. Quick has a
/// tenth of the sizes and takes about four minutes with all engines, full about three hours. Needs an
/// otherwise idle machine.
#[derive(Args)]
struct Reads {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engines: Engines,
    #[command(flatten)]
    rounds: Rounds,
    /// Cases [default: 100b,1kb,queue,hot,C,D,E]
    #[arg(long, value_name = "LIST")]
    cases: Option<String>,
}

/// Write-behind logging: log and MemTables in persistent memory, against a log in files
///
/// After "Write-Behind Logging for LSM-Tree-Based KV Stores". Each workload runs twice: as a burst
/// that the pool takes in, and with all the flushes and compactions that it causes. Then the effect of
/// each of the design's settings, and inserts over time. Quick takes a minute or two, full hours.
#[derive(Args)]
struct Wbl {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engines: Engines,
    #[command(flatten)]
    rounds: Rounds,
    /// Cases by their names in the report, such as A,D-burst [default: all]
    #[arg(long, value_name = "LIST")]
    cases: Option<String>,
}

/// Level deduplication: bytes written, against the space used, under updates
///
/// After PlexDB, the paper on level deduplication compaction. Each engine is a point in a plane of
/// write and space amplification; engines that can be tuned are measured at several tunings, next to the
/// limit line. Quick takes a minute or two, full hours.
#[derive(Args)]
struct Plexdb {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engines: Engines,
    /// Cases: each a distribution and updates of each key
    /// [default: uniform-9,uniform-20,zipf-9,zipf-20]
    #[arg(long, value_name = "LIST", verbatim_doc_comment)]
    cases: Option<String>,
    /// Keys; write buffers and memory follow in proportion
    #[arg(long, value_name = "N")]
    records: Option<u64>,
    /// Size of a log segment, or of another engine's write buffer
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    segment: Option<usize>,
}

/// The cost of the log, by the device that it is on
///
/// After the paper on the cost of RocksDB's log. LinkBench and TPC-C; every engine syncs its log at
/// every commit, and is compared with itself without a log. Devices of the log other than the store's
/// own are emulated. Quick takes about a minute, full hours.
#[derive(Args)]
struct Wal {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engines: Engines,
    #[command(flatten)]
    rounds: Rounds,
    /// Cases: each a benchmark and its clients
    /// [default: linkbench-10,linkbench-64,tpcc-10,tpcc-64]
    #[arg(long, value_name = "LIST", verbatim_doc_comment)]
    cases: Option<String>,
    /// A directory on the device that the engines *-log-disk log to [default: the store's own]
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// Nanoseconds added to each fence of persistent memory and each cache line read
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    pool_delay: Option<u64>,
}

/// Read and write isolation inside a flash device, on a model
///
/// After the paper on read/write isolation. Nothing is read from flash or written to it: devices are
/// models, and all times are the models'. Compares where data is placed, and what the device does for
/// reads. Quick takes a minute or two; full runs the whole engine on a model of 16 dies, too, and takes
/// about half an hour.
#[derive(Args)]
struct Isolation {
    #[command(flatten)]
    common: Common,
    /// Parts [default: capacity,policies,sequential and, with --full, engine,ycsb]
    #[arg(long, value_name = "LIST")]
    cases: Option<String>,
}

/// The engine on the compute node, against the engine on the storage node
///
/// After the paper on a key-value store on the storage server. Both sides are equally durable. The node
/// is a process on this machine, reached through loopback. Quick takes about two minutes, full hours.
#[derive(Args)]
struct Fabric {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engines: Engines,
    #[command(flatten)]
    rounds: Rounds,
    /// Cases: each a durability, an access and the size of a value, such as paper-same-32k [default: all]
    #[arg(long, value_name = "LIST")]
    cases: Option<String>,
    /// Add cases over an emulated link of 10 Gigabit Ethernet, and over the emulation's relay alone
    #[arg(long)]
    network: bool,
}

/// Stores larger than the memory of their engine
///
/// Stores of 1, 4, 16 and 100 times the memory, with values of 100 B, of 1 KB, and of 100 B to 1 MB: gets,
/// scans and YCSB A to F, and YCSB A of Esker with 64 descriptors. Quick has 64 MiB of memory, leaves
/// out stores above 1 GiB, and takes about five minutes with Esker alone; full has 256 MiB and stores of
/// up to 32 GB. Memory is limited by a cgroup, the page cache included, where the user may create one:
/// systemd-run --user --scope -p Delegate=yes esker-lab experiment scale
/// With cgroup v1, only root may.
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct LargeStores {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    engines: Engines,
    #[command(flatten)]
    rounds: Rounds,
    /// Cases: values (100b, 1kb, mixed), loads (get, scan, A to F, files64), or both, such as 1kb-get
    /// [default: all]
    #[arg(long, value_name = "LIST", verbatim_doc_comment)]
    cases: Option<String>,
    /// Sizes of stores, in times the memory [default: 1,4,16,100; full: 1,4,16,120]
    #[arg(long, value_name = "LIST")]
    sizes: Option<String>,
    /// Memory of each engine [default: 64MiB; full: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<usize>,
    /// Seconds that each load takes, after a third of that to warm up [default: 1.5; full: 30]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    duration: Option<Duration>,
}

/// A node of Apache Cassandra with Esker's memtable, and with its own
///
/// Needs the source, a JDK 17 and Maven. Esker's log in a pool and in files against Cassandra's trie
/// memtable and skip list, each with its commit log synced by batch, by group and periodically; rows of
/// 100 B and 1 KB, inserts alone and with 50% reads, 256 requests in flight. The pool is emulated. Quick
/// takes about ten minutes, full about two hours. Needs an otherwise idle machine.
#[derive(Args)]
struct Cassandra {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    rounds: Rounds,
    /// Memtables with their logs, such as esker-pool,trie-batch [default: all]
    #[arg(long, value_name = "LIST")]
    kinds: Option<String>,
    /// Cases [default: insert-100b,mixed-1kb; full: insert-1kb,mixed-100b, too]
    #[arg(long, value_name = "LIST")]
    cases: Option<String>,
}

/// Options of every experiment.
#[derive(Args)]
struct Common {
    /// Small sizes: shows roughly how engines compare (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Full sizes
    #[arg(long)]
    full: bool,
    /// An empty directory for the stores [default: a temporary one]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A directory for results.json and report.html [default: NAME-results]
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(Args)]
struct Engines {
    /// The engines, compared with the first [default: all that are built in]
    #[arg(long, value_name = "LIST")]
    engines: Option<String>,
}

#[derive(Args)]
struct Rounds {
    /// Rounds: each engine runs every case once a round, the engines taking turns
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Scale {
    #[default]
    Quick,
    Full,
}

/// Keeps results as far as they are known.
type Keep<'a> = &'a mut dyn FnMut(&Results) -> Outcome;

/// How a comparison is made.
enum How {
    /// On engines, one after the other. Makes the campaign as it was asked for, on a machine with this
    /// space. Makes no file.
    Campaign(fn(&Wishes<'_>, &Room) -> Outcome<Campaign>),
    /// On a model, or by another program. Hands on what is known so far, too.
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
    memory_bytes: Option<usize>,
    sizes: Option<&'a str>,
    duration: Option<Duration>,
    rounds: Option<u32>,
    network: bool,
    log_dir: Option<&'a Path>,
    pool_delay: Option<u64>,
}

impl Run {
    pub fn run(self) -> Outcome {
        let Some(which) = self.which else { return list() };
        let (name, how, common, wishes) = which.parts();
        let out = common.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}-results")));
        let places = Places { dir: common.dir.clone(), out: Some(out) };
        places.check()?;
        match how {
            How::Campaign(campaign) => {
                let room = Room::of(places.dir.as_deref())?;
                campaign(&wishes, &room)?.run(&places)
            }
            How::Model(results) => {
                places.keep(&results(&wishes, &mut |so_far| places.write(so_far))?)
            }
        }
    }
}

impl Which {
    /// The experiment's name, how it is made, and what was asked for.
    fn parts(&self) -> (&'static str, How, &Common, Wishes<'_>) {
        match self {
            Which::Ycsb(Ycsb { common, engines, rounds, cases }) => {
                let cases = cases.as_deref();
                let wishes = Wishes { cases, rounds: rounds.rounds, ..engines.wishes(common) };
                ("ycsb", How::Campaign(ycsb::campaign), common, wishes)
            }
            Which::Reads(Reads { common, engines, rounds, cases }) => {
                let cases = cases.as_deref();
                let wishes = Wishes { cases, rounds: rounds.rounds, ..engines.wishes(common) };
                ("reads", How::Campaign(reads::campaign), common, wishes)
            }
            Which::Wbl(Wbl { common, engines, rounds, cases }) => {
                let cases = cases.as_deref();
                let wishes = Wishes { cases, rounds: rounds.rounds, ..engines.wishes(common) };
                ("wbl", How::Campaign(wbl::campaign), common, wishes)
            }
            Which::Plexdb(Plexdb { common, engines, cases, records, segment }) => {
                let wishes = Wishes {
                    cases: cases.as_deref(),
                    records: *records,
                    segment_bytes: *segment,
                    ..engines.wishes(common)
                };
                ("plexdb", How::Campaign(plexdb::campaign), common, wishes)
            }
            Which::Wal(Wal { common, engines, rounds, cases, log_dir, pool_delay }) => {
                let wishes = Wishes {
                    cases: cases.as_deref(),
                    rounds: rounds.rounds,
                    log_dir: log_dir.as_deref(),
                    pool_delay: *pool_delay,
                    ..engines.wishes(common)
                };
                ("wal", How::Campaign(wal::campaign), common, wishes)
            }
            Which::Isolation(Isolation { common, cases }) => {
                let wishes = Wishes { cases: cases.as_deref(), ..common.wishes() };
                ("isolation", How::Model(isolation::results), common, wishes)
            }
            Which::Fabric(Fabric { common, engines, rounds, cases, network }) => {
                let wishes = Wishes {
                    cases: cases.as_deref(),
                    rounds: rounds.rounds,
                    network: *network,
                    ..engines.wishes(common)
                };
                ("fabric", How::Campaign(fabric::campaign), common, wishes)
            }
            Which::Scale(LargeStores {
                common,
                engines,
                rounds,
                cases,
                sizes,
                memory,
                duration,
            }) => {
                let wishes = Wishes {
                    cases: cases.as_deref(),
                    sizes: sizes.as_deref(),
                    memory_bytes: *memory,
                    duration: *duration,
                    rounds: rounds.rounds,
                    ..engines.wishes(common)
                };
                ("scale", How::Campaign(scale::campaign), common, wishes)
            }
            Which::Cassandra(Cassandra { common, rounds, kinds, cases }) => {
                let wishes = Wishes {
                    engines: kinds.as_deref(),
                    cases: cases.as_deref(),
                    rounds: rounds.rounds,
                    ..common.wishes()
                };
                ("cassandra", How::Model(cassandra::results), common, wishes)
            }
        }
    }
}

impl Common {
    fn wishes(&self) -> Wishes<'_> {
        let scale = if self.full { Scale::Full } else { Scale::Quick };
        Wishes { scale, ..Wishes::default() }
    }
}

impl Engines {
    fn wishes<'a>(&'a self, common: &'a Common) -> Wishes<'a> {
        Wishes { engines: self.engines.as_deref(), ..common.wishes() }
    }
}

/// Those of `cases` that a list names.
fn chosen(cases: Vec<Case>, list: Option<&str>) -> Outcome<Vec<Case>> {
    let Some(list) = list else { return Ok(cases) };
    let wanted: Vec<&str> = list.split(',').map(str::trim).collect();
    let known: Vec<&str> = cases.iter().map(|case| &case.name[..]).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(name)) {
        let known = known.join(", ");
        return Err(Failure::Usage(format!("there is no case {unknown:?}; there are {known}")));
    }
    for case in cases.iter().filter(|case| wanted.contains(&&case.name[..])) {
        if let Some(Rate::Part { of, .. }) = &case.rate
            && !wanted.contains(&&of[..])
        {
            let name = &case.name;
            return Err(Failure::Usage(format!(
                "{name} has a part of the rate of {of}: name both"
            )));
        }
    }
    Ok(cases.into_iter().filter(|case| wanted.contains(&&case.name[..])).collect())
}

/// The experiments, each with what it compares.
fn experiments() -> Vec<(String, String)> {
    let all = Which::augment_subcommands(clap::Command::new("experiment"));
    let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
    all.get_subcommands()
        .map(|command| (command.get_name().to_owned(), about(command).unwrap_or_default()))
        .collect()
}

/// Prints what experiments there are.
fn list() -> Outcome {
    let experiments = experiments();
    show(
        || {
            json!(
                experiments
                    .iter()
                    .map(|(name, about)| json!({ "name": name, "about": about }))
                    .collect::<Vec<_>>()
            )
        },
        || experiments.iter().map(|(name, about)| format!("{name:<10} {about}\n")).collect(),
    )
}

/// Those of `engines` that are built in, as a list; the user is notified of the others.
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

fn after_help() -> String {
    format!("Engines: {}", engines::names().join(", "))
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
        for (name, _) in experiments() {
            for scale in [Scale::Quick, Scale::Full] {
                let which = parse(&["", &name, &format!("--{}", scale.name())]).which.unwrap();
                let (called, how, _, wishes) = which.parts();
                assert_eq!((called, wishes.scale), (&name[..], scale));
                let How::Campaign(campaign) = how else { continue };
                let campaign = campaign(&wishes, &ROOMY).unwrap();
                assert!(!campaign.cases.is_empty() && !campaign.engines.is_empty());
                assert_eq!(campaign.scale, scale.name());
            }
        }
    }

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        run: Run,
    }

    fn parse(words: &[&str]) -> Run {
        <Alone as clap::Parser>::try_parse_from(words).unwrap().run
    }
}
