//! A storage that checks what an encrypted one writes to it: under one salt, so under one key, each position
//! gets the same bytes whenever it is written. So no nonce is used for two texts.

use esker_base::{Result, WriteHint};
use esker_storage::{FileSystemWrapper, LogFile, Pace, Storage, WritableFile};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

type Salt = [u8; 32];

/// By salt, what was written to each position, and whether the last write of it may have failed.
type Written = Arc<Mutex<HashMap<Salt, Vec<Option<u8>>>>>;

/// See the file's head. It outlives the disk below, as it knows what was written before a power loss.
#[derive(Clone, Default)]
pub struct Spy {
    written: Written,
}

impl Spy {
    pub fn over(&self, below: impl Storage) -> SpiedStorage {
        SpiedStorage { below: Box::new(below), written: self.written.clone() }
    }

    /// The files that were written.
    pub fn files(&self) -> usize {
        self.written.lock().len()
    }
}

pub struct SpiedStorage {
    below: Box<dyn Storage>,
    written: Written,
}

/// What is written to one file.
struct Notes {
    written: Written,
    salt: Option<Salt>,
}

impl Notes {
    fn note(&mut self, position: u64, bytes: &[u8]) {
        if position == 0 && bytes.len() >= 88 {
            let salt: Salt = bytes[24..56].try_into().unwrap();
            // An opened log is written again, with its header.
            let is_new = self.salt.is_none();
            let known = self.written.lock().contains_key(&salt);
            assert!(!(is_new && known), "two files have one salt");
            self.salt = Some(salt);
        }
        let salt = self.salt.expect("the header comes first");
        let mut written = self.written.lock();
        let file = written.entry(salt).or_default();
        let end = position as usize + bytes.len();
        file.resize(file.len().max(end), None);
        for (at, (old, new)) in file[position as usize..end].iter_mut().zip(bytes).enumerate() {
            assert!(old.is_none_or(|old| old == *new), "other bytes at {}", position as usize + at);
            *old = Some(*new);
        }
    }
}

struct SpiedFile {
    below: Box<dyn WritableFile>,
    notes: Notes,
}

impl WritableFile for SpiedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.notes.note(self.below.len(), bytes);
        self.below.append(bytes)
    }
    fn len(&self) -> u64 {
        self.below.len()
    }
    fn sync(&mut self) -> Result<()> {
        self.below.sync()
    }
}

struct SpiedLog {
    below: Arc<dyn LogFile>,
    notes: Mutex<Notes>,
}

impl LogFile for SpiedLog {
    fn prepare(&self, through: u64, pace: Pace) -> Result<()> {
        self.below.prepare(through, pace)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.notes.lock().note(offset, bytes);
        self.below.write_at(offset, bytes)
    }
    fn sync(&self) -> Result<()> {
        self.below.sync()
    }
    fn name(&self) -> &str {
        self.below.name()
    }
}

impl SpiedStorage {
    fn log(&self, below: Arc<dyn LogFile>, salt: Option<Salt>) -> Arc<dyn LogFile> {
        let notes = Mutex::new(Notes { written: self.written.clone(), salt });
        Arc::new(SpiedLog { below, notes })
    }
}

impl FileSystemWrapper for SpiedStorage {
    fn below(&self) -> &dyn Storage {
        &*self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let below = self.below.create(name, hint)?;
        let notes = Notes { written: self.written.clone(), salt: None };
        Ok(Box::new(SpiedFile { below, notes }))
    }
    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        Ok(self.log(self.below.create_log(name, bytes)?, None))
    }
    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        Ok(self.log(self.below.create_log_in_steps(name, bytes, prepared)?, None))
    }
    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        Ok(self.below.recycle_log(old, new, bytes)?.map(|below| self.log(below, None)))
    }
    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        let mut header = [0; 88];
        self.below.open(name)?.read_exact_at(0, &mut header)?;
        let salt = header[24..56].try_into().unwrap();
        Ok(self.log(self.below.open_log(name)?, Some(salt)))
    }
}
