//! How long the filter fingerprints of a new table are.
//!
//! A get asks the filter of every run that is over its key, and each false positive costs a look
//! into a table, from whichever run it comes. But a bit more of fingerprint, which halves a filter's
//! false positives, costs little in a small run and much in a large one. So a budget of bits goes
//! furthest if false positives are in proportion to the runs' sizes (Dayan, Athanassoulis and Idreos,
//! "Monkey", SIGMOD 2017): a run of half the keys has one bit more a key.
//!
//! ```text
//! fingerprint bits of a run = base + log2(keys of all runs / keys of the run), rounded down
//! ```
//!
//! where `base` is the highest that keeps all runs together within the keyspace's `filter_bits` a key,
//! were they written now. They were not: a table keeps the filter that it was written with while the
//! tree changes around it. So what a run has beyond that of one alone is bounded by what the others
//! left of the budget.
//!
//! Only runs over the new table's keys count. So tables written in key order, which may be moved down
//! as they are, are taken for what they will be: parts of one run.
//!
//! A filter is reckoned at [`FILTER_PLACES_PER_KEY`], which that of a small table exceeds.

use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, TableHandle, TableId};
use esker_table::{FILTER_PLACES_PER_KEY, FINGERPRINT_BITS_MAX};
use std::collections::HashSet;

/// The fingerprint bits of a flush of `versions` versions within `span`.
pub(crate) fn of_flush(keyspace: &KeyspaceVersion, versions: u64, span: &KeyBounds) -> u8 {
    let around = PeerRuns::of(keyspace, span, None, &HashSet::new());
    fingerprint_bits(keyspace.settings.filter_bits, versions as f64, &around.others)
}

/// The fingerprint bits of what a compaction writes: `kept` versions within `span`, to the run `joins` of a level,
/// instead of `inputs`.
pub(crate) fn of_compaction(
    keyspace: &KeyspaceVersion,
    span: &KeyBounds,
    joins: (usize, u64),
    inputs: &HashSet<TableId>,
    kept: f64,
) -> u8 {
    let around = PeerRuns::of(keyspace, span, Some(joins), inputs);
    let keys = around.joined.keys + kept;
    fingerprint_bits(keyspace.settings.filter_bits, keys, &around.others)
}

/// The fingerprint bits of a run with no others around it.
pub(crate) fn of_run_alone(filter_bits: u8) -> u8 {
    alone(filter_bits).floor() as u8
}

/// A run next to others, or what stays of it.
#[derive(Clone, Copy, Default, Debug)]
struct PeerRun {
    /// Its versions, which may be somewhat more.
    keys: f64,
    /// The fingerprint bits of all.
    bits: f64,
}

impl PeerRun {
    /// Adds a table, of which so many bits a key are `expected` as long as it is not open.
    fn add(&mut self, table: &TableHandle, expected: f64) {
        let properties = table.opened().map(|table| table.properties());
        let bits = properties.map_or(expected, |it| f64::from(it.fingerprint_bits));
        self.keys += table.meta.entries as f64;
        self.bits += table.meta.entries as f64 * bits;
    }
}

/// The runs that a new table will be among.
#[derive(Default)]
struct PeerRuns {
    /// The run that it joins.
    joined: PeerRun,
    /// Others that have something in its range.
    others: Vec<PeerRun>,
}

impl PeerRuns {
    fn of(
        keyspace: &KeyspaceVersion,
        span: &KeyBounds,
        joins: Option<(usize, u64)>,
        leaving: &HashSet<TableId>,
    ) -> Self {
        let mut around = PeerRuns::default();
        let expected = alone(keyspace.settings.filter_bits);
        let levels = keyspace.levels.iter().enumerate();
        for (level, run) in levels.flat_map(|(n, level)| level.runs.iter().map(move |run| (n, run)))
        {
            let stay = || run.tables().iter().filter(|table| !leaving.contains(&table.meta.id));
            let mut beside = PeerRun::default();
            stay().for_each(|table| beside.add(table, expected));
            if joins == Some((level, run.id)) {
                around.joined = beside;
            } else if stay().any(|table| span.overlaps_table(&table.meta)) {
                around.others.push(beside);
            }
        }
        around
    }
}

/// The bits of a fingerprint that `filter_bits` bits of filter a key pay for.
fn alone(filter_bits: u8) -> f64 {
    f64::from(filter_bits) / FILTER_PLACES_PER_KEY
}

/// The fingerprint bits of a run of `keys` keys next to `others`, for `filter_bits` bits of filter a
/// key in the mean over all.
fn fingerprint_bits(filter_bits: u8, keys: f64, others: &[PeerRun]) -> u8 {
    let keys = keys.max(1.0);
    let all = keys + others.iter().map(|other| other.keys).sum::<f64>();
    let alone = alone(filter_bits);
    let left = alone * all - others.iter().map(|other| other.bits).sum::<f64>();
    let most = (left / keys).max(alone).floor();
    proportional(alone * all, all, keys, others).min(most) as u8
}

