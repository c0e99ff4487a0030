//! Reads of what updates have left: once all is compacted, while more updates go on as fast as they can,
//! and at once after those, when nothing is compacted.

use crate::failure::{Failure, Outcome};
use esker_bench::{Progress, Row, Trial};
use esker_workload::Workload;
use esker_workload::updates::{Reads, Updates};

/// What is kept of each.
const KEPT: [&str; 9] = [
    "throughput",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "latency_max_us",
    "table_runs_per_get",
    "table_reads_per_hit",
    "table_blocks_read_per_get",
    "table_bytes_read_per_get",
];

/// Of reads during updates there are so many times as many. They begin when all is compacted, and are to report what
/// updates at full speed leave, which takes most engines a second or so.
const BESIDE: u64 = 10;

/// Measures so many reads in each state, [`BESIDE`] times as many during updates, after `trial` has done the `updates`
/// and all is compacted. The rows are those of the trial's case, their metrics with the state before the name.
pub fn measure(
    trial: &Trial<'_>,
    updates: &Updates,
    reads: u64,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Outcome<Vec<Row>> {
    let states = [
        ("read_settled", Reads::after(updates, reads)),
        ("read_beside_updates", Reads::beside(updates, BESIDE * reads)),
        ("read_unsettled", Reads::after(updates, reads)),
    ];
    let mut rows = Vec::new();
    for (pass, (state, workload)) in (0..).zip(states) {
        let workload: &dyn Workload = &workload.in_pass(pass);
        let reading = Trial { workload, duration: None, rate: None, settles: false, ..*trial };
        let outcome = reading.run(progress)?;
        expect_found(trial.case, state, &outcome.rows)?;
        let kept = outcome.rows.into_iter().filter(|row| KEPT.contains(&&row.metric[..]));
        rows.extend(kept.map(|row| Row { metric: format!("{state}_{}", row.metric), ..row }));
    }
    Ok(rows)
}

/// All keys are there: a store that does not find one is no store to measure.
fn expect_found(case: &str, state: &str, rows: &[Row]) -> Outcome {
    match rows.iter().find(|row| row.metric == "found") {
        Some(found) if found.value < 1.0 => {
            let (missing, state) = (1.0 - found.value, state.replace('_', " "));
            Err(Failure::new(format!("{case}, {state}: {missing} of the reads found nothing")))
        }
        _ => Ok(()),
    }
}
