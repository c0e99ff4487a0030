//! `esker-lab experiment fabric`: the engine on the compute node against the engine on the storage node, after the paper on a
//! key-value store on the storage server.
//!
//! * [`sizes`]: how much is measured, and the cases;
//! * [`analysis`]: every engine against RocksDB on the compute node, round by round;
//! * [`paper`]: what the paper reports.
//!
//! Both sides are equally durable: as the paper has it, where nothing that is acknowledged survives power loss for
//! certain, and power-safe, where everything does. The node is a process of its own on this machine, reached through
//! loopback: what a network adds is not in the figures, unless `--network` asks for one, which is emulated
//! ([`network`](crate::bench::network)).

mod analysis;
mod paper;
mod sizes;

use super::{Room, Wishes, those_built_in};
use crate::bench::campaign::{Analysis, Campaign, Case};
use crate::bench::engines::{EngineSettings, ForwardingName};
use crate::bench::fabric::{self, Durability, FabricSettings};
#[cfg(test)]
use crate::bench::network::Network;
use crate::bench::options::parse_engines;
use crate::bench::plan::{ShelfTask, Task};
use crate::bench::pool::PoolSettings;
use crate::failure::{Failure, Outcome};
use esker_bench::WarmUp;
use esker_bench::results::Group;
use sizes::{Shape, Sizes};
use std::time::Duration;

/// What acknowledged writes survive, by the beginning of a case's name.
const PAPER: &str = "paper";

/// The write buffer of the paper.
const WRITE_BUFFER_BYTES: usize = 32 << 20;

/// Two write buffers, as db_bench has them when nothing is said, and as much as one for the cache: less than there is to
/// read.
const MEMORY_BYTES: usize = 3 * WRITE_BUFFER_BYTES;

/// The campaign.
pub fn campaign(wishes: &Wishes<'_>, room: &Room) -> Outcome<Campaign> {
    let list = wishes.engines.map_or_else(|| those_built_in(&fabric::NAMES), str::to_owned);
    let sizes = Sizes::of(wishes.scale);
    // Blocks, keys, and an LSM's directory, one after the other and never removed in between.
    if room.disk_bytes < 4 * sizes.device_bytes {
        let needed = crate::units::bytes(4 * sizes.device_bytes);
        return Err(Failure::Usage(format!("the nodes' files need {needed} of space in --dir")));
    }
    let mut shapes = sizes::chosen(wishes.scale, wishes.cases)?;
    if wishes.network {
        sizes::add_networks(&mut shapes, wishes.cases.is_some());
    }
    let settings = |shape: &Shape| EngineSettings {
        memory_bytes: MEMORY_BYTES,
        segment_bytes: WRITE_BUFFER_BYTES,
        background_threads: 2,
        compression: "none".to_owned(),
        dram_table_bytes: None,
        forwarding: ForwardingName::default(),
        pool: PoolSettings::default(),
        log_dir: None,
        fabric: FabricSettings {
            device_bytes: sizes.device_bytes,
            connections: shape.connections,
            durability: match shape.is_power_safe {
                true => Durability::PowerSafe,
                false => Durability::Paper,
            },
            network: shape.network,
        },
        large_store: Default::default(),
    };
    let mut cases: Vec<Case> =
        shapes.iter().map(|shape| case(shape, &sizes, settings(shape))).collect();
    let base = settings(&shapes[0]);
    let engines = parse_engines(&list, &base, cases[0].task.pair_bytes()?)?;
    if let Some(other) = engines.iter().find(|engine| !fabric::is_one(engine)) {
        let known = fabric::NAMES.join(", ");
        return Err(Failure::Usage(format!("{other} has no storage node; these have: {known}")));
    }
    // Its reads come from the page cache of its node, the others' from devices.
    let direct: Vec<_> = engines.iter().filter(|&engine| engine != "lsm-node").cloned().collect();
    for case in cases.iter_mut().filter(|case| !direct.is_empty() && !case.settles) {
        case.engines = Some(direct.clone());
    }
    Ok(Campaign {
        experiment: "fabric".to_owned(),
        scale: wishes.scale.name().to_owned(),
        published: paper::published(&engines),
        groups: groups(&cases),
        engines,
        settings: base,
        rounds: wishes.rounds.unwrap_or(sizes.rounds),
        load: None,
        shared: None,
        cases,
        warm_up: WarmUp::NONE,
        seed: 1,
        run_settings: sizes.named().into_iter().collect(),
        analysis: Some(Analysis { rows: analysis::rows, text: analysis::text }),
        uses_memory: false,
        memory_limit: None,
    })
}

fn case(shape: &Shape, sizes: &Sizes, settings: EngineSettings) -> Case {
    let task = ShelfTask {
        access: shape.access,
        keys: sizes.keys(shape),
        value_bytes: shape.value_bytes,
        threads: shape.threads,
        seed: 1,
    };
    let duration = task.starts_full().then_some(sizes.duration);
    Case {
        duration,
        settings: Some(settings),
        // What is left to do is still to be written, and counts.
        settles: !task.starts_full(),
        interval: Duration::from_millis(250),
        ..Case::new(&shape.name, Task::Shelf(task), shape.threads)
    }
}

