//! `esker-lab experiment cassandra`: a node of Apache Cassandra with Esker's memtable, and with its own
//! memtables and commit logs. `integrations/cassandra/rates` measures; this runs it over the cases.

use super::rows::Rows;
use super::{Keep, Scale, Wishes};
use crate::failure::{Failure, Outcome};
use crate::output::tell;
use esker_bench::results::{RUN, Settings};
use esker_bench::{Machine, Results, Row};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "integrations/cassandra/rates";
/// What the build leaves.
const BUILT: &str = "integrations/cassandra/target/test-classes/esker/cassandra/Rates.class";
const BUILD: &str = "integrations/cassandra/test -DskipTests";

/// Programs that must be there, with the argument that only prints their version.
const TOOLS: [(&str, &str, &str); 2] =
    [("java", "-version", "a JDK 17"), ("mvn", "--version", "Maven")];

const EMULATED: &str = "esker-pool has its log in a file in /dev/shm: DRAM, not persistent memory. \
                        Its acknowledged writes survive a kill, but no power loss";

struct Case {
    name: &'static str,
    row_bytes: u32,
    reads_percent: u32,
}

const CASES: [Case; 4] = [
    Case { name: "insert-100b", row_bytes: 100, reads_percent: 0 },
    Case { name: "insert-1kb", row_bytes: 1000, reads_percent: 0 },
    Case { name: "mixed-100b", row_bytes: 100, reads_percent: 50 },
    Case { name: "mixed-1kb", row_bytes: 1000, reads_percent: 50 },
];
/// Those of a quick run.
const QUICK: [&str; 2] = ["insert-100b", "mixed-1kb"];

struct Sizes {
    rounds: u32,
    warm_up_seconds: u32,
    seconds: u32,
}

impl Sizes {
    fn of(wishes: &Wishes<'_>) -> Self {
        let sizes = match wishes.scale {
            Scale::Quick => Sizes { rounds: 1, warm_up_seconds: 8, seconds: 5 },
            Scale::Full => Sizes { rounds: 3, warm_up_seconds: 25, seconds: 20 },
        };
        Sizes { rounds: wishes.rounds.unwrap_or(sizes.rounds), ..sizes }
    }
}

/// What the program prints of one kind of memtable and log.
#[derive(Deserialize)]
struct Measured {
    kind: String,
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: f64,
}

/// Runs it.
///
/// What is known is handed to `so_far` whenever it is more.
pub fn results(wishes: &Wishes<'_>, so_far: Keep<'_>) -> Outcome<Results> {
    let cases = cases(wishes)?;
    check_tools(&TOOLS)?;
    check_built(Path::new(""))?;
    let sizes = Sizes::of(wishes);
    let none = Results {
        experiment: "cassandra".to_owned(),
        scale: wishes.scale.name().to_owned(),
        command: std::env::args().collect(),
        machine: Machine::of(Path::new(".")),
        started: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("ESKER_COMMIT").to_owned(),
        emulated: vec![EMULATED.to_owned()],
        settings: [(RUN.to_owned(), settings(&sizes))].into(),
        ..Results::default()
    };
    let of = |rows: Vec<Row>| Results { rows, ..none.clone() };
    let mut keep = |rows: &[Row]| so_far(&of(rows.to_vec()));
    let mut rows = Rows::new(&mut keep);
    for case in cases {
        run(case, &sizes, wishes.engines.unwrap_or("all"), &mut rows)?;
    }
    Ok(Results { complete: true, ..of(rows.all()?) })
}

