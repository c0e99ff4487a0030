//! Every unit holds as much that is read as any other, and few units are written at a time.
//!
//! A chunk is taken from the unit that is read least. So a unit fills up when others have more, and in the end all
//! are read alike: with as many reads outstanding as keep all units busy, the one that is read most is what they wait
//! for, and a unit that is kept empty is lost to them. [`Rotating`](super::Rotating) is for fewer reads than that: then
//! units have time to spare, and what counts is that few reads meet a write.
//!
//! The write set is not a matter of placement here. It is what the host writes at a moment ([`Sending::InTurns`]):
//! units that no read waits for, of all those that have something to write. So it holds no writers back
//! ([`Admission`](super::Admission)): where reads come from threads that write, too, these would wait for the
//! compactions that are held.

use super::{Lifetime, Policy, Sending, State};
use crate::Unit;

/// The least read unit is written next.
#[derive(Debug, Default)]
pub struct Even;

impl Policy for Even {
    fn name(&self) -> &'static str {
        "even"
    }

    fn stripe(&mut self, state: &State, _: Lifetime, _: f64) -> Vec<Unit> {
        let has_room = |unit: &Unit| state.unit(*unit).free_chunks > 0;
        let load = |unit: &Unit| (state.unit(*unit).reads, state.unit(*unit).erases);
        let units = state.geometry.all_units().filter(has_room);
        let least = units.min_by(|one, other| load(one).partial_cmp(&load(other)).expect("no NaN"));
        least.into_iter().collect()
    }

    fn sending(&self) -> Sending {
        Sending::InTurns
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
        let mut state = State::new(Preset::named("cnex-mlc").unwrap().geometry());
        state.units.iter_mut().for_each(|unit| (unit.reads, unit.erases) = (9.0, 5));
        for (unit, reads, erases, free) in [(3, 1.0, 9, 0), (7, 2.0, 9, 1), (70, 2.0, 8, 1)] {
            let known = &mut state.units[unit];
            (known.reads, known.erases, known.free_chunks) = (reads, erases, free);
        }
        assert_eq!(Even.stripe(&state, 0, 1.0), [Unit(70)]);
    }

    #[test]
    fn units_come_to_be_read_alike() {
        let mut state = State::new(Preset::named("cnex-mlc").unwrap().geometry());
        for chunk in 0..128 * 20 {
            let unit = Even.stripe(&state, chunk % 5, 1.0)[0];
            let known = &mut state.units[usize::from(unit.0)];
            known.reads += 1.0;
            known.free_chunks -= 1;
        }
        assert!(state.units.iter().all(|unit| unit.reads == 20.0));
    }

    #[test]
    fn a_full_device_gives_nothing() {
        let mut state = State::new(Preset::named("cnex-mlc").unwrap().geometry());
        state.units.iter_mut().for_each(|unit| unit.free_chunks = 0);
        assert!(Even.stripe(&state, 0, 1.0).is_empty());
    }
}
