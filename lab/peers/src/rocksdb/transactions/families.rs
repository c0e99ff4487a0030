//! The column families of a store by their numbers, to be found without a lock and without a name.

use super::Database;
use crate::check::foreign;
use ::rocksdb::{
    BoundColumnFamily, ColumnFamilyDescriptor, DB, DEFAULT_COLUMN_FAMILY_NAME, Error as RocksError,
    FlushOptions, Options, TransactionDBOptions,
};
use esker_api::KeyspaceRef;
use esker_base::{Error, KeyspaceId, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// More than any workload has.
const MOST: usize = 64;

type Family = Arc<BoundColumnFamily<'static>>;

/// A database and its column families. A family's number is its place here, and holds until the store
/// is closed.
pub(super) struct Families {
    // Before the database, so that they are released first: fields are dropped in their order.
    handles: Vec<OnceLock<Family>>,
    database: Arc<Database>,
    /// The names, in order of their numbers.
    names: Mutex<Vec<String>>,
    options: Options,
    dir: PathBuf,
}

impl Families {
    /// Opens the database in `dir` with all the families it has, or creates one.
    pub(super) fn open(dir: &Path, options: Options) -> Result<Self> {
        // A directory without a database has no list.
        let mut names = DB::list_cf(&options, dir).unwrap_or_default();
        names.retain(|name| name != DEFAULT_COLUMN_FAMILY_NAME);
        let descriptors =
            names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
        let database = Database::open_cf_descriptors(
            &options,
            &TransactionDBOptions::default(),
            dir,
            descriptors.collect::<Vec<_>>(),
        );
        let database = database.map_err(|error| foreign("open", dir, error))?;
        let families = Families {
            handles: (0..MOST).map(|_| OnceLock::new()).collect(),
            database: Arc::new(database),
            names: Mutex::new(Vec::new()),
            options,
            dir: dir.to_owned(),
        };
        for name in names {
            families.named(&name)?;
        }
        Ok(families)
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// The family of this name, created if there is none.
    pub(super) fn named(&self, name: &str) -> Result<KeyspaceRef> {
        // A name is pushed once its handle is there.
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = names.iter().position(|known| known == name) {
            return Ok(KeyspaceId(number as u32).into());
        }
        let number = names.len();
        let refused = |reason| Error::BadKeyspaceName { name: name.to_owned(), reason };
        let place = self.handles.get(number).ok_or_else(|| refused("there are 64 already"))?;
        if name == DEFAULT_COLUMN_FAMILY_NAME {
            return Err(refused("RocksDB calls a column family of its own so"));
        }
        let handle = match self.handle(name) {
            Some(handle) => handle,
            None => {
                let created = self.database.create_cf(name, &self.options);
                created.map_err(|error| foreign("create a column family in", &self.dir, error))?;
                self.handle(name).expect("it was just created")
            }
        };
        assert!(place.set(handle).is_ok(), "numbers are given out under the lock, once");
        names.push(name.to_owned());
        Ok(KeyspaceId(number as u32).into())
    }

    fn handle(&self, name: &str) -> Option<Family> {
        // SAFETY: handles live in `handles` alone, which is dropped before the `Arc` beside it, and are
        // handed out by reference to `self`; the database does not move, being in an `Arc`.
        let database: &'static Database = unsafe { &*Arc::as_ptr(&self.database) };
        database.cf_handle(name)
    }

    /// The family of this number.
    pub(super) fn of(&self, keyspace: impl Into<KeyspaceRef>) -> Result<&Family> {
        let keyspace = keyspace.into().id;
        let handle = self.handles.get(keyspace.0 as usize).and_then(OnceLock::get);
        handle.ok_or_else(|| Error::UnknownKeyspace { name: keyspace.to_string() })
    }

    /// Writes the memtables of all to tables.
    pub(super) fn flush(&self) -> Result<(), RocksError> {
        let handles: Vec<&Family> = self.handles.iter().filter_map(OnceLock::get).collect();
        if handles.is_empty() {
            return Ok(());
        }
        // They wait by default.
        self.database.flush_cfs_opt(&handles, &FlushOptions::default())
    }
}
