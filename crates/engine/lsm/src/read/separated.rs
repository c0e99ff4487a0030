//! Reads of values that are in value files.

use super::lookup::ReadTier;
use crate::fold::values::Values;
use crate::version::{ValueFile, ValueFiles};
use esker_api::Value;
use esker_base::{Error, Result, ValuePlace};
use std::sync::Arc;

/// The values of value files, for a read that may or may not wait for the device.
pub(super) struct TieredValues<'a> {
    pub(super) values: &'a ValueFiles,
    pub(super) patience: ReadTier,
}

impl Values for TieredValues<'_> {
    fn read(&self, stored: &[u8]) -> Result<Vec<u8>> {
        match self.patience {
            ReadTier::MayBlock => self.values.read(stored),
            ReadTier::MemoryOnly => Err(Error::WouldBlock),
        }
    }
}

/// A large value that was found and not read. Its file stays while this exists.
#[derive(Debug)]
pub(crate) struct LargeValue {
    pub(super) place: ValuePlace,
    pub(super) file: Arc<ValueFile>,
}

impl LargeValue {
    /// That of the place that an entry stores. `None` if it is the place of another value.
    pub(super) fn of(values: &ValueFiles, stored: &[u8]) -> Result<Option<LargeValue>> {
        match ValuePlace::decode(stored).is_some_and(|place| place.is_in_blocks()) {
            true => values
                .find(stored)
                .map(|(place, file)| Some(LargeValue { place, file: file.clone() })),
            false => Ok(None),
        }
    }

    /// Reads all of it.
    #[cold]
    pub(super) fn load(&self, patience: ReadTier) -> Result<Value> {
        match patience {
            ReadTier::MayBlock => self.file.read(&self.place).map(Value::from),
            ReadTier::MemoryOnly => Err(Error::WouldBlock),
        }
    }
}
