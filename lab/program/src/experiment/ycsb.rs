//! `esker-lab experiment ycsb`: what every engine does with the standard workloads.

use super::{Room, Scale};
use crate::bench::campaign::Campaign;
use crate::bench::engines::{self, EngineSettings, ForwardingName};
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

/// Workloads A to H. The full size is five times what the engines have of memory; the quick one still
/// fills several write buffers.
pub fn campaign(scale: Scale, engines: Option<&str>, _room: &Room) -> Outcome<Campaign> {
    let built_in = engines::built_in();
    let default = || ENGINES.into_iter().filter(|name| built_in.contains(name)).collect::<Vec<_>>();
    let list = engines.map_or_else(|| default().join(","), str::to_owned);
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
    let cases = Preset::LETTERS.into_iter().map(|preset| {
        let mut case = ycsb::run(ycsb::preset(preset).0, task(preset))?;
        case.duration = Some(duration);
        Ok(case)
    });
    let mut run_settings = ycsb::run_settings(&task(Preset::A))?;
    run_settings.remove("operations");
    run_settings.insert("duration_seconds".to_owned(), duration.as_secs_f64().to_string());
    Ok(Campaign {
        experiment: "ycsb".to_owned(),
        scale: scale.name().to_owned(),
        engines,
        settings,
        rounds,
        load: Some(ycsb::load(task(Preset::A))?),
        shared: None,
        analysis: None,
        uses_memory: false,
        memory_limit: None,
        cases: cases.collect::<Outcome<_>>()?,
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
