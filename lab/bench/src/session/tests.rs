//! Whole runs over the model.

use super::*;
use crate::Report;
use crate::testing::{Counting, Ticking};
use esker_base::Error;

fn options() -> Options {
    Options { num: 1_000, ..Options::default() }
}

fn run_on(engine: &Counting, stages: &str, options: &Options) -> Result<Report> {
    let bench = Bench { engine, clock: &Ticking, options, round: 3 };
    let rows = bench.run(&Stage::parse_list(stages)?, &mut |_| {})?;
    Ok(Report { rows })
}

fn run(stages: &str, options: &Options) -> Report {
    run_on(&Counting::default(), stages, options).unwrap()
}

#[test]
fn every_stage_gives_its_rows() {
    let stages = "fillseq,flush,settle,overwrite,fillrandom,readrandom,readmissing,readseq,\
                  readreverse,seekrandom,readwhilewriting,deleterandom";
    let report = run(stages, &options());
    for stage in Stage::parse_list(stages).unwrap() {
        for metric in ["seconds", "disk_peak_bytes", "rss_peak_mib", "cpu_s", "log_bytes"] {
            assert!(report.value(stage.name(), metric).is_some(), "{stage}: {metric}");
        }
        if let Stage::Case(_) = stage {
            assert_eq!(report.value(stage.name(), "operations"), Some(1_000.0), "{stage}");
            assert!(report.value(stage.name(), "throughput").unwrap() > 0.0);
            for metric in ["mean", "p50", "p99", "p999", "max"] {
                let metric = format!("latency_{metric}_us");
                assert!(report.value(stage.name(), &metric).unwrap() > 0.0, "{stage}: {metric}");
            }
        }
    }
    assert!(report.rows.iter().all(|row| row.engine == "model" && row.round == 3));
    assert!(report.rows.iter().all(|row| row.value.is_finite()));
}

#[test]
fn found_tells_hits_from_misses() {
    let stages = "fillseq,readrandom,readmissing,readseq,readreverse,seekrandom";
    let report = run(stages, &options());
    let found = |case| report.value(case, "found");
    assert_eq!(found("fillseq"), None);
    assert_eq!(found("readrandom"), Some(1.0));
    assert_eq!(found("readmissing"), Some(0.0));
    for case in ["readseq", "readreverse", "seekrandom"] {
        assert_eq!(found(case), Some(1.0), "{case}");
    }
}

#[test]
fn a_read_does_not_repeat_the_keys_of_the_fill() {
    let found = run("fillrandom,readrandom", &options()).value("readrandom", "found").unwrap();
    assert!((0.58..0.68).contains(&found), "{found}: 63% of the keys are there");
}

#[test]
fn an_empty_store_cannot_pass_for_a_fast_one() {
    let report = run("readrandom,readseq,seekrandom", &options());
    for case in ["readrandom", "readseq", "seekrandom"] {
        assert_eq!(report.value(case, "found"), Some(0.0), "{case}");
    }
    assert_eq!(report.value("readseq", "throughput"), None, "nothing was read in no time");
}

#[test]
fn throughput_is_operations_by_time() {
    let report = run("fillseq", &options());
    assert_eq!(report.value("fillseq", "seconds"), Some(1.0), "1,000 steps of a millisecond");
    assert_eq!(report.value("fillseq", "throughput"), Some(1_000.0));
    assert_eq!(report.value("fillseq", "latency_mean_us"), Some(1_000.0));
    let mib = 1_000.0 * 116.0 / f64::from(1 << 20);
    assert_eq!(report.value("fillseq", "bandwidth_mib_s"), Some(mib));
}

#[test]
fn settle_completes_the_account_of_the_load_before_it() {
    let report = run("overwrite,flush,settle,overwrite,settle", &options());
    let value = |case, metric| report.value(case, metric).unwrap();
    let total =
        value("overwrite", "seconds") + value("flush", "seconds") + value("settle", "seconds");
    assert!((value("settle", "total_seconds") - total).abs() < 1e-9);
    assert_eq!(value("overwrite", "write_amp"), 1.0, "only the log so far");
    assert_eq!(value("settle", "total_write_amp"), 4.0, "log, flush and two compactions");
    // The second time nothing was flushed; what the first had written does not count again.
    assert_eq!(value("settle#2", "total_write_amp"), 3.0);
}

