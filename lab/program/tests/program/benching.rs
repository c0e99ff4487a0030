//! Campaigns: several engines, processes of their own, results that are written as they come.

use crate::{Scratch, names};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Small enough for a short test.
const SMALL: [&str; 8] =
    ["--records", "500", "--operations", "500", "--segment", "1M", "--memory", "16M"];

fn ycsb<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["bench", "ycsb"][..], &SMALL, more].concat()
}

fn results(dir: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(dir.join("results.json")).unwrap()).unwrap()
}

/// Engine, case and round of every throughput, in order.
fn measured(results: &serde_json::Value) -> Vec<String> {
    let rows = results["rows"].as_array().unwrap().iter();
    rows.filter(|row| row["metric"] == "throughput")
        .map(|row| format!("{} {} {}", row["engine"], row["case"], row["round"]).replace('"', ""))
        .collect()
}

#[test]
fn engines_take_turns_on_every_workload() {
    let scratch = Scratch::new();
    let arguments = ["--workload", "a,e", "--engines", "esker-wal,esker-nolog", "--rounds", "2"];
    let done = scratch.run(&ycsb(&[&arguments[..], &["--verify", "--out", "out"]].concat()));
    let done = done.expect_status(0);
    assert!(done.text().starts_with("case  engine"), "{done:?}");
    let results = results(&scratch.path("out"));
    assert_eq!(results["complete"], true);
    let expected = [
        "esker-wal load 0",
        "esker-nolog load 0",
        "esker-wal A 0",
        "esker-nolog A 0",
        "esker-nolog E 0",
        "esker-wal E 0",
        "esker-nolog load 1",
        "esker-wal load 1",
        "esker-nolog A 1",
        "esker-wal A 1",
        "esker-wal E 1",
        "esker-nolog E 1",
    ];
    assert_eq!(measured(&results), expected);
    for metric in ["write_amp", "space_amp_peak", "cpu_s", "rss_peak_mib", "read_latency_p99_us"] {
        let rows = results["rows"].as_array().unwrap();
        assert!(rows.iter().any(|row| row["metric"] == metric && row["case"] == "A"), "{metric}");
    }
    assert_eq!(results["settings"]["esker-nolog"]["log"], "none");
}

#[test]
fn engines_with_a_pool_find_what_they_loaded_and_say_that_it_is_emulated() {
    let scratch = Scratch::new();
    let engines = ["--engines", "esker-wbl,esker-novelsm", "--pool", "1M", "--rounds", "1"];
    let more = ["--workload", "a,g", "--operations", "3000", "--verify", "--json"];
    let arguments = [&["bench", "ycsb", "--records", "500"], &SMALL[4..], &engines, &more].concat();
    let results = scratch.run(&arguments).expect_status(0).json();
    assert_eq!(results["complete"], true);
    assert!(results["emulated"].to_string().contains("tmpfs"), "{}", results["emulated"]);
    for engine in ["esker-wbl", "esker-novelsm"] {
        for case in ["A", "G"] {
            let value = |metric: &str| {
                let mut rows = results["rows"].as_array().unwrap().iter();
                let of = |row: &&serde_json::Value| {
                    row["engine"] == engine && row["case"] == case && row["metric"] == metric
                };
                rows.find(of).and_then(|row| row["value"].as_f64()).unwrap()
            };
            assert_eq!(value("operations"), 3_000.0);
            // To a log or a pool, which alone is little more than 1, and to tables.
            assert!(value("write_amp") > 1.3, "{engine} {case}: {}", value("write_amp"));
            assert!(value("space_amp_peak") >= 1.0, "{engine} {case}: {}", value("space_amp_peak"));
        }
        assert_eq!(results["settings"][engine]["pool_bytes"], "1048576");
    }
}

/// A run that has loaded its store and would then go on for long.
fn start_long_run(scratch: &Scratch) -> Child {
    let arguments =
        ycsb(&["--workload", "c", "--duration", "600", "--out", "out", "--dir", "work"]);
    let mut command = scratch.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let out = scratch.path("out");
    while !out.join("results.json").is_file() || measured(&results(&out)).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    child
}

fn signal(signal: &str, process: &str) {
    assert!(Command::new("kill").args([signal, process]).status().unwrap().success());
}

