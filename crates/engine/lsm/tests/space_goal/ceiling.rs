//! A storage that compares what its table files take with a ceiling, whenever one of them grows.

use esker_base::{Result, Rng, WriteHint};
use esker_lsm::version::parse_table_file_name;
use esker_storage::{FaultStorage, FileSystemWrapper, ReadableFile, Storage, WritableFile};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// What is known of the data at one point in time.
#[derive(Clone, Copy)]
pub struct Moment {
    /// User bytes written so far.
    pub written: f64,
    /// What table files may take.
    pub allowed: f64,
    /// What is live: where the data shrinks, what was allowed counts until so much more was written.
    pub grace: f64,
}

impl Moment {
    /// The bytes written up to which it counts.
    fn until(&self) -> f64 {
        self.written + self.grace
    }
}

/// Sizes of table files, and what they may add up to.
#[derive(Default)]
pub struct Ceiling {
    files: HashMap<String, u64>,
    bytes: u64,
    /// The parts of files that were freed.
    freed: HashSet<(String, u64)>,
    /// The present, and those before that still count.
    recent: Vec<Moment>,
    /// The most that any of them allows.
    allowed: f64,
    /// The most that was above the ceiling, in bytes; less than 0 if nothing was.
    pub excess_most: f64,
}

impl Ceiling {
    /// Says what is allowed from now on, in addition to what still counts.
    pub fn set(&mut self, now: Moment) {
        let is_over = |it: &Moment| it.until() < now.written;
        let adds_nothing = |it: &Moment| it.allowed <= now.allowed && it.until() <= now.until();
        self.recent.retain(|it| !is_over(it) && !adds_nothing(it));
        self.recent.push(now);
        self.allowed = self.recent.iter().map(|it| it.allowed).fold(0.0, f64::max);
    }

    fn grow(&mut self, name: &str, bytes: u64) {
        let Some(file) = self.files.get_mut(name) else { return };
        *file += bytes;
        self.bytes += bytes;
        self.excess_most = self.excess_most.max(self.bytes as f64 - self.allowed);
    }

    /// Notes that a part of a file was freed: `bytes`, from `start` on. A part counts once: the next open frees it again.
    fn shrink(&mut self, name: &str, start: u64, bytes: u64) {
        if self.freed.insert((name.to_owned(), start))
            && let Some(file) = self.files.get_mut(name)
        {
            *file -= bytes;
            self.bytes -= bytes;
        }
    }
}

/// See the file's head.
#[derive(Clone)]
pub struct Watched {
    storage: FaultStorage,
    ceiling: Arc<Mutex<Ceiling>>,
    at_sync: Arc<Mutex<Option<Meanwhile>>>,
    /// The one for the next is the last.
    at_opens: Arc<Mutex<Vec<Meanwhile>>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

impl Watched {
    pub fn new() -> Self {
        let ceiling = Ceiling { allowed: f64::MAX, excess_most: f64::MIN, ..Ceiling::default() };
        Watched {
            storage: FaultStorage::new(Rng::new(1)),
            ceiling: Arc::new(Mutex::new(ceiling)),
            at_sync: Arc::default(),
            at_opens: Arc::default(),
        }
    }

    /// Has `meanwhile` done when a table file is opened next, before that is; and before what else waits
    /// for that.
    pub fn at_next_open(&self, meanwhile: impl FnOnce() + Send + 'static) {
        self.at_opens.lock().unwrap().push(Box::new(meanwhile));
    }

    /// Has `meanwhile` done when a table file is synced next, before that is.
    pub fn at_next_sync(&self, meanwhile: impl FnOnce() + Send + 'static) {
        *self.at_sync.lock().unwrap() = Some(Box::new(meanwhile));
    }

    pub fn table_files(&self) -> usize {
        self.ceiling().files.len()
    }

    pub fn ceiling(&self) -> MutexGuard<'_, Ceiling> {
        self.ceiling.lock().unwrap()
    }
}

struct WatchedFile {
    file: Box<dyn WritableFile>,
    name: String,
    storage: Watched,
}

impl WritableFile for WatchedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.storage.ceiling().grow(&self.name, bytes.len() as u64);
        Ok(())
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn sync(&mut self) -> Result<()> {
        if parse_table_file_name(&self.name).is_some() {
            let meanwhile = self.storage.at_sync.lock().unwrap().take();
            meanwhile.into_iter().for_each(|it| it());
        }
        self.file.sync()
    }
}

impl FileSystemWrapper for Watched {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let file = self.storage.create(name, hint)?;
        if parse_table_file_name(name).is_some() {
            self.ceiling().files.insert(name.to_owned(), 0);
        }
        Ok(Box::new(WatchedFile { file, name: name.to_owned(), storage: self.clone() }))
    }
    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        if parse_table_file_name(name).is_some() {
            let meanwhile = self.at_opens.lock().unwrap().pop();
            meanwhile.into_iter().for_each(|it| it());
        }
        self.storage.open(name)
    }
    fn free_part(&self, name: &str, part: Range<u64>) -> u64 {
        let start = part.start;
        let freed = self.storage.free_part(name, part);
        self.ceiling().shrink(name, start, freed);
        freed
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.storage.remove(name)?;
        let mut ceiling = self.ceiling();
        ceiling.bytes -= ceiling.files.remove(name).unwrap_or(0);
        Ok(())
    }
}
