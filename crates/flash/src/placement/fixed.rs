//! Write sets that never change.

use super::{DeviceLoad, Lifetime, PlacementPolicy};
use crate::{Geometry, Unit};

/// Every unit is read and written.
#[derive(Debug, Default)]
pub struct AllUnits;

impl PlacementPolicy for AllUnits {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn stripe(&mut self, state: &DeviceLoad, _: Lifetime, _: f64) -> Vec<Unit> {
        let all = across_groups(&state.geometry, state.geometry.units_per_group.into());
        all.into_iter().filter(|unit| state.unit(*unit).free_chunks > 0).collect()
    }
}

/// Some units are written, and never read; the others are read, and never written.
#[derive(Debug)]
pub struct FixedSets {
    name: &'static str,
    written: Vec<Unit>,
}

impl FixedSets {
    /// Half of each group's units are written, as described in the paper.
    pub fn halves(geometry: &Geometry) -> Self {
        let written = across_groups(geometry, usize::from(geometry.units_per_group) / 2);
        FixedSets { name: "halves", written }
    }

    /// `count` units are written, spread over the groups.
    pub fn small_set(geometry: &Geometry, count: usize) -> Self {
        let mut written = across_groups(geometry, geometry.units_per_group.into());
        written.truncate(count);
        FixedSets { name: "small-set", written }
    }
}

impl PlacementPolicy for FixedSets {
    fn name(&self) -> &'static str {
        self.name
    }

    fn stripe(&mut self, state: &DeviceLoad, _: Lifetime, _: f64) -> Vec<Unit> {
        let has_room = |unit: &Unit| state.unit(*unit).free_chunks > 0;
        self.written.iter().copied().filter(has_room).collect()
    }

    fn read_units(&self, state: &DeviceLoad) -> Vec<Unit> {
        state.geometry.all_units().filter(|unit| !self.written.contains(unit)).collect()
    }
}

/// The first `places` units of each group, in an order in which neighbours are of different groups.
fn across_groups(geometry: &Geometry, places: usize) -> Vec<Unit> {
    let groups = usize::from(geometry.groups);
    (0..places)
        .flat_map(|place| (0..groups).map(move |group| (group, place)))
        .map(|(group, place)| geometry.unit(group, place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn what_is_written_is_never_read() {
        let state = DeviceLoad::new(Preset::named("cnex-mlc").unwrap().geometry());
        for (mut policy, written) in [
            (FixedSets::halves(&state.geometry), 64),
            (FixedSets::small_set(&state.geometry, 24), 24),
        ] {
            let stripe = policy.stripe(&state, 0, 1.0);
            let read = policy.read_units(&state);
            assert_eq!((stripe.len(), read.len()), (written, 128 - written));
            assert!(stripe.iter().all(|unit| !read.contains(unit)));
        }
    }

    #[test]
    fn neighbours_of_a_stripe_are_of_different_groups() {
        let state = DeviceLoad::new(Preset::named("cnex-mlc").unwrap().geometry());
        let stripe = AllUnits.stripe(&state, 0, 1.0);
        assert_eq!(stripe.len(), 128);
        let group = |unit: Unit| state.geometry.group(unit);
        assert!(stripe.windows(2).all(|pair| group(pair[0]) != group(pair[1])));
    }
}
