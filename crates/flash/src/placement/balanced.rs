//! A placement policy that keeps all units equally read, and writes few units at once.
//!
//! Each chunk is allocated on the unit that is read least, so all units converge to the same read
//! rate. With enough outstanding reads to keep every unit busy, the most-read unit limits
//! throughput, and an empty unit is wasted. [`Rotating`](super::Rotating) is for fewer outstanding
//! reads: there the units have spare time, and the aim is that few reads wait for a write.
//!
//! This policy does not restrict the write set. The host does, when it sends
//! ([`WriteDispatch::InTurns`]): it chooses units that no read waits for, among those with data to write.
//! The policy also never throttles writers ([`WriteAdmission`](super::WriteAdmission)): threads that both
//! read and write would then wait for the stalled compactions.

use super::{DeviceLoad, Lifetime, PlacementPolicy, WriteDispatch};
use crate::Unit;

/// The least read unit is written next.
#[derive(Debug, Default)]
pub struct Balanced;

impl PlacementPolicy for Balanced {
    fn name(&self) -> &'static str {
        "even"
    }

    fn stripe(&mut self, state: &DeviceLoad, _: Lifetime, _: f64) -> Vec<Unit> {
        let has_room = |unit: &Unit| state.unit(*unit).free_chunks > 0;
        let load = |unit: &Unit| (state.unit(*unit).reads, state.unit(*unit).erases);
        let units = state.geometry.all_units().filter(has_room);
        let least = units.min_by(|one, other| load(one).partial_cmp(&load(other)).expect("no NaN"));
        least.into_iter().collect()
    }

    fn sending(&self) -> WriteDispatch {
        WriteDispatch::InTurns
    }

    fn is_read(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;

    #[test]
    fn the_least_read_unit_with_room_is_written_and_of_two_the_less_worn() {
        let mut state = DeviceLoad::new(Preset::named("cnex-mlc").unwrap().geometry());
        state.units.iter_mut().for_each(|unit| (unit.reads, unit.erases) = (9.0, 5));
        for (unit, reads, erases, free) in [(3, 1.0, 9, 0), (7, 2.0, 9, 1), (70, 2.0, 8, 1)] {
            let known = &mut state.units[unit];
            (known.reads, known.erases, known.free_chunks) = (reads, erases, free);
        }
        assert_eq!(Balanced.stripe(&state, 0, 1.0), [Unit(70)]);
    }

    #[test]
    fn units_come_to_be_read_alike() {
        let mut state = DeviceLoad::new(Preset::named("cnex-mlc").unwrap().geometry());
        for chunk in 0..128 * 20 {
            let unit = Balanced.stripe(&state, chunk % 5, 1.0)[0];
            let known = &mut state.units[usize::from(unit.0)];
            known.reads += 1.0;
            known.free_chunks -= 1;
        }
        assert!(state.units.iter().all(|unit| unit.reads == 20.0));
    }

    #[test]
    fn a_full_device_gives_nothing() {
        let mut state = DeviceLoad::new(Preset::named("cnex-mlc").unwrap().geometry());
        state.units.iter_mut().for_each(|unit| unit.free_chunks = 0);
        assert!(Balanced.stripe(&state, 0, 1.0).is_empty());
    }
}
