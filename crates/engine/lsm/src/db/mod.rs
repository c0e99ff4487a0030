//! The handles of an open database: what users call.
//!
//! [`Db`] and [`Transaction`](crate::Transaction) keep a database open.
//! [`Keyspace`](crate::Keyspace), cursors, ranges and snapshots do not: once it is closed, they fail. Both handles share
//! `operations`; `keyspaces_adapter` and `kv_adapter` implement the traits of `esker-api` by them.
//!
//! A handle of another database, or of an earlier open, is rejected before it does anything.

// Pages of documentation list the methods of a type in this order.
mod open;

mod keyspaces;

mod reads_and_writes;

pub(crate) mod keyspace;

mod transact;
pub(crate) mod transaction;

mod prepared;

pub(crate) mod indexed_batch;

mod ingest;

pub(crate) mod large_values;

mod changes;

mod follow;

pub(crate) mod replica;

mod upkeep;

mod introspection;

#[cfg(feature = "metrics")]
pub(crate) mod metrics;

mod change;

pub(crate) mod index;

pub(crate) mod cursor;
pub(crate) mod keyspaces_adapter;
pub(crate) mod kv_adapter;
pub(crate) mod operations;
pub(crate) mod range;
mod snapshot_reads;

use crate::engine::Engine;
use crate::recovery::close::{EngineHandle, Upkeep};
use esker_base::Result;
use std::sync::Arc;

/// An open database.
///
/// Clones are handles to the same database, and all calls may be made from several threads. The
/// database closes when the last handle is dropped. [`Db::close`] closes it at once and reports
/// errors, which a drop cannot do.
///
/// Call [`Db::keyspace`] for a handle that reads and writes one keyspace. The methods here that
/// take a `&Keyspace` do the same.
///
/// # Forks
///
/// A database belongs to the process that opened it, because a forked child has no background
/// threads. In a child every call fails with [`Error::Forked`](esker_base::Error::Forked), and calls
/// without a `Result` return empty answers. Dropping a handle there does nothing. A daemon opens its
/// databases after its last fork. The child of a `Command` is not affected.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, KeyspaceSettings, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let users = db.keyspace("users", KeyspaceSettings::default())?;
/// db.put(&users, b"ada", b"1815")?;
/// assert_eq!(db.get(&users, b"ada")?.as_deref(), Some(&b"1815"[..]));
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) handle: Arc<EngineHandle>,
}

impl Db {
    pub(crate) fn inner(&self) -> &Arc<Engine> {
        &self.handle.inner
    }

    /// The database, unless it is closed or this process is a forked child of the one that opened it.
    #[inline]
    pub(crate) fn usable(&self) -> Result<&Engine> {
        let inner: &Engine = self.inner();
        inner.tree.check_usable().map(|()| inner)
    }

    /// For calls that do I/O for upkeep: a close waits for them before it releases the lock.
    pub(crate) fn upkeep(&self) -> Result<Upkeep<'_>> {
        self.inner().begin_upkeep()
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").finish_non_exhaustive()
    }
}
