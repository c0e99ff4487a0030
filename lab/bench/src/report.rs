//! Results as rows, and rows as JSON.
//!
//! A row is one number: of an engine, in a stage and a round, in a unit. The JSON is
//! `{"rows": [...]}` with one row a line, so that two reports can be compared with plain tools.

use serde::{Deserialize, Serialize};

/// One measured number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The engine that was measured.
    pub engine: String,
    /// The stage: see [`Stage::labels`](crate::Stage::labels).
    pub case: String,
    /// What was measured.
    pub metric: String,
    /// The number.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Which repetition of the run this is.
    pub round: u32,
}

/// The results of one or more runs.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The results.
    pub rows: Vec<Row>,
}

impl Report {
    /// The JSON of all rows.
    pub fn to_json(&self) -> String {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| serde_json::to_string(row).expect("a row is strings and numbers"))
            .collect();
        if rows.is_empty() {
            return "{\"rows\":[]}\n".to_owned();
        }
        format!("{{\"rows\":[\n{}\n]}}\n", rows.join(",\n"))
    }

    /// The rows of a JSON text that [`Report::to_json`] or another program wrote.
    pub fn from_json(json: &str) -> serde_json::Result<Self> {
        serde_json::from_str(json)
    }

    /// The value of `metric` in the first row of `case` that has it.
    pub fn value(&self, case: &str, metric: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.case == case && row.metric == metric).map(|row| row.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let row = |metric: &str, value| Row {
            engine: "esker \"quoted\"".into(),
            case: "fillseq".into(),
            metric: metric.into(),
            value,
            unit: "ops/s".into(),
            round: 2,
        };
        Report { rows: vec![row("throughput", 1234.5), row("found", 0.0)] }
    }

    #[test]
    fn json_gives_the_rows_back() {
        assert_eq!(Report::from_json(&report().to_json()).unwrap(), report());
        let empty = Report::default();
        assert_eq!(Report::from_json(&empty.to_json()).unwrap(), empty);
    }

    #[test]
    fn json_has_one_row_a_line_with_the_agreed_fields() {
        let json = report().to_json();
        assert_eq!(
            json.lines().nth(1).unwrap(),
            "{\"engine\":\"esker \\\"quoted\\\"\",\"case\":\"fillseq\",\"metric\":\"throughput\",\
             \"value\":1234.5,\"unit\":\"ops/s\",\"round\":2},"
        );
        assert_eq!(json.lines().count(), 4);
    }

    #[test]
    fn values_are_found_by_case_and_metric() {
        assert_eq!(report().value("fillseq", "throughput"), Some(1234.5));
        assert_eq!(report().value("fillseq", "missing"), None);
        assert_eq!(report().value("missing", "found"), None);
    }
}