/// What a stopped run says and leaves: the load, and no store.
fn expect_stopped(scratch: &Scratch, mut child: Child, status: i32, part: &str) {
    let message = BufReader::new(child.stderr.take().unwrap()).lines().next().unwrap().unwrap();
    assert!(message.starts_with("esker-lab: ") && message.contains(part), "{message}");
    assert_eq!(child.wait().unwrap().code(), Some(status));
    let results = results(&scratch.path("out"));
    assert_eq!(results["complete"], false);
    assert_eq!(measured(&results), ["esker-wal load 0"]);
    let page = std::fs::read_to_string(scratch.path("out/report.html")).unwrap();
    assert!(page.contains("the run ended early: "), "the page says that it is not all");
    assert!(!scratch.path("work").exists(), "the stores are gone");
}

#[test]
fn a_run_that_is_interrupted_leaves_what_it_had() {
    let scratch = Scratch::new();
    let child = start_long_run(&scratch);
    signal("-TERM", &child.id().to_string());
    expect_stopped(&scratch, child, 130, "interrupted; the results so far are in out");
}

/// Whether the program that started the tests has them outlive their terminal, as nohup does: then so does the
/// program, and rightly.
fn hangups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

#[test]
fn a_run_whose_terminal_is_closed_leaves_what_it_had() {
    if hangups_are_ignored() {
        return esker_base::skipped(
            "a terminal that closes",
            "the tests ignore SIGHUP, as under nohup",
        );
    }
    let scratch = Scratch::new();
    let child = start_long_run(&scratch);
    for _ in 0..2 {
        signal("-HUP", &child.id().to_string());
    }
    expect_stopped(&scratch, child, 130, "interrupted; the results so far are in out");
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_is_interrupted_while_it_copies_leaves_no_store() {
    let scratch = Scratch::new();
    let mut arguments =
        ycsb(&["--workload", "c", "--duration", "600", "--out", "out", "--dir", "work"]);
    // Enough to be at it for a while.
    arguments[3] = "100000";
    let mut command = scratch.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !scratch.path("work/running").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    signal("-INT", &child.id().to_string());
    expect_stopped(&scratch, child, 130, "interrupted; the results so far are in out");
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_whose_worker_is_killed_leaves_what_it_had() {
    let scratch = Scratch::new();
    let child = start_long_run(&scratch);
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    // The worker of the load may be on its way out, and that of the workload not begun.
    let worker = loop {
        let found = std::fs::read_to_string(&children).unwrap();
        let command = |worker: &str| std::fs::read(format!("/proc/{worker}/cmdline")).ok();
        let workers = found.split_whitespace();
        let mut running =
            workers.filter(|worker| command(worker).is_some_and(|name| !name.is_empty()));
        if scratch.path("work/running").exists()
            && let Some(worker) = running.next_back()
        {
            break worker.to_owned();
        }
    };
    signal("-KILL", &worker);
    expect_stopped(&scratch, child, 2, "esker-wal, C: the process that ran it ended early");
}

#[test]
fn results_of_several_runs_are_merged() {
    let scratch = Scratch::new();
    for (engine, out) in [("esker-wal", "one"), ("esker-nolog", "two")] {
        let arguments = ["--workload", "load", "--rounds", "1", "--engines", engine, "--out", out];
        scratch.run(&ycsb(&arguments)).expect_status(0);
    }
    scratch.run(&["bench", "report", "one", "two", "--out", "both"]).expect_status(0);
    let merged = results(&scratch.path("both"));
    assert_eq!(measured(&merged), ["esker-wal load 0", "esker-nolog load 1"]);
    let missing = scratch.run(&["bench", "report", "three", "--out", "x"]);
    missing.expect_failure(2, "three/results.json");
    assert!(!scratch.path("x").exists());
}

#[test]
fn results_of_other_sizes_are_merged_as_other_cases() {
    let scratch = Scratch::new();
    for (records, out) in [("200", "one"), ("300", "two")] {
        let mut arguments = ycsb(&["--workload", "load", "--rounds", "1", "--out", out]);
        arguments[3] = records;
        scratch.run(&arguments).expect_status(0);
    }
    scratch.run(&["bench", "report", "one", "two", "--out", "both"]).expect_status(0);
    let merged = results(&scratch.path("both"));
    let expected = ["esker-wal load (records 200) 0", "esker-wal load (records 300) 1"];
    assert_eq!(measured(&merged), expected);
}

#[test]
fn a_load_that_does_not_sync_says_so() {
    let scratch = Scratch::new();
    let engines = ["--engines", "esker-wal,esker-wal-sync", "--workload", "load", "--rounds", "1"];
    let done = scratch.run(&ycsb(&[&engines[..], &["--json"]].concat())).expect_status(0);
    assert_eq!(measured(&done.json()), ["esker-wal load 0", "esker-wal-sync load (not synced) 0"]);
}

#[test]
fn updates_are_measured_on_an_empty_store() {
    let scratch = Scratch::new();
    let arguments = ["bench", "updates", "--records", "200", "--rounds", "1", "--json"];
    let done = scratch.run(&[&arguments[..], &SMALL[4..]].concat()).expect_status(0);
    let results = done.json();
    assert_eq!(measured(&results), ["esker-wal updates 0"]);
    let rows = results["rows"].as_array().unwrap();
    let live = rows.iter().find(|row| row["metric"] == "live_bytes").unwrap();
    assert_eq!(live["value"], 42_000.0);
}

#[test]
fn tables_and_reads_of_updates_are_accounted_for() {
    let scratch = Scratch::new();
    let sizes = ["--records", "2000", "--segment", "64K", "--memory", "4M", "--rounds", "1"];
    let engines = ["--engines", "esker-leveled,esker-perlevel-1.4", "--reads", "300", "--json"];
    let done = scratch.run(&[&["bench", "updates"][..], &sizes, &engines].concat());
    let results = done.expect_status(0).json();
    for engine in ["esker-leveled", "esker-perlevel-1.4"] {
        let value = |metric: &str| {
            let mut rows = results["rows"].as_array().unwrap().iter();
            let row = rows.find(|row| row["engine"] == engine && row["metric"] == metric);
            row.and_then(|row| row["value"].as_f64()).unwrap_or_else(|| panic!("{metric}"))
        };
        // Once settled, all that is alive is in tables, without compression.
        assert!(value("table_space_amp_peak") > 0.9, "{}", value("table_space_amp_peak"));
        assert!(value("table_space_amp_peak") >= value("table_space_amp_mean"));
        assert!((0.9..value("write_amp")).contains(&value("table_write_amp")));
        for state in ["settled", "beside_updates", "unsettled"] {
            assert!(value(&format!("read_{state}_throughput")) > 0.0);
        }
    }
    assert_eq!(results["settings"]["esker-perlevel-1.4"]["dedup"], "per-level:1.4");
}

#[test]
fn a_small_experiment_on_updates_has_its_planes() {
    let scratch = Scratch::new();
    let sizes = ["--records", "2000", "--cases", "uniform-3,zipf-3"];
    let engines = ["--engines", "esker-leveled,esker-tiered", "--out", "out"];
    scratch.run(&[&["experiment", "plexdb"][..], &sizes, &engines].concat()).expect_status(0);
    let results = results(&scratch.path("out"));
    let expected = [
        "esker-leveled uniform-3 0",
        "esker-tiered uniform-3 0",
        "esker-tiered zipf-3 0",
        "esker-leveled zipf-3 0",
    ];
    assert_eq!(measured(&results), expected);
    let planes = results["groups"][0]["planes"].as_array().unwrap();
    assert_eq!(planes.len(), 4, "the mean and the peak of each case");
    let page = std::fs::read_to_string(scratch.path("out/report.html")).unwrap();
    assert!(page.contains("the limit line"));
    let refused = scratch.run(&["experiment", "ycsb", "--records", "9", "--out", "new"]);
    refused.expect_failure(2, "--records");
}

#[test]
fn an_experiment_on_updates_tells_how_well_space_was_kept_and_at_what_cost() {
    let scratch = Scratch::new();
    let sizes = ["--records", "4000", "--cases", "uniform-9"];
    let engines = ["--engines", "esker-perlevel-1.2,esker-spacegoal-1.2", "--out", "out"];
    scratch.run(&[&["experiment", "plexdb"][..], &sizes, &engines].concat()).expect_status(0);
    let results = results(&scratch.path("out"));
    let rows = results["rows"].as_array().unwrap();
    let value = |engine: &str, metric: &str| {
        let row = rows.iter().find(|row| row["engine"] == engine && row["metric"] == metric);
        row.and_then(|row| row["value"].as_f64())
    };
    for engine in ["esker-perlevel-1.2", "esker-spacegoal-1.2"] {
        let of_engine = |metric: &str| {
            value(engine, metric).unwrap_or_else(|| panic!("{engine} has no {metric}"))
        };
        let error = of_engine("predicted_reclaim_error");
        assert!((0.0..0.5).contains(&error), "{engine}: {error}");
        let distance = of_engine("limit_line_distance");
        assert!((0.3..10.0).contains(&distance), "{engine}: {distance}");
    }
    let above = value("esker-spacegoal-1.2", "segments_above_goal").expect("there is a goal");
    assert!(above <= 4.0, "{above} segments above the goal");
    assert_eq!(value("esker-perlevel-1.2", "segments_above_goal"), None, "there is no goal");
}

#[test]
fn a_property_file_says_what_is_done_and_flags_go_before_it() {
    let scratch = Scratch::new();
    let text =
        b"recordcount=300\noperationcount=100000\nreadproportion=1\nupdateproportion=0\nodd=1\n";
    scratch.file("mine.properties", text);
    let arguments = ["bench", "ycsb", "--property-file", "mine.properties", "--operations", "400"];
    let more = ["--rounds", "1", "--json"];
    let done = scratch.run(&[&arguments[..], &more, &SMALL[4..]].concat()).expect_status(0);
    assert!(done.err.contains("line 5") && done.err.contains("odd"), "{done:?}");
    let results = done.json();
    assert_eq!(measured(&results), ["esker-wal load 0", "esker-wal mine 0"]);
    let run = &results["settings"]["run"];
    assert_eq!((&run["records"], &run["operations"]), (&"300".into(), &"400".into()));
}

#[test]
fn what_cannot_be_run_is_refused_before_any_file_is_made() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("full")).unwrap();
    scratch.file("full/a", b"1");
    let before = names(&scratch.path("."));
    for (more, part) in [
        (&["--engines", "rocks"][..], "there are esker-wal"),
        (&["--engines", "esker-wal,,esker-nolog"], "without a name"),
        (&["--engines", ""], "without a name"),
        (&["--engines", "esker-wal,esker-wal"], "twice"),
        (&["--rounds", "0"], "--rounds"),
        (&["--threads", "0"], "threads is 0"),
        (&["--threads", "501"], "threads is 501"),
        (&["--value-size", "0"], "field-size is 0"),
        (&["--value-size", "2000000"], "at most"),
        (&["--value-size", "8", "--verify"], "16 bytes"),
        (&["--rate", "0"], "--rate"),
        (&["--duration", "0"], "--duration"),
        (&["--warm-up", "soon"], "--warm-up"),
        (&["--workload", "z"], "workload is z"),
        (&["--compression", "zip"], "zip"),
        (&["--dir", "full"], "full is not empty"),
        (&["--out", "full"], "full holds other files"),
        (&["--dir", "new/stores"], "--dir and --out"),
        (&["--property-file", "none", "--operations", "1"], "none"),
    ] {
        let arguments = [&ycsb(&["--out", "new"])[..], more].concat();
        // The last of two flags would not do: the sizes are given already.
        let arguments = match more[0] {
            "--out" => ycsb(more),
            "--property-file" => [&["bench", "ycsb", "--out", "new"][..], more].concat(),
            _ => arguments,
        };
        scratch.run(&arguments).expect_failure(2, part);
        assert_eq!(names(&scratch.path(".")), before, "{more:?}");
    }
    for arguments in [&["--records", "0"], &["--operations", "0"]] {
        let arguments = [&["bench", "ycsb", "--out", "new"][..], arguments].concat();
        scratch.run(&arguments).expect_failure(2, " is 0");
    }
    let unknown = scratch.run(&["experiment", "none", "--out", "new"]);
    unknown.expect_failure(2, "unrecognized subcommand 'none'");
    let json = scratch.run(&["experiment", "--list", "--json"]).expect_status(0).json();
    let names_listed: Vec<_> = json.as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names_listed[..3], ["ycsb", "reads", "wbl"]);
    let list = scratch.run(&["experiment", "--list"]).expect_status(0);
    assert!(list.text().contains("wbl        Write-behind logging"), "{list:?}");
    assert_eq!(names(&scratch.path(".")), before);
}

