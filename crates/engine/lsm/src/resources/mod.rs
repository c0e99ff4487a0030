//! Memory and threads, of one database or of several that share them.
//!
//! The budget is one sum. Each database charges what it holds: segments and their index, the memory
//! of open tables, its DRAMTable, buffers of wide reads once one was needed, and what cursors, flushes
//! and compactions hold while they last. The block cache gets what is left. Open table files are
//! bounded in number, for all databases together.
//!
//! A database alone charges the most that its segments may use. Databases that share charge what
//! their segments use now, because most of them are small. If all segments together use more than
//! half of the budget, the largest MemTables are flushed one after another, until the flushes in
//! progress bring them back to half. Above three quarters, segments stop growing and writers wait
//! for flushes.
//!
//! A forked child has none of the threads, and locks of its parent may be held forever. So it takes
//! no lock here: an open fails, and nothing is charged or returned.

pub(crate) mod crew;
pub(crate) mod lanes;
pub(crate) mod served;

use crate::limits::within;
use crew::Crew;
use esker_base::{Background, Error, Result};
use esker_pmem::OwnerProcess;
use esker_storage::{FileCache, WideReader};
use esker_table::BlockCache;
use parking_lot::{Mutex, MutexGuard};
use served::Served;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A cache too small to hold a few blocks would make every scan read twice.
const CACHE_BYTES_MIN: usize = 1 << 20;

/// A memory budget, a block cache and compaction threads that several databases of one process
/// share.
///
/// Clones refer to the same resources. Set [`Settings::resources`](crate::Settings::resources) of
/// each database to a clone. A database that closes returns its part. The threads run while at
/// least one database is open.
///
/// In a forked child, an open with the resources of the parent fails with
/// [`Error::Forked`](esker_base::Error::Forked).
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::options::Resources;
/// use esker::{Db, Settings};
///
/// let resources = Resources::new(256 << 20, 2)?;
/// let settings = Settings::default().resources(resources.clone());
/// let users = Db::open(dir.path().join("users"), settings.clone())?;
/// let orders = Db::open(dir.path().join("orders"), settings)?;
/// assert_eq!(resources.databases(), 2);
/// # users.close()?;
/// # orders.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Resources {
    shared: Arc<Shared>,
}

struct Shared {
    memory_bytes: AtomicUsize,
    /// Whether more than one database may use them.
    is_shared: bool,
    owner: OwnerProcess,
    crew: Arc<Crew>,
    cache: BlockCache,
    /// The most that the cache takes.
    cache_bytes_max: usize,
    files: FileCache,
    charges: Mutex<Charges>,
}

#[derive(Default)]
struct Charges {
    by_database: BTreeMap<u64, Charge>,
    next: u64,
}

impl Charges {
    fn sum(&self, part: impl Fn(&Charge) -> usize) -> usize {
        self.by_database.values().map(part).sum()
    }
}

/// What a database holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Charge {
    /// MemTables: segments and their index.
    pub(crate) segments: usize,
    /// What of these waits for its flush.
    pub(crate) sealed: usize,
    /// Indexes, filters and tombstones of open tables.
    pub(crate) tables: usize,
    /// What the DRAMTable may take.
    pub(crate) dram_table: usize,
    /// What the buffers of wide reads may take.
    pub(crate) wide_reads: usize,
    /// What cursors, flushes and compactions hold.
    pub(crate) transient: usize,
}

impl Charge {
    fn sum(&self) -> usize {
        self.segments + self.tables + self.dram_table + self.wide_reads + self.transient
    }
}

/// One database's share, which it gives back when this is dropped.
pub(crate) struct Share {
    resources: Resources,
    id: u64,
    /// The database's part of the block cache.
    pub(crate) cache: Arc<BlockCache>,
    /// Its other parts: of files that have replaced those that were opened.
    other_caches: Mutex<Vec<Arc<BlockCache>>>,
}

impl Resources {
    /// Creates a memory budget of `memory_bytes` bytes, at least 2 MiB, and 1 to 64 compaction
    /// threads.
    ///
    /// Flush, log sync and the preparation of log segments have one more thread each.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if a value is out of range.
    pub fn new(memory_bytes: usize, background_threads: usize) -> Result<Resources> {
        within("memory_bytes", memory_bytes, 2 << 20, usize::MAX)?;
        within("background_threads", background_threads, 1, 64)?;
        let cache = BlockCache::new(memory_bytes);
        let files = FileCache::new(FileCache::default_limit());
        Ok(Resources::of(memory_bytes, background_threads, true, (cache, usize::MAX), files))
    }

