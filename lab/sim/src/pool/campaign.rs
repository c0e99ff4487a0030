//! Crashes of pools in many histories of every kind.

use super::{Seen, frames, whole};
use std::fmt;

/// Images of the write path that are inspected after each event of a history.
const FRAMES_MOST: u64 = 1024;
/// The same of the whole engine, which takes longer to open.
const WHOLE_MOST: u64 = 8;
/// One seed in so many gives the whole engine a history too.
const WHOLE_EVERY: u64 = 4;
/// One in so many has two writers overlap in a history of small frames: 65,536 images a point in time.
const OVERLAPPING_EVERY: u64 = 64;

/// What was inspected, by kind of history.
#[derive(Clone, Copy, Default, Debug, serde::Serialize)]
pub struct Totals {
    /// The write path, sampled where there are too many images.
    pub frames: Seen,
    /// The write path with small frames, every image.
    pub small_frames: Seen,
    /// The whole engine, sampled.
    pub whole: Seen,
}

impl Totals {
    /// Images of the points in time that have too many to inspect each.
    pub fn sampled(&self) -> u64 {
        self.frames.sampled + self.whole.sampled
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the write path: {}", self.frames)?;
        writeln!(f, "the write path, small frames: {}", self.small_frames)?;
        writeln!(f, "the whole engine: {}", self.whole)?;
        let all = self.frames.images + self.whole.images + self.small_frames.images;
        write!(f, "{all} images, {} of them sampled, and none is wrong", self.sampled())
    }
}

/// Crashes the histories of `first_seed` and those after it, until so many `images` were sampled. After
/// each seed `progress` is called. `Err` says what is wrong with an image.
pub fn run(
    images: u64,
    first_seed: u64,
    mut progress: impl FnMut(&Totals),
) -> Result<Totals, String> {
    let mut totals = Totals::default();
    for seed in first_seed.. {
        if totals.sampled() >= images {
            break;
        }
        totals.frames += frames::crash_everywhere(seed, FRAMES_MOST, None)?;
        let writers = 1 + u64::from(seed.is_multiple_of(OVERLAPPING_EVERY));
        totals.small_frames += frames::enumerate(seed, writers)?;
        if seed.is_multiple_of(WHOLE_EVERY) {
            totals.whole += whole::crash_everywhere(seed, WHOLE_MOST)?;
        }
        progress(&totals);
    }
    Ok(totals)
}
