//! `esker-lab experiment wal`: what the log costs, by the device it is on, after the paper on RocksDB's.
//!
//! * [`sizes`]: how much is measured, and the cases;
//! * [`analysis`]: what a log adds to a commit, against the same engine without one;
//! * [`model`]: the ideal group commit, which no engine is expected to beat;
//! * [`paper`]: what the paper reports.
//!
//! Every engine syncs its log at every commit. All engines of a family start from one store, loaded
//! without a log, so that only the log differs.

mod analysis;
mod model;
mod paper;
mod sizes;

use super::{Room, Scale, Wishes, those_built_in};
use crate::bench::campaign::{Analysis, Campaign, Case, Shared};
use crate::bench::engines::{EngineSettings, ForwardingName};
use crate::bench::options::parse_transaction_engines;
use crate::bench::pool::PoolSettings;
use crate::failure::Outcome;
use esker_bench::results::Group;
use sizes::Sizes;

/// What is compared, as far as it is built in.
const ENGINES: [&str; 13] = [
    "esker-nolog",
    "esker-wbl",
    "esker-log-sata",
    "esker-log-nvme",
    "esker-log-nvram",
    "esker-log-disk",
    "esker-log-pmem",
    "rocksdb-nolog",
    "rocksdb-log-sata",
    "rocksdb-log-nvme",
    "rocksdb-log-nvram",
    "rocksdb-log-disk",
    "rocksdb-log-pmem",
];

/// Four logs, for a minute.
const QUICK_ENGINES: [&str; 9] = [
    "esker-nolog",
    "esker-wbl",
    "esker-log-sata",
    "esker-log-nvme",
    "esker-log-disk",
    "rocksdb-nolog",
    "rocksdb-log-sata",
    "rocksdb-log-nvme",
    "rocksdb-log-disk",
];

/// The campaign.
pub fn campaign(wishes: &Wishes<'_>, _room: &Room) -> Outcome<Campaign> {
    let default = match wishes.scale {
        Scale::Quick => &QUICK_ENGINES[..],
        Scale::Full => &ENGINES,
    };
    let list = wishes.engines.map_or_else(|| those_built_in(default), str::to_owned);
    let default = if wishes.scale == Scale::Quick { sizes::QUICK } else { sizes::ALL };
    let cases = sizes::parse_cases(wishes.cases.unwrap_or(default))?;
    let sizes = Sizes::of(wishes.scale);
    let pool_delay = wishes.pool_delay.unwrap_or(0);
    let settings = EngineSettings {
        memory_bytes: 1 << 30,
        segment_bytes: 64 << 20,
        background_threads: 2,
        // What Esker's transactions have when nothing is said; LinkBench's payloads compress.
        compression: "lz4".to_owned(),
        dram_table_bytes: None,
        forwarding: ForwardingName::default(),
        pool: PoolSettings { pool_delay, ..PoolSettings::default() },
        log_dir: wishes.log_dir.map(Into::into),
        fabric: Default::default(),
        large_store: Default::default(),
    };
    let mut loads: Vec<Case> = Vec::new();
    let mut measured = Vec::new();
    for (name, benchmark, clients) in &cases {
        let (load, run) = sizes.tasks(*benchmark, *clients);
        let load_name = format!("load-{}", benchmark.name());
        if loads.iter().all(|earlier| earlier.name != load_name) {
            loads.push(Case::new(&load_name, load, *clients));
        }
        measured.push(Case {
            duration: Some(sizes.duration),
            starts_on: Some(load_name),
            // What is left to settle is the same for all that wrote as much.
            settles: false,
            ..Case::new(name, run, *clients)
        });
    }
    let pair_bytes = measured[0].task.pair_bytes()?;
    let engines = parse_transaction_engines(&list, &settings, pair_bytes)?;
    let mut run_settings: esker_bench::results::Settings = sizes.named().into_iter().collect();
    run_settings.insert("pool delay, ns a fence".to_owned(), pool_delay.to_string());
    Ok(Campaign {
        experiment: "wal".to_owned(),
        scale: wishes.scale.name().to_owned(),
        published: paper::published(&engines),
        groups: groups(&measured),
        engines,
        settings,
        rounds: wishes.rounds.unwrap_or(sizes.rounds),
        load: None,
        shared: Some(Shared { loads, loader: analysis::without_log }),
        cases: measured,
        warm_up: sizes.warm_up.into(),
        seed: 1,
        run_settings,
        analysis: Some(Analysis { rows: analysis::rows, text: analysis::text }),
        uses_memory: false,
        memory_limit: None,
    })
}

