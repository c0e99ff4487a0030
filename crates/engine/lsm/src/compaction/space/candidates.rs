//! Candidate compactions under a space-amplification limit, from table sizes.
//!
//! A candidate starts from adjacent tables of one run of level 0, the *seed*. It adds all
//! overlapping tables of older runs, down to the run that the output joins. Each older run may
//! widen the range, which preserves the order of versions. Newer runs are not included.

use super::search_state::{BASE, SpaceSearch};
use crate::compaction::input_expansion::{InputExpansion, older_than};
use crate::version::TableHandle;
use std::sync::Arc;

/// So many tables in a row at most are a seed: more would not fit a plan.
const SEED_TABLES: usize = 6;

/// A candidate before it is a plan: its seed, and what follows from the sizes of its tables.
pub(in crate::compaction) struct Candidate<'a> {
    pub run: u64,
    pub seed: &'a [Arc<TableHandle>],
    /// What may become free, at most, for each byte written, at least.
    pub promise: f64,
    pub bytes: u64,
    /// Those of them that are in the base.
    pub base_bytes: u64,
}

impl Candidate<'_> {
    /// What it writes, at least, in bytes.
    pub fn least_written(&self) -> f64 {
        self.bytes as f64 / (1.0 + self.promise)
    }
}

/// What a candidate's tables add up to.
#[derive(Clone, Copy, Default)]
struct CandidateTotals {
    bytes: u64,
    entries: u64,
    deletes: u64,
    range_tombstones: u64,
    expired_bytes: f64,
}

impl CandidateTotals {
    fn add(&mut self, tables: &[Arc<TableHandle>], search: &SpaceSearch<'_>) {
        for table in tables {
            self.expired_bytes += search.expired_share(table) * table.meta.bytes as f64;
            self.bytes += table.meta.bytes;
            self.entries += table.meta.entries;
            self.deletes += table.meta.deletes;
            self.range_tombstones += table.meta.range_tombstones;
        }
    }
}

impl<'a> SpaceSearch<'a> {
    /// Everything from a seed in level 0 down to the base, for all seeds: those that promise most
    /// first. Of the seeds that start at a table the one is taken that promises most.
    pub(in crate::compaction) fn candidates(&self) -> Vec<Candidate<'a>> {
        let mut found = Vec::new();
        for run in &self.keyspace.levels[0].runs {
            for from in 0..run.tables().len() {
                let mut best: Option<Candidate<'_>> = None;
                for to in from + 1..=run.tables().len().min(from + SEED_TABLES) {
                    let seed = &run.tables()[from..to];
                    if self.busy.holds(&seed[seed.len() - 1]) {
                        break;
                    }
                    let candidate = self.candidate(run.id, seed);
                    let is_large = candidate.bytes > self.sizes.goal_plan_bytes();
                    let is_worse = |best: &Candidate<'_>| candidate.promise < best.promise;
                    if best.as_ref().is_some_and(|best| is_large || is_worse(best)) {
                        break;
                    }
                    best = Some(candidate);
                }
                found.extend(best);
            }
        }
        found.sort_by(|a, b| b.promise.total_cmp(&a.promise));
        found
    }

    fn candidate(&self, run: u64, seed: &'a [Arc<TableHandle>]) -> Candidate<'a> {
        let (mut above, mut base) = (CandidateTotals::default(), CandidateTotals::default());
        above.add(seed, self);
        let mut reach = InputExpansion::of(seed);
        for (level, older) in older_than(self.keyspace, 0, run) {
            let tables = reach.tables_of(older);
            reach.widen(tables);
            if level == BASE { base.add(tables, self) } else { above.add(tables, self) }
        }
        let mean = base.bytes as f64 / base.entries.max(1) as f64;
        let deleted = match above.range_tombstones {
            0 => (above.deletes as f64 * mean).min(base.bytes as f64),
            _ => base.bytes as f64,
        };
        let bytes = above.bytes + base.bytes;
        let of_base = (deleted + base.expired_bytes).min(base.bytes as f64);
        let freed = above.bytes as f64 + of_base;
        let promise = freed / (bytes as f64 - freed).max(1.0);
        Candidate { run, seed, promise, bytes, base_bytes: base.bytes }
    }
}
