//! The range tombstones of a merge, cut into disjoint ranges that are swept along with its keys.
//!
//! Of the tombstones over a range only the newest of each snapshot stripe is kept: an older one of
//! the same stripe deletes nothing that the newer one leaves. So many tombstones over the same keys,
//! as a queue makes that is trimmed from its front, cost O(n log n) here and one tombstone in the
//! output.

use super::snapshot_stripes::SnapshotStripes;
use esker_base::range_tombstone::Fragment;
use esker_base::{RangeTombstone, Seqno};
use std::collections::{BTreeMap, BinaryHeap};

/// Fragments of range tombstones, and a place among them that only moves forward.
#[derive(Debug, Default)]
pub struct RangeDelAggregator {
    /// Disjoint, in key order; seqnos newest first, at most one a stripe.
    fragments: Vec<Fragment>,
    /// The first fragment that does not end at or before the last key entered.
    at: usize,
    /// Whether that fragment covers the key.
    covers: bool,
}

impl RangeDelAggregator {
    /// What `tombstones` cover. Empty ranges are ignored.
    pub fn new(mut tombstones: Vec<RangeTombstone>, stripes: &SnapshotStripes) -> Self {
        tombstones.retain(|tombstone| tombstone.start < tombstone.end);
        tombstones.sort_unstable_by(|a, b| a.start.cmp(&b.start));
        let mut cuts: Vec<&[u8]> =
            tombstones.iter().flat_map(|t| [&t.start[..], &t.end[..]]).collect();
        cuts.sort_unstable();
        cuts.dedup();

        let mut fragments: Vec<Fragment> = Vec::new();
        let mut waiting = tombstones.iter().peekable();
        // By stripe, the open tombstones, newest on top.
        let mut open: BTreeMap<usize, BinaryHeap<(Seqno, &[u8])>> = BTreeMap::new();
        for pair in cuts.windows(2) {
            while let Some(tombstone) = waiting.next_if(|t| &t.start[..] <= pair[0]) {
                let stripe = open.entry(stripes.of(tombstone.seqno)).or_default();
                stripe.push((tombstone.seqno, &tombstone.end));
            }
            let seqnos = newest_of_each(&mut open, pair[0]);
            match fragments.last_mut() {
                _ if seqnos.is_empty() => {}
                Some(last) if last.end == pair[0] && last.seqnos == seqnos => {
                    last.end = pair[1].to_vec();
                }
                _ => {
                    let (start, end) = (pair[0].to_vec(), pair[1].to_vec());
                    fragments.push(Fragment { start, end, seqnos });
                }
            }
        }
        RangeDelAggregator { fragments, at: 0, covers: false }
    }

    /// Whether there is no tombstone.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// Moves to `key`, which is not before the last one.
    #[inline]
    pub fn enter(&mut self, key: &[u8]) {
        while let Some(fragment) = self.fragments.get(self.at) {
            if &fragment.end[..] > key {
                self.covers = &fragment.start[..] <= key;
                return;
            }
            self.at += 1;
        }
        self.covers = false;
    }

    /// Whether a tombstone deletes the version `seqno` of the key entered, for every reader that
    /// sees the version: so it must be of the same stripe, which ends at `last_of_stripe`.
    #[inline]
    pub fn deletes(&self, seqno: Seqno, last_of_stripe: Seqno) -> bool {
        self.covers && {
            let seqnos = &self.fragments[self.at].seqnos;
            seqnos.iter().find(|&&newest| newest <= last_of_stripe).is_some_and(|&it| it > seqno)
        }
    }

