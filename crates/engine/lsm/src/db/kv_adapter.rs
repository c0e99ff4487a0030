//! One keyspace of a database behind the traits that workloads and servers use.

use super::Db;
use super::keyspace::Keyspace;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{Cursor, KeyRange, KeyspaceRef, Kv, Ordered, Value, WriteBatch, foreign};
use esker_base::Result;

/// One keyspace of a [`Db`] as a [`Kv`] and [`Ordered`] store.
#[derive(Clone, Debug)]
pub struct Store {
    db: Db,
    keyspace: Keyspace,
}

impl Db {
    /// Returns `keyspace` as a store that implements the traits of `esker::api`.
    pub fn store(&self, keyspace: &Keyspace) -> Store {
        Store { db: self.clone(), keyspace: keyspace.clone() }
    }
}

impl Kv for Store {
    fn keyspace_ref(&self) -> KeyspaceRef {
        (&self.keyspace).into()
    }
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.db.get(&self.keyspace, key)
    }
    fn try_get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.db.try_get(&self.keyspace, key)
    }
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        self.db.multi_get(&self.keyspace, keys)
    }
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.db.write(batch)
    }
}

impl Ordered for Store {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(self.db.cursor(&self.keyspace, range)?))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn esker_api::Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        let snapshot = self.registered(snapshot)?;
        Ok(Box::new(snapshot.cursor(&self.keyspace, range)?))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn esker_api::Snapshot) -> Result<Option<Value>> {
        self.registered(snapshot)?.get(&self.keyspace, key)
    }

    fn snapshot(&self) -> Result<Box<dyn esker_api::Snapshot + '_>> {
        Ok(Box::new(self.db.snapshot()))
    }
}

impl Store {
    /// A holder of a snapshot that is held already.
    fn registered(&self, snapshot: &dyn esker_api::Snapshot) -> Result<Snapshot> {
        let tree = &self.db.inner().tree;
        let joined = tree.snapshots.join(tree.resolve_snapshot(snapshot)?);
        match tree.follows.is_some() && joined.view().is_none() {
            true => {
                Err(foreign(format!("the snapshot at {}", joined.seqno()), tree.storage.describe()))
            }
            false => Ok(joined),
        }
    }
}
