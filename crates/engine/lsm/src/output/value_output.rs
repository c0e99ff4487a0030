//! Writes the values of a flush or a compaction that are stored in value files, and reads those that
//! its inputs refer to.
//!
//! A put whose value reaches the threshold goes to a value file, and its entry gets the place. A
//! compaction carries places, unless it collects their file: then it writes the live values anew, so
//! that the file has none left once its tables are gone.
//!
//! ```text
//! value file:  magic, version, file ID, checksum │ head, value │ head, value │ …
//! ```

use super::large_value::LargeValueFile;
use crate::fold::values::Values;
use crate::version::{ValueFile, ValueFileMeta, ValueFiles, value_checksum, value_file_header};
use esker_base::coding::put_varint64;
use esker_base::{Kind, Result, ValuePlace};
use esker_storage::WritableFile;
use esker_table::{Compression, ValueCompressor};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A value file ends once it has so many bytes. A compaction that collects it reads as many at most.
const FILE_BYTES: u64 = 64 << 20;

/// Values are handed to the file in pieces of this size.
const APPEND_BYTES: usize = 256 << 10;

/// After so many bytes, the system is asked to start writing them to the device.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// A file to write values to, with its ID.
pub type CreatedFile<'a> = (u64, Box<dyn WritableFile + 'a>);

/// See the file's head.
pub struct ValueOutput<'a> {
    /// Values of so many bytes are separated. `None`: no value is.
    threshold: Option<u32>,
    compressor: ValueCompressor,
    /// Those of the version that places of the inputs refer to.
    files: ValueFiles,
    /// The files whose values are written anew.
    collected: BTreeSet<u64>,
    create: Box<dyn FnMut() -> Result<CreatedFile<'a>> + 'a>,
    /// A file ends once it has so many bytes.
    file_bytes: u64,
    open: Option<OpenFile<'a>>,
    done: Vec<ValueFileMeta>,
}

struct OpenFile<'a> {
    file: Box<dyn WritableFile + 'a>,
    meta: ValueFileMeta,
    /// Bytes that were not appended yet.
    pending: Vec<u8>,
    written_back: u64,
}

/// What is written of a version that stays.
pub(super) enum Stored {
    /// What its source stores.
    AsItIs,
    /// A put or a place.
    Other(Kind, Vec<u8>),
}

impl<'a> ValueOutput<'a> {
    /// An output of values of at least `threshold` bytes to files that `create` makes.
    pub(crate) fn new(
        threshold: Option<u32>,
        compression: Compression,
        files: ValueFiles,
        create: impl FnMut() -> Result<CreatedFile<'a>> + 'a,
    ) -> Self {
        ValueOutput {
            threshold,
            compressor: ValueCompressor::new(compression),
            files,
            collected: BTreeSet::new(),
            create: Box::new(create),
            file_bytes: FILE_BYTES,
            open: None,
            done: Vec::new(),
        }
    }

    /// An output that leaves all values where they are.
    pub fn none() -> Self {
        let create = || unreachable!("no value is separated");
        ValueOutput::new(None, Compression::None, ValueFiles::default(), create)
    }

    /// The same, and the live values of these files are written anew.
    pub(crate) fn collecting(mut self, files: BTreeSet<u64>) -> Self {
        self.collected = files;
        self
    }

    /// What is written of a version that stays.
    #[inline]
    pub(super) fn stored(&mut self, kind: Kind, value: &[u8]) -> Result<Stored> {
        match kind {
            Kind::Put if self.separates(value.len()) => self.separate(value),
            Kind::Separated if !self.collected.is_empty() => self.collect(value),
            _ => Ok(Stored::AsItIs),
        }
    }

    fn separates(&self, bytes: usize) -> bool {
        self.threshold.is_some_and(|threshold| bytes >= threshold as usize)
    }

    #[cold]
    fn separate(&mut self, value: &[u8]) -> Result<Stored> {
        Ok(Stored::Other(Kind::Separated, self.put(value)?.encode()))
    }

    fn collect(&mut self, stored: &[u8]) -> Result<Stored> {
        // Collection only saves space: what cannot be read keeps its place, and readers get the error.
        if ValuePlace::decode(stored).is_some_and(|place| place.is_in_blocks()) {
            return self.copy_in_blocks(stored);
        }
        let Some(value) = self.read_to_collect(stored) else { return Ok(Stored::AsItIs) };
        match self.separates(value.len()) {
            true => self.separate(&value),
            false => Ok(Stored::Other(Kind::Put, value)),
        }
    }

    /// The value at a place, if its file is collected and can be read. After a failed read, the
    /// compaction leaves the rest of the file alone.
    fn read_to_collect(&self, stored: &[u8]) -> Option<Vec<u8>> {
        let (place, file) = self.collected_place(stored)?;
        file.read(&place).inspect_err(|error| file.mark_unreadable(error)).ok()
    }

    /// A place, and its file if that is collected and no read of it has failed.
    fn collected_place(&self, stored: &[u8]) -> Option<(ValuePlace, Arc<ValueFile>)> {
        let place = ValuePlace::decode(stored).filter(|it| self.collected.contains(&it.file))?;
        let file = &self.files.get(place.file)?.file;
        file.is_readable().then(|| (place, file.clone()))
    }

