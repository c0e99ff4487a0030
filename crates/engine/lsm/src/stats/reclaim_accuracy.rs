//! How well compactions were judged before they were done: what they were expected to free, by the samples
//! of their inputs' keys, against what they freed.

/// The bounds of [`ReclaimAccuracy::by_percent`], in percent of what was freed.
pub const RECLAIM_PERCENTS: [u64; 6] = [1, 2, 5, 10, 20, 50];

/// The accuracy of the estimates of freed bytes, over all compactions since the database was
/// created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReclaimAccuracy {
    /// Compactions by the error of their estimate, relative to the bytes they freed.
    ///
    /// Entry `i` counts those with an error of at most [`RECLAIM_PERCENTS`]`[i]` percent that no
    /// entry before counts. The last entry counts all others.
    pub by_percent: [u64; RECLAIM_PERCENTS.len() + 1],
    /// The sum of the absolute errors, in bytes.
    pub off_bytes: u64,
    /// Compactions of tables whose key counters disagreed with their samples.
    pub doubtful: u64,
}

impl ReclaimAccuracy {
    /// Returns the figures of one compaction.
    pub fn of(predicted_bytes: u64, freed_bytes: u64, sketches_disagree: bool) -> Self {
        let off_bytes = predicted_bytes.abs_diff(freed_bytes);
        let within = |percent: &u64| {
            u128::from(off_bytes) * 100 <= u128::from(freed_bytes) * u128::from(*percent)
        };
        let at = RECLAIM_PERCENTS.iter().position(within).unwrap_or(RECLAIM_PERCENTS.len());
        let mut by_percent = [0; RECLAIM_PERCENTS.len() + 1];
        by_percent[at] = 1;
        ReclaimAccuracy { by_percent, off_bytes, doubtful: u64::from(sketches_disagree) }
    }

    /// All figures, in the order of the manifest's format.
    pub(crate) fn figures(&mut self) -> impl Iterator<Item = &mut u64> {
        self.by_percent.iter_mut().chain([&mut self.off_bytes, &mut self.doubtful])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_compaction_is_counted_by_how_far_off_it_was() {
        let place = |predicted, freed| {
            let errors = ReclaimAccuracy::of(predicted, freed, false);
            assert_eq!(errors.off_bytes, u64::abs_diff(predicted, freed));
            errors.by_percent.iter().position(|&count| count == 1).unwrap()
        };
        let places =
            [(1000, 1000), (990, 1000), (1020, 1000), (949, 1000), (1200, 1000), (400, 1000)];
        assert_eq!(places.map(|(predicted, freed)| place(predicted, freed)), [0, 0, 1, 3, 4, 6]);
        assert_eq!((place(0, 0), place(1, 0)), (0, 6), "what frees nothing was right or not");
    }
}
