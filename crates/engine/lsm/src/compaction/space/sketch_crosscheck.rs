//! Checks the estimated overlap of tables by a second, independent count.
//!
//! Estimates use the tables' samples of key hashes. Each table also has a mergeable counter of its
//! distinct keys. The distinct keys of all tables by the counters, divided by the keys counted in
//! each, should equal the share that the samples give. Samples contain hashes that start with
//! zeros, which fall into a few of a counter's 4,096 registers. The two are thus nearly independent
//! except for the hash, and a truncated or misattributed sample is detected.
//!
//! The counters can only check. They estimate overwrites no better than samples do. They do not
//! know the sizes of values, the deletes, or what a snapshot keeps.

use crate::version::derived::GarbageEstimate;
use esker_table::{Hll, OverlapEstimator};

/// Counts may differ by so many standard errors: randomness alone makes them differ by more once in 16,000.
const ERRORS_MAX: f64 = 4.0;

/// The counters of some tables, merged.
#[derive(Default)]
pub(in crate::compaction) struct SketchCrossCheck {
    counter: Hll,
    /// Distinct keys, counted in each table.
    keys: u64,
}

impl SketchCrossCheck {
    pub fn add(&mut self, keys: u64, counter: &Hll) {
        self.keys += keys;
        self.counter.merge(counter);
    }

    /// By what factor the share of distinct keys is another than that of the samples in `overlay`. 1 if
    /// it is the same, as far as both can show.
    pub fn factor(&self, overlay: &OverlapEstimator) -> f64 {
        if self.keys == 0 || self.counter == Hll::default() {
            return 1.0;
        }
        let counted = (self.counter.estimate() / self.keys as f64).min(1.0);
        // An estimate thinks that everything stays of what it has no samples of.
        let (sampled, error) =
            overlay.distinct_share().map_or((1.0, 0.0), |it| (it.value, it.error));
        let factor = counted / sampled;
        let tolerance = ERRORS_MAX * Hll::ERROR.hypot(error);
        if (factor - 1.0).abs() <= tolerance { 1.0 } else { factor }
    }
}

impl GarbageEstimate {
    /// Whether the counters of distinct keys contradict the samples.
    pub fn sketches_disagree(&self) -> bool {
        self.second_count != 1.0
    }

    /// The most that may stay, whichever count is right.
    pub fn most(&self) -> GarbageEstimate {
        self.counted(self.second_count.max(1.0))
    }

    /// The least that may stay.
    pub fn least(&self) -> GarbageEstimate {
        self.counted(self.second_count.min(1.0))
    }

    fn counted(&self, factor: f64) -> GarbageEstimate {
        let scale = |bytes: f64| (bytes * factor).min(self.bytes.max(bytes));
        GarbageEstimate {
            live_bytes: scale(self.live_bytes),
            kept_bytes: scale(self.kept_bytes),
            live_keys: self.live_keys * factor,
            ..*self
        }
    }
}
