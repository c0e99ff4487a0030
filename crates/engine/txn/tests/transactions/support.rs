//! A database in memory, and short names for what tests do with it.

use esker_api::{
    Concurrency, Isolation, KeyRange, KeyspaceRef, Transaction, TransactionOptions, Transactional,
    WriteBatch,
};
use esker_base::Result;
use esker_lsm::{Db, Env, Log, Settings};
use esker_storage::{MemoryStorage, Storage};
use esker_txn::{LockStats, TransactionDb};
use std::sync::Arc;
use std::time::Duration;

pub const KEYSPACE: KeyspaceRef = KeyspaceRef::DEFAULT;

/// Longer than any test takes: a wait of this length never ends.
pub const LONG: Duration = Duration::from_secs(100);

/// An empty database in memory, without a log.
pub fn memory_db() -> Db {
    db_on(Arc::new(MemoryStorage::new()), Log::None)
}

/// An empty database on `storage`.
pub fn db_on(storage: Arc<dyn Storage>, log: Log) -> Db {
    let env = Env::over(storage);
    let settings = Settings::default().log(log).segment_bytes(256 << 10).memory_bytes(8 << 20);
    Db::open_with(env, settings).unwrap()
}

/// A store with transactions that holds `pairs`.
pub fn store_of(pairs: &[(&str, &str)]) -> TransactionDb<Db> {
    let store = TransactionDb::new(memory_db());
    let mut batch = WriteBatch::new();
    pairs.iter().for_each(|(key, value)| batch.put(KEYSPACE, key.as_bytes(), value.as_bytes()));
    store.write(&batch).unwrap();
    store
}

/// Options with a timeout that is never reached.
pub fn options(isolation: Isolation, concurrency: Concurrency) -> TransactionOptions {
    TransactionOptions::default().isolation(isolation).concurrency(concurrency).lock_timeout(LONG)
}

/// Options with which a transaction that would have to wait fails at once.
pub fn impatient(isolation: Isolation, concurrency: Concurrency) -> TransactionOptions {
    TransactionOptions::default()
        .isolation(isolation)
        .concurrency(concurrency)
        .lock_timeout(Duration::ZERO)
}

/// Every level, both ways.
pub fn all_options() -> impl Iterator<Item = TransactionOptions> {
    Isolation::ALL.into_iter().flat_map(|level| BOTH.map(|way| options(level, way)))
}

pub const BOTH: [Concurrency; 2] = [Concurrency::Pessimistic, Concurrency::Optimistic];

/// Keys and values as text.
pub trait Text {
    fn read(&mut self, key: &str) -> Option<String>;
    fn read_for_update(&mut self, key: &str) -> Result<Option<String>>;
    fn write(&mut self, key: &str, value: &str) -> Result<()>;
    /// The entries from `from` up to, not including, `to`, as `key=value`.
    fn scan(&mut self, from: &str, to: &str) -> Vec<String>;
}

impl Text for Box<dyn Transaction + '_> {
    fn read(&mut self, key: &str) -> Option<String> {
        text(self.get(KEYSPACE, key.as_bytes()).unwrap())
    }
    fn read_for_update(&mut self, key: &str) -> Result<Option<String>> {
        self.get_for_update(KEYSPACE, key.as_bytes()).map(text)
    }
    fn write(&mut self, key: &str, value: &str) -> Result<()> {
        self.put(KEYSPACE, key.as_bytes(), value.as_bytes())
    }
    fn scan(&mut self, from: &str, to: &str) -> Vec<String> {
        let mut cursor = self.cursor(KEYSPACE, KeyRange::of(from..to)).unwrap();
        let mut found = Vec::new();
        cursor.seek_first().unwrap();
        while let Some((key, value)) = cursor.current() {
            found.push(format!("{}={}", key.escape_ascii(), value.escape_ascii()));
            cursor.next().unwrap();
        }
        found
    }
}

fn text(value: Option<esker_api::Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.into_vec()).unwrap())
}

/// What is committed for `key`.
pub fn committed(store: &TransactionDb<Db>, key: &str) -> Option<String> {
    text(store.get(KEYSPACE, key.as_bytes()).unwrap())
}

/// No lock is held.
#[track_caller]
pub fn assert_nothing_held(store: &TransactionDb<Db>) {
    assert_eq!(store.held(), LockStats::default());
}
