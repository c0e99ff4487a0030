//! One value file: its reader, and why compaction leaves it alone.

use super::blocks::{
    BLOCK_BYTES, BlockSums, Blocks, CHECKSUM_BYTES, TRAILER_BYTES, describe, place_in_trailer,
};
use super::format::{
    HEAD_BYTES_MAX, HEADER_BYTES, ValueFileMeta, large_value_header, place_of, value_checksum,
    value_file_header, value_file_name,
};
use esker_base::coding::u32_at;
use esker_base::{Error, Result, ValuePlace};
use esker_storage::{ReadableFile, Storage};
use esker_table::{Compression, decompress};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A value file. It is removed when no version has it any more and its last reader is gone.
pub struct ValueFile {
    id: u64,
    /// Its length in the manifest.
    bytes: u64,
    storage: Arc<dyn Storage>,
    obsolete: AtomicBool,
    /// Set once a read found damage: no compaction collects the file then.
    damaged: AtomicBool,
    /// Set once a compaction could not read it for another reason. Tried again later.
    unreadable: AtomicBool,
    reader: OnceLock<Arc<dyn ReadableFile>>,
    /// Where the last read has ended.
    read_to: AtomicU64,
}

/// For a reader that goes from value to value, as scans and collections do, so many times what it reads
/// now is read ahead, within these limits in bytes.
const AHEAD_TIMES: u64 = 2;
const AHEAD_BYTES: (u64, u64) = (64 << 10, 256 << 10);

impl std::fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValueFile({})", self.path())
    }
}

impl ValueFile {
    /// The file of `storage` that `meta` describes.
    pub(crate) fn new(storage: Arc<dyn Storage>, meta: &ValueFileMeta) -> Arc<Self> {
        let (id, bytes) = (meta.file, meta.bytes);
        let (obsolete, damaged, unreadable, reader, read_to) = Default::default();
        Arc::new(ValueFile { id, bytes, storage, obsolete, damaged, unreadable, reader, read_to })
    }

    /// Says that no version has the file any more: it is removed with its last reader.
    pub(crate) fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    fn path(&self) -> String {
        self.storage.path_of(&value_file_name(self.id))
    }

    fn damage_at(&self, offset: u64, what: &str) -> Error {
        Error::corruption(self.path(), offset, what)
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
        let opened = match self.storage.open_for_caching(&name) {
            Err(_) if !self.storage.exists(&name)? => {
                return Err(self.damage_at(0, "the value file is missing"));
            }
            opened => opened?,
        };
        Ok(self.reader.get_or_init(|| opened))
    }

    /// Whether compactions may collect the file: no read found damage or failed.
    pub(crate) fn is_readable(&self) -> bool {
        !self.damaged.load(Ordering::Relaxed) && !self.unreadable.load(Ordering::Relaxed)
    }

