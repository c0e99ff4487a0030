//! Keeps a bounded number of files open for reading.
//!
//! A file that is opened [for caching](Storage::open_for_caching) is opened when it is read. It stays
//! open until the limit is reached and other files were read more recently (CLOCK). A read in
//! progress holds its file, so there may be one more open file for each read in progress.
//!
//! A file that is about to be removed or replaced is opened first if a reader has it, and then stays
//! open as long as the reader. So open handles keep reading it, as [`Storage::remove`] promises.
//!
//! If the process is out of descriptors, an open or a create closes half of the files and is tried
//! again. Fewer files stay open for a while then: the rest of the process needs more than its half.
//!
//! Lock order: names, then one file, then the ring. Under the ring, other files are only tried.

use crate::{FileSystemWrapper, LogFile, ReadableFile, Storage, WritableFile};
use esker_base::{Error, Result, WriteHint};
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

type OpenFile = Arc<dyn ReadableFile>;

/// A map or a ring this short is not worth pruning.
const PRUNE_MIN: usize = 64;

/// A lowered limit grows by one file after so many opens.
const OPENS_A_FILE: u64 = 16;

/// The files that several storages may have open together. Clones refer to the same files.
#[derive(Clone)]
pub struct FileCache(Arc<Shared>);

struct Shared {
    limit: AtomicUsize,
    /// A lower limit, since the process was out of descriptors. `usize::MAX` if there is none.
    lowered: AtomicUsize,
    /// Files that are open or being opened.
    open: AtomicUsize,
    opens: AtomicU64,
    ring: Mutex<Ring>,
}

/// The files that may be closed, and the one that is considered next.
struct Ring {
    files: Vec<Weak<Cached>>,
    hand: usize,
    /// With how many entries those of files without readers are dropped.
    prune_at: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Ring { files: Vec::new(), hand: 0, prune_at: PRUNE_MIN }
    }
}

impl std::fmt::Debug for FileCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileCache({} of {} files)", self.open_files(), self.limit())
    }
}

impl FileCache {
    /// A cache that keeps at most `limit` files open, at least one.
    pub fn new(limit: usize) -> Self {
        let (limit, lowered) = (AtomicUsize::new(limit.max(1)), AtomicUsize::new(usize::MAX));
        let (open, opens, ring) = Default::default();
        FileCache(Arc::new(Shared { limit, lowered, open, opens, ring }))
    }

    /// Half of the files that the process may have open.
    pub fn default_limit() -> usize {
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        usize::try_from(most / 2).unwrap_or(usize::MAX).max(1)
    }

