//! Sequential reads and writes in one mix, on a conventional device that was fitted to its pure rates.

use super::{SEED, Sizes, row, seconds};
use crate::experiment::rows::Rows;
use esker_bench::Row;
use esker_flash::Preset;
use esker_flash::interference::MixedLoad;

/// The device.
pub(super) const PRESET: &str = "samsung-960-pro";

/// Requests outstanding. The paper does not say how many.
const DEPTHS: [u32; 4] = [4, 8, 16, 32];
/// Reads of a hundred requests.
const READ_PERCENTS: [u32; 7] = [100, 90, 75, 50, 25, 10, 0];

pub(super) const METRICS: [&str; 4] = [
    "reads_percent_of_pure",
    "writes_percent_of_pure",
    "reads_error_points",
    "writes_error_points",
];

/// The mixed point of the paper, half of the requests reads: reads and writes as a percentage of pure.
const PAPER_READ_PERCENT: u32 = 50;
const PAPER_PERCENTS: [f64; 2] = [25.6, 26.8];

pub(super) const ABOUT: &str = "\
    Sequential requests of 64 KiB, each a read with the case's probability. The model was fitted to the \
    data sheet's pure rates alone, so the mixed points are predictions; how far the paper's point is from them is \
    shown in percentage points, too high above zero. Engines are the model at so many \
    requests outstanding, which the paper does not tell.";

pub(super) fn settings(sizes: &Sizes) -> Vec<(&'static str, String)> {
    let preset = Preset::named(PRESET).expect("it comes with the program");
    vec![
        ("sequential_preset", PRESET.to_owned()),
        ("sequential_planes", preset.geometry().planes.to_string()),
        ("sequential_independent_plane_reads", preset.has_independent_plane_reads().to_string()),
        ("sequential_seconds", seconds(sizes.measured_ns)),
        ("sequential_depths", format!("{DEPTHS:?}")),
        ("sequential_read_percents", format!("{READ_PERCENTS:?}")),
    ]
}

pub(super) fn run(sizes: &Sizes, rows: &mut Rows<'_>) {
    let preset = Preset::named(PRESET).expect("it comes with the program");
    for depth in DEPTHS {
        let run = |percent: u32| {
            let read_share = f64::from(percent) / 100.0;
            let measured_ns = sizes.measured_ns;
            MixedLoad { preset: preset.clone(), depth, read_share, measured_ns, seed: SEED }.run()
        };
        let (pure_read, pure_written) = (run(100).read, run(0).written);
        for percent in READ_PERCENTS {
            let mixed = run(percent);
            let engine = format!("model-depth-{depth}");
            let case = format!("{PRESET}/reads-{percent}%");
            let parts = [mixed.read / pure_read, mixed.written / pure_written];
            rows.add(of_one(&engine, &case, percent, parts.map(|part| part * 100.0)));
        }
    }
}

/// What is predicted, reads and writes as a percentage of pure, and how far that is from what the paper measured.
fn of_one(engine: &str, case: &str, read_percent: u32, predicted: [f64; 2]) -> Vec<Row> {
    let row = |metric, value, unit| row(engine, case, metric, value, unit);
    let mut rows = vec![row(METRICS[0], predicted[0], "%"), row(METRICS[1], predicted[1], "%")];
    if read_percent == PAPER_READ_PERCENT {
        rows.push(row(METRICS[2], predicted[0] - PAPER_PERCENTS[0], "points"));
        rows.push(row(METRICS[3], predicted[1] - PAPER_PERCENTS[1], "points"));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_shown_where_the_paper_measured() {
        let errors = |percent| -> Vec<f64> {
            let rows = of_one("model", "case", percent, [45.6, 16.8]);
            rows[2..].iter().map(|row| row.value.round()).collect()
        };
        assert_eq!(errors(50), [20.0, -10.0]);
        assert!(errors(25).is_empty());
    }
}
