//! Values of features that a host has set.

use crate::controller::Controller;
use esker_nvme::Status;
use esker_nvme::event::Event;

/// Values that a host has set on its admin queue.
pub(super) struct Features {
    pub(super) arbitration: u32,
    /// In kelvin, of the composite temperature: above the first or below the second the host is to
    /// be warned.
    pub(super) temperature_over: u16,
    pub(super) temperature_under: u16,
    pub(super) write_atomicity: u32,
    /// Which events the host wants.
    pub(super) events: u32,
}

/// Arbitration: AB, no limit.
const BURST_UNLIMITED: u32 = 7;

/// Temperature Threshold, CDW11: which threshold of which sensor.
struct Threshold {
    sensor: u32,
    kind: u32,
    kelvin: u16,
}

impl Threshold {
    const COMPOSITE: u32 = 0;
    const ALL_SENSORS: u32 = 15;
    const OVER: u32 = 0;
    const UNDER: u32 = 1;

    fn of(value: u32) -> Self {
        Threshold { sensor: value >> 16 & 15, kind: value >> 20 & 3, kelvin: value as u16 }
    }
}

impl Features {
    /// Those that hold until the host sets others.
    pub(super) fn by_default(controller: &Controller) -> Self {
        let events = match controller.is_discovery() {
            true => 0,
            false => Event::ReliabilityDegraded.mask(),
        };
        Features {
            arbitration: BURST_UNLIMITED,
            temperature_over: u16::MAX,
            temperature_under: 0,
            write_atomicity: 0,
            events,
        }
    }

    pub(super) fn temperature(&self, value: u32) -> Result<u32, Status> {
        let threshold = Threshold::of(value);
        match (threshold.sensor, threshold.kind) {
            (Threshold::COMPOSITE, Threshold::OVER) => Ok(self.temperature_over.into()),
            (Threshold::COMPOSITE, Threshold::UNDER) => Ok(self.temperature_under.into()),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    pub(super) fn set_temperature(&mut self, value: u32) -> Result<(), Status> {
        let threshold = Threshold::of(value);
        let kept = match (threshold.sensor, threshold.kind) {
            (Threshold::COMPOSITE | Threshold::ALL_SENSORS, Threshold::OVER) => {
                &mut self.temperature_over
            }
            (Threshold::COMPOSITE | Threshold::ALL_SENSORS, Threshold::UNDER) => {
                &mut self.temperature_under
            }
            _ => return Err(Status::INVALID_FIELD),
        };
        *kept = threshold.kelvin;
        Ok(())
    }
}
