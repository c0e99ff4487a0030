//! Keyspaces: named, separate sets of keys in one database.

use crate::settings::KeyspaceSettings;
use esker_base::{Error, KeyspaceId, Result};

/// The name of the keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A handle to a keyspace. Cheap to clone, and to be had again by name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyspace {
    pub(crate) id: KeyspaceId,
    pub(crate) name: std::sync::Arc<str>,
}

impl Keyspace {
    /// Its id, which no other keyspace of the database ever has.
    pub fn id(&self) -> KeyspaceId {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fails if no keyspace can be called `name`.
    pub fn check_name(name: &str) -> Result<()> {
        check_name(name)
    }
}

impl From<&Keyspace> for KeyspaceId {
    fn from(keyspace: &Keyspace) -> KeyspaceId {
        keyspace.id
    }
}

/// What a list of keyspaces says of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyspaceInfo {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: KeyspaceId,
    /// Its settings, as given at its creation.
    pub settings: KeyspaceSettings,
}

/// Checks that `name` can name a keyspace.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = |reason| Err(Error::BadKeyspaceName { name: name.to_owned(), reason });
    if name.is_empty() {
        bad("it is empty")
    } else if name.len() > NAME_BYTES_MAX {
        bad("it is longer than 255 bytes")
    } else if name.chars().any(char::is_control) {
        bad("it has control characters in it")
    } else {
        Ok(())
    }
}
