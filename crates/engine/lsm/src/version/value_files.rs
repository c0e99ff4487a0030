//! Value files: values that are not stored next to their keys.
//!
//! A flush writes long values to a value file, and their places to tables. Compaction carries the
//! places. A table says how much of each value file it refers to, so the live bytes of a file are a
//! sum over the tables of a version. A file leaves the version in the edit that takes its last value,
//! and is removed with its last reader. `docs/formats/values.md` describes the bytes.

use crate::fold::values::Values;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{take, take_u8, take_varint64};
use esker_base::{Error, KeyspaceId, Result, ValuePlace};
use esker_storage::{ReadableFile, Storage};
use esker_table::{Compression, ValueFileUse, decompress};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The description of a value file in the manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ValueFileMeta {
    /// The ID of the file.
    pub file: u64,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// The number of its values.
    pub values: u64,
    /// The bytes of its values.
    pub value_bytes: u64,
}

impl ValueFileMeta {
    /// The description of a file of `bytes` bytes without values.
    pub(crate) fn new(file: u64, bytes: u64) -> Self {
        ValueFileMeta { file, bytes, values: 0, value_bytes: 0 }
    }
}

/// The name of the value file with this ID.
pub fn value_file_name(file: u64) -> String {
    format!("{file:08}.values")
}

/// The ID in a name that [`value_file_name`] made.
pub fn parse_value_file_name(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".values")?;
    (digits.len() >= 8).then(|| digits.parse().ok()).flatten()
}

/// The first bytes of every value file.
const MAGIC: [u8; 8] = *b"eskerVAL";

/// The version of the format.
const VERSION: u32 = 1;

/// The bytes before the first value.
const HEADER_BYTES: usize = 24;

/// The most bytes before a value: its checksum, how it is compressed, and its length as a varint.
const HEAD_BYTES_MAX: usize = 4 + 1 + 10;

/// The first bytes of the value file with this ID.
pub(crate) fn value_file_header(file: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..20].copy_from_slice(&file.to_le_bytes());
    let checksum = crc32c(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// The checksum of a value: of where it belongs, and how and as what it is stored.
pub(crate) fn value_checksum(file: u64, offset: u64, compression: u8, stored: &[u8]) -> u32 {
    let mut place = [0; 17];
    place[..8].copy_from_slice(&file.to_le_bytes());
    place[8..16].copy_from_slice(&offset.to_le_bytes());
    place[16] = compression;
    crc32c_append(crc32c(&place), stored)
}

/// A value file. It is removed when no version has it any more and its last reader is gone.
pub struct ValueFile {
    id: u64,
    storage: Arc<dyn Storage>,
    obsolete: AtomicBool,
    /// Set once a read found damage: no compaction collects the file then.
    damaged: AtomicBool,
    reader: OnceLock<Arc<dyn ReadableFile>>,
}

impl std::fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueFile({})", self.path())
    }
}

impl ValueFile {
    /// The file `id` of `storage`.
    pub(crate) fn new(storage: Arc<dyn Storage>, id: u64) -> Arc<Self> {
        let (obsolete, damaged, reader) = Default::default();
        Arc::new(ValueFile { id, storage, obsolete, damaged, reader })
    }

