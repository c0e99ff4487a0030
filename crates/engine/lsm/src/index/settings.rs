//! What a caller asks of an index, and what an index reports.

use esker_base::{Error, IndexError, Result};

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// The name, the version and the kind of an index: see `Keyspace::index`.
///
/// A string converts into settings of an index that is not unique, with version 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSettings {
    pub(crate) name: String,
    pub(crate) version: u32,
    pub(crate) is_unique: bool,
    pub(crate) may_rebuild: bool,
}

impl IndexSettings {
    /// Returns settings of an index called `name` with version 1 that is not unique.
    pub fn new(name: impl Into<String>) -> Self {
        IndexSettings { name: name.into(), version: 1, is_unique: false, may_rebuild: true }
    }

    /// Sets the version of the function. Change it whenever the function changes.
    pub fn version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// Sets whether two rows may have the same key in the index.
    pub fn unique(mut self, unique: bool) -> Self {
        self.is_unique = unique;
        self
    }

    /// Sets whether an index that exists with another version, or that differs in whether it is unique,
    /// is built again. Otherwise it is rejected with [`IndexError::Differs`]. The default is `true`.
    pub fn rebuild(mut self, rebuild: bool) -> Self {
        self.may_rebuild = rebuild;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        let bad = |reason| -> Result<()> {
            Err(Error::from(IndexError::BadName { name: self.name.clone(), reason }))
        };
        if self.name.is_empty() {
            bad("it is empty")
        } else if self.name.len() > NAME_BYTES_MAX {
            bad("it is longer than 200 bytes")
        } else if self.name.chars().any(char::is_control) {
            bad("it has control characters in it")
        } else {
            Ok(())
        }
    }
}

impl From<&str> for IndexSettings {
    fn from(name: &str) -> Self {
        IndexSettings::new(name)
    }
}

impl From<String> for IndexSettings {
    fn from(name: String) -> Self {
        IndexSettings::new(name)
    }
}

/// How far an index is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum IndexStatus {
    /// The function was not given since the database was opened.
    NotRegistered,
    /// Rows that exist already get their entries.
    Building {
        /// Rows that this open has passed.
        rows: u64,
    },
    /// All rows have their entries.
    Ready,
    /// The build stopped at an error, or the index was dropped or replaced.
    Failed(Error),
}

/// An index in a list of indexes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexInfo {
    /// The name.
    pub name: String,
    /// The version of its function. `None` if it is not known: the index was not registered, and its
    /// build had not begun.
    pub version: Option<u32>,
    /// Whether it is unique.
    pub is_unique: bool,
    /// How far it is.
    pub status: IndexStatus,
}
