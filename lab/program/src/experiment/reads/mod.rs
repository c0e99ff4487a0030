//! `esker-lab experiment reads`: how Esker's reads and scans compare with those of B-trees and other
//! LSM-trees, warm, and after many deletes and overwrites.
//!
//! * [`sizes`]: how much is measured;
//! * [`analysis`]: the table that is printed, and what each engine keeps after a crash.
//!
//! Three kinds of cases:
//!
//! * `100b`, `1kb`: entries put in random order and compacted, then gets, seeks and full scans;
//! * `C`, `D`, `E`: YCSB, on a copy of a loaded store;
//! * `queue`, `hot`: what scans pay for deleted entries and for old versions.

mod analysis;
mod sizes;

use super::{Room, Wishes, chosen, those_built_in};
use crate::bench::campaign::{Analysis, Campaign, Case, Shared};
use crate::bench::engines::{self, EngineSettings, ForwardingName};
use crate::bench::options::parse_engines;
use crate::bench::plan::{Task, YcsbTask};
use crate::bench::pool::PoolSettings;
use crate::bench::ycsb;
use crate::failure::Outcome;
use esker_bench::WarmUp;
use esker_bench::results::Group;
use esker_workload::ycsb::Preset;
use sizes::Sizes;

/// What is compared, as far as it is built in.
const ENGINES: [&str; 8] =
    ["esker-wal", "rocksdb-wal", "leveldb", "fjall", "lmdb", "redb", "bf-tree", "tidesdb"];

const WORKLOADS: [Preset; 3] = [Preset::C, Preset::D, Preset::E];

/// The campaign.
pub fn campaign(wishes: &Wishes<'_>, _room: &Room) -> Outcome<Campaign> {
    let list = wishes.engines.map_or_else(|| those_built_in(&ENGINES), str::to_owned);
    let sizes = Sizes::of(wishes.scale);
    let settings = EngineSettings {
        memory_bytes: sizes.memory_bytes,
        segment_bytes: sizes.segment_bytes,
        background_threads: 2,
        compression: "none".to_owned(),
        dram_table_bytes: None,
        forwarding: ForwardingName::default(),
        pool: PoolSettings::default(),
        log_dir: None,
        fabric: Default::default(),
        large_store: Default::default(),
    };
    let cases = chosen(cases(&sizes)?, wishes.cases)?;
    let load = ycsb::load(task(Preset::C, &sizes))?;
    let pair_bytes = load.task.pair_bytes()?;
    let engines = parse_engines(&list, &settings, pair_bytes)?;
    let has_ycsb = cases.iter().any(|case| case.starts_on.is_some());
    Ok(Campaign {
        experiment: "reads".to_owned(),
        scale: wishes.scale.name().to_owned(),
        groups: groups(&cases),
        engines,
        settings,
        rounds: wishes.rounds.unwrap_or(sizes.rounds),
        load: None,
        shared: has_ycsb.then(|| Shared { loads: vec![load], loader: itself }),
        cases,
        warm_up: WarmUp::For(sizes.warm_up),
        seed: 1,
        run_settings: sizes.named().map(|(name, value)| (name.to_owned(), value)).into(),
        published: Vec::new(),
        analysis: Some(Analysis { rows: |_| Vec::new(), text: analysis::text }),
        uses_memory: false,
        memory_limit: None,
    })
}

/// No two engines have the same files, so that each loads for itself.
fn itself(engine: &str) -> &'static str {
    let names = engines::names();
    names.into_iter().find(|name| *name == engine).expect("the engine was found by its name")
}

fn task(preset: Preset, sizes: &Sizes) -> YcsbTask {
    YcsbTask {
        workload: ycsb::preset(preset).1,
        records: Some(sizes.records),
        operations: None,
        threads: Some(1),
        fields: None,
        field_bytes: None,
        verify: false,
        seed: 1,
    }
}

fn cases(sizes: &Sizes) -> Outcome<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, probe) in sizes.probes() {
        cases.push(Case::new(name, Task::Probe(probe), 1));
    }
    for preset in WORKLOADS {
        let mut case = ycsb::run(ycsb::preset(preset).0, task(preset, sizes))?;
        case.duration = Some(sizes.duration);
        case.starts_on = Some("load".to_owned());
        // What is left to compact afterwards is no cost of these reads.
        case.settles = false;
        cases.push(case);
    }
    Ok(cases)
}

