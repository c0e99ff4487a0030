//! A merging iterator: reads several cursors as one. Every scan and every compaction uses it.
//!
//! The children that are positioned on a version are in one small sorted array, the next version
//! first:
//!
//! ```text
//! order:  [prefix, seqno, child 2] [prefix, seqno, child 0] [prefix, seqno, child 1]
//!           ^ the current version      ^ the runner-up
//! ```
//!
//! A step advances the first child and compares it with the runner-up. If it is still first, the
//! step is complete. Otherwise a binary search finds its new place. Each slot has the first eight
//! bytes of its child's key, after the prefix shared by all keys, so that most comparisons touch
//! neither the key nor the child. A merging iterator here has few children: MemTables, level 0
//! runs, one run per level. For these, moving slots in a flat array costs less than traversing a
//! heap or a loser tree.
//!
//! The array is ordered in the direction of iteration. Changing the direction seeks every child
//! again.

use esker_base::{EntryCursor, Kind, Result, Seqno, key};
use std::cmp::Ordering;

/// A merge of cursors in the engine's order: key ascending, seqno descending.
///
/// Children are given newest first. A version that several children hold, the very same write, is
/// yielded once, from the first of them.
pub struct MergingIter<C> {
    children: Vec<C>,
    /// The valid children in the order of travel. Not kept for a single child.
    order: Vec<Slot>,
    forward: bool,
    /// Whether the merge is where its children do. Not so before a seek and after an error.
    placed: bool,
    /// A copy of the key that a turn seeks from.
    turn_key: Vec<u8>,
    /// All keys start with the same so many bytes.
    shared_bytes: usize,
}

/// A child's place in the order.
#[derive(Clone, Copy)]
struct Slot {
    prefix: u64,
    seqno: Seqno,
    child: u32,
}

impl Slot {
    #[inline]
    fn of<C: EntryCursor>(children: &[C], child: u32, shared_bytes: usize) -> Slot {
        let cursor = &children[child as usize];
        let tail = cursor.key().get(shared_bytes..).unwrap_or(&[]);
        Slot { prefix: prefix(tail), seqno: cursor.seqno(), child }
    }
}

/// The first eight bytes of `key` as a number, so that a lower number means a lower key.
#[inline]
pub(crate) fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// Compares the versions that two children are on, whatever the direction.
#[inline]
fn compare_versions<C: EntryCursor>(children: &[C], a: &Slot, b: &Slot) -> Ordering {
    a.prefix.cmp(&b.prefix).then_with(|| {
        let (a_key, b_key) = (children[a.child as usize].key(), children[b.child as usize].key());
        a_key.cmp(b_key).then(b.seqno.cmp(&a.seqno))
    })
}

/// Whether `a` is yielded before `b`. Of two copies of one version, the newer child's comes first.
#[inline]
fn comes_before<C: EntryCursor>(children: &[C], forward: bool, a: &Slot, b: &Slot) -> bool {
    match compare_versions(children, a, b) {
        Ordering::Less => forward,
        Ordering::Greater => !forward,
        Ordering::Equal => a.child < b.child,
    }
}

impl<C: EntryCursor> MergingIter<C> {
    /// A merge of `children`, newest first.
    pub fn new(children: Vec<C>) -> Self {
        let order = Vec::with_capacity(children.len());
        MergingIter {
            children,
            order,
            forward: true,
            placed: false,
            turn_key: Vec::new(),
            shared_bytes: 0,
        }
    }

    /// Says that all keys start with the same `bytes` bytes, so that the eight bytes by which most
    /// comparisons are made are taken from behind them. It must be true.
    pub fn sharing(mut self, bytes: usize) -> Self {
        debug_assert!(!self.placed, "said before the first seek");
        self.shared_bytes = bytes;
        self
    }

    /// Replaces the children by those that `change` leaves.
    pub(crate) fn change_children(&mut self, change: impl FnOnce(&mut Vec<C>)) {
        self.placed = false;
        self.order.clear();
        change(&mut self.children);
    }