    /// Says that no version has the file any more: it is removed with its last reader.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    fn path(&self) -> String {
        self.storage.path_of(&value_file_name(self.id))
    }

    /// The reader of the file, opened now if it was not yet.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is missing, [`Error::Io`] if it cannot be opened.
    pub(crate) fn reader(&self) -> Result<&Arc<dyn ReadableFile>> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let name = value_file_name(self.id);
        let opened = match self.storage.open(&name) {
            Err(_) if !self.storage.exists(&name)? => {
                return Err(Error::corruption(self.path(), 0, "the value file is missing"));
            }
            opened => opened?,
        };
        Ok(self.reader.get_or_init(|| opened))
    }

    /// Reads the bytes at `place` of the file, as they are stored, and checks them. The manifest says that
    /// the file has `file_bytes` bytes: to ask the system would cost a call for each read.
    fn read_stored(&self, place: &ValuePlace, file_bytes: u64) -> Result<Vec<u8>> {
        let damaged = |what: &str| Error::corruption(self.path(), place.offset, what);
        let reader = self.reader().map_err(|error| match error.is_corruption() {
            true => damaged("the value file is missing"),
            false => error,
        })?;
        let bytes = usize::try_from(place.bytes).map_err(|_| damaged("a value is too long"))?;
        if place.offset.saturating_add(place.bytes) > file_bytes {
            return Err(damaged("the value file ends before a value does"));
        }
        let mut stored = vec![0; bytes];
        reader.read_exact_at(place.offset, &mut stored)?;
        let ValuePlace { offset, compression, checksum, .. } = *place;
        match value_checksum(self.id, offset, compression, &stored) == checksum {
            true => Ok(stored),
            false => Err(damaged("a value fails its checksum")),
        }
    }

    /// Whether a read found damage.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Reads the value at `place` of the file, which has `file_bytes` bytes.
    fn read(&self, place: &ValuePlace, file_bytes: u64) -> Result<Vec<u8>> {
        self.read_value(place, file_bytes).inspect_err(|error| {
            if error.is_corruption() {
                self.damaged.store(true, Ordering::Relaxed);
            }
        })
    }

    fn read_value(&self, place: &ValuePlace, file_bytes: u64) -> Result<Vec<u8>> {
        let stored = self.read_stored(place, file_bytes)?;
        let value = match Compression::from_u8(place.compression) {
            Some(Compression::None) => Some(stored),
            Some(method) => decompress(method, &stored).map(|value| value.to_vec()),
            None => None,
        };
        let value = value.filter(|value| value.len() as u64 == place.value_bytes);
        let what = "a value cannot be decompressed";
        value.ok_or_else(|| Error::corruption(self.path(), place.offset, what))
    }
}

impl ValueFile {
    /// Reads all values one after another, of a file that the manifest describes so.
    fn verify(&self, meta: &ValueFileMeta) -> Result<()> {
        let damaged = |offset: u64, what: &str| Error::corruption(self.path(), offset, what);
        let reader = self.reader()?;
        if reader.len()? < meta.bytes {
            return Err(damaged(meta.bytes, "the value file ends before"));
        }
        let mut header = [0; HEADER_BYTES];
        reader.read_exact_at(0, &mut header)?;
        if header != value_file_header(self.id) {
            return Err(damaged(0, "it does not begin as a value file"));
        }
        let mut at = HEADER_BYTES as u64;
        while at < meta.bytes {
            let mut head = [0; HEAD_BYTES_MAX];
            let bytes = head.len().min((meta.bytes - at) as usize);
            reader.read_exact_at(at, &mut head[..bytes])?;
            let place = place_of(self.id, at, &head[..bytes]);
            let place = place.ok_or_else(|| damaged(at, "the head of a value is damaged"))?;
            self.read_stored(&place, meta.bytes)?;
            at = place.offset + place.bytes;
        }
        Ok(())
    }
}

/// Where the value is whose `head` is at `at` of the file `file`. Its length before compression is not
/// known.
fn place_of(file: u64, at: u64, head: &[u8]) -> Option<ValuePlace> {
    let mut rest = head;
    let input = &mut rest;
    let checksum = u32::from_le_bytes(take(input, 4)?.try_into().ok()?);
    let (compression, bytes) = (take_u8(input)?, take_varint64(input)?);
    let offset = at + (head.len() - input.len()) as u64;
    Some(ValuePlace { file, offset, bytes, compression, value_bytes: 0, checksum })
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            // A file that cannot be removed now is found unused, and removed, at the next open.
            let _ = self.storage.remove(&value_file_name(self.id));
        }
    }
}

/// A value file of a version.
#[derive(Clone, Debug)]
pub struct ListedValueFile {
    /// The file.
    pub file: Arc<ValueFile>,
    /// The keyspace of its values.
    pub keyspace: KeyspaceId,
    /// What the manifest says of it.
    pub meta: ValueFileMeta,
    /// The values that tables refer to.
    pub live_values: u64,
    /// Their bytes.
    pub live_bytes: u64,
}

/// The value files of a version, by ID.
#[derive(Clone, Debug, Default)]
pub struct ValueFiles(Arc<BTreeMap<u64, ListedValueFile>>);