/// The value of a metric in the first round.
fn value(results: &serde_json::Value, engine: &str, case: &str, metric: &str) -> f64 {
    let of = |row: &&serde_json::Value| {
        row["engine"] == engine && row["case"] == case && row["metric"] == metric
    };
    let found = results["rows"].as_array().unwrap().iter().find(of);
    found
        .and_then(|row| row["value"].as_f64())
        .unwrap_or_else(|| panic!("{engine} {case} {metric}"))
}

#[test]
fn loads_of_transactions_run_on_every_kind_of_log_and_say_what_is_emulated() {
    let scratch = Scratch::new();
    let engines = "esker-nolog,esker-wbl,esker-log-nvram,esker-log-disk,esker-log-pmem";
    let sizes = ["--clients", "2", "--rounds", "1", "--segment", "1M", "--memory", "16M"];
    let linkbench = ["bench", "linkbench", "--nodes", "200", "--requests", "300"];
    let tpcc = ["bench", "tpcc", "--items", "100", "--customers", "30", "--transactions", "60"];
    for (load, case) in [(&linkbench[..], "linkbench-2"), (&tpcc, "tpcc-2")] {
        let more = ["--pool", "16M", "--json", "--engines", engines];
        let results = scratch.run(&[load, &sizes, &more].concat()).expect_status(0).json();
        assert_eq!(results["complete"], true);
        let emulated = results["emulated"].to_string();
        assert!(emulated.contains("nvram") && emulated.contains("Flashtec"), "{emulated}");
        for engine in engines.split(',') {
            assert!(value(&results, engine, case, "commits") > 0.0);
            let syncs = value(&results, engine, case, "syncs_per_commit");
            let is_synced = engine.contains("-log-");
            assert_eq!(syncs > 0.0, is_synced, "{engine}: {syncs}");
            // A commit's sync may be another's as well, but nobody is acknowledged without one.
            assert!(syncs < 1.5, "{engine}: {syncs}");
        }
        assert!(value(&results, "esker-log-nvram", case, "service_requested_us") >= 5.0);
    }
}

