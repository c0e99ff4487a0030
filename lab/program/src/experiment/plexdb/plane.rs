//! The planes of writes and space, an entry for each load: its mean space, and its peak.

use super::loads::Load;
use super::sizes::Sizes;
use crate::bench::plan::Task;
use crate::failure::Outcome;
use esker_bench::results::{Line, Plane};

/// The space that the line is drawn for: from little more than what is alive to several times that.
const LEAST_SPACE: f64 = 1.01;
const MOST_SPACE: f64 = 12.0;
const POINTS: u32 = 120;

/// What is shown of `load`. The line is the same in both: ranges of keys are rewritten one after the
/// other, so that space hardly swings about its mean.
pub(super) fn planes(load: &Load, sizes: &Sizes) -> Outcome<Vec<Plane>> {
    let line = Task::Updates(load.task(sizes)).limit_line(sizes.segment_bytes)?;
    let cost = |space| Some([space, line?.write_amp(space)?]);
    let points: Vec<[f64; 2]> = spaces().filter_map(cost).collect();
    let plane = |across: &str| Plane {
        case: load.name.clone(),
        across: across.to_owned(),
        up: "table_write_amp".to_owned(),
        line: Line { name: "the limit line".to_owned(), points: points.clone() },
    };
    Ok(["table_space_amp_mean", "table_space_amp_peak"].map(plane).into())
}

/// Spaces at equal factors of what they have above the live bytes.
fn spaces() -> impl Iterator<Item = f64> {
    let (least, most) = ((LEAST_SPACE - 1.0).ln(), (MOST_SPACE - 1.0).ln());
    let step = (most - least) / f64::from(POINTS - 1);
    (0..POINTS).map(move |at| 1.0 + (least + step * f64::from(at)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_drawn_from_end_to_end() {
        let spaces: Vec<f64> = spaces().collect();
        assert!(spaces.is_sorted_by(|less, more| less < more));
        assert!((spaces[0] - LEAST_SPACE).abs() < 1e-9);
        assert!((spaces[spaces.len() - 1] - MOST_SPACE).abs() < 1e-9);
    }
}
