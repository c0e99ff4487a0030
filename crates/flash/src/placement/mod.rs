//! Placement policies: pure decisions about where data is written, given the state of the units.
//!
//! * [`DeviceLoad`]: the state of the units;
//! * [`AllUnits`], [`FixedSets`]: fixed sets of units, for comparison;
//! * [`Rotating`]: a small write set of the units that are read least;
//! * [`Balanced`]: all units are written and read equally, few of them at once;
//! * [`ReadScheduling`]: which read is sent next;
//! * [`WriteAdmission`]: when writers are throttled.
//!
//! A writer asks for a [`PlacementPolicy::stripe`]: units that each provide one chunk for data of the same
//! lifetime class.

mod balanced;
mod fixed;
mod read_scheduling;
mod rotating;
mod state;
mod write_admission;

pub use balanced::Balanced;
pub use fixed::{AllUnits, FixedSets};
pub(crate) use read_scheduling::{ExpectedWork, UnitForecast};
pub use read_scheduling::{READ_LATE_NS, ReadScheduling};
pub use rotating::Rotating;
pub use state::{DeviceLoad, UnitState};
pub use write_admission::{ReadPressure, WriteAdmission};

use crate::{ReadPriority, Unit};

/// How long data lives, as a class: 0 is the shortest. An engine's levels are such classes.
pub type Lifetime = usize;

/// How long data lives, as classes: what belongs to no level, and tables of seven levels.
pub const LIFETIMES: usize = 8;

/// That of what belongs to no level.
pub(crate) const SHORTEST: Lifetime = 0;
/// That of tables of level 0.
pub(crate) const LEVEL_0: Lifetime = 1;

/// When a unit is sent its next write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteDispatch {
    /// At once.
    AtOnce,
    /// When the unit has no other to do, and no read before it, up to a deadline.
    ReadsFirst,
    /// As that, and few units at a time: the more, the more waits.
    InTurns,
}

/// Decides where data is written.
pub trait PlacementPolicy {
    /// What it is called in results.
    fn name(&self) -> &'static str;

    /// The units that take the next chunks of this lifetime, at least one and each with a free chunk;
    /// none if no unit has one. `needed` is how many units would be always busy with what is written of
    /// this lifetime.
    fn stripe(&mut self, state: &DeviceLoad, lifetime: Lifetime, needed: f64) -> Vec<Unit>;

    /// When the host sends units what they are to write.
    fn sending(&self) -> WriteDispatch {
        WriteDispatch::AtOnce
    }

    /// In which order the host sends reads, where the device takes fewer at a time than there are.
    fn reading(&self) -> ReadScheduling {
        ReadScheduling::InOrder
    }

    /// The admission control for a device of this form; `None` if writers are never throttled.
    fn admission(&self, _form: ReadPriority) -> Option<WriteAdmission> {
        None
    }

    /// How many chunks of this lifetime may be written and not be read yet, what they replace being read
    /// instead.
    fn settle_distance_chunks(
        &self,
        _state: &DeviceLoad,
        _lifetime: Lifetime,
        _needed: f64,
    ) -> usize {
        0
    }

    /// Whether reads go to what this policy placed; otherwise to units that it never writes.
    fn is_read(&self) -> bool {
        false
    }

    /// The units that reads go to, if they do not go to what it placed.
    fn read_units(&self, state: &DeviceLoad) -> Vec<Unit> {
        state.geometry.all_units().collect()
    }
}
