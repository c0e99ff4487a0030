//! Placement policies: pure decisions about where data is written, given the state of the units.
//!
//! * [`State`]: the state of the units;
//! * [`Shared`], [`Static`]: fixed sets of units, for comparison;
//! * [`Rotating`]: a small write set of the units that are read least;
//! * [`Even`]: all units are written and read equally, few of them at once;
//! * [`Reading`]: which read is sent next;
//! * [`Admission`]: when writers are throttled.
//!
//! A writer asks for a [`Policy::stripe`]: units that each provide one chunk for data of the same
//! lifetime class.

mod admission;
mod even;
mod reading;
mod rotating;
mod state;
mod statics;

pub use admission::{Admission, Pressure};
pub use even::Even;
pub(crate) use reading::{Expected, Forecast};
pub use reading::{READ_LATE_NS, Reading};
pub use rotating::Rotating;
pub use state::{State, UnitState};
pub use statics::{Shared, Static};

use crate::{Form, Unit};

/// How long data lives, as a class: 0 is the shortest. An engine's levels are such classes.
pub type Lifetime = usize;

/// When a unit is sent its next write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sending {
    /// At once.
    AtOnce,
    /// When the unit has no other to do, and no read before it, up to a deadline.
    ReadsFirst,
    /// As that, and few units at a time: the more, the more waits.
    InTurns,
}

/// Decides where data is written.
pub trait Policy {
    /// What it is called in results.
    fn name(&self) -> &'static str;

    /// The units that take the next chunks of this lifetime, at least one and each with a free chunk;
    /// none if no unit has one. `needed` is how many units would be always busy with what is written of
    /// this lifetime.
    fn stripe(&mut self, state: &State, lifetime: Lifetime, needed: f64) -> Vec<Unit>;

    /// When the host sends units what they are to write.
    fn sending(&self) -> Sending {
        Sending::AtOnce
    }

    /// In which order the host sends reads, where the device takes fewer at a time than there are.
    fn reading(&self) -> Reading {
        Reading::InOrder
    }

    /// The admission control for a device of this form; `None` if writers are never throttled.
    fn admission(&self, _form: Form) -> Option<Admission> {
        None
    }

    /// How many chunks of this lifetime may be written and not be read yet, what they replace being read
    /// instead.
    fn held_chunks(&self, _state: &State, _lifetime: Lifetime, _needed: f64) -> usize {
        0
    }

    /// Whether reads go to what this policy placed; otherwise to units that it never writes.
    fn is_read(&self) -> bool {
        false
    }

    /// The units that reads go to, if they do not go to what it placed.
    fn read_units(&self, state: &State) -> Vec<Unit> {
        state.geometry.all_units().collect()
    }
}