/// What the report shows together, without the cases that are not measured.
fn groups(cases: &[Case]) -> Vec<Group> {
    let is_measured = |name: &&&str| cases.iter().any(|case| case.name == **name);
    let group = |title: &str, about: &str, names: &[&str], metrics: &[&str]| Group {
        title: title.to_owned(),
        about: about.to_owned(),
        cases: names.iter().filter(is_measured).map(|&name| name.to_owned()).collect(),
        metrics: metrics.iter().map(|&metric| metric.to_owned()).collect(),
        ..Group::default()
    };
    let all = [
        group("Reads and scans, settled and warm", PAIRS, &["100b", "1kb"], &METRICS_OF_PAIRS),
        group("YCSB C, D and E", YCSB, &["C", "D", "E"], &METRICS_OF_YCSB),
        group("A queue", QUEUE, &["queue"], &["pop_last_us", "pop_first_us", "pops"]),
        group("A hot key", HOT, &["hot"], &METRICS_OF_HOT),
    ];
    all.into_iter().filter(|group| !group.cases.is_empty()).collect()
}

const PAIRS: &str = "\
    Pairs of 16 B keys and random values, put in random order by one thread, each put by itself. Then the store is \
    settled, and one thread reads it: random keys, each key once, then random keys again; a seek to one and the 50 \
    pairs after it, with a new cursor each time, with one cursor that is kept, and by Esker's range iterator; and \
    everything, the time of a pair. Memory is the peak of the process, its own and that of mapped files, with the 8 B \
    a pair of the load's order.";
const METRICS_OF_PAIRS: [&str; 12] = [
    "scan_us",
    "scan_range_us",
    "seek_50_us",
    "seek_50_kept_us",
    "seek_50_range_us",
    "get_us",
    "get_first_us",
    "fill_us",
    "settle_seconds",
    "disk_bytes",
    "rss_peak_mib",
    "mapped_peak_mib",
];

const YCSB: &str = "\
    C: reads. D: reads of the latest, 5% inserts. E: scans of 1 to 100 pairs, 5% inserts. One thread, records of \
    1,000 B, on a copy of a loaded and settled store.";
const METRICS_OF_YCSB: [&str; 3] = ["throughput", "latency_p50_us", "latency_p99_us"];

const QUEUE: &str = "\
    A queue of 1,000 entries. Each step puts one at the tail, untimed, then pops: a new cursor reads the first pair, \
    which is deleted. The mean of the first thousand pops, and of the last. Entries that were deleted are what a scan \
    must pass. An engine that is too slow for all pops in the time has fewer.";
const HOT: &str = "\
    One key is overwritten, then the store, which has nothing else, is scanned: at once, and the median of eleven \
    scans.";
const METRICS_OF_HOT: [&str; 4] =
    ["hot_scan_us", "hot_scan_first_us", "overwrite_us", "overwrites"];

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;
    use crate::failure::Failure;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    #[test]
    fn every_case_is_measured_and_shown_at_both_scales() {
        for scale in [Scale::Quick, Scale::Full] {
            let campaign = campaign(&Wishes { scale, ..Wishes::default() }, &ROOMY).unwrap();
            let names: Vec<&str> = campaign.cases.iter().map(|case| &case.name[..]).collect();
            assert_eq!(names, ["100b", "1kb", "queue", "hot", "C", "D", "E"]);
            for name in names {
                let is_shown = |group: &Group| group.cases.iter().any(|case| case == name);
                assert_eq!(campaign.groups.iter().filter(|group| is_shown(group)).count(), 1);
            }
            assert!(campaign.rounds >= 3);
        }
    }

    #[test]
    fn cases_can_be_chosen_and_probes_need_no_load() {
        let of = |cases| campaign(&Wishes { cases: Some(cases), ..Wishes::default() }, &ROOMY);
        let chosen = of("hot, 100b").unwrap();
        assert_eq!((chosen.cases.len(), chosen.groups.len()), (2, 2));
        assert!(chosen.shared.is_none() && of("E").unwrap().shared.is_some());
        assert!(matches!(of("F"), Err(Failure::Usage(message)) if message.contains("queue")));
    }
}
