//! A storage that knows how much its table and value files take, at every point in time: those in use, those that
//! nothing refers to any more and that wait for their last reader, and those still being written.

use crate::version::parse_data_file_name;
use esker_base::{Result, WriteHint};
use esker_storage::{FileSystemWrapper, ReadableFile, Storage, WritableFile};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of table and value files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableDiskUsage {
    /// Now.
    pub bytes: u64,
    /// The most at any time since the storage was opened.
    pub peak_bytes: u64,
    /// Of those now, bytes of files that are open for writing.
    pub unfinished_bytes: u64,
}

#[derive(Default)]
struct Files {
    bytes_of: HashMap<String, u64>,
    space: TableDiskUsage,
    /// The most bytes since this was last asked for.
    recent_peak_bytes: u64,
}

impl Files {
    fn grow(&mut self, name: &str, bytes: u64) {
        if let Some(of_file) = self.bytes_of.get_mut(name) {
            *of_file += bytes;
            self.space.bytes += bytes;
            self.space.peak_bytes = self.space.peak_bytes.max(self.space.bytes);
            self.recent_peak_bytes = self.recent_peak_bytes.max(self.space.bytes);
        }
    }

    fn start(&mut self, name: &str, bytes: u64) {
        self.bytes_of.insert(name.to_owned(), 0);
        self.grow(name, bytes);
    }

    fn shrink(&mut self, name: &str, bytes: u64) {
        if let Some(of_file) = self.bytes_of.get_mut(name) {
            let bytes = bytes.min(*of_file);
            *of_file -= bytes;
            self.space.bytes -= bytes;
        }
    }

    fn end(&mut self, name: &str) {
        self.space.bytes -= self.bytes_of.remove(name).unwrap_or(0);
    }
}

/// See the file's head.
pub struct DiskUsageTracker {
    storage: Arc<dyn Storage>,
    files: Arc<Mutex<Files>>,
}

impl DiskUsageTracker {
    /// `storage`, and what its table and value files take now.
    pub fn new(storage: Arc<dyn Storage>) -> Result<Self> {
        let mut files = Files::default();
        for name in storage.list()? {
            if parse_data_file_name(&name).is_some() {
                files.start(&name, storage.open(&name)?.len()?);
            }
        }
        Ok(DiskUsageTracker { storage, files: Arc::new(Mutex::new(files)) })
    }

    /// What the table and value files take.
    pub fn table_space(&self) -> TableDiskUsage {
        self.files.lock().space
    }

    /// What the file `name` takes, if it is one of them.
    pub fn bytes_of(&self, name: &str) -> u64 {
        self.files.lock().bytes_of.get(name).copied().unwrap_or(0)
    }

    /// The most that they took since this was last asked, in bytes.
    pub fn take_peak(&self) -> u64 {
        let mut files = self.files.lock();
        let now = files.space.bytes;
        std::mem::replace(&mut files.recent_peak_bytes, now)
    }
}

/// A table or value file that is being written.
struct MeteredFile {
    file: Box<dyn WritableFile>,
    name: String,
    bytes: u64,
    files: Arc<Mutex<Files>>,
}

impl Drop for MeteredFile {
    fn drop(&mut self) {
        self.files.lock().space.unfinished_bytes -= self.bytes;
    }
}

impl WritableFile for MeteredFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        // Before: what fails may have been written in part.
        let mut files = self.files.lock();
        files.grow(&self.name, bytes.len() as u64);
        files.space.unfinished_bytes += bytes.len() as u64;
        drop(files);
        self.bytes += bytes.len() as u64;
        self.file.append(bytes)
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
    fn start_writeback(&mut self) -> Result<()> {
        self.file.start_writeback()
    }
    fn publish(&mut self) -> Result<()> {
        self.file.publish()
    }
}

impl FileSystemWrapper for DiskUsageTracker {
    fn below(&self) -> &dyn Storage {
        &*self.storage
    }

    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.storage.open_for_caching(name)
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let file = self.storage.create(name, hint)?;
        if parse_data_file_name(name).is_none() {
            return Ok(file);
        }
        self.files.lock().start(name, 0);
        let (name, files) = (name.to_owned(), self.files.clone());
        Ok(Box::new(MeteredFile { file, name, bytes: 0, files }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.storage.rename(from, to)?;
        self.files.lock().end(from);
        if parse_data_file_name(to).is_some() {
            // It counts from now on, if its length can't be had as nothing.
            let bytes = self.storage.open(to).and_then(|file| file.len()).unwrap_or(0);
            let mut files = self.files.lock();
            files.end(to);
            files.start(to, bytes);
        }
        Ok(())
    }

    fn free_part(&self, name: &str, part: Range<u64>) -> u64 {
        let freed = self.storage.free_part(name, part);
        self.files.lock().shrink(name, freed);
        freed
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.storage.remove(name)?;
        self.files.lock().end(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{DiskUsageTracker, TableDiskUsage};
    use crate::version::table_file_name;
    use esker_base::WriteHint;
    use esker_storage::{MemoryStorage, Storage};
    use std::sync::Arc;

    #[test]
    fn table_files_count_from_their_first_byte_to_their_removal() {
        let storage = DiskUsageTracker::new(Arc::new(MemoryStorage::new())).unwrap();
        let (first, second) = (table_file_name(1), table_file_name(2));
        let mut file = storage.create(&first, WriteHint::table(0)).unwrap();
        file.append(&[0; 100]).unwrap();
        storage.create(&second, WriteHint::table(0)).unwrap().append(&[0; 50]).unwrap();
        let space =
            |bytes, unfinished_bytes| TableDiskUsage { bytes, peak_bytes: 150, unfinished_bytes };
        assert_eq!(storage.table_space(), space(150, 100));
        drop(file);
        storage.remove(&first).unwrap();
        assert_eq!(storage.table_space(), space(50, 0));
    }

    #[test]
    fn a_peak_is_told_once() {
        let storage = DiskUsageTracker::new(Arc::new(MemoryStorage::new())).unwrap();
        for (file, bytes) in [(1, 100), (2, 50)] {
            let mut written = storage.create(&table_file_name(file), WriteHint::table(0)).unwrap();
            written.append(&vec![0; bytes]).unwrap();
        }
        storage.remove(&table_file_name(1)).unwrap();
        assert_eq!([storage.take_peak(), storage.take_peak()], [150, 50]);
    }

    #[test]
    fn files_that_are_there_already_count_and_others_do_not() {
        let storage = Arc::new(MemoryStorage::new());
        for name in ["other", &table_file_name(7)] {
            storage.create(name, WriteHint::table(0)).unwrap().append(&[0; 30]).unwrap();
        }
        assert_eq!(DiskUsageTracker::new(storage).unwrap().table_space().bytes, 30);
    }
}
