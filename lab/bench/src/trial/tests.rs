//! Trials over the model.

use super::*;
use crate::testing::{Counting, Ticking};
use crate::{Report, Results};
use esker_base::Error;
use esker_workload::linkbench;
use esker_workload::model::TransactionalModel;
use esker_workload::tpcc;
use esker_workload::updates::{self, Updates};
use esker_workload::ycsb::{self, Preset};
use std::sync::atomic::Ordering::Relaxed;

fn run_on(
    engine: &Counting,
    workload: &dyn Workload,
    change: fn(&mut Trial<'_>),
) -> Result<Outcome> {
    let mut trial = trial(engine, workload);
    change(&mut trial);
    trial.run(&mut |_| {})
}

fn trial<'a>(engine: &'a Counting, workload: &'a dyn Workload) -> Trial<'a> {
    Trial {
        engine,
        clock: &Ticking,
        workload,
        commits: None,
        case: "case",
        round: 2,
        threads: 1,
        duration: None,
        rate: None,
        warm_up: WarmUp::NONE,
        settles: true,
        interval: Duration::from_secs(1),
        seed: 1,
    }
}

fn options(preset: Preset) -> ycsb::Options {
    let size =
        ycsb::Options { records: 200, operations: 3_000, fields: 1, ..ycsb::Options::default() };
    preset.options(&size)
}

/// An engine with the records of `options` in it.
fn loaded(options: &ycsb::Options) -> Counting {
    let engine = Counting::default();
    run_on(&engine, &ycsb::Load::new(options), |_| {}).unwrap();
    engine
}

fn run(preset: Preset, change: fn(&mut Trial<'_>)) -> Outcome {
    let options = options(preset);
    run_on(&loaded(&options), &ycsb::Run::new(&options), change).unwrap()
}

fn value(outcome: &Outcome, metric: &str) -> Option<f64> {
    Report { rows: outcome.rows.clone() }.value("case", metric)
}

#[test]
fn a_trial_gives_all_that_is_promised() {
    let outcome = run(Preset::A, |_| {});
    let metrics = "throughput latency_mean_us latency_p50_us latency_p99_us latency_p999_us \
                   latency_max_us space_amp_mean space_amp_peak cpu_s operations seconds found \
                   user_bytes log_bytes flush_bytes compaction_bytes stall_us settle_seconds \
                   read_latency_p99_us update_latency_p99_us read_operations update_operations \
                   sustained_throughput dram_hit_ratio";
    for metric in metrics.split_whitespace() {
        assert!(value(&outcome, metric).is_some(), "{metric}");
    }
    assert_eq!(value(&outcome, "operations"), Some(3_000.0));
    // Each step takes a millisecond, and one more passes at the end of each second.
    let throughput = value(&outcome, "throughput").unwrap();
    assert!((throughput / 1_000.0 - 1.0).abs() < 0.002, "{throughput}");
    assert_eq!(value(&outcome, "found"), Some(1.0), "all reads hit; updates look for nothing");
    assert!(outcome.rows.iter().all(|row| row.engine == "model" && row.round == 2));
    assert!(outcome.rows.iter().all(|row| row.value.is_finite()));
}

#[test]
#[cfg(target_os = "linux")]
fn memory_and_bytes_written_are_what_the_system_says() {
    let outcome = run(Preset::A, |_| {});
    assert!(value(&outcome, "rss_peak_mib").unwrap() > 1.0);
    let (written, user) = (value(&outcome, "written_bytes"), value(&outcome, "user_bytes"));
    assert_eq!(value(&outcome, "write_amp"), Some(written.unwrap() / user.unwrap()));
}

#[test]
#[cfg(target_os = "linux")]
fn what_persistent_memory_takes_is_written_as_well() {
    let options = updates::Options { records: 100, updates_per_key: 3.0, ..Default::default() };
    let engine = Counting { has_pool: true, ..Counting::default() };
    let outcome = run_on(&engine, &Updates::new(&options), |_| {}).unwrap();
    assert!(value(&outcome, "written_bytes") >= value(&outcome, "user_bytes"));
    assert!(value(&outcome, "write_amp").unwrap() >= 1.0);
}

#[test]
fn the_part_of_the_writes_that_persistent_memory_takes_is_told() {
    let options = updates::Options { records: 100, updates_per_key: 3.0, ..Default::default() };
    let updates = Updates::new(&options);
    let with = Counting { has_pool: true, ..Counting::default() };
    let outcome = run_on(&with, &updates, |_| {}).unwrap();
    assert_eq!(value(&outcome, "pmem_writes"), Some(0.25));
    let without = run_on(&Counting::default(), &updates, |_| {}).unwrap();
    assert_eq!(value(&without, "pmem_writes"), None);
}

#[test]
fn kinds_are_told_apart_only_where_there_are_several() {
    let mixed = run(Preset::F, |_| {});
    let sum = value(&mixed, "read_operations").unwrap() + value(&mixed, "rmw_operations").unwrap();
    assert_eq!(sum, 3_000.0);
    let operations: Vec<_> = mixed.distributions.iter().map(|d| &d.operation[..]).collect();
    assert_eq!(operations, ["all", "read", "rmw"]);
    let pure = run(Preset::C, |_| {});
    assert_eq!(value(&pure, "read_operations"), None);
    let operations: Vec<_> = pure.distributions.iter().map(|d| &d.operation[..]).collect();
    assert_eq!(operations, ["read"]);
}

#[test]
fn settling_is_on_the_account_of_the_load() {
    let options = updates::Options { records: 100, updates_per_key: 3.0, ..Default::default() };
    let outcome = run_on(&Counting::default(), &Updates::new(&options), |_| {}).unwrap();
    let user = value(&outcome, "user_bytes").unwrap();
    assert_eq!(value(&outcome, "flush_bytes"), Some(user));
    assert_eq!(value(&outcome, "compaction_bytes"), Some(2.0 * user));
    assert_eq!(value(&run(Preset::C, |_| {}), "settle_seconds"), None, "reads cause nothing");
}

#[test]
fn sustained_throughput_counts_the_time_of_settling() {
    let outcome = run(Preset::A, |_| {});
    let [operations, seconds, settling] =
        ["operations", "seconds", "settle_seconds"].map(|name| value(&outcome, name).unwrap());
    let sustained = value(&outcome, "sustained_throughput").unwrap();
    assert!(settling > 0.0);
    assert!((sustained * (seconds + settling) / operations - 1.0).abs() < 1e-9, "{sustained}");
    let reads = run(Preset::C, |_| {});
    assert_eq!(value(&reads, "sustained_throughput"), value(&reads, "throughput"));
}

#[test]
fn a_trial_that_does_not_settle_ends_with_its_load() {
    let options = options(Preset::G);
    let engine = loaded(&options);
    let compacted = engine.compacted_bytes.load(std::sync::atomic::Ordering::Relaxed);
    let outcome = run_on(&engine, &ycsb::Run::new(&options), |trial| trial.settles = false);
    let outcome = outcome.unwrap();
    assert_eq!(engine.compacted_bytes.load(std::sync::atomic::Ordering::Relaxed), compacted);
    for metric in ["settle_seconds", "sustained_throughput", "write_amp"] {
        assert_eq!(value(&outcome, metric), None, "{metric}");
    }
    assert!(value(&outcome, "throughput").is_some());
}

#[test]
fn hits_are_those_of_the_reads_of_the_load() {
    for preset in [Preset::C, Preset::Rmw] {
        let hits = value(&run(preset, |_| {}), "dram_hit_ratio").unwrap();
        assert!((hits - 0.25).abs() < 0.001, "{preset}: {hits}");
    }
    assert_eq!(value(&run(Preset::G, |_| {}), "dram_hit_ratio"), None, "nothing is read");
    assert_eq!(value(&run(Preset::C, |_| {}), "cache_hit_ratio"), None, "no block is read");
}

#[test]
fn space_is_compared_with_what_users_could_read() {
    let options = updates::Options { records: 100, updates_per_key: 3.0, ..Default::default() };
    let outcome = run_on(&Counting::default(), &Updates::new(&options), |_| {}).unwrap();
    // The model's space is that of all that was written, and the same again once it is flushed.
    assert_eq!(value(&outcome, "live_bytes"), Some(21_000.0));
    assert_eq!(value(&outcome, "disk_peak_bytes"), Some(2.0 * 84_000.0));
    assert_eq!(value(&outcome, "space_amp_peak"), Some(8.0));
    // All records are there before the first update. Looked at once, at the end, unless the machine stalls.
    let mean = value(&outcome, "space_amp_mean").unwrap();
    assert!((1.0..=4.0).contains(&mean), "{mean}");
}

#[test]
fn tables_are_accounted_for_without_the_log() {
    let options = updates::Options { records: 100, updates_per_key: 3.0, ..Default::default() };
    let outcome = run_on(&Counting::default(), &Updates::new(&options), |_| {}).unwrap();
    // The model writes everything once to tables, and twice more until it is settled.
    assert_eq!(value(&outcome, "table_write_amp"), Some(3.0));
    assert_eq!(value(&outcome, "table_space_amp_mean"), Some(0.0), "nothing was flushed meanwhile");
    assert_eq!(value(&outcome, "table_space_amp_peak"), Some(4.0));
}

#[test]
fn what_a_warm_up_wrote_is_flushed_even_if_what_follows_is_not() {
    let options = options(Preset::G);
    let engine = loaded(&options);
    let run = ycsb::Run::new(&options);
    let change = |trial: &mut Trial<'_>| {
        (trial.warm_up, trial.settles) = (Duration::from_secs(5).into(), false);
    };
    run_on(&engine, &run, change).unwrap();
    let unflushed = engine.user_bytes.load(Relaxed) - engine.flushed_bytes.load(Relaxed);
    assert!((unflushed as f64 / 3_000.0 - 123.0).abs() < 1.0, "{unflushed}");
}

#[test]
fn a_warm_up_does_not_count() {
    let options = options(Preset::G);
    let engine = loaded(&options);
    let before = engine.model.writes();
    let run = ycsb::Run::new(&options);
    let outcome = run_on(&engine, &run, |trial| {
        trial.warm_up = Duration::from_secs(5).into();
    })
    .unwrap();
    assert_eq!(engine.model.writes() - before, 5_000 + 3_000);
    assert_eq!(value(&outcome, "operations"), Some(3_000.0));
    let bytes = value(&outcome, "user_bytes").unwrap();
    assert!((bytes / 3_000.0 - 123.0).abs() < 1.0, "{bytes}");
    // New records of the warm-up are live all the same.
    let live = value(&outcome, "live_bytes").unwrap();
    assert!((live / 8_200.0 - 123.0).abs() < 1.0, "{live}");
}

#[test]
fn a_warm_up_of_operations_leaves_the_same_data_whoever_is_quicker() {
    let options = options(Preset::G);
    let live = |load: fn(&mut Trial<'_>)| {
        let engine = loaded(&options);
        let before = engine.model.writes();
        let outcome = run_on(&engine, &ycsb::Run::new(&options), load).unwrap();
        assert_eq!(engine.model.writes() - before, 701 + 3_000);
        assert_eq!(value(&outcome, "operations"), Some(3_000.0));
        value(&outcome, "live_bytes")
    };
    let closed = live(|trial| trial.warm_up = WarmUp::Operations(701));
    let slow = live(|trial| (trial.warm_up, trial.rate) = (WarmUp::Operations(701), Some(100.0)));
    assert_eq!(closed, slow);
}

#[test]
fn an_open_loop_says_how_much_of_its_rate_was_reached() {
    let slow = run(Preset::C, |trial| trial.rate = Some(2_000.0));
    assert_eq!(value(&slow, "rate"), Some(2_000.0));
    let reached = value(&slow, "rate_reached").unwrap();
    assert!((reached - 0.5).abs() < 0.01, "{reached}");
    assert_eq!(value(&run(Preset::C, |_| {}), "rate"), None);
}

#[test]
fn an_open_loop_says_what_the_machine_alone_is_late_by() {
    let engine = loaded(&options(Preset::C));
    let before = engine.reads.load(Relaxed);
    let open =
        run_on(&engine, &ycsb::Run::new(&options(Preset::C)), |trial| trial.rate = Some(100.0));
    let open = open.unwrap();
    // A look at the clock takes a millisecond, and nothing else takes any time here.
    assert_eq!(value(&open, "idle_latency_p50_us"), value(&open, "latency_p50_us"));
    assert_eq!(engine.reads.load(Relaxed) - before, 3_000);
    assert_eq!(value(&run(Preset::C, |_| {}), "idle_latency_p50_us"), None);
}

#[test]
fn every_whole_second_has_its_latency() {
    let outcome = run(Preset::C, |_| {});
    let p99 = outcome.series.iter().find(|series| series.metric == "latency_p99_us").unwrap();
    assert_eq!(p99.points.len(), 3, "{:?}", p99.points);
    assert!(p99.points.iter().zip(1..).all(|(point, second)| point[0] == f64::from(second)));
}

#[test]
fn points_lie_as_close_as_asked_for() {
    let outcome = run(Preset::C, |trial| trial.interval = Duration::from_millis(500));
    for metric in ["latency_p99_us", "latency_p999_us", "latency_max_us"] {
        let series = outcome.series.iter().find(|series| series.metric == metric).unwrap();
        let ends: Vec<f64> = series.points.iter().map(|point| point[0]).collect();
        assert_eq!(ends[..3], [0.5, 1.0, 1.5], "{metric}");
    }
}

#[test]
fn a_store_that_fails_fails_the_trial() {
    let engine = Counting { breaks: true, ..Counting::default() };
    let result = run_on(&engine, &ycsb::Load::new(&options(Preset::A)), |_| {});
    assert!(matches!(result, Err(Error::ReadOnly)));
}

#[test]
fn an_outcome_survives_its_way_through_a_pipe() {
    let outcome = run(Preset::H, |_| {});
    let json = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
    let results = Results {
        rows: outcome.rows,
        series: outcome.series,
        distributions: outcome.distributions,
        ..Results::default()
    };
    assert_eq!(Results::from_json(&results.to_json()).unwrap(), results);
}

#[test]
fn requests_in_transactions_are_told_by_their_own_names() {
    let model = TransactionalModel::new();
    let times = CommitTimes::new(&model, &Ticking);
    let options = linkbench::Options {
        nodes: 200,
        requests: 2_000,
        threads: 1,
        ..linkbench::Options::default()
    };
    let engine = Counting::default();
    run_on(&engine, &linkbench::Load::new(&options, &times).unwrap(), |_| {}).unwrap();
    let requests = linkbench::Requests::new(&options, &times).unwrap();
    let mut trial = trial(&engine, &requests);
    trial.commits = Some(&times);
    let outcome = trial.run(&mut |_| {}).unwrap();

    let value = |metric: &str| value(&outcome, metric).unwrap_or_else(|| panic!("no {metric}"));
    let listed = value("get_link_list_operations") / value("operations");
    assert!((0.45..0.55).contains(&listed), "{listed}");
    for operation in ["add_link", "delete_link", "update_link", "get_node", "update_node"] {
        assert!(value(&format!("{operation}_latency_p50_us")) > 0.0, "{operation}");
    }
    assert!((300.0..700.0).contains(&value("commits")));
    assert_eq!(value("commit_latency_mean_us"), 1_000.0, "from one look at the clock to the next");
    assert_eq!((value("retries"), value("rollbacks")), (0.0, 0.0));
    assert!(linkbench::check(&model).unwrap().is_empty());
}

#[test]
fn new_orders_are_told_a_minute() {
    let model = TransactionalModel::new();
    let options = tpcc::Options {
        items: 20,
        customers: 10,
        clients: 1,
        transactions: 230,
        ..tpcc::Options::default()
    };
    let engine = Counting::default();
    run_on(&engine, &tpcc::Load::new(&options, &model).unwrap(), |_| {}).unwrap();
    let outcome =
        run_on(&engine, &tpcc::Terminals::new(&options, &model).unwrap(), |_| {}).unwrap();
    let value = |metric| value(&outcome, metric).unwrap_or_else(|| panic!("no {metric}"));
    assert_eq!(value("new_order_operations"), 100.0);
    let expected = 100.0 / value("seconds") * 60.0;
    assert!((value("new_orders_per_minute") / expected - 1.0).abs() < 1e-9);
    assert!(value("delivery_latency_p99_us") > 0.0);
    assert!(tpcc::check(&model, &options).unwrap().is_empty());
}
