//! Features: what a host may ask and set of a controller (Base 2.0, 5.27). None is kept over a
//! reset.
//!
//! Those that a controller must have and that mean nothing here have their values all the same:
//! arbitration, the one power state, temperature thresholds without a thermometer, error recovery
//! without a time limit, and write atomicity.

use super::Connection;
use super::feature_values::Features;
use esker_nvme::Status;
use esker_nvme::feature::{self, QueueCounts};
use esker_nvme::limits::IO_QUEUES;

/// Select, in Get Features.
mod select {
    pub(super) const CURRENT: u8 = 0;
    pub(super) const CAPABILITIES: u8 = 3;
}

/// What can be done with a feature: its value can be changed.
const CHANGEABLE: u32 = 1 << 2;

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