    /// Of one database alone.
    pub(crate) fn own(
        memory_bytes: usize,
        background_threads: usize,
        cache: (BlockCache, usize),
        files: FileCache,
    ) -> Resources {
        Resources::of(memory_bytes, background_threads, false, cache, files)
    }

    fn of(
        memory_bytes: usize,
        background_threads: usize,
        is_shared: bool,
        (cache, cache_bytes_max): (BlockCache, usize),
        files: FileCache,
    ) -> Resources {
        let shared = Shared {
            memory_bytes: AtomicUsize::new(memory_bytes),
            is_shared,
            owner: OwnerProcess::current(),
            crew: Crew::new(background_threads),
            cache,
            cache_bytes_max,
            files,
            charges: Mutex::default(),
        };
        Resources { shared: Arc::new(shared) }
    }

    /// Returns the memory budget, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.shared.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of compaction threads.
    pub fn background_threads(&self) -> usize {
        self.shared.crew.compaction_threads()
    }

    /// Returns the most table files that are open at once:
    /// [`Settings::max_open_files`](crate::Settings::max_open_files).
    pub fn max_open_files(&self) -> usize {
        self.shared.files.limit()
    }

    /// Changes that. Files beyond it are closed when the next one is opened.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if it is 0.
    pub fn set_max_open_files(&self, max_open_files: usize) -> Result<()> {
        within("max_open_files", max_open_files, 1, usize::MAX)?;
        self.shared.files.set_limit(max_open_files);
        Ok(())
    }

    /// The table files that are open.
    pub(crate) fn files(&self) -> &FileCache {
        &self.shared.files
    }

    /// Changes the memory budget. What databases hold stays, and the block cache gets what they leave.
    pub(crate) fn set_memory_bytes(&self, memory_bytes: usize) -> Result<()> {
        let forked = || Error::Forked { what: "the memory of a database".into() };
        let charges = self.charges().ok_or_else(forked)?;
        // What cursors and jobs hold is gone in a moment.
        let least = charges.sum(|charge| charge.sum() - charge.transient) + CACHE_BYTES_MIN;
        if memory_bytes < least {
            return Err(Error::InvalidSetting {
                setting: "memory_bytes",
                value: memory_bytes.to_string(),
                reason: format!("with what the database holds now it must be at least {least}"),
            });
        }
        self.shared.memory_bytes.store(memory_bytes, Ordering::Relaxed);
        self.fit_cache(&charges);
        Ok(())
    }

    /// Changes the number of compaction threads. Further ones run on `background`.
    pub(crate) fn set_background_threads(
        &self,
        threads: usize,
        background: &dyn Background,
    ) -> Result<()> {
        self.shared.crew.set_compaction_threads(threads, background)
    }

    /// Returns the number of databases that use the resources now. 0 in a forked child.
    pub fn databases(&self) -> usize {
        self.charges().map_or(0, |charges| charges.by_database.len())
    }

    /// Returns the bytes that all databases have charged to the budget. 0 in a forked child.
    ///
    /// The block cache is not included. It uses what is left of the budget.
    pub fn charged_bytes(&self) -> usize {
        self.sum(Charge::sum)
    }

