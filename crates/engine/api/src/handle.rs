//! Handles that know which open store made them.

use esker_base::{Error, KeyspaceId, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// The id of one open store in this process. Each open of a store gets another id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct StoreId(u64);

impl StoreId {
    /// The id in handles that do not name their store. No open store has it.
    pub const ANY: StoreId = StoreId(0);

    /// Returns an id that no other store of this process has.
    pub fn next() -> StoreId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        StoreId(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the id of `keyspace` in the store that has this id. `store` names the store.
    ///
    /// # Errors
    /// [`Error::ForeignHandle`] if the handle is of another store, or of an earlier open.
    #[inline]
    pub fn resolve(
        self,
        keyspace: KeyspaceRef,
        store: impl FnOnce() -> String,
    ) -> Result<KeyspaceId> {
        if keyspace.store == self || keyspace.store == StoreId::ANY {
            return Ok(keyspace.id);
        }
        Err(foreign(format!("the keyspace with id {}", keyspace.id), store()))
    }
}

/// The error for `what`, which another store than `store` made.
#[cold]
pub fn foreign(what: String, store: String) -> Error {
    Error::ForeignHandle { what, store }
}

/// A reference to a keyspace of one open store, for reads and writes. Inexpensive to copy.
///
/// A store rejects the reference of another store with [`Error::ForeignHandle`]. A [`KeyspaceId`]
/// converts into a reference that names no store and is not checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyspaceRef {
    /// The id of the keyspace in its store.
    pub id: KeyspaceId,
    /// The store that made the reference, or [`StoreId::ANY`].
    pub store: StoreId,
}

impl KeyspaceRef {
    /// The default keyspace of any database.
    pub const DEFAULT: KeyspaceRef = KeyspaceRef { id: KeyspaceId::DEFAULT, store: StoreId::ANY };
}

impl From<KeyspaceId> for KeyspaceRef {
    fn from(id: KeyspaceId) -> Self {
        KeyspaceRef { id, store: StoreId::ANY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_refuses_only_the_handles_of_others() {
        let (own, other) = (StoreId::next(), StoreId::next());
        let of = |store| KeyspaceRef { id: KeyspaceId(3), store };
        let resolve = |store| own.resolve(of(store), || "own".to_owned());
        assert_eq!(resolve(own).unwrap(), KeyspaceId(3));
        assert_eq!(resolve(StoreId::ANY).unwrap(), KeyspaceId(3));
        assert!(matches!(resolve(other), Err(Error::ForeignHandle { .. })));
    }
}
