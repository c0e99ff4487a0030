//! Open databases and their column families, as handles of C programs refer to them.

use crate::border::{Result, Status};
use crate::cache::Cache;
use crate::comparator::KeyOrder;
use crate::direction::Direction;
use crate::filter::Filter;
use crate::logger::Logger;
use crate::merge::Operator;
use crate::options::Options;
use crate::prefix::Prefix;
use crate::slots::{Place, Slots, direction_of, slot_of};
use crate::stamps::{self, Stamps};
use crate::statistics::Statistics;
use esker::backup::LiveFiles;
use esker::{Db, Keyspace, KeyspaceId, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// RocksDB's `rocksdb_t`, `rocksdb_transactiondb_t` and `rocksdb_optimistictransactiondb_t`.
#[derive(Clone)]
pub struct Database {
    /// What all handles of the open database share.
    pub open: Arc<Open>,
}

/// An open database. Column families, iterators and transactions keep it in memory, but not open:
/// `rocksdb_close` closes it.
pub struct Open {
    /// The database.
    pub db: Db,
    /// Where it is.
    pub path: String,
    /// The default column family.
    pub default: Arc<Family>,
    /// The options of the open.
    pub options: Options,
    /// Whether it was opened for reading only.
    pub is_read_only: bool,
    /// How long locks are waited for. `None` if writes outside of transactions take no lock.
    pub lock_timeouts: Option<LockTimeouts>,
    /// What merges and filters call.
    pub slots: Arc<Slots>,
    /// All column families by id, those that were dropped included.
    families: RwLock<BTreeMap<u32, Arc<Family>>>,
    /// Names of transactions, each of which one transaction has.
    names: Mutex<HashSet<Vec<u8>>>,
    /// Files that stay while the program has disabled their deletion.
    kept_files: Mutex<Option<LiveFiles>>,
    /// The block cache of the options, which counts what this database has cached.
    pub cache: Option<Arc<Cache>>,
    /// Held while a column family is created: two must not take the same slot.
    creation: Mutex<()>,
    /// Whether a family has timestamps.
    has_stamps: AtomicBool,
    /// Held by writes if a family has timestamps; alone by what trims the versions of a family.
    writes: RwLock<()>,
}

/// How long calls wait for locks in a database of pessimistic transactions.
#[derive(Clone, Copy)]
pub struct LockTimeouts {
    /// Writes outside of transactions.
    pub of_writes: Duration,
    /// Transactions that have no timeout of their own.
    pub of_transactions: Duration,
}

/// A column family of an open database.
pub struct Family {
    /// The keyspace.
    pub keyspace: Keyspace,
    /// How long entries live after they were written.
    pub ttl: Option<Duration>,
    /// Which prefixes iterators keep to.
    pub prefix: Option<Arc<Prefix>>,
    /// The merge operator.
    pub merge: Option<Arc<Operator>>,
    /// The compaction filter.
    pub filter: Option<Arc<Filter>>,
    /// The way in which its stored keys are read.
    pub direction: Direction,
    /// The timestamps of its keys, if they have any.
    pub stamps: Option<Stamps>,
}

impl Family {
    /// Returns the family of `keyspace` as `options` open it, and fills its slot.
    pub fn new(
        keyspace: Keyspace,
        options: &Options,
        ttl: Option<Duration>,
        slots: &Slots,
    ) -> Result<Self> {
        let settings = keyspace.settings()?;
        let order = options.key_order()?;
        let direction = order.direction();
        let stamps = Stamps::of(&keyspace, order.stamped())?;
        if direction_of(&settings) != direction {
            return Err(stamps::of_another_comparator(&keyspace));
        }
        if stamps.is_some() && (ttl.is_some() || options.filter.is_some()) {
            return Err(Status::unsupported(format!(
                "column family {:?} has timestamps, and so no time to live and no compaction filter; trim \
                 its history instead",
                keyspace.name()
            )));
        }
        match slot_of(&settings) {
            _ if stamps.is_some() => {}
            Some(Place { number, .. }) => {
                slots.fill(number, options.merge.clone(), options.filter.clone())
            }
            None if options.merge.is_some() => {
                return Err(Status::unsupported(format!(
                    "column family {:?} cannot have a merge operator: it was created by another \
                     program of Esker, or the database has too many column families",
                    keyspace.name()
                )));
            }
            None => {}
        }
        if let (Some(filter), None) = (&options.filter, settings.compaction_filter) {
            return Err(Status::unsupported(format!(
                "column family {:?} was created without a compaction filter, so it cannot be opened with \
                 {:?}",
                keyspace.name(),
                filter.name()
            )));
        }
        let (prefix, merge, filter) =
            (options.prefix.clone(), options.merge.clone(), options.filter.clone());
        Ok(Family { keyspace, ttl, prefix, merge, filter, direction, stamps })
    }

    /// How it sorts its keys.
    pub fn order(&self) -> KeyOrder {
        match &self.stamps {
            Some(stamps) => KeyOrder::Stamped(stamps.order),
            None => KeyOrder::Plain(self.direction),
        }
    }

    /// The keyspace, for a call without timestamps.
    ///
    /// # Errors
    /// If its keys have timestamps.
    pub fn plain(&self) -> Result<&Keyspace> {
        match self.stamps {
            None => Ok(&self.keyspace),
            Some(_) => Err(Status::invalid(format!(
                "cannot call this method on column family {} that enables timestamp",
                self.name()
            ))),
        }
    }

    /// The timestamps of its keys.
    ///
    /// # Errors
    /// If they have none.
    pub fn stamped(&self) -> Result<&Stamps> {
        self.stamps.as_ref().ok_or_else(|| {
            Status::invalid(format!(
                "cannot call this method on column family {} that does not enable timestamp",
                self.name()
            ))
        })
    }

    /// The stored keys that begin with it are those of `key`, or come after it.
    pub fn stored_start<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.stamps {
            Some(stamps) => stamps.order.prefix(key).into(),
            None => key.into(),
        }
    }

    /// The id in write batches.
    pub fn id(&self) -> u32 {
        self.keyspace.id().0
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.keyspace.name()
    }
}

