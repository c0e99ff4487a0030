//! The space of an engine's tables, seen often, while the live bytes are what they are in the end.
//!
//! While the live bytes still grow there is no saying what the space should be compared with. So
//! whatever was seen is forgotten when they change: of inserts and updates after them, the updates
//! are left.

use crate::Engine;
use crate::accounting::TableDiskUsage;
use esker_base::Clock;
use std::time::Duration;

/// What was seen.
#[derive(Default)]
pub(super) struct Tables {
    live_bytes: u64,
    /// Over the looks of the load.
    sum: u128,
    looks: u64,
    peak_bytes: u64,
    /// At the last look.
    bytes: u64,
    /// Whether the load is over: then there is a peak, but no more to the mean.
    is_settling: bool,
    /// No look before this.
    next: Duration,
}

/// Looks may take so much of the time: one part in this many. A store of thousands of tables is inspected
/// at less often.
const PART: u32 = 50;

impl Tables {
    /// Looks, unless looks have taken too much of the time.
    pub(super) fn look_if_cheap(
        &mut self,
        engine: &dyn Engine,
        clock: &dyn Clock,
        live_bytes: Option<u64>,
    ) {
        let start = clock.now();
        if start < self.next {
            return;
        }
        self.look(engine, live_bytes);
        let end = clock.now();
        self.next = end + PART * end.saturating_sub(start);
    }

    /// Looks. Nothing is kept where the load can't say what is alive.
    pub(super) fn look(&mut self, engine: &dyn Engine, live_bytes: Option<u64>) {
        let Some(live_bytes) = live_bytes else { return };
        let TableDiskUsage { bytes, peak_bytes } = engine.table_space();
        if live_bytes != self.live_bytes {
            *self = Tables { live_bytes, next: self.next, ..Tables::default() };
        }
        self.bytes = bytes;
        if !self.is_settling {
            self.sum += u128::from(bytes);
            self.looks += 1;
        }
        // An engine's own peak is since it was opened: while less was alive, its tables took less.
        self.peak_bytes = self.peak_bytes.max(bytes).max(peak_bytes.unwrap_or(0));
    }

    pub(super) fn end_load(&mut self) {
        self.is_settling = true;
    }

    /// Space by live bytes.
    pub(super) fn space_amp(&self) -> Option<TableSpaceAmp> {
        let live_bytes =
            (self.live_bytes > 0 && self.looks > 0).then_some(self.live_bytes as f64)?;
        Some(TableSpaceAmp {
            mean: self.sum as f64 / self.looks as f64 / live_bytes,
            peak: self.peak_bytes as f64 / live_bytes,
            last: self.bytes as f64 / live_bytes,
        })
    }
}

/// Bytes of tables by live bytes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct TableSpaceAmp {
    /// Over the time of the load.
    pub(crate) mean: f64,
    /// The most, the compactions after the load included.
    pub(crate) peak: f64,
    /// At the last look.
    pub(crate) last: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Counting, Ticking};
    use std::sync::atomic::Ordering::Relaxed;

    fn with_bytes(bytes: u64) -> Counting {
        let engine = Counting::default();
        engine.flushed_bytes.store(bytes, Relaxed);
        engine
    }

    #[test]
    fn only_what_was_seen_since_the_live_bytes_last_grew_counts() {
        let mut tables = Tables::default();
        tables.look(&with_bytes(9_000), Some(500));
        for bytes in [1_000, 3_000] {
            tables.look(&with_bytes(bytes), Some(1_000));
        }
        let expected = TableSpaceAmp { mean: 2.0, peak: 3.0, last: 3.0 };
        assert_eq!(tables.space_amp(), Some(expected));
    }

    #[test]
    fn settling_has_a_peak_and_an_end_and_no_mean() {
        let mut tables = Tables::default();
        tables.look(&with_bytes(1_000), Some(1_000));
        tables.end_load();
        tables.look(&with_bytes(4_000), Some(1_000));
        tables.look(&with_bytes(2_000), Some(1_000));
        let expected = TableSpaceAmp { mean: 1.0, peak: 4.0, last: 2.0 };
        assert_eq!(tables.space_amp(), Some(expected));
    }

    #[test]
    fn a_peak_that_the_engine_keeps_goes_before_what_was_seen() {
        let mut tables = Tables::default();
        let engine = Counting { keeps_peak: true, ..with_bytes(1_000) };
        tables.look(&engine, Some(1_000));
        let expected = TableSpaceAmp { mean: 1.0, peak: 2.0, last: 1.0 };
        assert_eq!(tables.space_amp(), Some(expected));
    }

    #[test]
    fn nothing_is_compared_with_nothing() {
        let mut tables = Tables::default();
        tables.look(&with_bytes(1_000), None);
        tables.look(&with_bytes(1_000), Some(0));
        assert_eq!(tables.space_amp(), None);
    }

    #[test]
    fn looks_take_a_small_part_of_the_time() {
        let mut tables = Tables::default();
        // The clock ticks at each look at it: a look at the tables takes a millisecond.
        let ticks = 520;
        for _ in 0..ticks {
            tables.look_if_cheap(&with_bytes(1_000), &Ticking, Some(1_000));
        }
        assert_eq!(tables.looks, u64::from(ticks / (PART + 1)) + 1);
    }
}