/// What the report shows together.
fn groups(cases: &[Case]) -> Vec<Group> {
    let group = |title: &str, about: &str, metrics: &[&str], is_in: fn(&str) -> bool| Group {
        title: title.to_owned(),
        about: about.to_owned(),
        cases: cases.iter().map(|c| c.name.clone()).filter(|name| is_in(name)).collect(),
        metrics: metrics.iter().map(|&metric| metric.to_owned()).collect(),
        ..Group::default()
    };
    let groups = [
        group("As the paper has it", OF_THE_PAPER, &LATENCIES, |name| {
            name.starts_with(PAPER) && !sizes::has_network(name)
        }),
        group("Power-safe", POWER_SAFE, &LATENCIES, |name| {
            !name.starts_with(PAPER) && !sizes::has_network(name)
        }),
        group("Over a network, EMULATED", EMULATED, &LATENCIES, sizes::has_network),
        group("What it costs", COSTS, &METRICS_OF_COSTS, |_| true),
    ];
    groups.into_iter().filter(|group| !group.cases.is_empty()).collect()
}

const OF_THE_PAPER: &str = "\
    The node announces a volatile write cache: a direct write that is done is acknowledged, and nobody flushes. Logs of \
    LSM engines are not synced. lsm-node's tables go through the page cache of its node, the others' devices are written \
    directly; so reads are of those alone.";
const POWER_SAFE: &str = "\
    There is no volatile cache: the node acknowledges what an fdatasync has made safe, and LSM engines sync their log at \
    every write, those who wait together together. RocksDB's logs are zeroed when they are made, and recycled.";
const EMULATED: &str = "\
    The same cases over a link of 10 Gigabit Ethernet that a relay in user space emulates on loopback (emulated-10gbe), and through \
    that relay while it holds nothing back (relay-alone): what these take longer than the cases without a relay is what the \
    emulation itself costs, and no network would.";
const LATENCIES: [&str; 6] = [
    "latency_mean_us",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "throughput",
    "bandwidth_mib_s",
];

const COSTS: &str = "\
    Payload bytes of the node's sockets, both ways, and what the system wrote to the node's device, for each byte that \
    users wrote; fills with all that is left to do afterwards. Processor time and memory are those of client and node together; the \
    node's part, and the emulated network's, which is in neither, stand beside.";
const METRICS_OF_COSTS: [&str; 9] = [
    "network_amp",
    "node_write_amp",
    "network_bytes",
    "sustained_throughput",
    "cpu_s",
    "node_cpu_s",
    "relay_cpu_s",
    "rss_peak_mib",
    "node_rss_peak_mib",
];

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    fn of(wishes: &Wishes<'_>) -> Campaign {
        campaign(wishes, &ROOMY).unwrap()
    }

    #[test]
    fn both_kinds_of_durability_and_of_fill_are_measured_at_either_scale() {
        for scale in [Scale::Quick, Scale::Full] {
            let campaign = of(&Wishes { scale, ..Wishes::default() });
            for name in ["paper-same-32k", "paper-own-32k", "safe-own-32k"] {
                let case = campaign.cases.iter().find(|case| case.name == name).unwrap();
                assert_eq!(case.threads, 15);
                let settings = case.settings.as_ref().unwrap();
                let expected = match name.starts_with(PAPER) {
                    true => Durability::Paper,
                    false => Durability::PowerSafe,
                };
                assert_eq!(settings.fabric.durability, expected);
            }
            assert!(campaign.rounds >= 2, "ratios have a spread");
        }
    }

    #[test]
    fn the_full_size_has_other_values_and_up_to_256_connections() {
        let campaign = of(&Wishes { scale: Scale::Full, ..Wishes::default() });
        let settings = campaign.cases.iter().filter_map(|case| case.settings.as_ref());
        let connections: Vec<usize> = settings.map(|s| s.fabric.connections).collect();
        assert!(connections.contains(&1) && connections.contains(&256));
        for bytes in [100, 4096, 32 << 10] {
            let has = |case: &Case| case.task.pair_bytes().unwrap() == (4, bytes);
            assert!(campaign.cases.iter().any(has), "{bytes}");
        }
    }

    #[test]
    fn a_network_is_measured_beside_its_relay_and_loopback_and_called_emulated() {
        let cases = Some("paper-own-32k,paper-read-4k");
        let campaign = of(&Wishes { network: true, cases, ..Wishes::default() });
        let networks = |prefix: &str| -> Vec<(String, Network)> {
            let cases = campaign.cases.iter().filter(|case| case.name.starts_with(prefix));
            let network = |case: &Case| case.settings.as_ref().unwrap().fabric.network;
            cases.map(|case| (case.name[prefix.len()..].to_owned(), network(case))).collect()
        };
        for case in ["paper-own-32k", "paper-read-4k"] {
            let expected = [
                ("", Network::Loopback),
                ("-relay-alone", Network::Relay),
                ("-emulated-10gbe", Network::TenGigabit),
            ];
            assert_eq!(networks(case), expected.map(|(name, network)| (name.to_owned(), network)));
        }
        assert!(campaign.emulated().iter().any(|said| said.contains("10 Gigabit")));
        let plain = of(&Wishes { cases, ..Wishes::default() });
        assert!(plain.emulated().is_empty() && plain.cases.len() == 2);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for bad in [
            Wishes { engines: Some("esker-wal"), ..Wishes::default() },
            Wishes { cases: Some("paper-same-33k"), ..Wishes::default() },
        ] {
            assert!(campaign(&bad, &ROOMY).is_err(), "{bad:?}");
        }
        assert!(campaign(&Wishes::default(), &Room { disk_bytes: 1 << 20, ..ROOMY }).is_err());
    }
}