    /// `None` in a forked child.
    fn charges(&self) -> Option<MutexGuard<'_, Charges>> {
        self.shared.owner.is_current().then(|| self.shared.charges.lock())
    }

    fn sum(&self, part: impl Fn(&Charge) -> usize) -> usize {
        self.charges().map_or(0, |charges| charges.sum(part))
    }

    /// Returns the bytes in the block cache now.
    pub fn cache_bytes(&self) -> usize {
        self.shared.cache.used_bytes()
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_shared
    }

    pub(crate) fn crew(&self) -> &Arc<Crew> {
        &self.shared.crew
    }

    /// The share of another database, whose blocks `reader` reads. Fails in a forked child.
    pub(crate) fn share(&self, reader: WideReader) -> Result<Share> {
        let forked = || Error::Forked { what: "resources that databases share".into() };
        let mut charges = self.charges().ok_or_else(forked)?;
        let id = charges.next;
        charges.next += 1;
        charges.by_database.insert(id, Charge::default());
        let cache = Arc::new(self.shared.cache.for_another_owner(reader));
        Ok(Share { resources: self.clone(), id, cache, other_caches: Mutex::default() })
    }

    /// Has every database that shares them take its part anew, because one came or went.
    pub(crate) fn share_again(&self) {
        if self.is_shared() && self.shared.owner.is_current() {
            self.crew().for_each(|database| database.share_memory());
        }
    }

    /// Whether segments take more than half of a shared budget.
    pub(crate) fn is_short(&self) -> bool {
        self.is_shared() && self.sum(|charge| charge.segments) > self.memory_bytes() / 2
    }

    /// Whether segments take more than three quarters of a shared budget, or more than half when what
    /// waits for its flush is not counted.
    pub(crate) fn is_over(&self) -> bool {
        let half = self.memory_bytes() / 2;
        self.is_shared() && (self.active() > half || self.sum(|it| it.segments) > half / 2 * 3)
    }

    /// What segments take without those that wait for their flush, in bytes.
    fn active(&self) -> usize {
        self.sum(|charge| charge.segments.saturating_sub(charge.sealed))
    }

    /// Frees the MemTables that databases keep for reuse. If the flushes in progress do not bring segments
    /// back to half of the budget either, has the largest active MemTable of all databases flushed.
    pub(crate) fn relieve(&self) {
        self.crew().for_each(|database| database.free_retired());
        if self.active() <= self.memory_bytes() / 2 {
            return;
        }
        let address = |database: &Arc<dyn Served>| Arc::as_ptr(database).cast::<()>();
        let mut largest: (usize, *const ()) = (0, std::ptr::null());
        self.crew().for_each(|database| {
            largest = largest.max((database.relief_bytes(), address(database)));
        });
        self.crew().for_each(|database| {
            if largest.0 > 0 && std::ptr::eq(address(database), largest.1) {
                database.flush_active();
            }
        });
    }

    fn fit_cache(&self, charges: &Charges) {
        let left = self.memory_bytes().saturating_sub(charges.sum(Charge::sum));
        let bytes = left.max(CACHE_BYTES_MIN).min(self.shared.cache_bytes_max);
        self.shared.cache.set_capacity(bytes);
    }
}

impl Share {
    /// Says what the database holds from now on, but for what cursors and jobs hold, which `transient` says
    /// under the lock. The cache gets what is left.
    pub(crate) fn charge(&self, charge: Charge, transient: impl FnOnce() -> usize) {
        self.recharge(|held| *held = Charge { transient: transient(), ..charge });
    }

    /// The same of what cursors and jobs hold, alone.
    pub(crate) fn charge_transient(&self, transient: impl FnOnce() -> usize) {
        self.recharge(|held| held.transient = transient());
    }

    fn recharge(&self, change: impl FnOnce(&mut Charge)) {
        let Some(mut charges) = self.resources.charges() else { return };
        // Nothing is held once it was given back.
        let Some(held) = charges.by_database.get_mut(&self.id) else { return };
        let before = *held;
        change(held);
        if *held != before {
            self.resources.fit_cache(&charges);
        }
    }

    /// What the database holds, in bytes.
    pub(crate) fn charged_bytes(&self) -> usize {
        let charges = self.resources.charges();
        charges.and_then(|it| it.by_database.get(&self.id).map(Charge::sum)).unwrap_or(0)
    }

    /// What of it is for segments, in bytes.
    pub(crate) fn charged_segments(&self) -> usize {
        let charges = self.resources.charges();
        charges.and_then(|it| it.by_database.get(&self.id).map(|it| it.segments)).unwrap_or(0)
    }

    /// A part of the block cache for files whose ids the database has given to other files before.
    pub(crate) fn cache_of_other_files(&self) -> Arc<BlockCache> {
        let cache = Arc::new(self.cache.for_other_files());
        let mut others = self.other_caches.lock();
        // No table of those that are held only here is open any more.
        let unused = others.extract_if(.., |other| Arc::strong_count(other) == 1);
        unused.for_each(|other| other.remove_own());
        others.push(cache.clone());
        cache
    }

    /// What the blocks of the database take of the cache, in bytes.
    pub(crate) fn cached_bytes(&self) -> usize {
        self.caches().iter().map(|cache| cache.own_bytes()).sum()
    }

    fn caches(&self) -> Vec<Arc<BlockCache>> {
        let mut caches = self.other_caches.lock().clone();
        caches.push(self.cache.clone());
        caches
    }

    /// Gives the share back, the blocks in the cache included.
    pub(crate) fn give_back(&self) {
        let Some(mut charges) = self.resources.charges() else { return };
        if charges.by_database.remove(&self.id).is_none() {
            return;
        }
        self.caches().iter().for_each(|cache| cache.remove_own());
        self.resources.fit_cache(&charges);
        drop(charges);
        self.resources.share_again();
    }

    pub(crate) fn resources(&self) -> &Resources {
        &self.resources
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl PartialEq for Resources {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Resources {}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources")
            .field("memory_bytes", &self.memory_bytes())
            .field("background_threads", &self.background_threads())
            .field("databases", &self.databases())
            .finish_non_exhaustive()
    }
}
