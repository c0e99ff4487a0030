//! A database in memory that can be made to forget what changed, or to do something in the middle of a
//! write.

use esker_api::{BatchLimits, Cursor, KeyRange, KeyspaceRef, Keyspaces, Value, WriteBatch};
use esker_base::{KeyspaceId, Result};
use esker_lsm::{Db, Env, Log, Settings, Snapshot};
use esker_storage::MemoryStorage;
use esker_txn::TransactionDb;
use std::sync::{Arc, Mutex};

/// What to do before the next write reaches the database.
type Hook = Box<dyn FnOnce() + Send>;

/// See the file's head.
pub struct Store {
    db: Db,
    is_forgetful: bool,
    before_write: Mutex<Option<Hook>>,
}

impl Store {
    pub fn sound() -> TransactionDb<Store> {
        TransactionDb::new(Store::new(false))
    }

    /// With a store that says that nothing has changed, whatever it is asked.
    pub fn forgetful() -> TransactionDb<Store> {
        TransactionDb::new(Store::new(true))
    }

    fn new(is_forgetful: bool) -> Store {
        let env = Env::over(Arc::new(MemoryStorage::new()));
        // Small segments: flushes come in between.
        let settings =
            Settings::default().log(Log::None).segment_bytes(64 << 10).memory_bytes(8 << 20);
        let db = Db::open_with(env, settings).unwrap();
        Store { db, is_forgetful, before_write: Mutex::default() }
    }

    /// Has `hook` run once, by the next write, before it has any effect.
    pub fn before_next_write(&self, hook: impl FnOnce() + Send + 'static) {
        *self.before_write.lock().unwrap() = Some(Box::new(hook));
    }
}

impl Keyspaces for Store {
    type Snapshot = Snapshot;

    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        Keyspaces::keyspace(&self.db, name)
    }
    fn resolve(&self, keyspace: KeyspaceRef) -> Result<KeyspaceId> {
        self.db.resolve(keyspace)
    }
    fn check_keyspace(&self, keyspace: KeyspaceId) -> Result<()> {
        self.db.check_keyspace(keyspace)
    }
    fn batch_limits(&self) -> BatchLimits {
        self.db.batch_limits()
    }
    fn snapshot(&self) -> Snapshot {
        self.db.snapshot()
    }
    fn get(&self, keyspace: KeyspaceId, key: &[u8]) -> Result<Option<Value>> {
        Keyspaces::get(&self.db, keyspace, key)
    }
    fn get_at(&self, keyspace: KeyspaceId, key: &[u8], at: &Snapshot) -> Result<Option<Value>> {
        Keyspaces::get_at(&self.db, keyspace, key, at)
    }
    fn cursor_at(
        &self,
        keyspace: KeyspaceId,
        range: KeyRange,
        at: &Snapshot,
    ) -> Result<Box<dyn Cursor + Send + '_>> {
        Keyspaces::cursor_at(&self.db, keyspace, range, at)
    }
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let hook = self.before_write.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.db.write(batch)
    }
    fn changed_since(&self, keyspace: KeyspaceId, key: &[u8], at: &Snapshot) -> Result<bool> {
        Ok(!self.is_forgetful && self.db.changed_since(keyspace, key, at)?)
    }
    fn range_changed_since(
        &self,
        keyspace: KeyspaceId,
        range: &KeyRange,
        at: &Snapshot,
    ) -> Result<bool> {
        Ok(!self.is_forgetful && self.db.range_changed_since(keyspace, range, at)?)
    }
}