#[test]
fn a_bench_tells_what_a_small_read_table_took_dropped_and_gave_up() {
    let scratch = Scratch::new();
    let load = ["bench", "linkbench", "--nodes", "500", "--requests", "6000", "--clients", "2"];
    let table = ["--dram-table", "32K", "--forwarding", "always", "--memory", "16M"];
    let more = ["--pool", "6M", "--engines", "esker-wbl", "--rounds", "1", "--json"];
    let results = scratch.run(&[&load[..], &table, &more].concat()).expect_status(0).json();
    for metric in ["dram_fills", "dram_invalidations", "dram_evictions"] {
        assert!(value(&results, "esker-wbl", "linkbench-2", metric) > 0.0, "{metric}");
    }
}

#[test]
fn the_experiment_on_logs_holds_each_against_none() {
    let scratch = Scratch::new();
    let engines = "esker-nolog,esker-log-nvram";
    let arguments = ["experiment", "wal", "--engines", engines, "--cases", "linkbench-3"];
    let done = scratch.run(&[&arguments[..], &["--rounds", "2", "--out", "out"]].concat());
    let done = done.expect_status(0);
    assert!(done.text().contains("95% of the loss lie below"), "{done:?}");
    let results = results(&scratch.path("out"));
    let loads = measured(&results).into_iter().filter(|row| row.contains("load-")).count();
    assert_eq!(loads, 1, "both rounds and both engines start from one store");
    for metric in ["commit_added_us", "commit_cpu_us", "loss_percent", "group_commit_model_ratio"] {
        value(&results, "esker-log-nvram", "linkbench-3", metric);
    }
    let refused = scratch.run(&["experiment", "wal", "--records", "5"]);
    refused.expect_failure(2, "--records");
}

