//! A storage that compares what its table files take with a ceiling, whenever one of them grows.

use esker_base::{Hint, Result};
use esker_lsm::version::parse_table_file_name;
use esker_storage::memory::MemoryStorage;
use esker_storage::{Layer, Storage, WritableFile};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

/// What is known of the data at a moment.
#[derive(Clone, Copy, Default)]
pub struct Moment {
    /// User bytes written so far.
    pub written: f64,
    /// What table files may take.
    pub allowed: f64,
}

/// Sizes of table files, and what they may add up to.
#[derive(Default)]
pub struct Ceiling {
    files: HashMap<String, u64>,
    bytes: u64,
    /// Since when the data was larger: as far back as it may still show.
    recent: VecDeque<Moment>,
    /// The most that was above the ceiling, in bytes; less than 0 if nothing was.
    pub excess_most: f64,
}

impl Ceiling {
    /// Says what is allowed from now on. Where that is less than before, the former counts until
    /// `grace` more bytes were written.
    pub fn set(&mut self, now: Moment, grace: f64) {
        self.recent.retain(|moment| moment.written + grace >= now.written);
        while self.recent.back().is_some_and(|last| last.allowed <= now.allowed) {
            self.recent.pop_back();
        }
        self.recent.push_back(now);
    }

    fn grow(&mut self, name: &str, bytes: u64) {
        let Some(file) = self.files.get_mut(name) else { return };
        *file += bytes;
        self.bytes += bytes;
        // The largest of the recent ones is in front.
        let allowed = self.recent.front().map_or(f64::MAX, |moment| moment.allowed);
        self.excess_most = self.excess_most.max(self.bytes as f64 - allowed);
    }
}

/// See the file's head.
#[derive(Clone)]
pub struct Watched {
    storage: MemoryStorage,
    ceiling: Arc<Mutex<Ceiling>>,
    at_sync: Arc<Mutex<Option<Meanwhile>>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

impl Watched {
    pub fn new() -> Self {
        let ceiling = Ceiling { excess_most: f64::MIN, ..Ceiling::default() };
        Watched {
            storage: MemoryStorage::new(),
            ceiling: Arc::new(Mutex::new(ceiling)),
            at_sync: Arc::default(),
        }
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

impl Layer for Watched {
    fn below(&self) -> &dyn Storage {
        &self.storage
    }
    fn create(&self, name: &str, hint: Hint) -> Result<Box<dyn WritableFile>> {
        let file = self.storage.create(name, hint)?;
        if parse_table_file_name(name).is_some() {
            self.ceiling().files.insert(name.to_owned(), 0);
        }
        Ok(Box::new(WatchedFile { file, name: name.to_owned(), storage: self.clone() }))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.storage.remove(name)?;
        let mut ceiling = self.ceiling();
        ceiling.bytes -= ceiling.files.remove(name).unwrap_or(0);
        Ok(())
    }
}
