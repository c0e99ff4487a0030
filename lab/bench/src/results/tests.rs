//! Results as text.

use super::*;

pub(super) fn row(engine: &str, case: &str, round: u32, value: f64) -> Row {
    Row {
        engine: engine.into(),
        case: case.into(),
        metric: "throughput".into(),
        value,
        unit: "ops/s".into(),
        round,
    }
}

pub(super) fn results(rows: Vec<Row>) -> Results {
    Results { rows, complete: true, ..Results::default() }
}

pub(super) fn full() -> Results {
    let settings = Settings::from([("memory".to_owned(), "1 GiB".to_owned())]);
    Results {
        experiment: "ycsb".into(),
        scale: "quick".into(),
        command: vec!["esker".into(), "bench".into()],
        machine: Machine { cores: 2, ..Machine::default() },
        started: "2026-01-02T03:04:05Z".into(),
        emulated: vec!["persistent memory".into()],
        settings: BTreeMap::from([("one".to_owned(), settings)]),
        rows: vec![row("one", "a", 0, 1.5), row("one", "a", 1, 2.5)],
        series: vec![Series {
            engine: "one".into(),
            case: "a".into(),
            round: 1,
            metric: "throughput".into(),
            unit: "ops/s".into(),
            points: vec![[1.0, 2.0], [2.0, 3.0]],
        }],
        distributions: vec![Distribution {
            engine: "one".into(),
            case: "a".into(),
            round: 0,
            operation: "read".into(),
            points: vec![[1.5, 0.5], [3.0, 1.0]],
        }],
        groups: vec![Group { title: "G".into(), cases: vec!["a".into()], ..Group::default() }],
        published: vec![Published {
            rows: vec![PublishedRow { name: "A".into(), ratio: 1.5, cases: vec!["a".into()] }],
            comparisons: vec![Comparison { engine: "one".into(), ..Comparison::default() }],
            ..Published::default()
        }],
        complete: true,
        ended: "failed".into(),
        version: "1.2.3".into(),
        commit: "abcdef".into(),
    }
}

#[test]
fn csv_has_a_line_for_each_row() {
    let mut results = Results::default();
    for (case, value) in [("a, \"b\"", 1.5), ("c", 2.0)] {
        results.rows.push(Row {
            engine: "one".into(),
            case: case.into(),
            metric: "throughput".into(),
            value,
            unit: "ops/s".into(),
            round: 1,
        });
    }
    let expected = "engine,case,metric,value,unit,round\n\
                    one,\"a, \"\"b\"\"\",throughput,1.5,ops/s,1\n\
                    one,c,throughput,2,ops/s,1\n";
    assert_eq!(results.to_csv(), expected);
}

#[test]
fn json_gives_the_results_back() {
    assert_eq!(Results::from_json(&full().to_json()).unwrap(), full());
    let empty = Results::default();
    assert_eq!(Results::from_json(&empty.to_json()).unwrap(), empty);
}

#[test]
fn json_has_one_row_a_line() {
    let json = full().to_json();
    let line = "{\"engine\":\"one\",\"case\":\"a\",\"metric\":\"throughput\",\"value\":1.5,\
                \"unit\":\"ops/s\",\"round\":0},";
    assert!(json.lines().any(|found| found == line), "{json}");
}

#[test]
fn results_of_an_earlier_release_can_be_read() {
    let json = full().to_json();
    let without = |line: &&str| !line.contains("\"title\"") && !line.contains("\"ratio\"");
    let json: String = json.lines().filter(without).collect();
    let json = json.replace("\"groups\":[],", "").replace("\"published\":[],", "");
    let read = Results::from_json(&json).unwrap();
    assert_eq!(read, Results { groups: Vec::new(), published: Vec::new(), ..full() });
}

#[test]
fn fields_of_a_later_release_are_passed_over() {
    let json = full().to_json().replacen('{', "{\"later\":[1],", 1);
    assert_eq!(Results::from_json(&json).unwrap(), full());
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &full()).unwrap();
    write(dir.path(), &Results::default()).unwrap();
    assert_eq!(read(dir.path()).unwrap(), Results::default());
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_file_that_is_no_result_is_named() {
    let dir = tempfile::tempdir().unwrap();
    assert!(read(dir.path()).unwrap_err().to_string().contains("results.json"));
    std::fs::write(dir.path().join(FILE_NAME), "{").unwrap();
    assert!(read(dir.path()).unwrap_err().to_string().contains("results.json"));
}

#[test]
fn a_void_round_is_in_no_table() {
    let mut rows = vec![row("one", "a", 0, 100.0), row("one", "a", 1, 10.0)];
    rows.push(Row { metric: Results::VOID.into(), value: 1.0, ..row("one", "a", 1, 0.0) });
    let sound = results(rows).sound();
    assert_eq!(sound.values("one", "a", "throughput"), [100.0]);
    assert_eq!(sound.values("one", "a", Results::VOID), [1.0]);
}
