//! `esker-lab experiment scale`: what stores cost that outgrow the memory of their engine.
//!
//! * [`sizes`]: the stores, and what is done with each;
//! * [`analysis`]: the table that is printed.
//!
//! Each engine loads a store and runs all loads on it, one after the other and each in a process of its
//! own. The engines take turns at each load. Then the stores are removed.

mod analysis;
mod sizes;

use super::{Room, Wishes, those_built_in};
use crate::bench::campaign::{Analysis, Campaign, Case};
use crate::bench::engine_settings::LargeStore;
use crate::bench::engines::{EngineSettings, ForwardingName};
use crate::bench::large::LargeTask;
use crate::bench::options::parse_engines;
use crate::bench::plan::Task;
use crate::bench::pool::PoolSettings;
use crate::failure::Outcome;
use crate::output::tell;
use esker_bench::results::{Across, Group, Place};
use esker_bench::{Results, WarmUp};
use sizes::{LOAD, LOADS, SEPARATION_THRESHOLD, Sizes, Store, VALUES, Values};

/// What is compared, as far as it is built in.
const ENGINES: [&str; 4] = ["esker-wal", "rocksdb-wal", "fjall", "lmdb"];

/// The campaign.
pub fn campaign(wishes: &Wishes<'_>, room: &Room) -> Outcome<Campaign> {
    let list = wishes.engines.map_or_else(|| those_built_in(&ENGINES), str::to_owned);
    let names: Vec<&str> = list.split(',').map(str::trim).collect();
    let sizes = Sizes::of(wishes, &names, room)?;
    let settings = EngineSettings {
        memory_bytes: sizes.memory_bytes,
        segment_bytes: sizes.segment_bytes(),
        background_threads: 2,
        compression: "none".to_owned(),
        dram_table_bytes: None,
        forwarding: ForwardingName::default(),
        pool: PoolSettings::default(),
        log_dir: None,
        fabric: Default::default(),
        large_store: LargeStore { has_parts: true, separation_threshold: None },
    };
    let pair_bytes = (LargeTask::KEY_BYTES, sizes.longest_value());
    let engines = parse_engines(&list, &settings, pair_bytes)?;
    for cut in &sizes.cut {
        tell(format_args!("not measured: {cut}"));
    }
    Ok(Campaign {
        experiment: "scale".to_owned(),
        scale: wishes.scale.name().to_owned(),
        groups: groups(&sizes),
        engines,
        cases: cases(&sizes, &settings),
        settings,
        rounds: wishes.rounds.unwrap_or(1),
        load: None,
        shared: None,
        warm_up: WarmUp::For(sizes.warm_up),
        seed: 1,
        run_settings: sizes.named().into_iter().collect(),
        published: Vec::new(),
        analysis: Some(Analysis { rows: |_: &Results| Vec::new(), text: analysis::text }),
        uses_memory: false,
        memory_limit: Some(sizes.memory_limit()),
    })
}

fn cases(sizes: &Sizes, settings: &EngineSettings) -> Vec<Case> {
    let case = |store: &Store, load: &str| {
        let name = format!("{}-{load}", store.name());
        let task = Task::Large(store.task(load, sizes.threads));
        let mut settings = settings.clone();
        if store.values.are_separated() {
            settings.large_store.separation_threshold = Some(SEPARATION_THRESHOLD);
        }
        Case {
            duration: (load != LOAD).then_some(sizes.duration),
            store: Some(store.name()),
            engines: Some(store.engines_of(load)),
            settings: Some(settings),
            ..Case::new(&name, task, sizes.threads)
        }
    };
    let of_store = |store: &Store| {
        let loads = [LOAD].into_iter().chain(store.loads.iter().copied());
        loads.map(|load| case(store, load)).collect::<Vec<_>>()
    };
    sizes.stores.iter().flat_map(of_store).collect()
}