impl Open {
    /// Returns an open database with these families.
    pub fn new(
        db: Db,
        path: &str,
        options: &Options,
        slots: Arc<Slots>,
        families: Vec<Arc<Family>>,
        is_read_only: bool,
        lock_timeouts: Option<LockTimeouts>,
    ) -> Result<Self> {
        let families: BTreeMap<_, _> =
            families.into_iter().map(|family| (family.id(), family)).collect();
        let default = families.get(&KeyspaceId::DEFAULT.0).cloned();
        let has_stamps = families.values().any(|family| family.stamps.is_some());
        let missing = || Status::invalid("Default column family not specified");
        Ok(Open {
            db,
            path: path.to_owned(),
            default: default.ok_or_else(missing)?,
            options: options.clone(),
            is_read_only,
            lock_timeouts,
            slots,
            families: RwLock::new(families),
            names: Mutex::default(),
            kept_files: Mutex::default(),
            cache: None,
            creation: Mutex::default(),
            has_stamps: AtomicBool::new(has_stamps),
            writes: RwLock::default(),
        })
    }

    /// For the time of a write: no versions are trimmed meanwhile. `None` if no family has timestamps.
    pub fn writing(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let has_stamps = self.has_stamps.load(Ordering::Acquire);
        has_stamps.then(|| self.writes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// For the time in which versions are trimmed: no write is in progress.
    pub fn without_writes(&self) -> RwLockWriteGuard<'_, ()> {
        self.writes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What distinguishes it from other open databases.
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Leaves the statistics and the cache of the options, before it is closed.
    pub fn detach(&self) {
        if let Some(statistics) = self.statistics() {
            statistics.detach(self.address(), &self.db.stats());
        }
        if let Some(cache) = &self.cache {
            cache.detach(self.address());
        }
    }

    /// Adds a family.
    pub fn add(&self, family: Arc<Family>) {
        self.has_stamps.fetch_or(family.stamps.is_some(), Ordering::Release);
        let mut families = self.families.write().unwrap_or_else(PoisonError::into_inner);
        families.insert(family.id(), family);
    }

    /// The family with an id of a write batch.
    ///
    /// # Errors
    /// If there is none.
    pub fn family(&self, id: u32) -> Result<Arc<Family>> {
        if id == KeyspaceId::DEFAULT.0 {
            return Ok(self.default.clone());
        }
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        let unknown = || Status::invalid("Invalid column family specified in write batch");
        families.get(&id).cloned().ok_or_else(unknown)
    }

    /// Fails if `family` is of another database.
    ///
    /// # Errors
    /// If it is.
    pub fn check_own(&self, family: &Family) -> Result<()> {
        let own = self.family(family.id()).is_ok_and(|own| std::ptr::eq(&*own, family));
        let foreign = || Status::invalid("the column family is of another database");
        own.then_some(()).ok_or_else(foreign)
    }

    /// The families that are not dropped.
    pub fn families(&self) -> Vec<Arc<Family>> {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        families.values().filter(|family| family.keyspace.settings().is_ok()).cloned().collect()
    }

    /// The names of transactions that are in use.
    pub fn names(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Excludes that another column family is created meanwhile.
    pub fn creation(&self) -> MutexGuard<'_, ()> {
        self.creation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files that stay while the program has disabled their deletion.
    pub fn kept_files(&self) -> MutexGuard<'_, Option<LiveFiles>> {
        self.kept_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is counted, if the program asked for it.
    pub fn statistics(&self) -> Option<&Statistics> {
        self.options.statistics.as_deref()
    }

    /// Where messages go.
    pub fn logger(&self) -> Option<&Arc<Logger>> {
        self.options.logger.as_ref()
    }

    /// Sequence number of the last write.
    pub fn last_seqno(&self) -> u64 {
        esker::api::Snapshot::seqno(&self.db.snapshot())
    }
}

/// RocksDB's `rocksdb_pinnableslice_t`.
pub struct Pinned(pub Value);

impl Open {
    /// Opens the families that a writer has created since, but those that have a comparator, and reads anew
    /// which timestamps may be read.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn refresh(&self) -> Result<()> {
        for family in self.families() {
            family.stamps.as_ref().map_or(Ok(()), |stamps| stamps.reload(&family))?;
        }
        for info in self.db.keyspaces() {
            let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
            let is_known = families.contains_key(&info.id.0);
            drop(families);
            let keyspace = self.db.open_keyspace(&info.name)?;
            let is_plain = !stamps::is_stamped(&info.settings)
                && direction_of(&info.settings) == Direction::default();
            if !is_known && is_plain {
                let plain = Options::default();
                self.add(Arc::new(Family::new(keyspace, &plain, None, &self.slots)?));
            }
        }
        Ok(())
    }
}
