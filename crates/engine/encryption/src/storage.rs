//! A storage whose files are encrypted, in front of another one, which has them.

use crate::header::{self, Header, header_of};
use crate::keys::Keys;
use crate::log::{EncryptedLog, OpenedLog};
use crate::log_space::bytes_below;
use crate::slots::SlotReader;
use crate::stream::StreamReader;
use crate::writer::EncryptedWriter;
use esker_base::{EncryptionError, Error, FileKind, Result, WriteHint};
use esker_storage::{Encrypt, Encryption, LogFile, ReadableFile, Storage, WritableFile};
use std::sync::Arc;

/// The distance of the records of a table: about a block, of which a record has [`OVERHEAD_BYTES`] less.
///
/// [`OVERHEAD_BYTES`]: crate::record::OVERHEAD_BYTES
const STRIDE: u32 = 4096;

/// A storage whose files are encrypted with [`Keys`]. Names and lengths of files are not encrypted.
///
/// A file that is not encrypted, or whose key is missing, can be opened, and every read of it fails.
pub struct EncryptedStorage {
    below: Arc<dyn Storage>,
    keys: Keys,
}

impl EncryptedStorage {
    /// Returns a storage that keeps its files in `below`.
    pub fn new(below: Arc<dyn Storage>, keys: Keys) -> Self {
        EncryptedStorage { below, keys }
    }

    fn reader(&self, name: &str, below: Arc<dyn ReadableFile>) -> Result<Arc<dyn ReadableFile>> {
        let path = self.path_of(name);
        Ok(match self.header(&*below, &path) {
            Ok(header) if header.stride > 0 => Arc::new(SlotReader::new(below, path, header)?),
            Ok(header) => Arc::new(StreamReader::new(below, path, header)),
            Err(error @ Error::Io { .. }) => return Err(error),
            // A crash leaves such files. What lists or removes them need not read them.
            Err(error) => Arc::new(Unreadable { below, error }),
        })
    }

    fn header(&self, file: &dyn ReadableFile, path: &str) -> Result<Header> {
        Header::decode(&header_of(file)?, &self.keys, path)
    }

    /// Writes the header of a log of `bytes` bytes into `below`, which is new.
    fn begin_log(
        &self,
        name: &str,
        create: impl FnOnce() -> Result<Arc<dyn LogFile>>,
        bytes: u64,
    ) -> Result<Arc<dyn LogFile>> {
        let (header, encoded) = Header::new(&self.keys, 0, bytes)?;
        let below = create()?;
        below.write_at(0, &encoded)?;
        Ok(Arc::new(EncryptedLog::new(below, self.path_of(name), header)))
    }
}

impl Storage for EncryptedStorage {
    fn describe(&self) -> String {
        self.below.describe()
    }

    fn path_of(&self, name: &str) -> String {
        self.below.path_of(name)
    }

    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        // Tables are read at any place. Other files are kept in memory while they are read.
        let is_table = matches!(hint.kind, FileKind::Table | FileKind::Scratch);
        let stride = if is_table { STRIDE } else { 0 };
        let (header, encoded) = Header::new(&self.keys, stride, 0)?;
        let mut below = self.below.create(name, hint)?;
        below.append(&encoded)?;
        Ok(Box::new(EncryptedWriter::new(below, header)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.reader(name, self.below.open(name)?)
    }

    fn open_for_caching(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        self.reader(name, self.below.open_for_caching(name)?)
    }

    fn create_log(&self, name: &str, bytes: u64) -> Result<Arc<dyn LogFile>> {
        self.begin_log(name, || self.below.create_log(name, bytes_below(bytes)), bytes)
    }

    fn create_log_in_steps(
        &self,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Arc<dyn LogFile>> {
        let (length, prepared) = (bytes_below(bytes), bytes_below(prepared));
        let create = || self.below.create_log_in_steps(name, length, prepared.min(length));
        self.begin_log(name, create, bytes)
    }

    fn recycles_logs(&self) -> bool {
        self.below.recycles_logs()
    }

    /// The file gets another salt, so that its earlier records are those of another key. A file with an old key is not
    /// used again: after a rotation, nothing stays that needs that key.
    fn recycle_log(&self, old: &str, new: &str, bytes: u64) -> Result<Option<Arc<dyn LogFile>>> {
        // For the errors of files that are missing, or in the way.
        let file = self.below.open(old)?;
        if self.below.exists(new)? {
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(Error::io("recycle a log as", self.path_of(new), source));
        }
        let key = header::check(&header_of(&*file)?, old).ok();
        drop(file);
        if key != Some(self.keys.provider().current()?.id()) {
            return Ok(None);
        }
        let (header, encoded) = Header::new(&self.keys, 0, bytes)?;
        let Some(below) = self.below.recycle_log(old, new, bytes_below(bytes))? else {
            return Ok(None);
        };
        below.write_at(0, &encoded)?;
        Ok(Some(Arc::new(EncryptedLog::new(below, self.path_of(new), header))))
    }

    fn open_log(&self, name: &str) -> Result<Arc<dyn LogFile>> {
        let file = self.below.open(name)?;
        let path = self.path_of(name);
        let header = self.header(&*file, &path)?;
        Ok(Arc::new(OpenedLog::new(self.below.open_log(name)?, path, file, header)))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.below.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.below.exists(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.below.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.below.rename(from, to)
    }

    fn sync_names(&self) -> Result<()> {
        self.below.sync_names()
    }

    /// Shares the encrypted bytes with another storage of the same keys.
    fn link_to(&self, name: &str, target: &dyn Storage) -> Result<()> {
        match target.encrypted() {
            Some(below) => self.below.link_to(name, below),
            None => Err(EncryptionError::Exposed {
                what: "a file",
                target: target.describe(),
                instead: "write to an encrypted storage",
            }
            .into()),
        }
    }

    fn is_replaced(&self) -> bool {
        self.below.is_replaced()
    }

    fn reopened(&self) -> Result<Option<Arc<dyn Storage>>> {
        let found = self.below.reopened()?;
        Ok(found.map(|below| self.keys.over(below)))
    }

    fn encryption(&self) -> Option<Encryption> {
        Some(self.keys.clone().into())
    }

    fn encrypted(&self) -> Option<&dyn Storage> {
        Some(&*self.below)
    }

    fn has_old_key(&self, name: &str) -> Result<bool> {
        let file = self.below.open(name)?;
        let id = header::check(&header_of(&*file)?, name);
        // A damaged file is reported by the read of it.
        let current = self.keys.provider().current()?.id();
        Ok(id.is_ok_and(|id| id != current))
    }

    fn is_busy(&self) -> bool {
        self.below.is_busy()
    }

    fn is_settled(&self, name: &str) -> bool {
        self.below.is_settled(name)
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.below.lock()
    }
}

impl Encrypt for Keys {
    fn over(&self, below: Arc<dyn Storage>) -> Arc<dyn Storage> {
        Arc::new(EncryptedStorage::new(below, self.clone()))
    }
}

impl From<Keys> for Encryption {
    fn from(keys: Keys) -> Encryption {
        Encryption::new(keys)
    }
}

/// A file that cannot be decrypted.
struct Unreadable {
    below: Arc<dyn ReadableFile>,
    error: Error,
}

impl ReadableFile for Unreadable {
    fn read_exact_at(&self, _offset: u64, out: &mut [u8]) -> Result<()> {
        match out.is_empty() {
            true => Ok(()),
            false => Err(self.error.clone()),
        }
    }

    fn len(&self) -> Result<u64> {
        self.below.len()
    }

    fn name(&self) -> &str {
        self.below.name()
    }
}
