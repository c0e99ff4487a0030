//! How much the experiment measures, at either scale.

use super::super::Scale;
use crate::bench::plan::Probe;
use std::time::Duration;

/// The sizes of a run. Everything fits into the engines' memory, for warm reads are what is compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) rounds: u32,
    pub(super) memory_bytes: usize,
    pub(super) segment_bytes: usize,
    /// Of YCSB.
    pub(super) records: u64,
    /// Of a YCSB workload.
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
    pairs_of_100_b: u64,
    pairs_of_1_kb: u64,
    pops: u64,
    overwrites: u64,
    /// The most time of the queue and of the overwrites.
    limit: Duration,
}

impl Sizes {
    pub(super) fn of(scale: Scale) -> Sizes {
        match scale {
            Scale::Quick => Sizes {
                rounds: 3,
                memory_bytes: 256 << 20,
                segment_bytes: 8 << 20,
                records: 20_000,
                duration: Duration::from_millis(300),
                warm_up: Duration::from_millis(100),
                pairs_of_100_b: 100_000,
                pairs_of_1_kb: 20_000,
                pops: 20_000,
                overwrites: 100_000,
                limit: Duration::from_secs(2),
            },
            Scale::Full => Sizes {
                rounds: 5,
                memory_bytes: 2 << 30,
                segment_bytes: 64 << 20,
                records: 300_000,
                duration: Duration::from_secs(20),
                warm_up: Duration::from_secs(5),
                pairs_of_100_b: 1_000_000,
                pairs_of_1_kb: 300_000,
                pops: 2_000_000,
                overwrites: 5_000_000,
                limit: Duration::from_secs(120),
            },
        }
    }

    /// The cases that are no workload of YCSB.
    pub(super) fn probes(&self) -> [(&'static str, Probe); 4] {
        let (limit, pops, writes) = (self.limit, self.pops, self.overwrites);
        [
            ("100b", Probe::Pairs { pairs: self.pairs_of_100_b, value_bytes: 100 }),
            ("1kb", Probe::Pairs { pairs: self.pairs_of_1_kb, value_bytes: 1_000 }),
            ("queue", Probe::Queue { pops, limit }),
            ("hot", Probe::HotKey { writes, limit }),
        ]
    }

    /// The sizes by name, for the report.
    pub(super) fn named(&self) -> [(&'static str, String); 7] {
        [
            ("pairs of 100 B", self.pairs_of_100_b.to_string()),
            ("pairs of 1 KB", self.pairs_of_1_kb.to_string()),
            ("records", self.records.to_string()),
            ("duration_seconds", self.duration.as_secs_f64().to_string()),
            ("pops", self.pops.to_string()),
            ("overwrites", self.overwrites.to_string()),
            ("limit_seconds", self.limit.as_secs_f64().to_string()),
        ]
    }
}
