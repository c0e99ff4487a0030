use super::*;
use crate::bench::engines::{EngineSettings, ForwardingName};
use crate::bench::plan::Task;
use crate::bench::pool::PoolSettings;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

fn task(access: LargeAccess, values: ValueSizes) -> LargeTask {
    let operations = Some(300);
    let (inserted, threads, descriptors, seed) = (0, 1, None, 1);
    LargeTask { access, records: 400, inserted, operations, values, threads, descriptors, seed }
}

/// The numbers of a task on the store in `dir`, by metric.
fn measured(dir: &Path, task: LargeTask) -> BTreeMap<String, f64> {
    let settings = EngineSettings {
        memory_bytes: 16 << 20,
        segment_bytes: 1 << 20,
        background_threads: 1,
        compression: "none".into(),
        dram_table_bytes: None,
        forwarding: ForwardingName::OnFlush,
        pool: PoolSettings::default(),
        log_dir: None,
        fabric: Default::default(),
        large_store: Default::default(),
    };
    let plan = Plan {
        engine: "esker-wal".into(),
        dir: dir.to_owned(),
        settings,
        case: "large".into(),
        round: 2,
        task: Task::Large(task.clone()),
        threads: 1,
        duration: None,
        rate: None,
        warm_up: WarmUp::NONE,
        settles: true,
        interval: Duration::from_secs(1),
        seed: 1,
    };
    let outcome = measure(&plan, &task, &mut |_| {}).unwrap();
    assert!(outcome.rows.iter().all(|row| (&row.case[..], row.round) == ("large", 2)));
    outcome.rows.into_iter().map(|row| (row.metric, row.value)).collect()
}

#[test]
fn a_store_is_loaded_and_then_read_and_changed_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let values = ValueSizes { least: 100, most: 100 };
    let of = |access| task(access, values);
    let load = measured(dir.path(), of(LargeAccess::Load));
    assert_eq!(load["operations"], 400.0);
    assert!(load["disk_bytes"] > 40_000.0 && load["space_amp_end"] > 0.5, "{load:?}");
    for (access, reads) in
        [(LargeAccess::Get, "read_calls_per_get"), (LargeAccess::Scan, "read_calls_per_scan")]
    {
        let read = measured(dir.path(), of(access));
        assert_eq!((read["operations"], read["found"], read["inserted"]), (300.0, 1.0, 0.0));
        assert!(read["first_read_ms"] >= read["open_ms"], "{read:?}");
        assert!(!cfg!(target_os = "linux") || read.contains_key(reads), "{read:?}");
    }
    let changed = measured(dir.path(), of(LargeAccess::Ycsb("D".into())));
    assert!(changed["inserted"] > 0.0 && changed["write_amp"] > 0.0, "{changed:?}");
    assert!(!changed.contains_key("read_calls_per_get"), "compactions read, too");
}

#[test]
fn tasks_are_workloads_of_ycsb() {
    let values = ValueSizes { least: 100, most: 1_000 };
    let options = |access| LargeTask { inserted: 7, ..task(access, values) }.options().unwrap();
    let get = options(LargeAccess::Get);
    assert_eq!((get.records, get.requests), (407, Requests::Uniform));
    assert_eq!((get.least_value_bytes, get.value_bytes()), (Some(100), 1_000));
    let scan = options(LargeAccess::Scan);
    assert_eq!((scan.scans.least, scan.scans.most), (51, 51));
    assert!(scan.mix.scan == 1.0 && !scan.mix.writes());
    let ycsb = options(LargeAccess::Ycsb("D".into()));
    assert_eq!(ycsb.requests, Requests::Latest);
    let one = ValueSizes { least: 100, most: 100 };
    assert_eq!(task(LargeAccess::Load, one).options().unwrap().least_value_bytes, None);
    assert!(task(LargeAccess::Ycsb("X".into()), one).options().is_err());
}
