//! Range deletes, cut into fragments that can be searched.
//!
//! A range tombstone deletes every version of the keys in `[start, end)` that is older than its
//! seqno. Tombstones overlap as they please; a [`FragmentedTombstones`] list cuts them at each
//! other's ends, so that its fragments are disjoint and sorted and each carries the seqnos, newest
//! first, of all tombstones that cover it. A lookup is then one binary search: O(log n).

use crate::Seqno;

/// A delete of all keys in `[start, end)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeTombstone {
    /// The first key deleted.
    pub start: Vec<u8>,
    /// The first key not deleted. Greater than `start`.
    pub end: Vec<u8>,
    /// Versions with a lower seqno are deleted.
    pub seqno: Seqno,
}

/// A range of keys that the same tombstones cover.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The first key covered.
    pub start: Vec<u8>,
    /// The first key not covered.
    pub end: Vec<u8>,
    /// The covering tombstones' seqnos, newest first, without repeats. Never empty.
    pub seqnos: Vec<Seqno>,
}

impl Fragment {
    /// The newest tombstone here that a reader at `snapshot` sees, or 0.
    fn newest_at(&self, snapshot: Seqno) -> Seqno {
        let newer = self.seqnos.partition_point(|&seqno| seqno > snapshot);
        self.seqnos.get(newer).copied().unwrap_or(0)
    }
}

/// An immutable, searchable set of range tombstones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FragmentedTombstones {
    fragments: Vec<Fragment>,
}

impl FragmentedTombstones {
    /// Fragments `tombstones`. Empty ranges are ignored. O(n log n) for disjoint tombstones, O(n²)
    /// when all overlap.
    pub fn new(tombstones: impl IntoIterator<Item = RangeTombstone>) -> Self {
        let tombstones: Vec<_> =
            tombstones.into_iter().filter(|tombstone| tombstone.start < tombstone.end).collect();
        let mut cuts: Vec<&[u8]> =
            tombstones.iter().flat_map(|t| [&t.start[..], &t.end[..]]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut by_start: Vec<&RangeTombstone> = tombstones.iter().collect();
        by_start.sort_unstable_by(|a, b| a.start.cmp(&b.start));

        let mut fragments: Vec<Fragment> = Vec::new();
        let mut open: Vec<&RangeTombstone> = Vec::new();
        let mut waiting = by_start.into_iter().peekable();
        for pair in cuts.windows(2) {
            open.retain(|tombstone| &tombstone.end[..] > pair[0]);
            while let Some(tombstone) = waiting.next_if(|t| &t.start[..] <= pair[0]) {
                open.push(tombstone);
            }
            let mut seqnos: Vec<Seqno> = open.iter().map(|tombstone| tombstone.seqno).collect();
            seqnos.sort_unstable_by(|a, b| b.cmp(a));
            seqnos.dedup();
            if seqnos.is_empty() {
                continue;
            }
            match fragments.last_mut() {
                Some(last) if last.end == pair[0] && last.seqnos == seqnos => {
                    last.end = pair[1].to_vec();
                }
                _ => fragments.push(Fragment {
                    start: pair[0].to_vec(),
                    end: pair[1].to_vec(),
                    seqnos,
                }),
            }
        }
        FragmentedTombstones { fragments }
    }

    /// Whether there is no tombstone.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments, disjoint and in key order.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The seqno of the newest tombstone over `key` that a reader at `snapshot` sees, or 0: a
    /// version of `key` with a lower seqno is deleted.
    #[inline]
    pub fn covering(&self, key: &[u8], snapshot: Seqno) -> Seqno {
        if self.fragments.is_empty() {
            return 0;
        }
        let after = self.fragments.partition_point(|fragment| &fragment.start[..] <= key);
        match after.checked_sub(1).map(|at| &self.fragments[at]) {
            Some(fragment) if key < &fragment.end[..] => fragment.newest_at(snapshot),
            _ => 0,
        }
    }

    /// The tombstones that these fragments stand for, one a fragment and seqno.
    pub fn tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(|fragment| {
            fragment.seqnos.iter().map(|&seqno| RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                seqno,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn tombstone(start: u8, end: u8, seqno: Seqno) -> RangeTombstone {
        RangeTombstone { start: vec![start], end: vec![end], seqno }
    }

    #[test]
    fn fragments_agree_with_a_scan_of_all_tombstones() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let all: Vec<_> = (0..rng.below(12))
                .map(|n| tombstone(rng.below(20) as u8, rng.below(20) as u8, 1 + n))
                .collect();
            let list = FragmentedTombstones::new(all.clone());
            for key in 0..20u8 {
                for snapshot in 0..14 {
                    let expected = all
                        .iter()
                        .filter(|t| t.start[0] <= key && key < t.end[0] && t.seqno <= snapshot)
                        .map(|t| t.seqno)
                        .max()
                        .unwrap_or(0);
                    assert_eq!(list.covering(&[key], snapshot), expected, "seed {seed}");
                }
            }
            let again = FragmentedTombstones::new(list.tombstones());
            assert_eq!(again, list, "seed {seed}: fragmenting fragments changes nothing");
        }
    }

    #[test]
    fn an_empty_list_covers_nothing() {
        assert_eq!(FragmentedTombstones::default().covering(b"k", 9), 0);
    }
}
