//! What becomes of each version in a flush or a merge.
//!
//! A fold is fed versions in the engine's order, so each key's come newest first, and answers for
//! each whether it stays. A version goes when no reader, present or at a snapshot, can see it:
//!
//! 1. a newer version of the key is in the same snapshot stripe, or
//! 2. a newer range tombstone of the same stripe covers it;
//!
//! and, where nothing older is below the output (`bottommost`):
//!
//! 3. a delete of the oldest stripe goes, for by 1 everything it deletes has gone,
//! 4. a range tombstone of the oldest stripe goes, for by 2 everything it deletes has gone,
//! 5. a put of the oldest stripe gets seqno 0, which takes one byte on disk. Not so in a keyspace with
//!    a merge operator: a repair could not identify the operands in the value.
//!
//! Deletes of later stripes stay even if they delete nothing: the holder of a snapshot can find out
//! what was written since (`changed`).
//!
//! An expiring put is a put until it expires, and a delete from then on.
//!
//! The compaction filter of the keyspace is asked about a value that stays, if no snapshot sees it. What
//! the filter drops becomes a delete with the same seqno: so it hides what it hid.
//!
//! An operand does not hide the versions below it, as rule 1 has it: `operand_output` folds it with
//! those of its stripe.

use super::range_del_aggregator::RangeDelAggregator;
use super::snapshot_stripes::SnapshotStripes;
use crate::fold::expiry::{At, BEHIND_EXPIRY, living};
use crate::fold::filtering::{Filtered, ValueFilter};
use crate::fold::merger::Merger;
use crate::fold::{Verdict, verdict};
use crate::version::aging::Expired;
use esker_api::FilterDecision;
use esker_base::{Kind, RangeTombstone, Seqno};

/// The fate of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It goes.
    Drop,
    /// It stays, with this seqno.
    Keep(Seqno),
    /// It is, or has become, a delete, which stays with this seqno.
    Delete(Seqno),
    /// It is an operand, and the newest version of its stripe.
    Operand,
    /// It stays, with this seqno, unless the compaction filter decides otherwise: see
    /// `VersionFilter::ask`.
    Ask(Seqno),
}

/// What the compaction filter makes of a version.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// It stays.
    Keep,
    /// It stays, with this value as it is stored.
    Replace(Vec<u8>),
    /// It becomes a delete.
    Delete,
    /// It goes.
    Drop,
}

/// Decides, version by version, what a flush or a merge keeps.
#[derive(Debug)]
pub struct VersionFilter {
    stripes: SnapshotStripes,
    bottommost: bool,
    coverage: RangeDelAggregator,
    /// The key whose versions are being judged; empty, which no key is, before the first.
    key: Vec<u8>,
    /// Whether a version of `key` stays.
    keeps_key: bool,
    /// The last key before `key` of which a version stays.
    last_kept: Vec<u8>,
    /// The stripe of the last version of `key`, or `NO_STRIPE` before the first.
    stripe: usize,
    bytes_seen: u64,
    /// The merge operator of the keyspace, if it has one.
    pub(super) merger: Option<Merger>,
    /// What has expired by then is deleted.
    pub(super) now: At,
    /// The compaction filter of the keyspace, if it is to be asked.
    filter: Option<ValueFilter>,
    filtered: Filtered,
    /// And what has by its age.
    expired: Expired,
}

const NO_STRIPE: usize = usize::MAX;

impl VersionFilter {
    /// A fold that keeps what readers at `snapshots` and at present can see. With `bottommost`
    /// nothing older than the versions to come is below the output, in their range of keys.
    pub fn new(snapshots: Vec<Seqno>, bottommost: bool) -> Self {
        VersionFilter {
            stripes: SnapshotStripes::new(snapshots),
            bottommost,
            coverage: RangeDelAggregator::default(),
            key: Vec::new(),
            keeps_key: false,
            last_kept: Vec::new(),
            stripe: NO_STRIPE,
            bytes_seen: 0,
            merger: None,
            now: At::default(),
            filter: None,
            filtered: Filtered::default(),
            expired: Expired::default(),
        }
    }

    /// The same for a keyspace with a merge operator.
    pub(crate) fn merging(mut self, merger: Option<Merger>) -> Self {
        self.merger = merger;
        self
    }

