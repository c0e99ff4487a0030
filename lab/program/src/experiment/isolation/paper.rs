//! What the paper on read/write isolation reports, next to what comes out here.

use super::{policies, sequential};
use esker_bench::results::{Figure, Published};

const SOURCE: &str = "H. Lim, H. Y. Yeom, Y. Son, LSM-tree based Database System Optimization through \
                      Read/Write Isolation";

const ABOUT: &str = "\
    It measures a Samsung 960 Pro with fio, and an open-channel device with a modelled load, reads and \
    writes half and half, and does not say how many requests are outstanding. Here both are models, and \
    the open-channel device's load is the one at which shared units lose as much as in the paper.";

/// Its figures: the system there, its words, the engine and the case here, the metric.
const SAID: [[&str; 5]; 4] = [
    [
        "960 Pro, half reads",
        "25.6",
        "model-depth-16",
        "samsung-960-pro/reads-50%",
        sequential::METRICS[0],
    ],
    [
        "960 Pro, half reads",
        "26.8",
        "model-depth-16",
        "samsung-960-pro/reads-50%",
        sequential::METRICS[1],
    ],
    ["units shared", "up to 51", "shared", "cnex-mlc/12.5%/host-only", policies::METRICS[0]],
    [
        "half of the units for each",
        "9 to 31",
        "halves",
        "cnex-mlc/12.5%/host-only",
        policies::METRICS[0],
    ],
];

pub(super) fn published() -> Vec<Published> {
    let figure = |said: &[&str; 5]| {
        let [system, words, engine, case, metric] = said.map(str::to_owned);
        Figure { system, words, engine, case, metric }
    };
    let figures = SAID.iter().map(figure).collect();
    vec![Published {
        source: SOURCE.to_owned(),
        about: ABOUT.to_owned(),
        figures,
        ..Published::default()
    }]
}