    /// Returns how many files are kept open at most.
    pub fn limit(&self) -> usize {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Changes that. Files beyond it are closed when the next one is opened.
    pub fn set_limit(&self, limit: usize) {
        self.0.limit.store(limit.max(1), Ordering::Relaxed);
    }

    /// Returns how many files are open.
    pub fn open_files(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Returns how often a file was opened.
    pub fn opens(&self) -> u64 {
        self.0.opens.load(Ordering::Relaxed)
    }

    /// Returns a storage in front of `below` whose files are kept open here.
    pub fn storage(&self, below: Arc<dyn Storage>) -> FileCacheStorage {
        FileCacheStorage { below, cache: self.clone(), files: Mutex::default() }
    }
}

impl Shared {
    fn limit_now(&self) -> usize {
        self.limit.load(Ordering::Relaxed).min(self.lowered.load(Ordering::Relaxed))
    }

    /// Counts an open. A lowered limit grows again.
    fn opened(&self) {
        let opens = self.opens.fetch_add(1, Ordering::Relaxed) + 1;
        let lowered = self.lowered.load(Ordering::Relaxed);
        if lowered != usize::MAX && opens.is_multiple_of(OPENS_A_FILE) {
            let limit = self.limit.load(Ordering::Relaxed);
            let higher = if lowered < limit { lowered + 1 } else { usize::MAX };
            self.lowered.store(higher, Ordering::Relaxed);
        }
    }

    /// Calls `call`, and again with half of the files closed if no descriptor is left for it.
    fn with_descriptors<T>(&self, call: impl Fn() -> Result<T>) -> Result<T> {
        let done = call();
        if !done.as_ref().is_err_and(is_out_of_descriptors) {
            return done;
        }
        self.close_half();
        call()
    }

    /// Closes files for one more, and counts that.
    fn make_space(&self) {
        let mut closed = Vec::new();
        let mut ring = self.ring.lock();
        ring.close_until(self, self.limit_now(), &mut closed);
        self.open.fetch_add(1, Ordering::Relaxed);
        drop(ring);
        // Closing may take a while.
        drop(closed);
    }

    /// Takes a file that was opened into those that may be closed.
    fn add(&self, file: &Arc<Cached>) {
        let mut ring = self.ring.lock();
        if !file.is_in_ring.swap(true, Ordering::Relaxed) {
            ring.prune();
            ring.files.push(Arc::downgrade(file));
        }
    }

    /// Closes half of the files, and keeps fewer open for a while.
    fn close_half(&self) {
        let mut closed = Vec::new();
        let limit = (self.open.load(Ordering::Relaxed) / 2).max(1);
        self.lowered.store(limit, Ordering::Relaxed);
        self.ring.lock().close_until(self, limit, &mut closed);
    }
}

impl Ring {
    /// Drops the entries of files without readers, if there may be many.
    fn prune(&mut self) {
        if self.files.len() >= self.prune_at {
            self.files.retain(|file| file.strong_count() > 0);
            self.prune_at = (2 * self.files.len()).max(PRUNE_MIN);
        }
    }

    /// Closes files until fewer than `limit` are open. Files that are in use by another thread now are
    /// not closed.
    fn close_until(&mut self, shared: &Shared, limit: usize, closed: &mut Vec<OpenFile>) {
        // The first round may only find that each was read.
        let mut steps = 2 * self.files.len();
        while shared.open.load(Ordering::Relaxed) >= limit && steps > 0 && !self.files.is_empty() {
            steps -= 1;
            self.hand %= self.files.len();
            let Some(file) = self.files[self.hand].upgrade() else {
                self.files.swap_remove(self.hand);
                continue;
            };
            let mut state = match file.is_used.swap(false, Ordering::Relaxed) {
                true => None,
                false => file.state.try_write(),
            };
            match &mut state {
                None => self.hand += 1,
                Some(state) => {
                    if !state.is_kept
                        && let Some(open) = state.file.take()
                    {
                        shared.open.fetch_sub(1, Ordering::Relaxed);
                        closed.push(open);
                    }
                    file.is_in_ring.store(false, Ordering::Relaxed);
                    self.files.swap_remove(self.hand);
                }
            }
        }
    }
}

/// A file that is open if it was read recently.
struct Cached {
    name: String,
    below: Arc<dyn Storage>,
    cache: Arc<Shared>,
    state: RwLock<State>,
    /// Whether it was read since the hand passed it.
    is_used: AtomicBool,
    /// Changed under the lock of the ring.
    is_in_ring: AtomicBool,
}

#[derive(Default)]
struct State {
    file: Option<OpenFile>,
    /// It could not be opened again, because its name has gone.
    is_kept: bool,
}

impl Cached {
    /// The open file. It stays open as long as the caller has it.
    fn acquire(self: &Arc<Self>) -> Result<OpenFile> {
        if let Some(file) = &self.state.read().file {
            if !self.is_used.load(Ordering::Relaxed) {
                self.is_used.store(true, Ordering::Relaxed);
            }
            return Ok(file.clone());
        }
        self.open()
    }

    /// Opens the file, under no lock: that may take a while.
    #[cold]
    fn open(self: &Arc<Self>) -> Result<OpenFile> {
        self.cache.make_space();
        let open = || self.below.open_for_caching(&self.name);
        let opened = self.cache.with_descriptors(open);
        let mut state = self.state.write();
        match (&state.file, &opened) {
            // Another thread was faster. It may also have removed the file since, and keeps it open.
            (Some(file), _) => {
                self.cache.open.fetch_sub(1, Ordering::Relaxed);
                return Ok(file.clone());
            }
            (None, Ok(file)) => {
                self.cache.opened();
                self.is_used.store(true, Ordering::Relaxed);
                state.file = Some(file.clone());
                self.cache.add(self);
            }
            (None, Err(_)) => _ = self.cache.open.fetch_sub(1, Ordering::Relaxed),
        }
        opened
    }

    /// Keeps the file open as long as it has readers.
    fn keep(self: &Arc<Self>) -> Result<()> {
        let file = self.acquire()?;
        let mut state = self.state.write();
        if state.file.is_none() {
            // It was closed in between.
            self.cache.open.fetch_add(1, Ordering::Relaxed);
            state.file = Some(file);
        }
        state.is_kept = true;
        Ok(())
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        if self.state.get_mut().file.is_some() {
            self.cache.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn is_out_of_descriptors(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return false };
    let refusals = [Errno::MFILE, Errno::NFILE].map(|it| it.raw_os_error());
    source.raw_os_error().is_some_and(|error| refusals.contains(&error))
}

/// A reader of a file that may be closed between two reads.
struct Reader(Arc<Cached>);

impl ReadableFile for Reader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.acquire()?.read_exact_at(offset, out)
    }

    fn len(&self) -> Result<u64> {
        self.0.acquire()?.len()
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn read_ahead(&self, offset: u64, bytes: u64) {
        if let Ok(file) = self.0.acquire() {
            file.read_ahead(offset, bytes);
        }
    }

    fn read_cached_at(&self, offset: u64, out: &mut [u8]) -> bool {
        self.0.acquire().is_ok_and(|file| file.read_cached_at(offset, out))
    }

    #[cfg(target_os = "linux")]
    fn raw(&self) -> Option<crate::RawFile> {
        self.0.acquire().ok()?.raw()
    }
}

/// A storage whose files that are opened for caching are kept open in a [`FileCache`].
pub struct FileCacheStorage {
    below: Arc<dyn Storage>,
    cache: FileCache,
    files: Mutex<Files>,
}

/// The files that have readers, by name, and with how many entries those of others are dropped.
struct Files {
    by_name: HashMap<String, Weak<Cached>>,
    prune_at: usize,
}

impl Default for Files {
    fn default() -> Self {
        Files { by_name: HashMap::new(), prune_at: PRUNE_MIN }
    }
}

impl FileCacheStorage {
    /// Opens the file `name` if it has readers, and has it stay open as long as they.
    fn keep_open(&self, name: &str) -> Result<()> {
        let file = self.files.lock().by_name.get(name).and_then(Weak::upgrade);
        match file.map(|file| file.keep()) {
            Some(Err(error)) if self.below.exists(name)? => Err(error),
            _ => Ok(()),
        }
    }

    /// Forgets the file `name`, which is removed or another one now. Until then, an open of the name gives
    /// the file that is kept.
    fn forget(&self, name: &str) {
        self.files.lock().by_name.remove(name);
    }
}

impl FileSystemWrapper for FileCacheStorage {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }

    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let mut files = self.files.lock();
        let known = files.by_name.get(name).and_then(Weak::upgrade);
        let file = known.unwrap_or_else(|| {
            if files.by_name.len() >= files.prune_at {
                files.by_name.retain(|_, file| file.strong_count() > 0);
                files.prune_at = (2 * files.by_name.len()).max(PRUNE_MIN);
            }
            let file = Arc::new(Cached {
                name: name.to_owned(),
                below: self.below.clone(),
                cache: self.cache.0.clone(),
                state: RwLock::default(),
                is_used: AtomicBool::new(false),
                is_in_ring: AtomicBool::new(false),
            });
            files.by_name.insert(name.to_owned(), Arc::downgrade(&file));
            file
        });
        drop(files);
        // A file that cannot be opened is reported now.
        file.acquire()?;
        Ok(Arc::new(Reader(file)))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.keep_open(name)?;
        self.below.remove(name)?;
        self.forget(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.keep_open(from)?;
        self.keep_open(to)?;
        self.below.rename(from, to)?;
        self.forget(from);
        self.forget(to);
        Ok(())
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        self.cache.0.with_descriptors(|| self.below.create(name, hint))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.cache.0.with_descriptors(|| self.below.open(name))
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        self.cache.0.with_descriptors(|| self.below.create_log(name, bytes))
    }

    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        let create = || self.below.create_log_in_steps(name, bytes, prepared);
        self.cache.0.with_descriptors(create)
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        self.cache.0.with_descriptors(|| self.below.open_log(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStorage;

    #[test]
    fn files_that_come_and_go_leave_nothing_behind() {
        let cache = FileCache::new(1000);
        let storage = cache.storage(Arc::new(MemoryStorage::new()));
        let ring = || cache.0.ring.lock().files.len();
        for number in 0..10 * PRUNE_MIN {
            let name = number.to_string();
            Storage::create(&storage, &name, WriteHint::table(0)).unwrap();
            drop(Storage::open_for_caching(&storage, &name).unwrap());
            Storage::remove(&storage, &name).unwrap();
        }
        assert!(ring() <= PRUNE_MIN, "{}", ring());
        assert_eq!(storage.files.lock().by_name.len(), 0);
    }
}