/// A group for each load on stores of each kind of values, drawn over the size of the store.
fn groups(sizes: &Sizes) -> Vec<Group> {
    let group = |values: &Values, load: &str| {
        let stores = sizes.stores.iter().filter(|store| {
            store.values == *values && (load == LOAD || store.loads.contains(&load))
        });
        let places: Vec<Place> = stores
            .map(|store| Place {
                case: format!("{}-{load}", store.name()),
                at: store.factor as f64,
            })
            .collect();
        (!places.is_empty()).then(|| Group {
            title: format!("{}: values of {}", title(load), values.about),
            about: if load == LOAD { ABOUT.to_owned() } else { String::new() },
            cases: places.iter().map(|place| place.case.clone()).collect(),
            metrics: metrics(load).map(str::to_owned).collect(),
            across: Some(Across { title: "store, times the memory".to_owned(), places }),
            ..Group::default()
        })
    };
    let loads = || [LOAD].into_iter().chain(LOADS);
    VALUES.iter().flat_map(|values| loads().filter_map(move |load| group(values, load))).collect()
}

fn title(load: &str) -> String {
    match load {
        LOAD => "Load".to_owned(),
        "get" => "Gets of random keys".to_owned(),
        "scan" => "Seeks to random keys and the 50 entries after each".to_owned(),
        "files64" => "YCSB A with 64 descriptors".to_owned(),
        letter => format!("YCSB {letter}"),
    }
}

/// What a group shows.
fn metrics(load: &str) -> impl Iterator<Item = &'static str> {
    const ALL: [&str; 4] =
        ["throughput", "latency_p99_us", "resident_peak_mib", "descriptors_peak"];
    let more: &[&str] = match load {
        LOAD => &["write_amp", "disk_bytes", "space_amp_end"],
        "get" | "C" => &["read_calls_per_get", "device_bytes_read_per_get", "first_read_ms"],
        "scan" => &["read_calls_per_scan", "device_bytes_read_per_scan"],
        _ => &["write_amp", "disk_bytes"],
    };
    ALL.into_iter().chain(more.iter().copied())
}

const ABOUT: &str = "\
    Stores of several times the memory that each engine may use. Each engine loads its store, waits for its \
    compactions, and runs every load on that store, each in a process of its own. RocksDB has its indexes and filters \
    in parts. Values of 4 KiB and more are outside the tree where values differ in size: in value files, BlobDB's, or \
    fjall's. Written bytes are those that the process gave the system (wchar of /proc/self/io), by the bytes of the \
    users' writes. Resident memory is the peak of the process (VmHWM), mapped files and the load generator included. \
    Descriptors are all of the process. Reads from the system are its calls, whatever the page cache has.";

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;
    use crate::failure::Failure;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    fn of(wishes: Wishes<'_>) -> Campaign {
        campaign(&Wishes { engines: Some("esker-wal,esker-nolog"), ..wishes }, &ROOMY).unwrap()
    }

    #[test]
    fn every_store_is_loaded_first_and_every_case_is_shown_once() {
        for scale in [Scale::Quick, Scale::Full] {
            let campaign = of(Wishes { scale, ..Wishes::default() });
            let mut loaded = Vec::new();
            for case in &campaign.cases {
                match case.task.is_load() {
                    true => loaded.push(case.store.clone()),
                    false => assert_eq!(loaded.last(), Some(&case.store), "{}", case.name),
                }
                let is_shown = |group: &&Group| group.cases.contains(&case.name);
                assert_eq!(campaign.groups.iter().filter(is_shown).count(), 1, "{}", case.name);
            }
            assert_eq!(loaded.len(), if scale == Scale::Quick { 9 } else { 12 });
            assert!(campaign.memory_limit.unwrap() > campaign.settings.memory_bytes as u64);
        }
    }

    #[test]
    fn values_are_separated_only_where_they_differ() {
        let campaign = of(Wishes { sizes: Some("1"), ..Wishes::default() });
        for case in &campaign.cases {
            let large_store = case.settings.as_ref().unwrap().large_store;
            let expected = case.name.starts_with("mixed").then_some(SEPARATION_THRESHOLD);
            assert_eq!((large_store.separation_threshold, large_store.has_parts), (expected, true));
        }
    }

    #[test]
    fn a_budget_too_small_for_the_values_is_refused() {
        let small = Wishes { memory_bytes: Some(1 << 20), ..Wishes::default() };
        assert!(matches!(campaign(&small, &ROOMY), Err(Failure::Usage(_))));
    }
}
