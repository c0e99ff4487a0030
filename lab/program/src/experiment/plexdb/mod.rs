//! `esker-lab experiment plexdb`: what engines pay for keeping only the latest values, after the paper on
//! level deduplication compaction.
//!
//! * [`sizes`]: how much is measured;
//! * [`loads`]: what: updates of all keys alike or of few above all, so many of each;
//! * [`plane`]: what is written against the space it takes, and the line that no engine is expected beyond;
//! * [`paper`]: what the paper reports;
//! * [`analysis`]: whether space-amplification limits were kept.
//!
//! Space costs writes, and who has more of one can do with less of the other. So an engine is a point in
//! a plane, and one that can be tuned is measured at several of its tunings.

mod analysis;
mod loads;
mod paper;
mod plane;
mod sizes;

use super::{Room, Wishes, those_built_in};
use crate::bench::campaign::{Analysis, Campaign, Case};
use crate::bench::engines::{EngineSettings, ForwardingName};
use crate::bench::options::parse_engines;
use crate::bench::plan::Task;
use crate::bench::pool::PoolSettings;
use crate::failure::Outcome;
use esker_bench::WarmUp;
use esker_bench::results::Group;
use loads::Load;
use sizes::Sizes;

/// What is compared, as far as it is built in.
const ENGINES: [&str; 21] = [
    "esker-leveled",
    "esker-tiered",
    "esker-perlevel-1.2",
    "esker-perlevel-1.4",
    "esker-perlevel-1.6",
    "esker-perlevel-1.8",
    "esker-spacegoal-1.1",
    "esker-spacegoal-1.2",
    "esker-spacegoal-1.5",
    "esker-spacegoal-2",
    "esker-spacegoal-3",
    "esker-spacegoal-4",
    "rocksdb-leveled-4",
    "rocksdb-leveled-10",
    "rocksdb-leveled-20",
    "rocksdb-universal-25",
    "rocksdb-universal-50",
    "rocksdb-universal-100",
    "rocksdb-universal-200",
    "leveldb",
    "fjall",
];

/// The campaign.
pub fn campaign(wishes: &Wishes<'_>, room: &Room) -> Outcome<Campaign> {
    let list = wishes.engines.map_or_else(|| those_built_in(&ENGINES), str::to_owned);
    let loads = Load::parse_list(wishes.cases.unwrap_or(loads::ALL))?;
    let sizes = Sizes::of(wishes, &list, &loads, room)?;
    let settings = EngineSettings {
        memory_bytes: sizes.memory_bytes(),
        segment_bytes: sizes.segment_bytes,
        background_threads: 2,
        // The paper's values do not compress.
        compression: "none".to_owned(),
        dram_table_bytes: None,
        forwarding: ForwardingName::default(),
        pool: PoolSettings::default(),
        log_dir: None,
        fabric: Default::default(),
        large_store: Default::default(),
    };
    let case = |load: &Load| {
        let task = Task::Updates(load.task(&sizes));
        Case { interval: sizes.interval, ..Case::new(&load.name, task, 1) }
    };
    let cases: Vec<Case> = loads.iter().map(case).collect();
    for load in &loads {
        load.task(&sizes).resolve()?;
    }
    let pair_bytes = cases[0].task.pair_bytes()?;
    let engines = parse_engines(&list, &settings, pair_bytes)?;
    Ok(Campaign {
        experiment: "plexdb".to_owned(),
        scale: wishes.scale.name().to_owned(),
        published: paper::published(&engines),
        groups: groups(&loads, &sizes)?,
        engines,
        settings,
        rounds: 1,
        load: None,
        shared: None,
        analysis: Some(Analysis { rows: analysis::rows, text: analysis::text }),
        uses_memory: false,
        memory_limit: None,
        cases,
        // The first write of a key counts as much as the last: nothing is written before.
        warm_up: WarmUp::NONE,
        seed: 1,
        run_settings: sizes.named().map(|(name, value)| (name.to_owned(), value)).into(),
    })
}

/// What the report shows together.
fn groups(loads: &[Load], sizes: &Sizes) -> Outcome<Vec<Group>> {
    let group = |title: &str, about: &str, metrics: &[&str]| Group {
        title: title.to_owned(),
        about: about.to_owned(),
        cases: loads.iter().map(|load| load.name.clone()).collect(),
        metrics: metrics.iter().map(|&metric| metric.to_owned()).collect(),
        ..Group::default()
    };
    let costs = group("Writes against space", COSTS, &METRICS_OF_COSTS);
    let planes: Outcome<Vec<_>> = loads.iter().map(|load| plane::planes(load, sizes)).collect();
    Ok(vec![
        Group { planes: planes?.concat(), ..costs },
        group("Speed of writes", WRITES, &METRICS_OF_WRITES),
        group("Speed of reads", READS, &METRICS_OF_READS),
        group("Cost of reads", READ_COSTS, &METRICS_OF_READ_COSTS),
        group("The choice of compactions", CHOICES, &METRICS_OF_CHOICES),
    ])
}

const COSTS: &str = "\
    Bytes that flushes and compactions wrote for each byte of users' writes, the log not counted, until \
    all is settled; and bytes of tables for each byte that is alive, while keys are updated: mean, and \
    peak with what compactions hold twice; and when all is settled. Below and left of another engine is better in both. The line \
    is the best of a class of policies, not a proven bound; 'beside the limit line' is how many times \
    its writes an engine needed, in the mean space that it took.";