    /// Writes a large value anew, whatever the threshold: no table and no other value file holds it.
    fn copy_in_blocks(&mut self, stored: &[u8]) -> Result<Stored> {
        let Some((place, file)) = self.collected_place(stored) else { return Ok(Stored::AsItIs) };
        // Before a file is made that would be of no use.
        if file.check(&place).inspect_err(|error| file.mark_unreadable(error)).is_err() {
            return Ok(Stored::AsItIs);
        }
        let (id, to) = (self.create)()?;
        let mut to = LargeValueFile::begin(id, to)?;
        file.read_blocks(&place, &mut |block| to.add(block))?;
        let (place, meta) = to.finish()?;
        self.done.push(meta);
        Ok(Stored::Other(Kind::Separated, place.encode()))
    }

    /// Writes a value, and returns its place.
    pub(crate) fn put(&mut self, value: &[u8]) -> Result<ValuePlace> {
        if self.open.as_ref().is_some_and(|open| open.meta.bytes >= self.file_bytes) {
            self.end_file()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => {
                let (id, file) = (self.create)()?;
                none.insert(OpenFile::begin(id, file))
            }
        };
        open.put(value, &mut self.compressor)
    }

    /// Syncs and closes the open file: one compaction may write very many.
    fn end_file(&mut self) -> Result<()> {
        if let Some(mut open) = self.open.take() {
            open.append_pending()?;
            open.file.sync()?;
            self.done.push(open.meta);
        }
        Ok(())
    }

    /// Makes all that was written durable, but for the names of the files. Returns what was written.
    pub(crate) fn finish(&mut self) -> Result<Vec<ValueFileMeta>> {
        self.end_file()?;
        Ok(std::mem::take(&mut self.done))
    }
}

impl Values for ValueOutput<'_> {
    fn read(&self, stored: &[u8]) -> Result<Vec<u8>> {
        self.files.read(stored)
    }
}

impl<'a> OpenFile<'a> {
    fn begin(file_id: u64, file: Box<dyn WritableFile + 'a>) -> Self {
        let pending = value_file_header(file_id).to_vec();
        let bytes = pending.len() as u64;
        let meta = ValueFileMeta::new(file_id, bytes);
        OpenFile { file, meta, pending, written_back: 0 }
    }

    fn put(&mut self, value: &[u8], compressor: &mut ValueCompressor) -> Result<ValuePlace> {
        let file = self.meta.file;
        let mut stored = Vec::new();
        let compression = compressor.compress(value, &mut stored) as u8;
        let mut head = vec![compression];
        put_varint64(&mut head, stored.len() as u64);
        // The checksum comes first.
        let offset = self.meta.bytes + 4 + head.len() as u64;
        let checksum = value_checksum(file, offset, compression, &stored);
        self.pending.extend_from_slice(&checksum.to_le_bytes());
        self.pending.extend_from_slice(&head);
        self.pending.extend_from_slice(&stored);
        let bytes = stored.len() as u64;
        self.meta.bytes = offset + bytes;
        self.meta.values += 1;
        self.meta.value_bytes += bytes;
        if self.pending.len() >= APPEND_BYTES {
            self.append_pending()?;
        }
        let value_bytes = value.len() as u64;
        Ok(ValuePlace { file, offset, bytes, compression, value_bytes, checksum })
    }

    fn append_pending(&mut self) -> Result<()> {
        self.file.append(&self.pending)?;
        self.pending.clear();
        if self.file.len() - self.written_back >= WRITEBACK_BYTES {
            self.file.start_writeback()?;
            self.written_back = self.file.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A file that counts while it is open. It is to be synced before it is closed.
    struct Counted {
        open: Arc<AtomicU64>,
        bytes: u64,
        synced: u64,
    }

    impl WritableFile for Counted {
        fn append(&mut self, bytes: &[u8]) -> Result<()> {
            self.bytes += bytes.len() as u64;
            Ok(())
        }
        fn len(&self) -> u64 {
            self.bytes
        }
        fn sync(&mut self) -> Result<()> {
            self.synced = self.bytes;
            Ok(())
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            assert!(self.synced == self.bytes && self.bytes > 0);
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_file_is_synced_and_closed_before_the_next_begins() {
        let open = Arc::new(AtomicU64::new(0));
        let mut id = 0;
        let create = || {
            assert_eq!(open.fetch_add(1, Ordering::SeqCst), 0, "another file is open");
            id += 1;
            let file = Counted { open: open.clone(), bytes: 0, synced: 0 };
            Ok((id, Box::new(file) as Box<dyn WritableFile>))
        };
        let files = ValueFiles::default();
        let mut values = ValueOutput::new(Some(1), Compression::None, files, create);
        values.file_bytes = 1000;
        for _ in 0..20 {
            values.put(&[7; 400]).unwrap();
        }
        let written = values.finish().unwrap();
        let counts: Vec<_> = written.iter().map(|meta| (meta.file, meta.values)).collect();
        assert_eq!(counts, [(1, 3), (2, 3), (3, 3), (4, 3), (5, 3), (6, 3), (7, 2)]);
        assert_eq!(open.load(Ordering::SeqCst), 0);
    }
}
