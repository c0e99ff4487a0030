//! Values that are not stored next to their keys.

use esker_base::{Error, Result};

/// What reads the values of value files.
pub(crate) trait Values {
    /// The value at the place that an entry of kind `Separated` stores.
    ///
    /// # Errors
    /// [`Error::Corruption`] with the file and the offset, [`Error::Io`] if the file cannot be read.
    fn read(&self, stored: &[u8]) -> Result<Vec<u8>>;
}

/// Of MemTables, which hold all their values.
pub(crate) struct NoValueFiles;

impl Values for NoValueFiles {
    fn read(&self, _: &[u8]) -> Result<Vec<u8>> {
        Err(Error::corruption("a MemTable", 0, "a value in a value file"))
    }
}