    /// The merged cursors, newest first.
    pub(crate) fn children(&self) -> &[C] {
        &self.children
    }

    /// The child that the merge is on.
    #[inline]
    pub(crate) fn top(&self) -> &C {
        debug_assert!(self.valid(), "the cursor is on no version");
        match self.children.len() {
            1 => &self.children[0],
            _ => &self.children[self.order[0].child as usize],
        }
    }

    /// A child.
    pub(crate) fn child_mut(&mut self, at: usize) -> &mut C {
        &mut self.children[at]
    }

    /// Places every child by `place`, then sorts them.
    fn place_all(
        &mut self,
        forward: bool,
        mut place: impl FnMut(usize, &mut C) -> Result<()>,
    ) -> Result<()> {
        self.placed = false;
        self.forward = forward;
        self.order.clear();
        for (at, child) in self.children.iter_mut().enumerate() {
            place(at, child)?;
        }
        if self.children.len() > 1 {
            let children = &self.children;
            let valid = (0..children.len()).filter(|&at| children[at].valid());
            self.order.extend(valid.map(|at| Slot::of(children, at as u32, self.shared_bytes)));
            self.order.sort_unstable_by(|a, b| {
                let versions = compare_versions(children, a, b);
                let versions = if forward { versions } else { versions.reverse() };
                versions.then(a.child.cmp(&b.child))
            });
        }
        self.placed = true;
        Ok(())
    }

    /// Moves one version on in the direction of travel.
    #[inline]
    fn step(&mut self) -> Result<()> {
        if self.children.len() == 1 {
            let moved = advance(&mut self.children[0], self.forward);
            self.placed = moved.is_ok();
            return moved;
        }
        self.skip_copies()?;
        self.advance_slot(0)
    }

    /// Goes forward to the first version at or after `(key, seqno)`. Seeks only the children that
    /// are before it.
    pub(crate) fn skip_to(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        if !self.forward || self.children.len() == 1 {
            return self.seek(key, seqno);
        }
        while let Some(slot) = self.order.first() {
            let top = (self.children[slot.child as usize].key(), slot.seqno);
            if key::compare_versions(top, (key, seqno)).is_ge() {
                break;
            }
            self.move_slot(0, |child| child.seek(key, seqno))?;
        }
        Ok(())
    }

    /// Moves the children on that hold copies of the version which the merge is on.
    #[inline]
    fn skip_copies(&mut self) -> Result<()> {
        while let [top, next, ..] = &self.order[..]
            && top.prefix == next.prefix
            && top.seqno == next.seqno
            && self.children[top.child as usize].key() == self.children[next.child as usize].key()
        {
            self.advance_slot(1)?;
        }
        Ok(())
    }

    /// Moves the child of the slot `at` on and the slot to its new place behind.
    #[inline]
    fn advance_slot(&mut self, at: usize) -> Result<()> {
        let forward = self.forward;
        self.move_slot(at, |child| advance(child, forward))
    }

    /// Moves the child of the slot `at` on by `go`, and the slot to its new place behind.
    #[inline]
    fn move_slot(&mut self, at: usize, go: impl FnOnce(&mut C) -> Result<()>) -> Result<()> {
        let child = self.order[at].child;
        let cursor = &mut self.children[child as usize];
        if let Err(error) = go(cursor) {
            self.placed = false;
            return Err(error);
        }
        if !cursor.valid() {
            self.order.remove(at);
            return Ok(());
        }
        let slot = Slot::of(&self.children, child, self.shared_bytes);
        self.order[at] = slot;
        let rest = &self.order[at + 1..];
        let (children, forward) = (&self.children, self.forward);
        if rest.first().is_none_or(|next| comes_before(children, forward, &slot, next)) {
            return Ok(());
        }
        // The runner-up is known to come first.
        let behind =
            1 + rest[1..].partition_point(|other| comes_before(children, forward, other, &slot));
        self.order.copy_within(at + 1..at + 1 + behind, at);
        self.order[at + behind] = slot;
        Ok(())
    }