    /// Whether a compaction could not read the file and may another time.
    pub(crate) fn may_recover(&self) -> bool {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Says that a compaction could not read the file. [`Error::Closed`] is no failure.
    pub(crate) fn mark_unreadable(&self, error: &Error) {
        if !error.is_corruption() && !matches!(error, Error::Closed) {
            self.unreadable.store(true, Ordering::Relaxed);
        }
    }

    /// Lets compactions try the file again, unless it is damaged.
    pub(crate) fn retry(&self) {
        self.unreadable.store(false, Ordering::Relaxed);
    }

    /// Reads the value at `place` of the file.
    pub(crate) fn read(&self, place: &ValuePlace) -> Result<Vec<u8>> {
        self.read_value(place).inspect_err(|error| self.note_damage(error))
    }

    fn note_damage(&self, error: &Error) {
        if error.is_corruption() {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    fn read_value(&self, place: &ValuePlace) -> Result<Vec<u8>> {
        if place.is_in_blocks() {
            // A damaged place asks for no more memory than the file can fill.
            let most = self.reader_at(place.offset)?.len()?;
            let mut value = Vec::with_capacity(place.value_bytes.min(most) as usize);
            self.read_blocks(place, &mut |block| {
                value.extend_from_slice(block);
                Ok(())
            })?;
            return Ok(value);
        }
        let stored = self.read_stored(place)?;
        let value = match Compression::from_u8(place.compression) {
            Some(Compression::None) => Some(stored),
            Some(method) => decompress(method, &stored).map(|value| value.to_vec()),
            None => None,
        };
        let value = value.filter(|value| value.len() as u64 == place.value_bytes);
        value.ok_or_else(|| self.damage_at(place.offset, "a value cannot be decompressed"))
    }

    /// The blocks of the value at `place` of the file.
    ///
    /// # Errors
    /// [`Error::Corruption`] if no value can be there.
    pub(crate) fn blocks(&self, place: &ValuePlace) -> Result<Blocks> {
        Blocks::of(place)
            .ok_or_else(|| self.damage_at(place.offset, "a place of no value in blocks"))
    }

    /// Reads a block of a value to `block`, and checks it. `sums` has the blocks before.
    pub(crate) fn read_block(
        &self,
        (blocks, number): (&Blocks, u64),
        sums: &mut BlockSums,
        block: &mut Vec<u8>,
    ) -> Result<()> {
        self.load_block(blocks.block(number), sums, block)
            .inspect_err(|error| self.note_damage(error))
    }

    fn load_block(
        &self,
        (offset, bytes): (u64, usize),
        sums: &mut BlockSums,
        block: &mut Vec<u8>,
    ) -> Result<()> {
        let reader = self.reader_at(offset)?;
        let end = offset + (bytes + CHECKSUM_BYTES) as u64;
        if end > self.bytes && end > reader.len()? {
            return Err(self.damage_at(offset, "the value file ends before a value does"));
        }
        block.resize(bytes + CHECKSUM_BYTES, 0);
        self.fetch(reader, offset, block)?;
        let checksum = u32_at(block, bytes);
        block.truncate(bytes);
        match sums.add(offset, block) == checksum {
            true => Ok(()),
            false => Err(self.damage_at(offset, "a block of a value fails its checksum")),
        }
    }

    /// Passes the blocks of the value at `place` to `each`, in order.
    pub(crate) fn read_blocks(
        &self,
        place: &ValuePlace,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let blocks = self.blocks(place)?;
        let (mut sums, mut block) = (BlockSums::of(self.id), Vec::new());
        for number in 0..blocks.count() {
            self.load_block(blocks.block(number), &mut sums, &mut block)?;
            each(&block)?;
        }
        self.check_sums(place, &sums)
    }

    /// Checks that the blocks that were read are those of the value at `place`.
    pub(crate) fn check_sums(&self, place: &ValuePlace, sums: &BlockSums) -> Result<()> {
        match sums.sum() == place.checksum {
            true => Ok(()),
            false => Err(self.damage_at(place.offset, "a value fails its checksum")),
        }
    }

    /// The reader of the file. If it is missing, the error names the offset.
    fn reader_at(&self, offset: u64) -> Result<&Arc<dyn ReadableFile>> {
        self.reader().map_err(|error| match error.is_corruption() {
            true => self.damage_at(offset, "the value file is missing"),
            false => error,
        })
    }

    /// Reads `out` from `offset`, and has what follows read ahead if the last read has ended here.
    fn fetch(&self, reader: &Arc<dyn ReadableFile>, offset: u64, out: &mut [u8]) -> Result<()> {
        let bytes = out.len() as u64;
        let end = offset + bytes;
        let before = self.read_to.swap(end, Ordering::Relaxed);
        // Between two values there is the head of the second.
        if offset.checked_sub(before).is_some_and(|between| between <= HEAD_BYTES_MAX as u64) {
            // As long as the page cache has it, there is nothing to ask for.
            if reader.read_cached_at(offset, out) {
                return Ok(());
            }
            let ahead = (AHEAD_TIMES * bytes).clamp(AHEAD_BYTES.0, AHEAD_BYTES.1);
            reader.read_ahead(offset, bytes + ahead.min(self.bytes.saturating_sub(end)));
        }
        reader.read_exact_at(offset, out)
    }

    /// Reads the bytes at `place` of the file, as they are stored, and checks them.
    fn read_stored(&self, place: &ValuePlace) -> Result<Vec<u8>> {
        let damaged = |what: &str| self.damage_at(place.offset, what);
        let reader = self.reader_at(place.offset)?;
        let bytes = usize::try_from(place.bytes).map_err(|_| damaged("a value is too long"))?;
        let end = place.offset.saturating_add(place.bytes);
        // The system is asked only if the manifest does not know, or much memory is at stake: a call for each read
        // would cost.
        let is_long = place.bytes > BLOCK_BYTES as u64;
        if (is_long || end > self.bytes) && end > reader.len()? {
            return Err(damaged("the value file ends before a value does"));
        }
        let mut stored = vec![0; bytes];
        self.fetch(reader, place.offset, &mut stored)?;
        let ValuePlace { offset, compression, checksum, .. } = *place;
        match value_checksum(self.id, offset, compression, &stored) == checksum {
            true => Ok(stored),
            false => Err(damaged("a value fails its checksum")),
        }
    }

    /// Checks the bytes at `place` of the file. Of a large value, it holds a block at a time.
    pub(crate) fn check(&self, place: &ValuePlace) -> Result<()> {
        match place.is_in_blocks() {
            true => self.read_blocks(place, &mut |_| Ok(())),
            false => self.read_stored(place).map(|_| ()),
        }
    }

    /// Checks the whole file: also what no table refers to.
    ///
    /// # Errors
    /// [`Error::Corruption`] for the first damage, [`Error::Io`] if the file cannot be read.
    pub(crate) fn verify(&self) -> Result<()> {
        let reader = self.reader()?;
        if reader.len()? < self.bytes {
            return Err(self.damage_at(self.bytes, "the value file ends before"));
        }
        let mut header = [0; HEADER_BYTES];
        reader.read_exact_at(0, &mut header)?;
        if header == large_value_header(self.id) {
            return match value_in_blocks(&**reader, self.id, self.bytes)? {
                Some(place) => self.check(&place),
                None => Err(self.damage_at(self.bytes, "the last bytes of the file are damaged")),
            };
        }
        if header != value_file_header(self.id) {
            return Err(self.damage_at(0, "it does not begin as a value file"));
        }
        match walk((self.id, self.bytes), &**reader, |place| self.check(place))? {
            None => Ok(()),
            Some(at) => Err(self.damage_at(at, "the head of a value is damaged")),
        }
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            // First: a file that has a reader is kept open for it.
            drop(self.reader.take());
            // A file that cannot be removed now is found unused, and removed, at the next open.
            let _ = self.storage.remove(&value_file_name(self.id));
        }
    }
}

/// The description of the file `id` of `storage`, from the heads of its values.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read.
pub(crate) fn describe_value_file(storage: &dyn Storage, id: u64) -> Result<ValueFileMeta> {
    let reader = storage.open(&value_file_name(id))?;
    let bytes = reader.len()?;
    let mut header = [0; HEADER_BYTES];
    if bytes > HEADER_BYTES as u64 {
        reader.read_exact_at(0, &mut header)?;
    }
    if header == large_value_header(id) {
        let place = value_in_blocks(&*reader, id, bytes)?;
        // If it ends early, tables know what it had.
        let unknown = ValueFileMeta { in_blocks: true, ..ValueFileMeta::new(id, bytes) };
        return Ok(place.map_or(unknown, |place| describe(&place)));
    }
    let mut meta = ValueFileMeta::new(id, bytes);
    let damaged_at = walk((id, bytes), &*reader, |place| {
        meta.values += 1;
        meta.value_bytes += place.bytes;
        Ok(())
    })?;
    // Behind a damaged head, all bytes count: what is not live of them is obsolete.
    meta.value_bytes += damaged_at.map_or(0, |at| bytes - at);
    Ok(meta)
}

/// The place of the large value in a file of `bytes` bytes, as its last bytes say. `None` if they are damaged.
fn value_in_blocks(reader: &dyn ReadableFile, id: u64, bytes: u64) -> Result<Option<ValuePlace>> {
    let Some(at) = bytes.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let mut trailer = [0; TRAILER_BYTES];
    reader.read_exact_at(at, &mut trailer)?;
    let place = place_in_trailer(id, &trailer);
    Ok(place.filter(|place| describe(place).bytes == bytes))
}

/// Passes the place of each value in the first `bytes` bytes of a file to `each`, as the heads say. Returns the offset
/// of a head that cannot be, if there is one.
fn walk(
    (id, bytes): (u64, u64),
    reader: &dyn ReadableFile,
    mut each: impl FnMut(&ValuePlace) -> Result<()>,
) -> Result<Option<u64>> {
    let mut at = HEADER_BYTES as u64;
    while at < bytes {
        let mut head = [0; HEAD_BYTES_MAX];
        let head = &mut head[..(HEAD_BYTES_MAX as u64).min(bytes - at) as usize];
        reader.read_exact_at(at, head)?;
        let place = place_of(id, at, head);
        let fits = |place: &ValuePlace| place.offset.saturating_add(place.bytes) <= bytes;
        let Some(place) = place.filter(fits) else { return Ok(Some(at)) };
        each(&place)?;
        at = place.offset + place.bytes;
    }
    Ok(None)
}
