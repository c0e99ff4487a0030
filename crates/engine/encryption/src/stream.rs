//! Reads a file whose records follow each other: a log, a manifest, and all that is small.
//!
//! Where a byte is follows from the records before it. So the file is read from its begin as far as a read
//! needs it, and kept in memory decrypted.
//!
//! A record that fails authentication is a torn write or damage. The reader searches for intact records
//! behind it. Bytes before those read as `0xFF`, and so do some behind the last record if anything but zeros
//! follows it. So a reader of a log or of a manifest finds what it would find in a file that is not encrypted:
//! bytes that are no frame, and the frames after them.

use crate::header::{HEADER_BYTES, Header};
use crate::log_space::bytes_below;
use crate::record::{self, ALIGNMENT, RECORD_BYTES_MAX};
use esker_base::{Error, Result};
use esker_storage::ReadableFile;
use parking_lot::Mutex;
use std::sync::Arc;

/// What is read at once: at least one record.
const CHUNK_BYTES: usize = 256 << 10;
const _: () = assert!(CHUNK_BYTES >= RECORD_BYTES_MAX && CHUNK_BYTES.is_multiple_of(ALIGNMENT));

/// A byte that is damaged.
const DAMAGED: u8 = 0xFF;

/// How many bytes behind the last record of a log show that anything else follows it: more than a frame could
/// begin with.
const SHOWN_BYTES: u64 = 64;

pub(crate) struct StreamReader {
    below: Arc<dyn ReadableFile>,
    path: String,
    header: Header,
    image: Mutex<Image>,
}

/// The file from its begin, as far as it was read.
struct Image {
    /// Decrypted.
    data: Vec<u8>,
    /// Where the next record is expected.
    position: u64,
    /// The first place without a record that has records behind it: its position, and the length of `data` there.
    gap: Option<(u64, usize)>,
    /// What follows the last record.
    tail: Tail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// It was not searched.
    Unknown,
    /// Zeros, or nothing.
    Blank,
    /// Something else, which is no record.
    Torn,
}

impl StreamReader {
    pub(crate) fn new(below: Arc<dyn ReadableFile>, path: String, header: Header) -> Self {
        let position = HEADER_BYTES as u64;
        let image = Image { data: Vec::new(), position, gap: None, tail: Tail::Unknown };
        StreamReader { below, path, header, image: Mutex::new(image) }
    }

    /// Reads further, until `through` bytes are decrypted or the file ends.
    fn extend(&self, image: &mut Image, through: u64) -> Result<()> {
        self.look_into_gap(image, through)?;
        let mut chunk = Vec::new();
        while (image.data.len() as u64) < through {
            if image.tail != Tail::Unknown && !self.has_grown(image)? {
                return Ok(());
            }
            self.read_chunk(image.position, CHUNK_BYTES, &mut chunk)?;
            let taken = self.take(image, &mut chunk, 0);
            if taken > 0 {
                image.tail = Tail::Unknown;
                continue;
            }
            if image.tail != Tail::Unknown {
                return Ok(());
            }
            image.tail = self.search(image)?;
        }
        Ok(())
    }

    /// Takes the records that `chunk`, which was read at the position of `image`, begins with. Returns the bytes
    /// that they take. Bytes of the decrypted file that no record has get the value `missing`.
    fn take(&self, image: &mut Image, chunk: &mut [u8], missing: u8) -> usize {
        let mut taken = 0;
        while let Some(rest) = chunk.get_mut(taken..)
            && let Some(record) = record::open(&self.header.key, image.position, rest)
            && let Ok(offset) = usize::try_from(record.offset)
            && offset >= image.data.len()
        {
            image.data.resize(offset, missing);
            image.data.extend_from_slice(record.data);
            let bytes = record.bytes().next_multiple_of(ALIGNMENT);
            image.position += bytes as u64;
            taken += bytes;
        }
        taken
    }

    /// Searches the file behind the position of `image` for a record. Takes it if there is one.
    fn search(&self, image: &mut Image) -> Result<Tail> {
        let end = self.below.len()?;
        let (mut chunk, mut record) = (Vec::new(), Vec::new());
        let mut from = image.position;
        let mut tail = Tail::Blank;
        while from < end {
            self.read_chunk(from, CHUNK_BYTES, &mut chunk)?;
            if chunk.iter().any(|&byte| byte != 0) {
                tail = Tail::Torn;
                for at in (0..chunk.len()).step_by(ALIGNMENT) {
                    let position = from + at as u64;
                    if position == image.position
                        || !record::may_begin(&self.header.key, &chunk[at..])
                    {
                        continue;
                    }
                    self.read_chunk(position, RECORD_BYTES_MAX, &mut record)?;
                    let before = (image.position, image.data.len());
                    image.position = position;
                    if self.take(image, &mut record, DAMAGED) > 0 {
                        image.gap.get_or_insert(before);
                        return Ok(Tail::Unknown);
                    }
                    image.position = before.0;
                }
            }
            from += CHUNK_BYTES as u64;
        }
        Ok(tail)
    }

