//! The environment of a database, and the place of its logs.

use super::unlisted_files::location_check;
use crate::log::pmem_wal;
use crate::log::pmem_wal::PmemWalFs;
use crate::log::wal_files;
use crate::log::wal_reader::WalSource;
use crate::manifest::manifest_state::ManifestState;
use crate::options::settings::{Log, Settings};
use esker_base::{Background, Clock, Error, Result, SystemClock, Threads, seed_from_os};
use esker_pmem::{Accept, Pool};
use esker_storage::{Encryption, PosixStorage, Storage, WideReader};
use std::hash::Hasher;
use std::sync::Arc;

/// The environment of a database: storage, clock, threads and random seed.
///
/// [`Db::open`](crate::Db::open) uses the operating system's. Tests and simulations pass their own
/// to [`Db::open_with`](crate::Db::open_with). Begin with [`Env::over`] and change what is special:
///
/// ```
/// use esker_lsm::{Db, Env, Settings};
/// use esker_storage::MemoryStorage;
/// use std::sync::Arc;
///
/// let env = Env::over(Arc::new(MemoryStorage::new())).seed(7);
/// let db = Db::open_with(env, Settings::default())?;
/// db.put(&db.default_keyspace(), "k", "v")?;
/// # Ok::<(), esker_base::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Env {
    /// The storage of the manifest and the tables, and of the log unless `log_storage` or `pool` is
    /// set.
    pub storage: Arc<dyn Storage>,
    /// The storage of the log files, if it is a separate one.
    pub log_storage: Option<Arc<dyn Storage>>,
    /// The pool of persistent memory that holds the log. Required by [`Log::Pmem`], which then
    /// ignores `log_storage`; ignored by other logs.
    pub pool: Option<Arc<Pool>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The executor of background threads.
    pub background: Arc<dyn Background>,
    /// The random seed for the id of a new database and the salt of new log segments.
    pub seed: u64,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Env {
    /// Returns an environment with `storage` for all files and the operating system's clock,
    /// threads and random seed.
    pub fn over(storage: Arc<dyn Storage>) -> Env {
        Env {
            storage,
            log_storage: None,
            pool: None,
            clock: Arc::new(SystemClock::new()),
            background: Arc::new(Threads),
            seed: seed_from_os(),
        }
    }

    /// Puts the files of logs on `storage`, and leaves the tables and the manifest where they are.
    pub fn log_storage(mut self, storage: Arc<dyn Storage>) -> Env {
        self.log_storage = Some(storage);
        self
    }

    /// Puts the log into `pool`, if the settings ask for [`Log::Pmem`].
    pub fn pool(mut self, pool: Arc<Pool>) -> Env {
        self.pool = Some(pool);
        self
    }

    /// Takes the time from `clock`.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Env {
        self.clock = clock;
        self
    }

    /// Runs background threads on `background`.
    pub fn background(mut self, background: Arc<dyn Background>) -> Env {
        self.background = background;
        self
    }

    /// Draws the id of a new database and the salt of new log segments from `seed`.
    pub fn seed(mut self, seed: u64) -> Env {
        self.seed = seed;
        self
    }

    /// Returns the environment with the log storage that the settings ask for, and the settings
    /// that apply in it.
    pub(crate) fn fit(self, settings: Settings) -> Result<(Env, Settings)> {
        let settings = settings.with_resources();
        let env = match &settings.encryption {
            Some(encryption) => self.encrypted(encryption),
            None => self,
        };
        settings.check_encryption(env.storage.encryption().is_some())?;
        env.with_log_of(settings)
    }

    /// The environment with files that are encrypted, unless its own are.
    fn encrypted(self, encryption: &Encryption) -> Env {
        let over = |storage: Arc<dyn Storage>| match storage.encryption() {
            Some(_) => storage,
            None => encryption.over(storage),
        };
        let log_storage = self.log_storage.map(over);
        Env { storage: over(self.storage), log_storage, ..self }
    }

    fn with_log_of(self, settings: Settings) -> Result<(Env, Settings)> {
        match (&settings.log, self.pool.clone()) {
            (Log::Pmem { .. }, Some(pool)) => {
                let settings = settings.with_pool(&pool);
                Ok((Env { log_storage: Some(Arc::new(PmemWalFs(pool))), ..self }, settings))
            }
            (Log::Pmem { pool, .. }, None) => Err(Error::PoolRefused {
                pool: pool.display().to_string(),
                reason: "the settings ask for it, and the environment does not have it".into(),
            }),
            _ => Ok((Env { pool: None, ..self }, settings)),
        }
    }

    /// Returns what reads many blocks at once for a database with these settings.
    pub(crate) fn wide_reader(&self, settings: &Settings) -> WideReader {
        WideReader::new(self.background.clone(), settings.wide_read_bytes())
    }

    /// A number that follows from the seed given and from what it is for. Who is shown one of them can't
    /// work out another: the hash, SipHash, does not run backwards.
    pub(crate) fn draw(&self, purpose: &[u8; 8]) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(purpose);
        hasher.write_u64(self.seed);
        hasher.finish()
    }

    /// The storages of files: of tables, and of logs if they have one of their own.
    pub(crate) fn storages(&self) -> Vec<&dyn Storage> {
        std::iter::once(&self.storage).chain(&self.log_storage).map(|storage| &**storage).collect()
    }

    /// Where logs are read from, and orphaned files are removed from.
    pub(crate) fn logs(&self) -> &Arc<dyn Storage> {
        self.log_storage.as_ref().unwrap_or(&self.storage)
    }

    /// Where logs are read from to be gone on with.
    pub(crate) fn log_source(&self) -> WalSource<'_> {
        let pool = self.pool.as_ref();
        WalSource { storage: &**self.logs(), pool, background: &*self.background }
    }

    /// Where logs are read from that are next to the tables.
    pub(crate) fn tables_source(&self) -> WalSource<'_> {
        WalSource { storage: &*self.storage, pool: None, background: &*self.background }
    }

    /// Fails if a log is not on `logs`, which is where they are to be, but next to the tables.
    pub(crate) fn check_logs_place(&self, logs: &dyn Storage, state: &ManifestState) -> Result<()> {
        match self.log_storage {
            Some(_) => location_check::check(&*self.storage, logs, self.pool.is_some(), state),
            None => Ok(()),
        }
    }

    /// Returns the storage of the logs at its present state, while a writer continues.
    pub(crate) fn logs_now(&self) -> Result<Arc<dyn Storage>> {
        match &self.pool {
            Some(pool) => Ok(Arc::new(PmemWalFs(pool.look_again()?))),
            None => Ok(self.logs().clone()),
        }
    }

    /// Whether the pool belongs to the database `identity` already, as far as this process sees.
    pub(crate) fn owns_pool(&self, identity: u64) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.owner() == Some(identity))
    }

    /// Takes the place of the logs for the database `identity`.
    pub(crate) fn claim_logs(&self, identity: u64, has_logs: bool) -> Result<()> {
        match (&self.pool, &self.log_storage) {
            (Some(pool), _) => {
                pool.settle()?;
                pmem_wal::claim(pool, identity, has_logs)
            }
            (None, Some(storage)) => wal_files::claim_directory(&**storage, identity, has_logs),
            (None, None) => Ok(()),
        }
    }
}

/// Returns the environment of the operating system. Creates directories only for a writable
/// database.
pub(crate) fn posix_env(
    storage: Arc<PosixStorage>,
    settings: &Settings,
    writable: bool,
) -> Result<Env> {
    let storage: Arc<dyn Storage> = storage;
    let pool = match &settings.log {
        Log::Pmem { pool, emulated } => {
            let accept = if *emulated { Accept::Emulated } else { Accept::Persistent };
            let open = if writable { Pool::open } else { Pool::open_read_only };
            let opened = open(pool, accept);
            Some(
                opened
                    .map_err(|error| location_check::explain_missing_pool(error, pool, &storage))?,
            )
        }
        _ => None,
    };
    let log_storage: Option<Arc<dyn Storage>> = match &settings.log {
        Log::File { dir: Some(dir), .. } if writable => Some(Arc::new(PosixStorage::create(dir)?)),
        Log::File { dir: Some(dir), .. } => Some(Arc::new(PosixStorage::open(dir)?)),
        _ => None,
    };
    Ok(Env { log_storage, pool, ..Env::over(storage) })
}