impl ValueFiles {
    /// All of them, in the order of their IDs.
    pub fn iter(&self) -> impl Iterator<Item = &ListedValueFile> {
        self.0.values()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one with this ID.
    pub fn get(&self, file: u64) -> Option<&ListedValueFile> {
        self.0.get(&file)
    }

    /// Those of a keyspace.
    pub(crate) fn of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = &ListedValueFile> {
        self.0.values().filter(move |listed| listed.keyspace == keyspace)
    }

    /// Opens all of them. Fails with the first error, after it has tried all.
    pub(crate) fn open(&self) -> Result<()> {
        self.iter().map(|listed| listed.file.reader().map(|_| ())).fold(Ok(()), Result::and)
    }

    /// Checks the values in the file called `name`.
    ///
    /// # Errors
    /// [`Error::Corruption`] for the first damage, [`Error::Io`] if the file cannot be read.
    pub(crate) fn verify(&self, name: &str) -> Result<()> {
        let listed = parse_value_file_name(name).and_then(|file| self.get(file));
        listed.map_or(Ok(()), |listed| listed.file.verify(&listed.meta))
    }

    /// Adds a file that no table refers to yet.
    pub(crate) fn add(
        &mut self,
        keyspace: KeyspaceId,
        meta: ValueFileMeta,
        storage: &Arc<dyn Storage>,
    ) -> Result<(), String> {
        let file = ValueFile::new(storage.clone(), meta.file);
        let listed = ListedValueFile { file, keyspace, meta, live_values: 0, live_bytes: 0 };
        match Arc::make_mut(&mut self.0).insert(meta.file, listed) {
            None => Ok(()),
            Some(_) => Err(format!("value file {} is added twice", meta.file)),
        }
    }

    /// Counts what a table that is added refers to.
    pub(crate) fn count(
        &mut self,
        keyspace: KeyspaceId,
        uses: &[ValueFileUse],
    ) -> Result<(), String> {
        for of in uses {
            let listed = self.listed(of.file)?;
            listed.live_values += of.values;
            listed.live_bytes += of.bytes;
            let is_possible = listed.keyspace == keyspace
                && listed.live_values <= listed.meta.values
                && listed.live_bytes <= listed.meta.value_bytes;
            if !is_possible {
                return Err(format!("tables refer to more than value file {} has", of.file));
            }
        }
        Ok(())
    }

    /// Takes off what a table that is removed refers to.
    pub(crate) fn discount(&mut self, uses: &[ValueFileUse]) -> Result<(), String> {
        for of in uses {
            let listed = self.listed(of.file)?;
            let left = listed.live_values.checked_sub(of.values);
            let left = left.zip(listed.live_bytes.checked_sub(of.bytes));
            (listed.live_values, listed.live_bytes) =
                left.ok_or_else(|| format!("value file {} has fewer values", of.file))?;
        }
        Ok(())
    }

    /// Drops the files that no table refers to.
    pub(crate) fn drop_dead(&mut self) {
        if self.iter().any(|listed| listed.live_values == 0) {
            Arc::make_mut(&mut self.0).retain(|_, listed| listed.live_values > 0);
        }
    }

    /// Marks the files that `now` does not have as obsolete.
    pub(crate) fn mark_obsolete(&self, now: &ValueFiles) {
        if !Arc::ptr_eq(&self.0, &now.0) {
            let gone = self.iter().filter(|listed| now.get(listed.meta.file).is_none());
            gone.for_each(|listed| listed.file.mark_obsolete());
        }
    }

    fn listed(&mut self, file: u64) -> Result<&mut ListedValueFile, String> {
        let listed = Arc::make_mut(&mut self.0).get_mut(&file);
        listed.ok_or_else(|| format!("a table refers to value file {file}, which is not listed"))
    }
}

impl Values for ValueFiles {
    fn read(&self, stored: &[u8]) -> Result<Vec<u8>> {
        let damaged = |what| Error::corruption("a table", 0, what);
        let place = ValuePlace::decode(stored).ok_or_else(|| damaged("a place of no value"))?;
        let listed = self.get(place.file).ok_or_else(|| damaged("a place in no value file"))?;
        listed.file.read(&place, listed.meta.bytes)
    }
}
