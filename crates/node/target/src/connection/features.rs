//! Features: what a host may ask and set of a controller (Base 2.0, 5.27). None is kept over a
//! reset.
//!
//! Those that a controller must have and that mean nothing here have their values all the same:
//! arbitration, the one power state, temperature thresholds without a thermometer, error recovery
//! without a time limit, and write atomicity.

use super::Connection;
use crate::controller::Controller;
use esker_nvme::Status;
use esker_nvme::event::Event;
use esker_nvme::feature::{self, QueueCounts};
use esker_nvme::limits::IO_QUEUES;

/// Values that a host has set on its admin queue.
pub(super) struct Features {
    arbitration: u32,
    /// In kelvin, of the composite temperature: above the first or below the second the host is to
    /// be warned.
    temperature_over: u16,
    temperature_under: u16,
    write_atomicity: u32,
    /// Which events the host wants.
    pub(super) events: u32,
}

/// Select, in Get Features.
mod select {
    pub(super) const CURRENT: u8 = 0;
    pub(super) const CAPABILITIES: u8 = 3;
}

/// What can be done with a feature: its value can be changed.
const CHANGEABLE: u32 = 1 << 2;

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

    fn temperature(&self, value: u32) -> Result<u32, Status> {
        let threshold = Threshold::of(value);
        match (threshold.sensor, threshold.kind) {
            (Threshold::COMPOSITE, Threshold::OVER) => Ok(self.temperature_over.into()),
            (Threshold::COMPOSITE, Threshold::UNDER) => Ok(self.temperature_under.into()),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    fn set_temperature(&mut self, value: u32) -> Result<(), Status> {
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

impl Connection {
    /// A feature's value; `value` is the command's CDW11.
    pub(super) fn feature(&self, feature: u8, select: u8, value: u32) -> Result<u32, Status> {
        let queue = self.queue.as_ref().ok_or(Status::SEQUENCE_ERROR)?;
        let controller = &queue.controller;
        if select == select::CAPABILITIES {
            let is_changeable = matches!(
                feature,
                feature::ARBITRATION
                    | feature::TEMPERATURE_THRESHOLD
                    | feature::WRITE_ATOMICITY
                    | feature::ASYNC_EVENTS
                    | feature::KEEP_ALIVE
            );
            self.feature(feature, select::CURRENT, 0)?;
            return Ok(CHANGEABLE * u32::from(is_changeable));
        }
        // Defaults, which is also what is saved: nothing is.
        let defaults = Features::by_default(controller);
        let is_current = select == select::CURRENT;
        let features = if is_current { &queue.features } else { &defaults };
        match feature {
            feature::ARBITRATION => Ok(features.arbitration),
            feature::POWER_MANAGEMENT | feature::ERROR_RECOVERY => Ok(0),
            feature::TEMPERATURE_THRESHOLD => features.temperature(value),
            feature::NUMBER_OF_QUEUES => Ok(queues()),
            feature::WRITE_ATOMICITY => Ok(features.write_atomicity),
            feature::ASYNC_EVENTS => Ok(features.events),
            feature::KEEP_ALIVE if is_current => Ok(controller.keep_alive().as_millis() as u32),
            feature::KEEP_ALIVE => Ok(0),
            feature::VOLATILE_WRITE_CACHE if self.has_cache() => Ok(1),
            feature::COMMAND_SET_PROFILE => Ok(0),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Sets a feature, and says what its completion's DW0 is.
    pub(super) fn set_feature(
        &mut self,
        feature: u8,
        save: bool,
        value: u32,
    ) -> Result<u32, Status> {
        let has_cache = self.has_cache();
        if save {
            self.feature(feature, select::CURRENT, 0)?;
            return Err(Status::FEATURE_NOT_SAVEABLE);
        }
        let queue = self.queue.as_mut().ok_or(Status::SEQUENCE_ERROR)?;
        let features = &mut queue.features;
        match feature {
            feature::ARBITRATION => features.arbitration = value,
            // There is one power state, and no workload that is known.
            feature::POWER_MANAGEMENT if value == 0 => {}
            feature::TEMPERATURE_THRESHOLD => features.set_temperature(value)?,
            feature::ERROR_RECOVERY if value == 0 => {}
            feature::ERROR_RECOVERY => return Err(Status::FEATURE_NOT_CHANGEABLE),
            feature::NUMBER_OF_QUEUES => {
                QueueCounts::of(value).ok_or(Status::INVALID_FIELD)?;
                return Ok(queues());
            }
            feature::WRITE_ATOMICITY if value <= 1 => features.write_atomicity = value,
            feature::ASYNC_EVENTS => features.events = value,
            feature::KEEP_ALIVE => {
                queue.controller.set_keep_alive(value);
                self.host_lives();
            }
            feature::VOLATILE_WRITE_CACHE if has_cache && value & 1 == 1 => {}
            feature::VOLATILE_WRITE_CACHE if has_cache => {
                return Err(Status::FEATURE_NOT_CHANGEABLE);
            }
            feature::COMMAND_SET_PROFILE if value == 0 => {}
            _ => return Err(Status::INVALID_FIELD),
        }
        Ok(0)
    }

    fn has_cache(&self) -> bool {
        let index = self.queue.as_ref().and_then(|queue| queue.controller.subsystem);
        index.is_some_and(|index| self.shared.settings.subsystems[index].has_volatile_cache())
    }
}

fn queues() -> u32 {
    QueueCounts { submission: IO_QUEUES, completion: IO_QUEUES }.word()
}