fn settings(sizes: &Sizes) -> Settings {
    [
        ("rounds", sizes.rounds.to_string()),
        ("warm_up_seconds", sizes.warm_up_seconds.to_string()),
        ("seconds", sizes.seconds.to_string()),
        ("program", PROGRAM.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The cases that were asked for.
fn cases(wishes: &Wishes<'_>) -> Outcome<Vec<&'static Case>> {
    let Some(wanted) = wishes.cases else {
        let is_full = wishes.scale == Scale::Full;
        return Ok(CASES.iter().filter(|case| is_full || QUICK.contains(&case.name)).collect());
    };
    let of_name = |name: &str| {
        CASES.iter().find(|case| case.name == name).ok_or_else(|| {
            let there = CASES.map(|case| case.name).join(", ");
            Failure::Usage(format!("--cases: cassandra has no {name:?}; there are {there}"))
        })
    };
    wanted.split(',').map(of_name).collect()
}

/// Fails if a program is missing that the experiment needs.
fn check_tools(tools: &[(&str, &str, &str)]) -> Outcome {
    let is_there = |program: &str, version: &str| {
        let mut command = Command::new(program);
        let quiet = command.arg(version).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    let missing: Vec<String> = tools
        .iter()
        .filter(|(program, version, _)| !is_there(program, version))
        .map(|(program, _, package)| format!("{program} ({package})"))
        .collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "running Cassandra failed: not found: {}; install what is missing",
            missing.join(", ")
        ))),
    }
}

/// Fails unless the directory `root` is that of Esker's source, with the memtable built.
fn check_built(root: &Path) -> Outcome {
    let missing = |what: &str, action: &str| {
        Failure::new(format!("running Cassandra failed: {what} not found; {action}"))
    };
    if !root.join(PROGRAM).is_file() {
        return Err(missing(PROGRAM, "run this in the directory of Esker's source"));
    }
    if !root.join(BUILT).is_file() {
        return Err(missing(BUILT, &format!("run {BUILD}, which builds it")));
    }
    Ok(())
}

/// Measures all kinds in one case.
fn run(case: &Case, sizes: &Sizes, kinds: &str, rows: &mut Rows<'_>) -> Outcome {
    let mut command = Command::new(Path::new(".").join(PROGRAM));
    let numbers = [
        ("--rounds", sizes.rounds),
        ("--warm-up", sizes.warm_up_seconds),
        ("--seconds", sizes.seconds),
        ("--bytes", case.row_bytes),
        ("--reads", case.reads_percent),
    ];
    for (flag, number) in numbers {
        command.arg(flag).arg(number.to_string());
    }
    command.args(["--json", "--kinds", kinds]).stdin(Stdio::null()).stdout(Stdio::piped());
    let failed = |error| Failure::io("run", PROGRAM, error);
    let mut process = command.spawn().map_err(failed)?;
    let output = process.stdout.take().expect("it was asked for");
    let mut known = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(failed)?;
        match serde_json::from_str::<Measured>(&line) {
            Ok(measured) => rows.add(of_kind(case, &measured, &mut known)),
            Err(_) => tell(line),
        }
    }
    let status = process.wait().map_err(failed)?;
    match status.success() && !known.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("{PROGRAM} ended early, {status}; its output says why"))),
    }
}

/// The rows of one result. `known` has the kinds of the results before it.
fn of_kind(case: &Case, measured: &Measured, known: &mut Vec<String>) -> Vec<Row> {
    let round = known.iter().filter(|kind| **kind == measured.kind).count() as u32;
    known.push(measured.kind.clone());
    let row = |metric: &str, value: f64, unit: &str| Row {
        engine: measured.kind.clone(),
        case: case.name.to_owned(),
        metric: metric.to_owned(),
        value,
        unit: unit.to_owned(),
        round,
    };
    vec![
        row("throughput", measured.rate, "ops/s"),
        row("latency_p50_us", measured.p50_ms * 1e3, "us"),
        row("latency_p99_us", measured.p99_ms * 1e3, "us"),
        row("cpu_us_per_op", measured.cpu_us, "us"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_those_asked_for_or_those_of_the_scale() {
        let names = |wishes: &Wishes<'_>| -> Vec<_> {
            cases(wishes).unwrap().iter().map(|case| case.name).collect()
        };
        let quick = Wishes::default();
        assert_eq!(names(&quick), QUICK);
        assert_eq!(names(&Wishes { scale: Scale::Full, ..quick }), CASES.map(|case| case.name));
        assert_eq!(names(&Wishes { cases: Some("mixed-100b"), ..quick }), ["mixed-100b"]);
        let unknown = cases(&Wishes { cases: Some("insert-1kb,all"), ..quick });
        assert!(matches!(unknown, Err(Failure::Usage(what)) if what.contains("no \"all\"")));
    }

    fn text(outcome: Outcome) -> String {
        match outcome {
            Err(Failure::Failed(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = [("no-such-program", "--version", "a package")];
        let error = text(check_tools(&missing));
        assert!(error.contains("no-such-program (a package)"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let error = text(check_built(dir.path()));
        assert!(error.contains("run this in the directory of Esker's source"), "{error}");
        std::fs::create_dir_all(dir.path().join("integrations/cassandra")).unwrap();
        std::fs::write(dir.path().join(PROGRAM), "").unwrap();
        let error = text(check_built(dir.path()));
        assert!(error.contains(BUILD), "{error}");
    }

    #[test]
    fn each_result_of_a_kind_is_a_round() {
        let line = r#"{"kind": "esker-pool", "rate": 20914, "p50_ms": 8.35, "p99_ms": 67.42, "cpu_us": 76.0}"#;
        let measured: Measured = serde_json::from_str(line).unwrap();
        let mut known = Vec::new();
        for round in 0..2 {
            let rows = of_kind(&CASES[0], &measured, &mut known);
            assert!(rows.iter().all(|row| row.round == round && row.case == "insert-100b"));
            assert_eq!((rows[0].value, rows[2].value.round()), (20914.0, 67420.0));
        }
    }
}