    /// The same at a time, in milliseconds since 1970-01-01.
    pub fn at(mut self, now: u64) -> Self {
        self.now = At(now);
        self
    }

    /// The same for a compaction that asks a filter.
    pub(crate) fn filtering(mut self, filter: Option<ValueFilter>) -> Self {
        self.filter = filter;
        self
    }

    /// What the compaction filter did.
    pub(crate) fn take_filtered(&mut self) -> Filtered {
        std::mem::take(&mut self.filtered)
    }

    /// The same for a keyspace of which that has expired by its age.
    pub(crate) fn aging(mut self, expired: Expired) -> Self {
        self.expired = expired;
        self
    }

    /// Counts a version of so many bytes, key and value.
    pub(crate) fn see(&mut self, bytes: u64) {
        self.bytes_seen += bytes;
    }

    /// Bytes of keys and values of all versions that came, kept or not.
    pub fn bytes_seen(&self) -> u64 {
        self.bytes_seen
    }

    /// Takes the range tombstones that travel with the versions: all of them, before the first
    /// version.
    pub fn set_tombstones(&mut self, tombstones: Vec<RangeTombstone>) {
        debug_assert!(self.key.is_empty(), "range tombstones come before the first version");
        self.coverage = RangeDelAggregator::new(tombstones, &self.stripes);
    }

    /// Whether `key` is not the key whose versions are being judged.
    #[inline]
    pub fn is_new(&self, key: &[u8]) -> bool {
        self.key != key
    }

