//! Reads of values that are in value files.

use super::lookup::ReadTier;
use crate::fold::values::Values;
use crate::version::ValueFiles;
use esker_base::{Error, Result};

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
