//! Which keys the files of a database have.

use crate::KeyId;
use crate::header::{self, header_of};
use esker_base::Result;
use esker_storage::Storage;
use std::collections::BTreeMap;

/// Which keys files have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct KeyUsage {
    /// The names of the files that each key is needed for, in order.
    pub files: BTreeMap<KeyId, Vec<String>>,
    /// The names of the files that are not encrypted, or whose header is damaged.
    pub others: Vec<String>,
}

/// Returns which keys are needed for the files in `storage`, which has them encrypted. No key is needed for this.
///
/// # Errors
/// [`Error::Io`](esker_base::Error::Io) if a file cannot be read.
pub fn keys_in_use(storage: &dyn Storage) -> Result<KeyUsage> {
    let mut usage = KeyUsage::default();
    let mut names = storage.list()?;
    names.sort_unstable();
    for name in names {
        let file = storage.open(&name)?;
        match header::check(&header_of(&*file)?, &name) {
            Ok(id) => usage.files.entry(id).or_default().push(name),
            Err(_) => usage.others.push(name),
        }
    }
    Ok(usage)
}