    /// Turns to the versions of `key`, which is greater than the last one.
    #[inline]
    pub fn enter(&mut self, key: &[u8]) {
        debug_assert!(self.key[..] < *key, "keys come in order");
        if std::mem::take(&mut self.keeps_key) {
            std::mem::swap(&mut self.key, &mut self.last_kept);
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.stripe = NO_STRIPE;
        if !self.coverage.is_empty() {
            self.coverage.enter(key);
        }
    }

    /// The fate of the next version of the key entered.
    #[inline]
    pub fn judge(&mut self, seqno: Seqno, kind: Kind, value: &[u8]) -> Decision {
        let stripe = self.stripes.of(seqno);
        if stripe == self.stripe {
            return Decision::Drop;
        }
        self.stripe = stripe;
        if self.coverage.deletes(seqno, self.stripes.last_of(stripe)) {
            return Decision::Drop;
        }
        let everybody_sees_it = self.everybody_sees(stripe);
        let is_dead = match verdict(kind, || self.expired.has(seqno)) {
            Verdict::Value | Verdict::Separated => false,
            Verdict::Absent => true,
            Verdict::Operand => return Decision::Operand,
            Verdict::Expiring => living(value, &self.now).is_none(),
        };
        if is_dead && everybody_sees_it {
            return Decision::Drop;
        }
        self.keeps_key = true;
        if is_dead {
            return Decision::Delete(seqno);
        }
        let loses_seqno = self.merger.is_none() && !self.expired.keeps_seqnos;
        let seqno = if everybody_sees_it && loses_seqno { 0 } else { seqno };
        if self.asks(stripe) {
            return Decision::Ask(seqno);
        }
        Decision::Keep(seqno)
    }

    /// Whether the compaction filter is asked about the newest version of a stripe.
    #[inline]
    pub(super) fn asks(&self, stripe: usize) -> bool {
        self.filter.is_some() && self.stripes.is_unseen(stripe)
    }

    /// What the compaction filter makes of a version, of which [`VersionFilter::asks`] holds, and which is
    /// the only one of its key that stays of its stripe.
    #[cold]
    pub(super) fn ask(&mut self, key: &[u8], version: (Seqno, Kind, &[u8])) -> Asked {
        let (seqno, kind, stored) = version;
        let Some(filter) = &self.filter else { return Asked::Keep };
        let time = if kind == Kind::ExpiringPut { BEHIND_EXPIRY } else { 0 };
        let Some((time, value)) = stored.split_at_checked(time) else { return Asked::Keep };
        match filter.decide(key, value, &mut self.filtered) {
            FilterDecision::Keep => Asked::Keep,
            FilterDecision::Replace(value) => Asked::Replace([time, &value[..]].concat()),
            // A seqno of 0 says that nothing older is beneath.
            FilterDecision::Drop if seqno == 0 || self.everybody_sees(self.stripes.of(seqno)) => {
                self.keeps_key = false;
                Asked::Drop
            }
            FilterDecision::Drop => Asked::Delete,
        }
    }

    /// Whether all readers see the versions of a stripe, and nothing older is beneath.
    #[inline]
    pub(super) fn everybody_sees(&self, stripe: usize) -> bool {
        self.bottommost && stripe == 0
    }

    /// The stripe of a version, and whether a range tombstone of the stripe covers it.
    pub(super) fn stripe_of(&self, seqno: Seqno) -> (usize, bool) {
        let stripe = self.stripes.of(seqno);
        (stripe, self.coverage.deletes(seqno, self.stripes.last_of(stripe)))
    }

    /// Says that a version of the key entered stays.
    pub(super) fn keep_key(&mut self) {
        self.keeps_key = true;
    }

    /// The last key of which a version stays; empty if there is none.
    pub fn last_kept(&self) -> &[u8] {
        if self.keeps_key { &self.key } else { &self.last_kept }
    }

    /// The range tombstones that stay, cut to `[from, to)`.
    pub fn tombstones_within<'a>(
        &'a self,
        from: Option<&'a [u8]>,
        to: Option<&'a [u8]>,
    ) -> impl Iterator<Item = RangeTombstone> + 'a {
        let stays = |t: &RangeTombstone| !self.bottommost || self.stripes.of(t.seqno) > 0;
        self.coverage.within(from, to).filter(stays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::{MAX_SEQNO, Rng};

    const KEY: &[u8] = b"k";

    fn over_key(seqno: Seqno) -> RangeTombstone {
        RangeTombstone { start: b"a".to_vec(), end: b"z".to_vec(), seqno }
    }

    /// Folds one key's versions, newest first, beneath tombstones that cover it.
    fn fold(
        versions: &[(Seqno, Kind)],
        tombstones: &[Seqno],
        snapshots: &[Seqno],
        bottommost: bool,
    ) -> (Vec<(Seqno, Kind)>, Vec<Seqno>) {
        let mut fold = VersionFilter::new(snapshots.to_vec(), bottommost);
        fold.set_tombstones(tombstones.iter().map(|&seqno| over_key(seqno)).collect());
        fold.enter(KEY);
        let mut kept = Vec::new();
        for &(seqno, kind) in versions {
            match fold.judge(seqno, kind, b"") {
                Decision::Drop => {}
                Decision::Keep(seqno) => kept.push((seqno, kind)),
                Decision::Delete(seqno) => kept.push((seqno, Kind::Delete)),
                Decision::Operand | Decision::Ask(_) => unreachable!("there is none"),
            }
        }
        (kept, fold.tombstones_within(None, None).map(|t| t.seqno).collect())
    }

    const PUT: Kind = Kind::Put;
    const DELETE: Kind = Kind::Delete;

    #[test]
    fn without_snapshots_the_newest_version_stays() {
        let versions = [(9, PUT), (5, DELETE), (2, PUT)];
        assert_eq!(fold(&versions, &[], &[], false).0, [(9, PUT)]);
    }

    #[test]
    fn each_stripe_keeps_its_newest_version() {
        let versions = [(9, PUT), (8, PUT), (5, PUT), (4, PUT), (2, PUT)];
        assert_eq!(fold(&versions, &[], &[3, 5], false).0, [(9, PUT), (5, PUT), (2, PUT)]);
    }

    #[test]
    fn a_delete_above_other_data_stays() {
        assert_eq!(fold(&[(9, DELETE), (2, PUT)], &[], &[], false).0, [(9, DELETE)]);
    }

    #[test]
    fn at_the_bottom_a_delete_goes_with_all_it_hides() {
        assert_eq!(fold(&[(9, DELETE), (2, PUT)], &[], &[], true).0, []);
        assert_eq!(fold(&[(9, DELETE), (7, DELETE)], &[], &[], true).0, []);
    }

    #[test]
    fn at_the_bottom_a_delete_over_a_snapshot_s_version_stays() {
        assert_eq!(fold(&[(9, DELETE), (2, PUT)], &[], &[5], true).0, [(9, DELETE), (0, PUT)]);
        let versions = [(9, DELETE), (6, DELETE), (2, PUT)];
        assert_eq!(fold(&versions, &[], &[3, 7], true).0, [(9, DELETE), (6, DELETE), (0, PUT)]);
    }

    #[test]
    fn a_delete_that_a_snapshot_does_not_see_stays_even_if_it_hides_nothing() {
        assert_eq!(fold(&[(9, DELETE), (7, PUT)], &[], &[5], true).0, [(9, DELETE)]);
        assert_eq!(fold(&[(9, DELETE), (7, PUT)], &[], &[9], true).0, []);
    }

    #[test]
    fn seqnos_become_zero_at_the_bottom_once_every_reader_sees_them() {
        assert_eq!(fold(&[(9, PUT)], &[], &[], true).0, [(0, PUT)]);
        assert_eq!(fold(&[(9, PUT)], &[], &[9], true).0, [(0, PUT)]);
        assert_eq!(fold(&[(9, PUT)], &[], &[8], true).0, [(9, PUT)]);
        assert_eq!(fold(&[(9, PUT)], &[], &[], false).0, [(9, PUT)]);
    }

    /// Drops "drop", and replaces "old".
    struct Rules;

    impl esker_api::CompactionFilter for Rules {
        fn name(&self) -> &str {
            "rules"
        }
        fn filter(&self, _: &[u8], value: &[u8]) -> Result<FilterDecision, esker_api::FilterError> {
            Ok(match value {
                b"drop" => FilterDecision::Drop,
                b"old" => FilterDecision::Replace(b"new".to_vec()),
                _ => FilterDecision::Keep,
            })
        }
    }

    /// What becomes of versions of a key, newest first, in a keyspace with a filter.
    fn filtered(
        versions: &[(Seqno, Kind, &[u8])],
        snapshots: &[Seqno],
        bottommost: bool,
    ) -> Vec<(Seqno, Kind, Vec<u8>)> {
        let mut filters = crate::fold::compaction_filters::CompactionFilters::default();
        filters.add(std::sync::Arc::new(Rules));
        let filters =
            crate::fold::filtering::Filters::new(filters, crate::user_keys::KeyFormat::AsGiven);
        let mut fold = VersionFilter::new(snapshots.to_vec(), bottommost)
            .filtering(filters.named(Some("rules".into())));
        fold.enter(b"k");
        let mut kept = Vec::new();
        for &(seqno, kind, value) in versions {
            match fold.judge(seqno, kind, value) {
                Decision::Drop => {}
                Decision::Keep(seqno) => kept.push((seqno, kind, value.to_vec())),
                Decision::Delete(seqno) => kept.push((seqno, DELETE, Vec::new())),
                Decision::Ask(kept_as) => match fold.ask(b"k", (seqno, kind, value)) {
                    Asked::Keep => kept.push((kept_as, kind, value.to_vec())),
                    Asked::Replace(value) => kept.push((kept_as, kind, value)),
                    Asked::Delete => kept.push((seqno, DELETE, Vec::new())),
                    Asked::Drop => {}
                },
                Decision::Operand => unreachable!(),
            }
        }
        let is_kept = !kept.is_empty();
        assert_eq!(fold.last_kept() == b"k", is_kept);
        kept
    }

    #[test]
    fn a_filter_s_drop_is_a_delete_until_the_bottom() {
        let drop = (9, PUT, &b"drop"[..]);
        let older = (5, PUT, &b"older"[..]);
        let delete = (9, DELETE, Vec::new());
        assert_eq!(filtered(&[drop, older], &[], false), std::slice::from_ref(&delete));
        assert_eq!(filtered(&[drop, older], &[], true), []);
        let kept = (0, PUT, b"older".to_vec());
        assert_eq!(filtered(&[drop, older], &[7], true), [delete, kept]);
        let bottom = (0, PUT, &b"drop"[..]);
        assert_eq!(filtered(&[bottom], &[], false), [], "nothing older is beneath");
    }

    #[test]
    fn a_filter_s_value_has_the_seqno_and_the_time_of_the_old_one() {
        let (old, new) = ((9, PUT, &b"old"[..]), b"new".to_vec());
        assert_eq!(filtered(&[old], &[], false), [(9, PUT, new.clone())]);
        assert_eq!(filtered(&[old], &[], true), [(0, PUT, new)]);
        let expiring = |value: &[u8]| [&u64::MAX.to_le_bytes()[..], value].concat();
        let stored = expiring(b"old");
        let kept = filtered(&[(9, Kind::ExpiringPut, &stored)], &[], false);
        assert_eq!(kept, [(9, Kind::ExpiringPut, expiring(b"new"))]);
    }

    #[test]
    fn a_filter_is_not_asked_about_what_a_snapshot_sees() {
        for value in [&b"old"[..], b"drop"] {
            for snapshots in [&[9][..], &[4, 9], &[9, 30]] {
                let kept = filtered(&[(9, PUT, value)], snapshots, false);
                assert_eq!(kept, [(9, PUT, value.to_vec())]);
            }
            assert_ne!(filtered(&[(9, PUT, value)], &[8], false), [(9, PUT, value.to_vec())]);
        }
    }

    #[test]
    fn a_tombstone_deletes_older_versions_of_its_own_stripe_only() {
        let versions = [(9, PUT), (6, PUT), (2, PUT)];
        assert_eq!(fold(&versions, &[7], &[3, 8], false).0, [(9, PUT), (2, PUT)]);
        assert_eq!(fold(&versions, &[7], &[], false).0, [(9, PUT)]);
        assert_eq!(fold(&[(7, PUT)], &[7], &[], false).0, [(7, PUT)], "only lower seqnos go");
    }

    #[test]
    fn a_tombstone_goes_at_the_bottom_once_every_reader_sees_it() {
        assert_eq!(fold(&[], &[7, 4], &[5], false).1, [7, 4]);
        assert_eq!(fold(&[], &[7, 4], &[5], true).1, [7]);
        assert_eq!(fold(&[], &[7, 6], &[5], false).1, [7]);
    }

    /// What a reader at `snapshot` finds: whether there is a put and which one by its original place.
    fn seen(versions: &[(Seqno, Kind)], tombstones: &[Seqno], snapshot: Seqno) -> Option<Seqno> {
        let (seqno, kind) = versions.iter().find(|(seqno, _)| *seqno <= snapshot)?;
        let deleted = tombstones.iter().any(|ts| *ts <= snapshot && ts > seqno);
        (*kind == PUT && !deleted).then_some(*seqno)
    }

    #[test]
    fn no_reader_sees_a_difference_and_nothing_unseen_stays() {
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let mut versions = Vec::new();
            let mut tombstones = Vec::new();
            for seqno in (1..=12).rev() {
                match rng.below(5) {
                    0 => versions.push((seqno, PUT)),
                    1 => versions.push((seqno, DELETE)),
                    2 if rng.one_in(3) => tombstones.push(seqno),
                    _ => {}
                }
            }
            let snapshots: Vec<Seqno> = (0..rng.below(4)).map(|_| rng.below(14)).collect();
            let bottommost = rng.one_in(2);
            let (kept, kept_tombstones) = fold(&versions, &tombstones, &snapshots, bottommost);
            let stripes = SnapshotStripes::new(snapshots.clone());
            let oldest = versions.iter().find(|(seqno, _)| stripes.of(*seqno) == 0);
            for &reader in snapshots.iter().chain(&[MAX_SEQNO]) {
                let before = seen(&versions, &tombstones, reader);
                let after = seen(&kept, &kept_tombstones, reader);
                let same = match after {
                    Some(0) => bottommost && before == oldest.map(|(seqno, _)| *seqno),
                    after => before == after,
                };
                assert!(same, "seed {seed}, reader {reader}: {before:?} became {after:?}");
            }
            let of: Vec<usize> = kept.iter().map(|(seqno, _)| stripes.of(*seqno)).collect();
            assert!(of.windows(2).all(|pair| pair[0] > pair[1]), "seed {seed}: one a stripe");
            if bottommost {
                let seen_by_all = kept.last().filter(|last| stripes.of(last.0) == 0);
                assert!(
                    seen_by_all.is_none_or(|last| last.1 == PUT),
                    "seed {seed}: no delete that all see"
                );
            }
        }
    }
}
