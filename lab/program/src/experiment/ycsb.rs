//! `esker-lab experiment ycsb`: what every engine does with the standard workloads.

use super::{Room, Scale, Wishes, chosen, those_built_in};
use crate::bench::campaign::{Campaign, Case, Rate};
use crate::bench::engines::{EngineSettings, ForwardingName};
use crate::bench::options::parse_engines;
use crate::bench::plan::{Task, YcsbTask};
use crate::bench::pool::PoolSettings;
use crate::bench::ycsb;
use crate::failure::Outcome;
use esker_bench::WarmUp;
use esker_workload::ycsb::Preset;
use std::time::Duration;

/// The time that all measuring of a quick run may take, shared among its cases.
const QUICK_SECONDS: f64 = 40.0;

/// How long a quick case at a lower rate takes at least.
const LEAST_AT_A_RATE: Duration = Duration::from_secs(2);

/// What is compared, as far as it is built in. Not NoveLSM's write path, which flushes before each scan:
/// workload E would measure nothing else.
const ENGINES: [&str; 10] = [
    "esker-wal",
    "esker-wal-sync",
    "esker-nolog",
    "esker-wbl",
    "rocksdb-wal",
    "rocksdb-wal-sync",
    "rocksdb-nolog",
    "rocksdb-universal",
    "leveldb",
    "fjall",
];

/// The parts of the rate that an engine sustains in workload A at which latencies are measured, in percent.
const PERCENTS: [u32; 3] = [1, 10, 50];

/// Workloads A to H, and A at lower rates. The full size is five times what the engines have of memory;
/// the quick one still fills several write buffers.
pub(super) fn campaign(wishes: &Wishes<'_>, _room: &Room) -> Outcome<Campaign> {
    let scale = wishes.scale;
    let list = wishes.engines.map_or_else(|| those_built_in(&ENGINES), str::to_owned);
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
        log_dir: None,
        fabric: Default::default(),
        large_store: Default::default(),
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
            let cases = (Preset::LETTERS.len() * engines.len()) as f64;
            Duration::from_secs_f64((QUICK_SECONDS / cases).clamp(0.5, 3.0))
        }
        Scale::Full => Duration::from_secs(60),
    };
    let preset_case = |preset| {
        let mut case = ycsb::run(ycsb::preset(preset).0, task(preset))?;
        case.duration = Some(duration);
        Ok(case)
    };
    let mut cases = Preset::LETTERS.into_iter().map(preset_case).collect::<Outcome<Vec<_>>>()?;
    for percent in PERCENTS {
        let saturated = preset_case(Preset::A)?;
        let rate = Rate::Part { of: saturated.name.clone(), part: f64::from(percent) / 100.0 };
        cases.push(Case {
            name: format!("{}-{percent}%", saturated.name),
            rate: Some(rate),
            // A hundredth of the rate is a few thousand operations a second.
            duration: Some(duration.max(LEAST_AT_A_RATE)),
            ..saturated
        });
    }
    let cases = chosen(cases, wishes.cases)?;
    let mut run_settings = ycsb::run_settings(&task(Preset::A))?;
    run_settings.remove("operations");
    run_settings.insert("duration_seconds".to_owned(), duration.as_secs_f64().to_string());
    Ok(Campaign {
        experiment: "ycsb".to_owned(),
        scale: scale.name().to_owned(),
        engines,
        settings,
        rounds: wishes.rounds.unwrap_or(rounds),
        load: Some(ycsb::load(task(Preset::A))?),
        shared: None,
        analysis: None,
        uses_memory: false,
        memory_limit: None,
        cases,
        warm_up: match scale {
            Scale::Quick => WarmUp::NONE,
            Scale::Full => Duration::from_secs(10).into(),
        },
        seed: 1,
        run_settings,
        groups: Vec::new(),
        published: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    const ROOMY: Room = Room { memory_bytes: 1 << 40, disk_bytes: 1 << 40, pool_bytes: 1 << 40 };

    fn of(cases: Option<&str>) -> Outcome<Campaign> {
        let engines = Some("esker-wal,esker-nolog");
        campaign(&Wishes { engines, cases, ..Wishes::default() }, &ROOMY)
    }

    fn names(campaign: &Campaign) -> Vec<&str> {
        campaign.cases.iter().map(|case| &case.name[..]).collect()
    }

    #[test]
    fn workload_a_is_measured_at_parts_of_the_rate_that_its_engine_sustains() {
        let campaign = of(None).unwrap();
        assert_eq!(names(&campaign)[..2], ["A", "B"]);
        assert_eq!(names(&campaign)[8..], ["A-1%", "A-10%", "A-50%"]);
        let parts = campaign.cases[8..].iter().map(|case| match &case.rate {
            Some(Rate::Part { of, part }) => (&of[..], *part),
            other => panic!("{other:?}"),
        });
        assert!(parts.eq([("A", 0.01), ("A", 0.1), ("A", 0.5)]));
        assert!(campaign.cases[..8].iter().all(|case| case.rate.is_none()));
    }

    #[test]
    fn cases_can_be_chosen_and_those_at_a_rate_with_the_case_they_go_by() {
        assert_eq!(names(&of(Some("A,A-1%")).unwrap()), ["A", "A-1%"]);
        for bad in ["", "I", "A-2%", "A-1%", "B,A-50%"] {
            assert!(matches!(of(Some(bad)), Err(Failure::Usage(_))), "{bad:?}");
        }
    }
}