const METRICS_OF_COSTS: [&str; 5] = [
    "table_write_amp",
    "table_space_amp_peak",
    "table_space_amp_settled",
    "limit_line_distance",
    "segments_above_goal",
];

const WRITES: &str = "\
    Writes a second, one thread, as fast as the engine takes them; and by the time that the settling \
    after them took as well.";
const METRICS_OF_WRITES: [&str; 5] =
    ["throughput", "sustained_throughput", "latency_p99_us", "latency_max_us", "stall_us"];

const READS: &str = "\
    Reads a second of keys that are as hot as they were updated, one thread: when all is settled; then \
    while another thread updates as fast as it can; then at once afterwards, when nothing is settled.";
const METRICS_OF_READS: [&str; 6] = [
    "read_settled_throughput",
    "read_beside_updates_throughput",
    "read_unsettled_throughput",
    "read_settled_latency_p99_us",
    "read_beside_updates_latency_p99_us",
    "read_unsettled_latency_p99_us",
];

const READ_COSTS: &str = "\
    What a read that comes to tables costs, when all is settled and at once after the updates: sorted runs \
    with a table for the key, each visited, if only by its filter; tables read, beyond their filters; and \
    blocks, and their bytes, read from files, which is what the block cache did not have. Of engines that \
    count it.";
const METRICS_OF_READ_COSTS: [&str; 8] = [
    "read_settled_table_runs_per_get",
    "read_unsettled_table_runs_per_get",
    "read_settled_table_reads_per_hit",
    "read_unsettled_table_reads_per_hit",
    "read_settled_table_blocks_read_per_get",
    "read_unsettled_table_blocks_read_per_get",
    "read_settled_table_bytes_read_per_get",
    "read_unsettled_table_bytes_read_per_get",
];

const CHOICES: &str = "\
    The part of the compactions that freed what was expected, give or take a tenth, and how far off all \
    of them were together; of engines that choose by it.";
const METRICS_OF_CHOICES: [&str; 2] = ["reclaims_within_tenth", "predicted_reclaim_error"];

#[cfg(test)]
mod tests {
    use super::super::Scale;
    use super::*;
    use crate::failure::Failure;

    const ROOMY: Room =
        Room { memory_bytes: 32 << 30, disk_bytes: 500 << 30, pool_bytes: 16 << 30 };

    fn wishes(scale: Scale) -> Wishes<'static> {
        Wishes { scale, ..Wishes::default() }
    }

    fn names(campaign: &Campaign) -> Vec<&str> {
        campaign.cases.iter().map(|case| &case.name[..]).collect()
    }

    #[test]
    fn every_case_of_the_paper_is_there_at_both_scales() {
        for scale in [Scale::Quick, Scale::Full] {
            let campaign = campaign(&wishes(scale), &ROOMY).unwrap();
            assert_eq!(names(&campaign), ["uniform-9", "uniform-20", "zipf-9", "zipf-20"]);
            assert_eq!(campaign.settings.compression, "none");
            for group in &campaign.groups {
                assert_eq!(group.cases, names(&campaign), "every case is shown");
            }
            assert!(campaign.groups[0].planes.len() == 8, "mean and peak of each");
        }
    }

    #[test]
    fn esker_takes_part_in_all_its_arrangements() {
        let campaign = campaign(&wishes(Scale::Quick), &ROOMY).unwrap();
        assert_eq!(campaign.engines[..9], ENGINES[..9]);
    }

    #[test]
    fn engines_and_cases_can_be_chosen() {
        let chosen = Wishes {
            engines: Some("esker-tiered,esker-leveled"),
            cases: Some("zipf-3,uniform-0.5"),
            ..wishes(Scale::Quick)
        };
        let campaign = campaign(&chosen, &ROOMY).unwrap();
        assert_eq!(campaign.engines, ["esker-tiered", "esker-leveled"]);
        assert_eq!(names(&campaign), ["zipf-3", "uniform-0.5"]);
        let Task::Updates(task) = &campaign.cases[1].task else {
            panic!("{:?}", campaign.cases[1].task)
        };
        assert_eq!((task.updates_per_key, &task.distribution[..]), (0.5, "uniform"));
        assert_eq!((task.key_bytes, task.value_bytes), (10, 200));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let base = wishes(Scale::Quick);
        for bad in [
            Wishes { engines: Some("none"), ..base },
            Wishes { engines: Some("esker-tiered,esker-tiered"), ..base },
            Wishes { cases: Some("uniform"), ..base },
            Wishes { cases: Some("latest-9"), ..base },
            Wishes { cases: Some("uniform-9,uniform-9"), ..base },
            Wishes { cases: Some("uniform--1"), ..base },
            Wishes { records: Some(0), ..base },
            Wishes { segment_bytes: Some(1), ..base },
        ] {
            assert!(campaign(&bad, &ROOMY).is_err(), "{bad:?}");
        }
        let crowded = Room { disk_bytes: 1 << 30, ..ROOMY };
        let refused = campaign(&wishes(Scale::Full), &crowded);
        assert!(matches!(refused, Err(Failure::Usage(message)) if message.contains("of disk")));
    }
}
