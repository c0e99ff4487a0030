//! The state of the units on which placement decides.

use crate::{Geometry, Unit};

/// What is known of a unit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct UnitState {
    /// Chunks that can be written: reset, or with nothing alive in them.
    pub free_chunks: u32,
    /// How much of all reads goes to what it holds, in any measure: each file's reads lately, for instance.
    pub reads: f64,
    /// How often its chunks were reset.
    pub erases: u64,
}

/// What is known of all units.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceLoad {
    /// What the device is made of.
    pub geometry: Geometry,
    /// By unit.
    pub units: Vec<UnitState>,
}

impl DeviceLoad {
    /// Nothing was written yet.
    pub fn new(geometry: Geometry) -> Self {
        let free_chunks = u32::from(geometry.chunks_per_unit);
        let unit = UnitState { free_chunks, ..UnitState::default() };
        DeviceLoad { geometry, units: vec![unit; geometry.units()] }
    }

    /// What is known of a unit.
    pub fn unit(&self, unit: Unit) -> &UnitState {
        &self.units[usize::from(unit.0)]
    }

    /// Reads of the mean unit.
    pub fn reads_mean(&self) -> f64 {
        self.units.iter().map(|unit| unit.reads).sum::<f64>() / self.units.len() as f64
    }
}
