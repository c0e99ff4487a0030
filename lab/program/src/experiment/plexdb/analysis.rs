//! Whether space-amplification limits were kept, and the costs without the log's, which are the goals' and the plane's.

use esker_bench::Row;
use esker_bench::results::{RUN, Results, spread};
use esker_bench::table::columns_of;

/// What is left of an engine's name if it has a space-amplification limit: the goal.
const GOAL: &str = "esker-spacegoal-";

/// How far tables went above their goal's share of the live data, in segments: four are allowed. What is live counts as
/// tables hold it, with their filters and indexes.
pub fn rows(results: &Results) -> Vec<Row> {
    let segment = results.settings.get(RUN).and_then(|run| run.get("segment_bytes"));
    let Some(segment) = segment.and_then(|bytes| bytes.parse::<f64>().ok()) else {
        return Vec::new();
    };
    let peaks = results.rows.iter().filter(|row| row.metric == "table_space_amp_peak");
    let above = |peak: &Row| {
        let goal: f64 = peak.engine.strip_prefix(GOAL)?.parse().ok()?;
        let of_same = |metric: &str| {
            let is_it = |row: &&Row| {
                row.metric == metric
                    && (&row.engine, &row.case, row.round) == (&peak.engine, &peak.case, peak.round)
            };
            results.rows.iter().find(is_it).map(|row| row.value)
        };
        let taken = peak.value * of_same("live_bytes")?;
        let share = goal * of_same("live_table_bytes")?;
        Some(Row {
            metric: "segments_above_goal".to_owned(),
            value: (taken - share) / segment,
            unit: "segments".to_owned(),
            ..peak.clone()
        })
    };
    peaks.filter_map(above).collect()
}

/// What is printed.
pub fn text(results: &Results) -> String {
    let titles = [
        "case",
        "engine",
        "writes",
        "space",
        "peak",
        "limit line",
        "above goal",
        "runs",
        "tables",
        "blocks",
    ];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    for case in results.cases() {
        for engine in results.engines() {
            let number = |metric: &str| {
                let median = spread(&results.values(engine, case, metric));
                median.map_or("–".to_owned(), |spread| format!("{:.2}", spread.median))
            };
            lines.push(vec![
                case.to_owned(),
                engine.to_owned(),
                number("table_write_amp"),
                number("table_space_amp_mean"),
                number("table_space_amp_peak"),
                number("limit_line_distance"),
                number("segments_above_goal"),
                number("read_unsettled_table_runs_per_get"),
                number("read_unsettled_table_reads_per_hit"),
                number("read_unsettled_table_blocks_read_per_get"),
            ]);
        }
    }
    let about = "\nTables alone, for each byte written and each that is alive; writes against the limit line's; segments above a \
                 goal's share at the worst moment, of which four are allowed; runs visited, tables read and blocks read \
                 from files by a read of an unsettled store\n";
    about.to_owned() + &columns_of(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_a_goal_is_told_in_segments() {
        let row = |engine: &str, metric: &str, value| Row {
            engine: engine.to_owned(),
            case: "uniform-9".to_owned(),
            metric: metric.to_owned(),
            value,
            unit: "ratio".to_owned(),
            round: 0,
        };
        let run = [("segment_bytes".to_owned(), "100".to_owned())].into();
        let results = Results {
            rows: vec![
                row("esker-spacegoal-1.2", "table_space_amp_peak", 1.5),
                row("esker-spacegoal-1.2", "live_bytes", 1000.0),
                row("esker-spacegoal-1.2", "live_table_bytes", 1100.0),
                row("esker-leveled", "table_space_amp_peak", 3.0),
            ],
            settings: [(RUN.to_owned(), run)].into(),
            ..Results::default()
        };
        let rows = rows(&results);
        assert_eq!((rows.len(), &rows[0].engine[..]), (1, "esker-spacegoal-1.2"));
        assert!((rows[0].value - 1.8).abs() < 1e-9, "{}", rows[0].value);
    }
}
