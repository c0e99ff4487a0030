//! Files in memory, for tests and scratch stores. Nothing survives the process, and every sync
//! succeeds at once.

use crate::{LogFile, ReadableFile, Storage, WritableFile, copy_file, file_name};
use esker_base::{Error, Result, WriteHint};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A storage in memory. Clones share the files.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    files: Mutex<HashMap<String, Content>>,
    locked: AtomicBool,
}

type Content = Arc<RwLock<Vec<u8>>>;

impl MemoryStorage {
    /// An empty storage.
    pub fn new() -> Self {
        Self::default()
    }

    fn add(&self, name: &str, content: Vec<u8>) -> Result<MemoryFile> {
        file_name::check(name)?;
        let mut files = self.shared.files.lock();
        if files.contains_key(name) {
            return Err(failure("create", name, ErrorKind::AlreadyExists));
        }
        let content = Arc::new(RwLock::new(content));
        files.insert(name.to_owned(), content.clone());
        Ok(MemoryFile { content, name: name.to_owned() })
    }
}

impl Storage for MemoryStorage {
    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn create(&self, name: &str, _hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let file = self.add(name, Vec::new())?;
        Ok(Box::new(MemoryWriter { content: file.content, len: 0 }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        file_name::check(name)?;
        match self.shared.files.lock().get(name) {
            Some(content) => {
                Ok(Arc::new(MemoryFile { content: content.clone(), name: name.to_owned() }))
            }
            None => Err(failure("open", name, ErrorKind::NotFound)),
        }
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        let bytes = usize::try_from(bytes)
            .map_err(|_| failure("allocate", name, ErrorKind::OutOfMemory))?;
        Ok(Arc::new(self.add(name, vec![0; bytes])?))
    }

    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        file_name::check(new)?;
        let mut files = self.shared.files.lock();
        let Some(content) = files.get(old).cloned() else {
            return Err(failure("open", old, ErrorKind::NotFound));
        };
        if content.read().len() as u64 != bytes {
            return Ok(None);
        }
        if files.contains_key(new) {
            return Err(failure("recycle a log as", new, ErrorKind::AlreadyExists));
        }
        files.remove(old);
        files.insert(new.to_owned(), content.clone());
        Ok(Some(Arc::new(MemoryFile { content, name: new.to_owned() })))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        file_name::check(name)?;
        match self.shared.files.lock().get(name).cloned() {
            Some(content) => Ok(Arc::new(MemoryFile { content, name: name.to_owned() })),
            None => Err(failure("open", name, ErrorKind::NotFound)),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.shared.files.lock().keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        file_name::check(name)?;
        Ok(self.shared.files.lock().contains_key(name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        file_name::check(name)?;
        match self.shared.files.lock().remove(name) {
            Some(_) => Ok(()),
            None => Err(failure("remove", name, ErrorKind::NotFound)),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        file_name::check(to)?;
        let mut files = self.shared.files.lock();
        match files.remove(from) {
            Some(content) => {
                files.insert(to.to_owned(), content);
                Ok(())
            }
            None => Err(failure("rename", from, ErrorKind::NotFound)),
        }
    }

    fn sync_names(&self) -> Result<()> {
        Ok(())
    }

    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        copy_file::copy_durably(self, name, target)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        if self.shared.locked.swap(true, Ordering::Acquire) {
            let pid = std::process::id().to_string();
            return Err(Error::Locked { dir: self.describe(), pid });
        }
        Ok(Box::new(MemoryLock(self.shared.clone())))
    }
}

struct MemoryLock(Arc<Shared>);

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.locked.store(false, Ordering::Release);
    }
}

/// A reader, or a log.
struct MemoryFile {
    content: Content,
    name: String,
}

impl ReadableFile for MemoryFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        copy_out(&self.content.read(), &self.name, offset, out)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.content.read().len() as u64)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl LogFile for MemoryFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut content = self.content.write();
        match range(offset, bytes.len()).and_then(|range| content.get_mut(range)) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(failure("write outside", &self.name, ErrorKind::InvalidInput)),
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

struct MemoryWriter {
    content: Content,
    len: u64,
}

impl WritableFile for MemoryWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.content.write().extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Fills `out` from `content`, a file's bytes, or says that the file is too short.
pub(crate) fn copy_out(content: &[u8], file: &str, offset: u64, out: &mut [u8]) -> Result<()> {
    match range(offset, out.len()).and_then(|range| content.get(range)) {
        Some(bytes) => {
            out.copy_from_slice(bytes);
            Ok(())
        }
        None => {
            let (wanted, found) = (out.len(), content.len());
            let what = format!("{wanted} bytes are wanted, and the file ends at {found}");
            Err(Error::corruption(file, offset, what))
        }
    }
}

/// `[offset, offset + len)` as indexes, if it can be in memory at all.
pub(crate) fn range(offset: u64, len: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    Some(start..start.checked_add(len)?)
}

fn failure(action: &'static str, name: &str, kind: ErrorKind) -> Error {
    Error::io(action, format!("memory/{name}"), io::Error::from(kind))
}