#[test]
fn settle_has_no_total_without_a_load_that_writes_before_it() {
    let report = run("settle,fillseq,readrandom,settle", &options());
    assert_eq!(report.value("settle", "total_seconds"), None);
    assert_eq!(report.value("settle#2", "total_seconds"), None);
    assert!(report.value("settle#2", "seconds").is_some());
}

#[test]
fn bytes_are_those_of_the_stage_alone() {
    let report = run("fillseq,overwrite,flush,readseq", &options());
    for case in ["fillseq", "overwrite"] {
        assert_eq!(report.value(case, "user_bytes"), Some(116_000.0));
        assert_eq!(report.value(case, "log_bytes"), Some(116_000.0));
        assert_eq!(report.value(case, "flush_bytes"), Some(0.0));
    }
    assert_eq!(report.value("flush", "flush_bytes"), Some(232_000.0));
    assert_eq!(report.value("readseq", "user_bytes"), Some(0.0));
    assert_eq!(report.value("readseq", "write_amp"), None);
    assert_eq!(report.value("flush", "disk_peak_bytes"), Some(464_000.0));
}

#[test]
fn the_writer_beside_the_readers_is_reported_apart() {
    let options = Options { reads: Some(20_000), threads: 2, ..options() };
    let engine = Counting::default();
    let report = run_on(&engine, "fillseq,readwhilewriting", &options).unwrap();
    assert_eq!(report.value("readwhilewriting", "operations"), Some(40_000.0));
    let written = report.value("readwhilewriting", "writer_operations").unwrap();
    assert_eq!(engine.model.writes(), 2_000 + written as u64);
    assert_eq!(report.value("readwhilewriting", "found"), Some(1.0));
}

#[test]
fn every_thread_does_the_whole_load_with_keys_of_its_own() {
    let options = Options { threads: 3, ..options() };
    let engine = Counting::default();
    let report = run_on(&engine, "fillrandom,readrandom", &options).unwrap();
    assert_eq!(report.value("fillrandom", "operations"), Some(3_000.0));
    let found = report.value("readrandom", "found").unwrap();
    assert!((0.93..0.97).contains(&found), "{found}: three independent fills leave 5% out");
}

#[test]
fn one_seed_gives_one_store() {
    let content = |seed| {
        let engine = Counting::default();
        let options = Options { seed, ..options() };
        run_on(&engine, "fillrandom,overwrite,deleterandom", &options).unwrap();
        engine.model.pairs()
    };
    assert_eq!(content(1), content(1));
    assert_ne!(content(1), content(2));
}

#[test]
fn a_time_limit_replaces_the_number_of_operations() {
    let options = Options { duration: Some(Duration::from_secs(5)), ..options() };
    let report = run("overwrite", &options);
    assert_eq!(report.value("overwrite", "operations"), Some(5_000.0));
    assert_eq!(report.value("overwrite", "seconds"), Some(5.0));
}

#[test]
fn each_stage_reports_its_end_once() {
    let engine = Counting::default();
    let bench = Bench { engine: &engine, clock: &Ticking, options: &options(), round: 0 };
    let mut ends = Vec::new();
    let stages = Stage::parse_list("fillseq,settle,settle").unwrap();
    let mut watch = |progress: &Progress<'_>| {
        if progress.is_done {
            assert_eq!(progress.stages, 3);
            ends.push((progress.index, progress.stage.to_owned(), progress.operations));
            assert_eq!(progress.wanted, (progress.index == 0).then_some(1_000));
        }
    };
    bench.run(&stages, &mut watch).unwrap();
    let expected = [(0, "fillseq", 1_000), (1, "settle", 0), (2, "settle#2", 0)];
    assert_eq!(ends, expected.map(|(index, stage, done)| (index, stage.to_owned(), done)));
}

#[test]
fn a_store_that_fails_fails_the_run() {
    let engine = Counting { breaks: true, ..Counting::default() };
    assert!(matches!(run_on(&engine, "fillseq", &options()), Err(Error::ReadOnly)));
}

#[test]
fn options_that_cannot_be_run_are_refused_before_anything_is_done() {
    let engine = Counting::default();
    let result = run_on(&engine, "fillseq", &Options { batch: 0, ..options() });
    assert!(matches!(result, Err(Error::InvalidSetting { .. })));
    assert_eq!(engine.model.writes(), 0);
}