    /// The tombstones within `[from, to)`, cut at these bounds.
    pub fn within<'a>(
        &'a self,
        from: Option<&'a [u8]>,
        to: Option<&'a [u8]>,
    ) -> impl Iterator<Item = RangeTombstone> + 'a {
        let first = from.map_or(0, |from| self.fragments.partition_point(|f| &f.end[..] <= from));
        let until = move |f: &&Fragment| to.is_none_or(|to| &f.start[..] < to);
        self.fragments[first..].iter().take_while(until).flat_map(move |fragment| {
            let start = from.map_or(&fragment.start[..], |from| from.max(&fragment.start));
            let end = to.map_or(&fragment.end[..], |to| to.min(&fragment.end));
            fragment.seqnos.iter().map(|&seqno| RangeTombstone {
                start: start.to_vec(),
                end: end.to_vec(),
                seqno,
            })
        })
    }
}

/// The newest open tombstone of each stripe, newest stripe first. Forgets those that end at or
/// before `key`.
fn newest_of_each(
    open: &mut BTreeMap<usize, BinaryHeap<(Seqno, &[u8])>>,
    key: &[u8],
) -> Vec<Seqno> {
    let mut seqnos = Vec::new();
    for stripe in open.values_mut().rev() {
        while stripe.peek().is_some_and(|&(_, end)| end <= key) {
            stripe.pop();
        }
        seqnos.extend(stripe.peek().map(|&(seqno, _)| seqno));
    }
    seqnos
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;

    fn random_tombstones(rng: &mut Rng) -> Vec<RangeTombstone> {
        (0..rng.below(12))
            .map(|n| {
                let (a, b) = (rng.below(20) as u8, rng.below(20) as u8);
                RangeTombstone { start: vec![a], end: vec![b], seqno: 1 + n }
            })
            .collect()
    }

    fn newest_over(tombstones: &[RangeTombstone], key: u8, from: Seqno, to: Seqno) -> Seqno {
        let covering = tombstones.iter().filter(|t| t.start[0] <= key && key < t.end[0]);
        covering.map(|t| t.seqno).filter(|seqno| (from..=to).contains(seqno)).max().unwrap_or(0)
    }

    #[test]
    fn the_newest_tombstone_of_each_stripe_is_kept_everywhere() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let all = random_tombstones(&mut rng);
            let snapshots: Vec<Seqno> = (0..rng.below(3)).map(|_| rng.below(13)).collect();
            let stripes = SnapshotStripes::new(snapshots);
            let mut coverage = RangeDelAggregator::new(all.clone(), &stripes);
            for key in 0..20 {
                coverage.enter(&[key]);
                for seqno in 0..14 {
                    let last = stripes.last_of(stripes.of(seqno));
                    let expected = newest_over(&all, key, seqno + 1, last) > 0;
                    assert_eq!(coverage.deletes(seqno, last), expected, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn cutting_at_bounds_neither_loses_nor_widens() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let all = random_tombstones(&mut rng);
            let coverage = RangeDelAggregator::new(all.clone(), &SnapshotStripes::default());
            let cuts = [rng.below(20) as u8, rng.below(20) as u8];
            let (from, to) = ([cuts[0].min(cuts[1])], [cuts[0].max(cuts[1])]);
            let parts = [(None, Some(from)), (Some(from), Some(to)), (Some(to), None)];
            for (from, to) in parts {
                let (from, to) = (from.as_ref().map(|k| &k[..]), to.as_ref().map(|k| &k[..]));
                let part: Vec<_> = coverage.within(from, to).collect();
                for key in 0..20u8 {
                    let inside = from.is_none_or(|from| from <= &[key][..])
                        && to.is_none_or(|to| &[key][..] < to);
                    let expected = if inside { newest_over(&all, key, 1, 99) } else { 0 };
                    assert_eq!(newest_over(&part, key, 1, 99), expected, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn nested_tombstones_of_one_stripe_become_few() {
        let nested = (1..=1000u64).map(|n| RangeTombstone {
            start: vec![0],
            end: n.to_be_bytes().to_vec(),
            seqno: n,
        });
        let coverage = RangeDelAggregator::new(nested.collect(), &SnapshotStripes::default());
        assert_eq!(coverage.within(None, None).count(), 1);
    }
}
