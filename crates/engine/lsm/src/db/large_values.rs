//! Values of any size: written from a reader, and read by one.

use super::Db;
use super::keyspace::Keyspace;
use crate::engine::Engine;
use crate::ingest::large_values::{self, Head};
use crate::read::value_reader::{ValuePosition, as_io, find_value};
use crate::stats::events::CallKind;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::WriteBatch;
use esker_base::{Error, Kind, Result};
use std::io::{Read, Seek, SeekFrom};
use std::sync::{Arc, Weak};

/// Reads a value without holding it in memory.
///
/// [`Db::get_reader`], [`Keyspace::get_reader`] and [`Snapshot::get_reader`] make one. What it reads never
/// changes, also if the key is overwritten or deleted meanwhile: the file of the value stays until the reader
/// is dropped. It holds one block of 256 KiB of a value that is larger than a log entry, and all of another.
///
/// # Errors
/// A read fails with an [`std::io::Error`], whose source is the [`Error`]. Damage has the kind
/// [`InvalidData`](std::io::ErrorKind::InvalidData), and the error names file and offset. After the database
/// is closed, reads fail.
#[derive(Debug)]
pub struct ValueReader {
    /// Weak, so that a forgotten reader does not keep the directory locked.
    engine: Weak<Engine>,
    position: ValuePosition,
}

impl ValueReader {
    /// Returns the length of the value, in bytes.
    pub fn len(&self) -> u64 {
        self.position.len()
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Read for ValueReader {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let engine = self.engine.upgrade().ok_or(Error::Closed).map_err(as_io)?;
        engine.tree.check_usable().map_err(as_io)?;
        self.position.read(to).map_err(as_io)
    }
}

impl Seek for ValueReader {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::Current(by) => (self.position.at(), by),
            SeekFrom::End(by) => (self.position.len(), by),
        };
        let at = from.checked_add_signed(by).ok_or(std::io::ErrorKind::InvalidInput)?;
        self.position.seek(at);
        Ok(at)
    }
}

impl Db {
    /// Sets `key` to all that `reader` has up to its end, at most 4 GiB, and returns how many bytes that is.
    ///
    /// A value that fits a log entry ([`Settings::max_entry_bytes`](crate::Settings::max_entry_bytes)) is held
    /// in memory and written as by [`Db::put`]. A larger one is copied to a file of its own, a block at a
    /// time, and becomes visible at once, as an ingest does ([`Db::ingest`]): MemTables are flushed before,
    /// and the value survives power loss when this returns, whatever the log's mode. [`Db::get_reader`]
    /// reads it.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use esker::{Db, Settings};
    /// use std::io::{Read, copy, repeat, sink};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let films = db.default_keyspace();
    /// db.put_reader(&films, "film", repeat(7).take(100 << 20))?;
    /// let mut film = db.get_reader(&films, "film")?.ok_or("no film")?;
    /// assert_eq!(film.len(), 100 << 20);
    /// assert_eq!(copy(&mut film, &mut sink())?, film.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::Io`] if `reader` fails, or the file cannot be written, as on a full disk.
    /// * [`Error::LargeValue`] if a value larger than a log entry is longer than 4 GiB, or the keyspace takes
    ///   none: it has indexes, a merge operator, a compaction filter or a space-amplification limit.
    /// * Otherwise the errors of [`Db::put`] and [`Db::ingest`].
    ///
    /// After an error the key is as it was, with the exceptions that [`Db::write`] and [`Db::ingest`] name.
    pub fn put_reader(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        mut reader: impl Read,
    ) -> Result<u64> {
        self.inner().put_reader(keyspace, key.as_ref(), &mut reader)
    }

    /// Returns a reader of the newest value of `key`, or `None`. A large value is not read into memory.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn get_reader(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<ValueReader>> {
        self.inner().get_reader(keyspace, key.as_ref(), None)
    }
}

impl Keyspace {
    /// Sets `key` to all that `reader` has up to its end, and returns how many bytes that is:
    /// [`Db::put_reader`].
    ///
    /// # Errors
    /// The errors of [`Db::put_reader`].
    pub fn put_reader(&self, key: impl AsRef<[u8]>, mut reader: impl Read) -> Result<u64> {
        self.engine().put_reader(self, key.as_ref(), &mut reader)
    }

    /// Returns a reader of the newest value of `key`, or `None`: [`Db::get_reader`].
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn get_reader(&self, key: impl AsRef<[u8]>) -> Result<Option<ValueReader>> {
        self.engine().get_reader(self, key.as_ref(), None)
    }
}

impl Snapshot {
    /// Returns a reader of the value of `key` at the snapshot, or `None`: [`Db::get_reader`].
    ///
    /// # Errors
    /// The errors of [`Snapshot::get`].
    pub fn get_reader(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<ValueReader>> {
        keyspace.engine().get_reader(keyspace, key.as_ref(), Some(self))
    }
}

impl Engine {
    fn put_reader(
        self: &Arc<Self>,
        keyspace: &Keyspace,
        key: &[u8],
        reader: &mut dyn Read,
    ) -> Result<u64> {
        self.check_writable()?;
        let id = self.tree.resolve(keyspace)?;
        let mut nothing = std::io::empty();
        let (head, rest): (_, &mut dyn Read) = match large_values::read_head(self, key, reader)? {
            Head::Whole(value) => {
                return self.put(keyspace, key, &value).map(|()| value.len() as u64);
            }
            Head::Part(head) => (head, reader),
            Head::WithLongKey(head) => (head, &mut nothing),
        };
        self.watched(CallKind::Write, id, key, || {
            self.expect_decided([id].into_iter())?;
            large_values::put(self, id, key, head, rest)
        })
    }

    /// Writes a batch that [`Engine::accept`] refused with `refused` because of the size of an entry.
    #[cold]
    pub(super) fn write_large(self: &Arc<Self>, given: &WriteBatch, refused: Error) -> Result<()> {
        let batch = self.tree.keys.batch(given);
        let limit = self.tree.settings.max_entry_bytes();
        if batch.iter().any(|entry| entry.kind != Kind::Put && entry.encoded_bytes() > limit) {
            return Err(refused);
        }
        self.expect_decided(batch.keyspaces())?;
        large_values::write_batch(self, &batch)
    }

    fn get_reader(
        self: &Arc<Self>,
        keyspace: &Keyspace,
        key: &[u8],
        snapshot: Option<&Snapshot>,
    ) -> Result<Option<ValueReader>> {
        self.tree.check_usable()?;
        let keyspace = self.tree.resolve(keyspace)?;
        let found = match snapshot {
            None => {
                let (view, visible) = self.pin_present();
                find_value(&self.tree, &view, keyspace, key, visible)
            }
            Some(snapshot) => {
                let seqno = self.tree.resolve_snapshot(snapshot)?;
                match snapshot.view() {
                    Some(view) => find_value(&self.tree, view, keyspace, key, seqno),
                    None => find_value(&self.tree, &self.tree.view.pin(), keyspace, key, seqno),
                }
            }
        };
        let Some(found) = found? else { return Ok(None) };
        let position = ValuePosition::start(found)?;
        Ok(Some(ValueReader { engine: Arc::downgrade(self), position }))
    }
}
