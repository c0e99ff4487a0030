//! The native part of Esker for Node. `index.js` makes it pleasant, and `index.d.ts` documents it.
//!
//! Each call is a task on Node's threads and returns a promise. A value that a call reads from is copied
//! before it returns, so the program may change it.

mod job;

use esker::transaction::Concurrency;
use esker::{
    Cursor, Db, DbCursor, Error, KeyRange, Keyspace, KeyspaceSettings, Settings, Transaction,
    TransactionOptions,
};
use job::{Job, Promise};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One step of a scan has about so many bytes at most, and one entry at least.
const SCANNED_BYTES: usize = 256 << 10;

/// How a transaction ended that has no further calls.
const ENDED: &str = "committed or rolled back";

/// Panics in a call, so that the tests see what becomes of it.
#[cfg(feature = "panic")]
#[napi]
pub fn panic() -> Promise<()> {
    Job::start(|| panic!("as the test asked"))
}

/// An open database.
#[napi]
pub struct NativeDb {
    db: Arc<Mutex<Option<Db>>>,
}

/// Opens the database in a directory, or creates it.
#[napi(catch_unwind)]
pub fn open(dir: String, settings: HashMap<String, String>) -> napi::Result<Promise<NativeDb>> {
    let mut by_name = Settings::default();
    // `sync` is checked against the log.
    let mut settings: Vec<_> = settings.into_iter().collect();
    settings.sort_by_key(|(name, _)| name == "sync");
    for (name, value) in settings {
        by_name.set_by_name(&name, &value).map_err(napi::Error::from_reason)?;
    }
    Ok(Job::start(move || {
        let db = Db::open(dir, by_name)?;
        Ok(NativeDb { db: Arc::new(Mutex::new(Some(db))) })
    }))
}

fn lock<T>(state: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NativeDb {
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(Db) -> esker::Result<T> + Send + 'static,
    ) -> Promise<T>
    where
        Job<T>: napi::Task,
    {
        let db = lock(&self.db).clone();
        Job::start(move || work(db.ok_or(Error::Closed)?))
    }
}

#[napi]
impl NativeDb {
    /// Opens a keyspace, or creates it.
    #[napi(catch_unwind)]
    pub fn keyspace(&self, name: String) -> Promise<NativeKeyspace> {
        self.with(move |db| {
            let keyspace = match db.open_keyspace(&name) {
                Err(Error::UnknownKeyspace { .. }) => {
                    db.keyspace(&name, KeyspaceSettings::default())?
                }
                opened => opened?,
            };
            Ok(NativeKeyspace { keyspace })
        })
    }

    /// Begins an optimistic transaction: it takes no locks, so it never holds up Node's threads.
    #[napi(catch_unwind)]
    pub fn begin(&self) -> Promise<NativeTransaction> {
        self.with(|db| {
            let options = TransactionOptions::default().concurrency(Concurrency::Optimistic);
            let transaction = Arc::new(Mutex::new(Some(db.transaction_with(options)?)));
            Ok(NativeTransaction { transaction })
        })
    }

    /// Closes the database. Does nothing if it is closed.
    #[napi(catch_unwind)]
    pub fn close(&self) -> Promise<()> {
        let db = lock(&self.db).take();
        Job::start(move || db.map_or(Ok(()), Db::close))
    }
}

/// A keyspace of an open database.
#[napi]
pub struct NativeKeyspace {
    keyspace: Keyspace,
}

#[napi]
impl NativeKeyspace {
    /// Reads a value.
    #[napi(catch_unwind)]
    pub fn get(&self, key: Buffer) -> Promise<Option<Vec<u8>>> {
        let (keyspace, key) = (self.keyspace.clone(), key.to_vec());
        Job::start(move || Ok(keyspace.get(key)?.map(Into::into)))
    }

    /// Sets a key to a value.
    #[napi(catch_unwind)]
    pub fn put(&self, key: Buffer, value: Buffer) -> Promise<()> {
        let (keyspace, key, value) = (self.keyspace.clone(), key.to_vec(), value.to_vec());
        Job::start(move || keyspace.put(key, value))
    }

    /// Deletes a key.
    #[napi(catch_unwind)]
    pub fn delete(&self, key: Buffer) -> Promise<()> {
        let (keyspace, key) = (self.keyspace.clone(), key.to_vec());
        Job::start(move || keyspace.delete(key))
    }

