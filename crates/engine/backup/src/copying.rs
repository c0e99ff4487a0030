//! Copies a file between a database and a repository, and computes its checksums on the way.

use crate::repository::Progress;
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::{Error, Result};
use esker_storage::{ReadableFile, WritableFile};

/// The bytes read and written at a time: enough to keep a device busy.
const CHUNK_BYTES: u64 = 1 << 20;

/// The last bytes of a file: they differ in another file of the same name and length.
const END_BYTES: u64 = 4096;

/// Counts what is done, and asks whether to go on.
pub(crate) struct Meter<'a> {
    pub(crate) progress: Progress,
    pub(crate) what: &'static str,
    pub(crate) goes_on: &'a mut dyn FnMut(Progress) -> bool,
}

impl Meter<'_> {
    /// So many more bytes are done.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<()> {
        self.progress.bytes += bytes;
        match (self.goes_on)(self.progress) {
            true => Ok(()),
            false => Err(Error::Cancelled { what: self.what }),
        }
    }
}

/// The checksums of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Checksums {
    pub(crate) whole: u32,
    pub(crate) end: u32,
}

/// Reads `source` whole, and appends it to `target` if there is one.
pub(crate) fn copy(
    source: &dyn ReadableFile,
    mut target: Option<&mut dyn WritableFile>,
    meter: &mut Meter<'_>,
) -> Result<Checksums> {
    let bytes = source.len()?;
    let mut chunk = vec![0; bytes.min(CHUNK_BYTES) as usize];
    // Of the bytes that are copied: a part of the file may be freed meanwhile.
    let (mut whole, mut offset, mut end) = (0, 0, Vec::new());
    while offset < bytes {
        let part = &mut chunk[..(bytes - offset).min(CHUNK_BYTES) as usize];
        source.read_ahead(offset + part.len() as u64, CHUNK_BYTES);
        source.read_exact_at(offset, part)?;
        whole = crc32c_append(whole, part);
        if let Some(target) = &mut target {
            target.append(part)?;
        }
        end.extend_from_slice(&part[part.len().saturating_sub(END_BYTES as usize)..]);
        end.drain(..end.len().saturating_sub(END_BYTES as usize));
        offset += part.len() as u64;
        meter.add(part.len() as u64)?;
    }
    Ok(Checksums { whole, end: crc32c(&end) })
}

/// The checksum of the end of a file.
pub(crate) fn end_checksum(file: &dyn ReadableFile) -> Result<u32> {
    let bytes = file.len()?;
    let mut end = vec![0; bytes.min(END_BYTES) as usize];
    file.read_exact_at(bytes - end.len() as u64, &mut end)?;
    Ok(crc32c(&end))
}