    /// Whether a record may begin where none was.
    fn has_grown(&self, image: &Image) -> Result<bool> {
        let mut head = Vec::new();
        self.read_chunk(image.position, record::HEAD_BYTES, &mut head)?;
        Ok(record::may_begin(&self.header.key, &head))
    }

    /// Forgets what follows a gap if there is a record by now: a reader may see a later part of a write before an
    /// earlier one.
    fn look_into_gap(&self, image: &mut Image, through: u64) -> Result<()> {
        let Some((position, length)) = image.gap.filter(|gap| (gap.1 as u64) < through) else {
            return Ok(());
        };
        let mut chunk = Vec::new();
        self.read_chunk(position, RECORD_BYTES_MAX, &mut chunk)?;
        if record::open(&self.header.key, position, &mut chunk).is_some() {
            image.data.truncate(length);
            (image.position, image.gap, image.tail) = (position, None, Tail::Unknown);
        }
        Ok(())
    }

    /// Reads up to `bytes` bytes of the file below, as many as it has.
    fn read_chunk(&self, position: u64, bytes: usize, chunk: &mut Vec<u8>) -> Result<()> {
        let there = self.below.len()?.saturating_sub(position);
        chunk.resize(there.min(bytes as u64) as usize, 0);
        // The padding of the last record may be missing: then there is nothing at the position.
        match chunk.is_empty() {
            true => Ok(()),
            false => self.below.read_exact_at(position, chunk),
        }
    }

    /// The length of the decrypted file.
    fn length(&self, image: &mut Image) -> Result<u64> {
        let below = self.below.len()?;
        if self.header.log_bytes > 0 && below >= bytes_below(self.header.log_bytes) {
            return Ok(self.header.log_bytes);
        }
        self.extend(image, u64::MAX)?;
        let data = image.data.len() as u64;
        // Of a log, what was truncated. Of another file, a torn write.
        let torn = if self.header.log_bytes > 0 { 0 } else { below.saturating_sub(image.position) };
        Ok(data + torn)
    }

    /// The decrypted bytes, where the records end in the file below, and whether all of them are intact.
    pub(crate) fn records(&self) -> Result<(Vec<u8>, u64, bool)> {
        let mut image = self.image.lock();
        self.extend(&mut image, u64::MAX)?;
        Ok((image.data.clone(), image.position, image.gap.is_none()))
    }
}

impl ReadableFile for StreamReader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut image = self.image.lock();
        let end = offset.saturating_add(out.len() as u64);
        self.extend(&mut image, end)?;
        let read = image.data.len() as u64;
        if end > read {
            let found = self.length(&mut image)?;
            if end > found {
                let what = format!("{} bytes are wanted, and the file ends at {found}", out.len());
                return Err(Error::corruption(&self.path, offset, what));
            }
        }
        let torn = if image.tail == Tail::Torn { read.saturating_add(SHOWN_BYTES) } else { read };
        let torn = if self.header.log_bytes > 0 { torn } else { u64::MAX };
        let from_data = read.saturating_sub(offset).min(out.len() as u64) as usize;
        let (head, rest) = out.split_at_mut(from_data);
        if !head.is_empty() {
            head.copy_from_slice(&image.data[offset as usize..][..from_data]);
        }
        for (at, byte) in (offset + from_data as u64..).zip(rest) {
            *byte = if at < torn { DAMAGED } else { 0 };
        }
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.length(&mut self.image.lock())
    }

    fn name(&self) -> &str {
        self.below.name()
    }

    fn read_cached_at(&self, offset: u64, out: &mut [u8]) -> bool {
        let image = self.image.lock();
        let data = usize::try_from(offset).ok().and_then(|start| image.data.get(start..));
        match data.and_then(|data| data.get(..out.len())) {
            Some(data) if image.gap.is_none() => {
                out.copy_from_slice(data);
                true
            }
            _ => false,
        }
    }
}
