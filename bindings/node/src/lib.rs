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

/// An open database.
#[napi]
pub struct NativeDb {
    db: Arc<Mutex<Option<Db>>>,
}

/// Opens the database in a directory, or creates it.
#[napi]
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
    #[napi]
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
    #[napi]
    pub fn begin(&self) -> Promise<NativeTransaction> {
        self.with(|db| {
            let options = TransactionOptions::default().concurrency(Concurrency::Optimistic);
            let transaction = Arc::new(Mutex::new(Some(db.transaction_with(options)?)));
            Ok(NativeTransaction { transaction })
        })
    }

    /// Closes the database. Does nothing if it is closed.
    #[napi]
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
    #[napi]
    pub fn get(&self, key: Buffer) -> Promise<Option<Vec<u8>>> {
        let (keyspace, key) = (self.keyspace.clone(), key.to_vec());
        Job::start(move || Ok(keyspace.get(key)?.map(Into::into)))
    }

    /// Sets a key to a value.
    #[napi]
    pub fn put(&self, key: Buffer, value: Buffer) -> Promise<()> {
        let (keyspace, key, value) = (self.keyspace.clone(), key.to_vec(), value.to_vec());
        Job::start(move || keyspace.put(key, value))
    }

    /// Deletes a key.
    #[napi]
    pub fn delete(&self, key: Buffer) -> Promise<()> {
        let (keyspace, key) = (self.keyspace.clone(), key.to_vec());
        Job::start(move || keyspace.delete(key))
    }

    /// Reads entries whose keys start with a prefix, at a snapshot.
    #[napi]
    pub fn scan(&self, prefix: Buffer, reverse: bool) -> Promise<NativeScan> {
        let (keyspace, range) = (self.keyspace.clone(), KeyRange::prefix(&prefix[..]));
        Job::start(move || {
            let mut cursor = keyspace.cursor(range)?;
            if reverse { cursor.seek_last() } else { cursor.seek_first() }?;
            Ok(NativeScan { cursor: Arc::new(Mutex::new(cursor)), reverse })
        })
    }
}

/// Entries that are being read.
#[napi]
pub struct NativeScan {
    cursor: Arc<Mutex<DbCursor>>,
    reverse: bool,
}

#[napi]
impl NativeScan {
    /// Returns the next entries, at most so many: keys and values in turns. It is empty at the end.
    #[napi]
    pub fn next(&self, entries: u32) -> Promise<Vec<Vec<u8>>> {
        let (cursor, reverse) = (self.cursor.clone(), self.reverse);
        Job::start(move || {
            let (mut cursor, mut found) = (lock(&cursor), Vec::new());
            while let Some((key, value)) = cursor.current()
                && found.len() < entries as usize * 2
            {
                found.extend([key.to_vec(), value.to_vec()]);
                if reverse { cursor.prev() } else { cursor.next() }?;
            }
            Ok(found)
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
            None => Err(Error::TransactionEnded { how: "ended" }),
        })
    }
}

#[napi]
impl NativeTransaction {
    /// Reads a value, which the commit finds unchanged by others.
    #[napi]
    pub fn get(&self, keyspace: &NativeKeyspace, key: Buffer) -> Promise<Option<Vec<u8>>> {
        let (keyspace, key) = (keyspace.keyspace.clone(), key.to_vec());
        self.with(move |tx| Ok(tx.get_for_update(&keyspace, key)?.map(Into::into)))
    }

    /// Sets a key to a value.
    #[napi]
    pub fn put(&self, keyspace: &NativeKeyspace, key: Buffer, value: Buffer) -> Promise<()> {
        let (keyspace, key, value) = (keyspace.keyspace.clone(), key.to_vec(), value.to_vec());
        self.with(move |tx| tx.put(&keyspace, key, value))
    }

    /// Deletes a key.
    #[napi]
    pub fn delete(&self, keyspace: &NativeKeyspace, key: Buffer) -> Promise<()> {
        let (keyspace, key) = (keyspace.keyspace.clone(), key.to_vec());
        self.with(move |tx| tx.delete(&keyspace, key))
    }

    /// Commits. False if the transaction conflicts with another.
    #[napi]
    pub fn commit(&self) -> Promise<bool> {
        let transaction = lock(&self.transaction).take();
        Job::start(move || {
            let ended = Error::TransactionEnded { how: "ended" };
            match transaction.ok_or(ended)?.commit() {
                Err(error) if error.is_transient() => Ok(false),
                committed => committed.map(|()| true),
            }
        })
    }

    /// Discards all writes. Does nothing if the transaction has ended.
    #[napi]
    pub fn rollback(&self) {
        drop(lock(&self.transaction).take());
    }
}
