//! The samples of the last minutes, for the curves of the page.

use super::super::top::sample::Sample;
use serde_json::{Value as Json, json};
use std::collections::VecDeque;

/// Ten minutes of one a second.
const KEPT: usize = 600;

/// Samples, each with a number, from 1.
#[derive(Default)]
pub struct History {
    samples: VecDeque<Json>,
    last: u64,
}

impl History {
    pub fn add(&mut self, sample: &Sample) {
        self.last += 1;
        let share = sample.hit_share("esker_cache_hits_total", "esker_cache_misses_total");
        self.samples.push_back(json!({
            "number": self.last,
            "calls": sample.calls_json(),
            "written": sample.rate("esker_written_bytes_total"),
            "flushed": sample.rate("esker_flush_bytes_total"),
            "compacted": sample.rate("esker_compaction_bytes_total"),
            "stalled": sample.rate("esker_stalled_seconds_total"),
            "cache_hits": share,
        }));
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
    }

    /// The samples after the one with this number.
    pub fn after(&self, number: u64) -> Vec<&Json> {
        self.samples.iter().filter(|it| it["number"].as_u64() > Some(number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::stats::LiveStatus;
    use std::time::Duration;

    #[test]
    fn the_latest_samples_are_kept_and_numbered() {
        let status = |seconds| {
            let mut status = LiveStatus::default();
            status.at = Duration::from_secs(seconds);
            status
        };
        let sample = Sample::between(&status(1), status(2)).unwrap();
        let mut history = History::default();
        assert!(history.after(0).is_empty());
        (0..700).for_each(|_| history.add(&sample));
        let numbers = |after| -> Vec<u64> {
            history.after(after).iter().map(|it| it["number"].as_u64().unwrap()).collect()
        };
        assert_eq!((numbers(0).len(), numbers(0)[0]), (KEPT, 101));
        assert_eq!(numbers(698), [699, 700]);
        assert_eq!(numbers(700), [] as [u64; 0]);
    }
}