    /// Places the children for the other direction, the merge's own version being yielded already.
    fn turn(&mut self) -> Result<()> {
        let mut key = std::mem::take(&mut self.turn_key);
        key.clear();
        key.extend_from_slice(self.top().key());
        let seqno = self.top().seqno();
        let forward = !self.forward;
        let turned = self.place_all(forward, |_, child| {
            if !forward {
                return child.seek_before(&key, seqno);
            }
            child.seek(&key, seqno)?;
            if child.valid() && child.seqno() == seqno && child.key() == key {
                child.next()?;
            }
            Ok(())
        });
        self.turn_key = key;
        turned
    }
}

#[inline]
fn advance<C: EntryCursor>(cursor: &mut C, forward: bool) -> Result<()> {
    if forward { cursor.next() } else { cursor.prev() }
}

impl<C: EntryCursor> EntryCursor for MergingIter<C> {
    #[inline]
    fn valid(&self) -> bool {
        self.placed
            && match self.children.len() {
                1 => self.children[0].valid(),
                _ => !self.order.is_empty(),
            }
    }

    fn seek_first(&mut self) -> Result<()> {
        self.place_all(true, |_, child| child.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place_all(false, |_, child| child.seek_last())
    }

    fn seek(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        // So that they wait at the same time.
        if self.children.iter().filter(|child| child.misses_seeks()).count() > 1 {
            let waiting = self.children.iter_mut().filter(|child| child.misses_seeks());
            waiting.for_each(|child| child.begin_seek(key, seqno));
        }
        self.place_all(true, |_, child| child.seek(key, seqno))
    }

    fn seek_before(&mut self, key: &[u8], seqno: Seqno) -> Result<()> {
        self.place_all(false, |_, child| child.seek_before(key, seqno))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "the cursor is on no version");
        if self.forward {
            return self.step();
        }
        match self.children.len() {
            1 => {
                self.forward = true;
                self.step()
            }
            _ => self.turn(),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid(), "the cursor is on no version");
        if !self.forward {
            return self.step();
        }
        match self.children.len() {
            1 => {
                self.forward = false;
                self.step()
            }
            _ => self.turn(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.top().key()
    }

    #[inline]
    fn seqno(&self) -> Seqno {
        match self.order.first() {
            Some(slot) => slot.seqno,
            None => self.top().seqno(),
        }
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.top().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.top().value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::testing::ListCursor;
    use esker_base::{Error, MAX_SEQNO, Rng};

    type Version = (Vec<u8>, Seqno);

    /// What all keys start with.
    const SHARED: &[u8] = b"long enough to fill a slot";

    fn random_key(rng: &mut Rng) -> Vec<u8> {
        let mut key = SHARED.to_vec();
        key.resize(SHARED.len() + rng.below(11) as usize, b'a' + rng.below(3) as u8);
        key
    }

    /// Children with random versions; some hold copies of others' versions.
    fn children(rng: &mut Rng, many: u64) -> (Vec<ListCursor>, Vec<Version>) {
        let mut all = Vec::new();
        let mut lists = vec![Vec::new(); many as usize];
        for seqno in 1..=rng.below(60) {
            let key = random_key(rng);
            let child = rng.below(many) as usize;
            lists[child].push((key.clone(), seqno, Kind::Put, vec![child as u8]));
            if rng.one_in(4) {
                let copy = rng.below(many) as usize;
                if copy != child {
                    lists[copy].push((key.clone(), seqno, Kind::Put, vec![copy as u8]));
                }
            }
            all.push((key, seqno));
        }
        all.sort_by(|a, b| esker_base::key::compare_versions((&a.0, a.1), (&b.0, b.1)));
        (lists.into_iter().map(ListCursor::new).collect(), all)
    }

    fn current<C: EntryCursor>(cursor: &C) -> Option<Version> {
        cursor.valid().then(|| (cursor.key().to_vec(), cursor.seqno()))
    }

    #[test]
    fn a_merge_walks_like_one_sorted_list_in_both_directions() {
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let many = 1 + rng.below(6);
            let (lists, all) = children(&mut rng, many);
            let mut merge = MergingIter::new(lists).sharing(SHARED.len());
            let mut at: Option<usize> = None;
            for _ in 0..80 {
                match (rng.below(8), at) {
                    (0, _) => {
                        merge.seek_first().unwrap();
                        at = Some(0);
                    }
                    (1, _) => {
                        merge.seek_last().unwrap();
                        at = all.len().checked_sub(1);
                    }
                    (2, _) => {
                        let key = random_key(&mut rng);
                        let seqno = if rng.one_in(2) { MAX_SEQNO } else { rng.below(60) };
                        let here = all.partition_point(|v| {
                            esker_base::key::compare_versions((&v.0, v.1), (&key, seqno)).is_lt()
                        });
                        if rng.one_in(2) {
                            merge.seek(&key, seqno).unwrap();
                            at = Some(here);
                        } else {
                            merge.seek_before(&key, seqno).unwrap();
                            at = here.checked_sub(1);
                        }
                    }
                    (3..=4, Some(here)) if here < all.len() => {
                        merge.next().unwrap();
                        at = Some(here + 1);
                    }
                    (5, Some(here)) if here < all.len() => {
                        let (key, _) =
                            all[(here + rng.below(9) as usize).min(all.len() - 1)].clone();
                        let seqno = rng.below(60);
                        let target = all.partition_point(|v| {
                            esker_base::key::compare_versions((&v.0, v.1), (&key, seqno)).is_lt()
                        });
                        if target >= here {
                            merge.skip_to(&key, seqno).unwrap();
                            at = Some(target);
                        }
                    }
                    (_, Some(here)) if here < all.len() => {
                        merge.prev().unwrap();
                        at = here.checked_sub(1);
                    }
                    _ => continue,
                }
                let expected = at.and_then(|here| all.get(here)).cloned();
                assert_eq!(current(&merge), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_version_in_several_children_comes_once_from_the_newest() {
        let list = |child: u8| ListCursor::new(vec![(b"k".to_vec(), 7, Kind::Put, vec![child])]);
        let mut merge = MergingIter::new(vec![list(0), list(1), list(2)]);
        for forward in [true, false] {
            if forward {
                merge.seek_first().unwrap()
            } else {
                merge.seek_last().unwrap()
            }
            assert_eq!(merge.value(), [0]);
            if forward {
                merge.next().unwrap()
            } else {
                merge.prev().unwrap()
            }
            assert!(!merge.valid());
        }
    }

    #[test]
    fn a_merge_of_nothing_is_empty() {
        let mut merge = MergingIter::<ListCursor>::new(Vec::new());
        merge.seek_first().unwrap();
        assert!(!merge.valid());
    }

    #[test]
    fn a_failed_child_leaves_the_merge_invalid_until_the_next_seek() {
        let good = ListCursor::new(vec![
            (b"a".to_vec(), 1, Kind::Put, vec![]),
            (b"c".to_vec(), 2, Kind::Put, vec![]),
        ]);
        let bad = ListCursor::new(vec![(b"b".to_vec(), 3, Kind::Put, vec![])]).failing_after(1);
        let mut merge = MergingIter::new(vec![good, bad]);
        merge.seek_first().unwrap();
        merge.next().unwrap();
        assert_eq!(merge.key(), b"b");
        assert!(matches!(merge.next(), Err(Error::Corruption { .. })));
        assert!(!merge.valid());
        merge.seek_first().unwrap();
        assert_eq!(merge.key(), b"a");
    }
}
