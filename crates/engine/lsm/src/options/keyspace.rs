//! Keyspaces: named, separate sets of keys in one database.

use super::settings::KeyspaceSettings;
use esker_api::{KeyspaceRef, StoreId};
use esker_base::{Error, KeyspaceId, Result};

/// The name of the keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A handle to a keyspace of one open database. Cheap to clone.
///
/// Another database refuses the handle, and so does this one once it was closed and opened again:
/// [`Error::ForeignHandle`]. [`Db::existing_keyspace`](crate::Db::existing_keyspace) gives a new one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyspace {
    pub(crate) id: KeyspaceId,
    pub(crate) name: std::sync::Arc<str>,
    pub(crate) store: StoreId,
}

impl Keyspace {
    /// Its id, which no other keyspace of the database ever has. A bare id does not say which
    /// database it is of: calls that take one can't refuse that of another database.
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

impl From<&Keyspace> for KeyspaceRef {
    fn from(keyspace: &Keyspace) -> KeyspaceRef {
        KeyspaceRef { id: keyspace.id, store: keyspace.store }
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
