//! Maps chunks to placement identifiers.
//!
//! The first identifier is the default of writes without one, so other programs may use it. Here it
//! is the journal's, which is small and short-lived. The others are assigned to lifetime classes in
//! order. With enough identifiers, a class has several, used by its chunks in rotation, so that
//! fewer chunks fill the same reclaim units at once. Otherwise adjacent classes share one.

use crate::placement::{LIFETIMES, Lifetime};

/// The identifiers of a disk.
pub(super) struct PlacementIds {
    first: u16,
    others: Vec<u16>,
    /// How many chunks of each lifetime were begun.
    turns: [usize; LIFETIMES],
}

impl PlacementIds {
    /// Of at least one.
    pub(super) fn of(all: &[u16]) -> Self {
        let others = if all.len() > 1 { &all[1..] } else { all };
        PlacementIds { first: all[0], others: others.to_vec(), turns: [0; LIFETIMES] }
    }

    /// The journal's.
    pub(super) fn first(&self) -> u16 {
        self.first
    }

    /// The next chunk's of this lifetime.
    pub(super) fn next(&mut self, lifetime: Lifetime) -> u16 {
        let lifetime = lifetime.min(LIFETIMES - 1);
        self.turns[lifetime] += 1;
        let own = self.of_lifetime(lifetime);
        own[(self.turns[lifetime] - 1) % own.len()]
    }

    fn of_lifetime(&self, lifetime: Lifetime) -> &[u16] {
        let from = lifetime * self.others.len() / LIFETIMES;
        let to = (lifetime + 1) * self.others.len() / LIFETIMES;
        &self.others[from..to.max(from + 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifiers(count: u16) -> PlacementIds {
        PlacementIds::of(&(100..100 + count).collect::<Vec<_>>())
    }

    #[test]
    fn lifetimes_have_identifiers_of_their_own_where_there_are_enough() {
        let mut nine = identifiers(9);
        let all: Vec<u16> = (0..LIFETIMES).map(|lifetime| nine.next(lifetime)).collect();
        assert_eq!(all, (101..109).collect::<Vec<_>>());
        assert_eq!(nine.first(), 100);
        let mut many = identifiers(17);
        assert_eq!([0; 3].map(|lifetime| many.next(lifetime)), [101, 102, 101]);
        assert_eq!(many.next(7), 115);
    }

    #[test]
    fn lifetimes_that_follow_on_each_other_share_one_where_there_are_fewer() {
        let mut five = identifiers(5);
        let all: Vec<u16> = (0..LIFETIMES).map(|lifetime| five.next(lifetime)).collect();
        assert_eq!(all, [101, 101, 102, 102, 103, 103, 104, 104]);
        let mut eight = identifiers(8);
        let all: Vec<u16> = (0..LIFETIMES).map(|lifetime| eight.next(lifetime)).collect();
        assert_eq!(all, [101, 101, 102, 103, 104, 105, 106, 107]);
    }

    #[test]
    fn one_identifier_is_everyones() {
        let mut one = identifiers(1);
        assert_eq!([one.first(), one.next(0), one.next(7)], [100; 3]);
    }
}
