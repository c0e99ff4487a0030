//! What the adapters of several peers share.

use crate::check::foreign;
use esker_base::{Entry, KeyspaceId, Kind, Result};
use std::path::Path;

/// Creates the directory of a store, unless it exists.
pub(crate) fn create(dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir).map_err(|error| foreign("create", dir, error))
}

/// A write of one key, in the only keyspace that a peer has.
pub(crate) fn entry<'a>(kind: Kind, key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
    Entry { keyspace: KeyspaceId::DEFAULT, kind, key, value }
}

/// The totals of a peer that reports none: what its users wrote.
#[cfg(any(feature = "lmdb", feature = "redb", feature = "bf-tree"))]
pub(crate) fn written_by_users(user_bytes: &crate::tally::Tally) -> crate::Written {
    crate::Written { user_bytes: Some(user_bytes.total()), ..crate::Written::default() }
}