/// What the report shows together.
fn groups(cases: &[Case]) -> Vec<Group> {
    let group = |title: &str, about: &str, metrics: &[&str]| Group {
        title: title.to_owned(),
        about: about.to_owned(),
        cases: cases.iter().map(|case| case.name.clone()).collect(),
        metrics: metrics.iter().map(|&metric| metric.to_owned()).collect(),
        ..Group::default()
    };
    vec![
        group("What the log adds to a commit", ADDED, &METRICS_OF_ADDED),
        group("Throughput", THROUGHPUT, &METRICS_OF_THROUGHPUT),
        group("Groups", GROUPS, &METRICS_OF_GROUPS),
        group("The devices", DEVICES, &METRICS_OF_DEVICES),
    ]
}

const ADDED: &str = "\
    Clients' time and processor time from commit to commit, less that of the same engine without a log in \
    the same round; what the emulator of a device took of a core to wait is left out. Then the latency of \
    the commits themselves.";
const METRICS_OF_ADDED: [&str; 4] =
    ["commit_added_us", "commit_cpu_us", "commit_latency_p50_us", "commit_latency_p99_us"];

const THROUGHPUT: &str = "\
    Requests or transactions a second, and the paper's measure: the part that is lost against the same \
    engine without a log.";
const METRICS_OF_THROUGHPUT: [&str; 4] =
    ["throughput", "loss_percent", "latency_p50_us", "latency_p99_us"];

const GROUPS: &str = "\
    What a commit writes to the log, how many share a sync, and commits a second by those of an ideal \
    group commit with the same device, clients and processor time: docs/benchmarks/lab.md has the model.";
const METRICS_OF_GROUPS: [&str; 4] =
    ["group_commit_model_ratio", "commits_per_sync", "syncs_per_commit", "log_bytes_per_commit"];

const DEVICES: &str = "\
    The service times that were asked of emulated devices, and those that they achieved. A row whose \
    median is more than a fifth off is void. Of real devices there is only what they took.";
const METRICS_OF_DEVICES: [&str; 6] = [
    "service_ratio",
    "service_requested_p50_us",
    "service_achieved_p50_us",
    "service_requested_us",
    "service_achieved_us",
    "void",
];

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    fn names(campaign: &Campaign) -> Vec<&str> {
        campaign.cases.iter().map(|case| &case.name[..]).collect()
    }

    #[test]
    fn the_full_size_has_every_case_and_log_and_pairs_enough() {
        let wishes = Wishes { scale: Scale::Full, ..Wishes::default() };
        let campaign = campaign(&wishes, &ROOMY).unwrap();
        assert_eq!(names(&campaign), ["linkbench-10", "linkbench-64", "tpcc-10", "tpcc-64"]);
        assert_eq!(campaign.engines[..7], ENGINES[..7]);
        assert!(campaign.rounds >= 40);
        assert_eq!(campaign.shared.unwrap().loads.len(), 2);
        for group in &campaign.groups {
            assert_eq!(group.cases.len(), 4, "every case is shown");
        }
    }

    #[test]
    fn the_quick_size_is_one_benchmark_with_four_logs() {
        let campaign = campaign(&Wishes::default(), &ROOMY).unwrap();
        assert_eq!(names(&campaign), ["linkbench-10"]);
        assert_eq!(campaign.engines[..5], QUICK_ENGINES[..5]);
    }

    #[test]
    fn cases_engines_rounds_and_delays_can_be_chosen() {
        let chosen = Wishes {
            engines: Some("esker-wbl,esker-nolog"),
            cases: Some("tpcc-3"),
            rounds: Some(7),
            pool_delay: Some(300),
            ..Wishes::default()
        };
        let campaign = campaign(&chosen, &ROOMY).unwrap();
        assert_eq!(campaign.engines, ["esker-wbl", "esker-nolog"]);
        assert_eq!((campaign.rounds, campaign.settings.pool.pool_delay), (7, 300));
        assert_eq!(campaign.cases[0].threads, 3);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for bad in [
            Wishes { engines: Some("leveldb"), ..Wishes::default() },
            Wishes { engines: Some("esker-novelsm"), ..Wishes::default() },
            Wishes { cases: Some("ycsb-1"), ..Wishes::default() },
        ] {
            assert!(campaign(&bad, &ROOMY).is_err(), "{bad:?}");
        }
    }
}