#[test]
fn nothing_is_left_of_logs_on_devices_when_a_run_is_interrupted() {
    let scratch = Scratch::new();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let memory_path = memory.path().to_str().unwrap().to_owned();
    let arguments = ["bench", "tpcc", "--items", "100", "--customers", "30", "--duration", "600"];
    let engines = ["--engines", "esker-log-nvram", "--segment", "1M", "--memory", "16M"];
    let place = ["--pool-dir", &memory_path, "--dir", "stores"];
    let mut child = scratch
        .command(&[&arguments[..], &engines, &place].concat())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let has_log = || {
        let inner = names(memory.path()).into_iter().map(|dir| memory.path().join(dir));
        inner.flat_map(|dir| names(&dir)).any(|name| name.starts_with("esker-log-"))
    };
    while !has_log() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(names(memory.path()).is_empty());
}

#[test]
fn a_log_directory_that_is_not_there_is_refused_before_anything_runs() {
    let scratch = Scratch::new();
    let arguments = ["experiment", "wal", "--engines", "esker-nolog,esker-log-disk"];
    let refused = scratch.run(&[&arguments[..], &["--log-dir", "none", "--out", "new"]].concat());
    refused.expect_failure(2, "a directory for pools and logs in none");
    assert!(names(&scratch.path(".")).is_empty());
}

#[test]
fn results_at_other_rates_are_merged_as_other_cases() {
    let scratch = Scratch::new();
    for (rate, out) in [("1000", "one"), ("2000", "two")] {
        let arguments = ["--workload", "c", "--rounds", "1", "--rate", rate, "--out", out];
        scratch.run(&ycsb(&arguments)).expect_status(0);
    }
    scratch.run(&["bench", "report", "one", "two", "--out", "both"]).expect_status(0);
    let merged = measured(&results(&scratch.path("both")));
    for case in ["esker-wal C (rate 1000) 0", "esker-wal C (rate 2000) 1"] {
        assert!(merged.contains(&case.to_owned()), "{merged:?}");
    }
}