    /// Reads entries whose keys start with a prefix, at a snapshot.
    #[napi(catch_unwind)]
    pub fn scan(&self, prefix: Buffer, reverse: bool) -> Promise<NativeScan> {
        let (keyspace, range) = (self.keyspace.clone(), KeyRange::prefix(&prefix[..]));
        Job::start(move || {
            let mut cursor = keyspace.cursor(range)?;
            if reverse { cursor.seek_last() } else { cursor.seek_first() }?;
            let state = ScanState { cursor: Some(cursor), failed: None };
            Ok(NativeScan { state: Arc::new(Mutex::new(state)), reverse })
        })
    }
}

/// Entries that are being read.
#[napi]
pub struct NativeScan {
    state: Arc<Mutex<ScanState>>,
    reverse: bool,
}

struct ScanState {
    /// `None` once it is closed.
    cursor: Option<DbCursor>,
    /// An error behind entries that were returned, for the next call.
    failed: Option<Error>,
}

impl ScanState {
    /// The next entries, keys and values in turns.
    fn next(&mut self, entries: usize, reverse: bool) -> esker::Result<Vec<Vec<u8>>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        if let Some(error) = self.failed.take() {
            self.cursor = None;
            return Err(error);
        }
        let cursor = self.cursor.as_mut().ok_or(Error::Closed)?;
        while let Some((key, value)) = cursor.current()
            && found.len() < entries * 2
            && bytes < SCANNED_BYTES
        {
            bytes += key.len() + value.len();
            found.extend([key.to_vec(), value.to_vec()]);
            if let Err(error) = if reverse { cursor.prev() } else { cursor.next() } {
                self.failed = Some(error);
                break;
            }
        }
        Ok(found)
    }
}

#[napi]
impl NativeScan {
    /// Returns the next entries, at most so many, and fewer if they are long: keys and values in turns.
    /// It is empty at the end.
    #[napi(catch_unwind)]
    pub fn next(&self, entries: u32) -> Promise<Vec<Vec<u8>>> {
        let (state, reverse) = (self.state.clone(), self.reverse);
        Job::start(move || lock(&state).next(entries as usize, reverse))
    }

    /// Frees what the scan holds.
    #[napi(catch_unwind)]
    pub fn close(&self) -> Promise<()> {
        let state = self.state.clone();
        Job::start(move || {
            lock(&state).cursor = None;
            Ok(())
        })
    }
}

/// A transaction, until it is committed or rolled back.
#[napi]
pub struct NativeTransaction {
    transaction: Arc<Mutex<Option<Transaction>>>,
}

impl NativeTransaction {
    fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Transaction) -> esker::Result<T> + Send + 'static,
    ) -> Promise<T>
    where
        Job<T>: napi::Task,
    {
        let transaction = self.transaction.clone();
        Job::start(move || match &mut *lock(&transaction) {
            Some(transaction) => work(transaction),
            None => Err(Error::TransactionEnded { how: ENDED }),
        })
    }
}

#[napi]
impl NativeTransaction {
    /// Reads a value, which the commit finds unchanged by others.
    #[napi(catch_unwind)]
    pub fn get(&self, keyspace: &NativeKeyspace, key: Buffer) -> Promise<Option<Vec<u8>>> {
        let (keyspace, key) = (keyspace.keyspace.clone(), key.to_vec());
        self.with(move |tx| Ok(tx.get_for_update(&keyspace, key)?.map(Into::into)))
    }

    /// Sets a key to a value.
    #[napi(catch_unwind)]
    pub fn put(&self, keyspace: &NativeKeyspace, key: Buffer, value: Buffer) -> Promise<()> {
        let (keyspace, key, value) = (keyspace.keyspace.clone(), key.to_vec(), value.to_vec());
        self.with(move |tx| tx.put(&keyspace, key, value))
    }

    /// Deletes a key.
    #[napi(catch_unwind)]
    pub fn delete(&self, keyspace: &NativeKeyspace, key: Buffer) -> Promise<()> {
        let (keyspace, key) = (keyspace.keyspace.clone(), key.to_vec());
        self.with(move |tx| tx.delete(&keyspace, key))
    }

    /// Commits. False if the transaction conflicts with another.
    #[napi(catch_unwind)]
    pub fn commit(&self) -> Promise<bool> {
        let transaction = self.transaction.clone();
        // A call that was not awaited may have the lock: the event loop must not wait for it.
        Job::start(move || {
            let transaction = lock(&transaction).take();
            match transaction.ok_or(Error::TransactionEnded { how: ENDED })?.commit() {
                Err(error) if error.is_transient() => Ok(false),
                committed => committed.map(|()| true),
            }
        })
    }

    /// Discards all writes. Does nothing if the transaction has ended.
    #[napi(catch_unwind)]
    pub fn rollback(&self) -> Promise<()> {
        let transaction = self.transaction.clone();
        Job::start(move || {
            drop(lock(&transaction).take());
            Ok(())
        })
    }
}
