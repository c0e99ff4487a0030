//! A database whose calls are futures.

use crate::blocking::{Blocking, DEFAULT_THREADS, run_at_once};
use crate::elsewhere::Elsewhere;
use crate::keyspace::AsyncKeyspace;
use esker::{Db, KeyspaceSettings, Result, Settings, Transaction, WriteBatch};
use std::path::PathBuf;
use std::sync::Arc;

/// A database whose calls are futures. Clones share it.
///
/// The database is closed by [`AsyncDb::close`], or once all handles of it are dropped. The last one to be
/// dropped in a task closes it on another thread, whose end nothing waits for, and errors are lost.
#[derive(Clone, Debug)]
pub struct AsyncDb {
    db: Arc<Elsewhere<Db>>,
    blocking: Blocking,
}

impl AsyncDb {
    /// Opens the database in the directory `dir`, and creates it if it is missing: [`Db::open`].
    ///
    /// # Errors
    /// The errors of [`Db::open`].
    pub async fn open(dir: impl Into<PathBuf>, settings: Settings) -> Result<AsyncDb> {
        let dir = dir.into();
        let blocking = Blocking::new(DEFAULT_THREADS);
        let db = blocking.run(move || Db::open(dir, settings)).await?;
        Ok(AsyncDb { db: Arc::new(Elsewhere::of(db)), blocking })
    }

    /// Wraps a database that is open.
    pub fn new(db: Db) -> AsyncDb {
        AsyncDb::with_threads(db, DEFAULT_THREADS)
    }

    /// Wraps a database that is open. At most `threads` of its calls, at least 1, block a thread at a time.
    pub fn with_threads(db: Db, threads: usize) -> AsyncDb {
        AsyncDb { db: Arc::new(Elsewhere::of(db)), blocking: Blocking::new(threads) }
    }

    /// Returns the database, whose own calls may block. [`Db::batch`] waits for nothing. [`Db::snapshot`]
    /// waits for at most one write to the manifest.
    pub fn db(&self) -> &Db {
        self.db.get()
    }

    /// Returns a keyspace, and creates it if it is missing: [`Db::keyspace`].
    ///
    /// # Errors
    /// The errors of [`Db::keyspace`].
    pub async fn keyspace(
        &self,
        name: impl Into<String>,
        settings: KeyspaceSettings,
    ) -> Result<AsyncKeyspace> {
        let name = name.into();
        let keyspace = self.blocking(move |db| db.keyspace(&name, settings)).await?;
        Ok(AsyncKeyspace::new(keyspace, self.db.clone(), self.blocking.clone()))
    }

    /// Returns the keyspace that always exists.
    pub fn default_keyspace(&self) -> AsyncKeyspace {
        AsyncKeyspace::new(self.db().default_keyspace(), self.db.clone(), self.blocking.clone())
    }

    /// Writes a batch, as a whole or not at all: [`Db::write`].
    ///
    /// # Errors
    /// The errors of [`Db::write`].
    pub async fn write(&self, batch: WriteBatch) -> Result<()> {
        self.blocking(move |db| db.write(&batch)).await
    }

    /// Commits a transaction: [`Transaction::commit`]. It waits for no other call, because calls may wait
    /// for the locks of the transaction.
    ///
    /// # Errors
    /// The errors of [`Transaction::commit`].
    pub async fn commit(&self, transaction: Transaction) -> Result<()> {
        run_at_once(move || transaction.commit()).await
    }

    /// Runs a transaction, and runs it again after a conflict: [`Db::transact`].
    ///
    /// # Errors
    /// The errors of [`Db::transact`].
    pub async fn transact<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.blocking(move |db| db.transact(work)).await
    }

    /// Makes everything written so far durable: [`Db::sync`].
    ///
    /// # Errors
    /// The errors of [`Db::sync`].
    pub async fn sync(&self) -> Result<()> {
        self.blocking(Db::sync).await
    }

    /// Runs `work` with the database on a thread that it may block.
    ///
    /// # Errors
    /// The errors of `work`, and [`Error::Cancelled`](esker::Error::Cancelled) if the runtime shuts down
    /// before its turn.
    ///
    /// # Panics
    /// If `work` panics.
    pub async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Db) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.db.clone();
        self.blocking.run(move || work(db.get())).await
    }

    /// Closes the database: [`Db::close`].
    ///
    /// # Errors
    /// The errors of [`Db::close`].
    pub async fn close(self) -> Result<()> {
        let db = self.db().clone();
        run_at_once(move || db.close()).await
    }
}
