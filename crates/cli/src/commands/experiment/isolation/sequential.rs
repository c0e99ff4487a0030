//! Sequential reads and writes in one mix, on a conventional device that was fitted to its pure rates.

use super::rows::Rows;
use super::{SEED, Sizes, row};
use esker_flash::Preset;
use esker_flash::trial::Mix;

/// The device.
pub(super) const PRESET: &str = "samsung-960-pro";

/// Requests outstanding. The paper does not say how many.
const DEPTHS: [u32; 4] = [4, 8, 16, 32];
/// Reads of a hundred requests.
const READ_PERCENTS: [u32; 7] = [100, 90, 75, 50, 25, 10, 0];

pub(super) const METRICS: [&str; 2] = ["reads_percent_of_pure", "writes_percent_of_pure"];

pub(super) const ABOUT: &str = "\
    Sequential requests of 64 KiB, each a read with the case's probability. The model was fitted to the \
    data sheet's pure rates alone, so the mixed points are predictions. Engines are the model at so many \
    requests outstanding, which the paper does not tell.";

pub(super) fn run(sizes: &Sizes, rows: &mut Rows) {
    let preset = Preset::named(PRESET).expect("it comes with the program");
    for depth in DEPTHS {
        let run = |percent: u32| {
            let read_share = f64::from(percent) / 100.0;
            let measured_ns = sizes.measured_ns;
            Mix { preset: preset.clone(), depth, read_share, measured_ns, seed: SEED }.run()
        };
        let (pure_read, pure_written) = (run(100).read, run(0).written);
        for percent in READ_PERCENTS {
            let mixed = run(percent);
            let engine = format!("model-depth-{depth}");
            let case = format!("{PRESET}/reads-{percent}%");
            let parts = [mixed.read / pure_read, mixed.written / pure_written];
            let of_one = METRICS.into_iter().zip(parts);
            let of_one =
                of_one.map(|(metric, part)| row(&engine, &case, metric, part * 100.0, "%"));
            rows.add(of_one.collect());
        }
    }
}