/// The fingerprint bits of a run of `keys` keys, if it and `others` share `budget` bits in proportion.
fn proportional(budget: f64, all: f64, keys: f64, others: &[PeerRun]) -> f64 {
    /// Bases are tried in steps of this many to a bit.
    const STEPS: i32 = 8;
    const MOST: i32 = FINGERPRINT_BITS_MAX as i32;
    let length = |keys: f64, base: f64| {
        let bits = base + (all / keys).log2();
        bits.floor().clamp(0.0, f64::from(MOST))
    };
    let sizes = || others.iter().map(|other| other.keys).chain([keys]).filter(|keys| *keys > 0.0);
    let cost = |base| sizes().map(|keys| keys * length(keys, base)).sum::<f64>();
    let bases = (-MOST * STEPS..=MOST * STEPS).rev();
    let mut bases = bases.map(|step| f64::from(step) / f64::from(STEPS));
    let base = bases.find(|&base| cost(base) <= budget);
    base.map_or(0.0, |base| length(keys, base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::version_edit::tests::sample_table;
    use crate::options::settings::KeyspaceSettings;
    use crate::version::{Run, TableMeta};
    use esker_base::KeyspaceId;
    use std::sync::Arc;

    /// The lengths for all of `runs`, if they are written one after the other into a tree where all
    /// others have theirs.
    fn lengths(filter_bits: u8, runs: &[f64]) -> Vec<u8> {
        let mut tree: Vec<PeerRun> = runs.iter().map(|&keys| PeerRun { keys, bits: 0.0 }).collect();
        let lengths = (0..runs.len()).map(|_| {
            let run = tree.remove(0);
            let length = fingerprint_bits(filter_bits, run.keys, &tree);
            tree.push(PeerRun { bits: run.keys * f64::from(length), ..run });
            length
        });
        lengths.collect()
    }

    #[test]
    fn beside_tables_that_are_not_open_a_run_has_what_one_alone_has() {
        let meta = TableMeta { entries: 1_000_000, ..sample_table(1) };
        let span = KeyBounds::of_table(&meta);
        let settings = KeyspaceSettings::default().filter_bits(10);
        let mut keyspace = KeyspaceVersion::new(KeyspaceId::DEFAULT, "k".into(), settings);
        let run = Run::new(1, vec![TableHandle::detached(meta)]);
        keyspace.levels[1].runs.push(Arc::new(run));
        assert_eq!(of_flush(&keyspace, 100_000, &span), 8, "it would be 12 if they had no filters");
    }

    /// Trees as they come: fully compacted, leveled, of equal runs, of a space goal, and at random.
    fn trees() -> Vec<Vec<f64>> {
        let mut trees = vec![
            vec![1e6],
            vec![1e9, 1e8, 1e7, 1e6, 2e5, 2e5, 2e5],
            vec![5e5; 16],
            [&[2e7][..], &[2e5; 15]].concat(),
            vec![1.0, 1e12],
        ];
        let mut rng = esker_base::Rng::new(1);
        for runs in 1..40 {
            trees.push((0..runs).map(|_| f64::powi(2.0, rng.below(40) as i32)).collect());
        }
        trees
    }

    #[test]
    fn a_run_alone_has_what_the_budget_pays_for() {
        let alone = |filter_bits| fingerprint_bits(filter_bits, 1e6, &[]);
        assert_eq!([0, 1, 2, 5, 8, 9, 10, 18, 32].map(alone), [0, 0, 1, 4, 7, 8, 8, 16, 28]);
    }

    #[test]
    fn each_doubling_of_a_run_takes_a_bit() {
        assert_eq!(lengths(10, &[1e6, 5e5, 2.5e5, 1e6 / 1024.0]), [8, 9, 10, 18]);
    }

    #[test]
    fn a_larger_run_never_has_longer_fingerprints() {
        for tree in trees() {
            let lengths = lengths(10, &tree);
            let mut sorted: Vec<(&f64, u8)> = tree.iter().zip(lengths).collect();
            sorted.sort_by(|a, b| a.partial_cmp(b).expect("sizes are numbers"));
            assert!(sorted.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{sorted:?}");
        }
    }

    #[test]
    fn the_mean_is_within_the_budget_and_near_it() {
        for tree in trees() {
            for filter_bits in [0, 1, 2, 5, 8, 10, 18, 32] {
                let lengths = lengths(filter_bits, &tree);
                let bits = tree.iter().zip(&lengths).map(|(keys, &bits)| keys * f64::from(bits));
                let keys: f64 = tree.iter().sum();
                let mean = bits.sum::<f64>() * FILTER_PLACES_PER_KEY / keys;
                let context = format!("{mean} of {filter_bits}: {lengths:?} for {tree:?}");
                assert!(mean <= f64::from(filter_bits) + 1e-9, "{context}");
                // Rounding, of a run that may have nearly all keys, or of many alike.
                assert!(mean > f64::from(filter_bits).min(28.0) - 2.0, "{context}");
            }
        }
    }

    #[test]
    fn what_others_spent_is_not_spent_again() {
        let base = PeerRun { keys: 1e6, bits: 8e6 };
        let small = |bits: f64| PeerRun { keys: 1e5, bits: 1e5 * bits };
        let beside = |others: &[PeerRun]| fingerprint_bits(10, 1e5, others);
        assert_eq!(beside(&[base]), 12, "in proportion");
        assert_eq!(beside(&[base, small(12.0), small(12.0), small(11.0)]), 9, "what is left");
        assert_eq!(beside(&[PeerRun { bits: 16e6, ..base }]), 8, "what one alone has, at least");
    }

    #[test]
    fn false_positives_are_fewer_than_with_one_length_for_all() {
        let tree = [&[2e7][..], &[2e5; 15]].concat();
        let expected =
            |bits: &[u8]| -> f64 { bits.iter().map(|&b| f64::powi(0.5, b.into())).sum() };
        assert!(expected(&lengths(10, &tree)) < 0.2 * expected(&[8; 16]));
    }
}
