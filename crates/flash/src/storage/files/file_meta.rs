//! A file's body: its pieces, and how they are read.

use crate::Chunk;
use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use crate::storage::chunks::read_heat::ReadCounters;
use crate::storage::files::proof::Proof;
use crate::storage::format::chunk_reader::Content;
use crate::storage::format::{self, CreateRecord, Extent, LOG_HEADER};
use crate::storage::lifetimes::lifetime::LifetimeClass;
use esker_base::{Error, Result};
use esker_storage::ReadableFile;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far is looked for the next record of a log behind one that is not whole.
const LOOKED_BEHIND_BYTES: u64 = 4 << 20;

/// A file. It is there as long as it has a name or anybody reads it.
pub(crate) struct FileMeta {
    pub(crate) id: u64,
    pub(crate) stay: LifetimeClass,
    /// The size of a log.
    pub(crate) log_bytes: Option<u64>,
    pub(crate) pieces: RwLock<Pieces>,
    /// Where a log is written next.
    pub(crate) position: Mutex<LogCursor>,
    /// Whether a writer appends to it.
    pub(crate) open: AtomicBool,
    /// Whether its name was taken out.
    nameless: AtomicBool,
}

/// Where a log is written next: in which of its chunks, and where there.
#[derive(Default)]
pub(crate) struct LogCursor {
    pub(crate) extent: usize,
    pub(crate) at: u64,
    /// The first failure. What the device has since is unknown.
    pub(crate) failed: Option<Error>,
}

/// What a file has, in order.
#[derive(Default)]
pub(crate) struct Pieces {
    pub(crate) extents: Vec<Extent>,
    /// How many of them the journal has.
    recorded: usize,
    /// Where each of them begins in the file; not of a log.
    starts: Vec<u64>,
    pub(crate) len: u64,
    /// The writes into a log: where, how long, and which block of which chunk its record begins in.
    pub(crate) writes: Vec<Write>,
}

/// A write into a log, as stored on the device.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) chunk: Chunk,
    pub(crate) at: u64,
}

impl FileMeta {
    pub(crate) fn new(made: &CreateRecord) -> Arc<Self> {
        let &CreateRecord { id, stay, log_bytes, .. } = made;
        let (pieces, position, open, nameless) = Default::default();
        Arc::new(FileMeta { id, stay, log_bytes, pieces, position, open, nameless })
    }

    /// Whether the journal has it. A file without a name is not recorded.
    pub(crate) fn is_linked(&self) -> bool {
        !self.nameless.load(Ordering::Acquire)
    }

    pub(crate) fn unlink(&self) {
        self.nameless.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// What the journal has of it.
    pub(crate) fn recorded(&self) -> Vec<Extent> {
        let pieces = self.pieces.read();
        pieces.extents[..pieces.recorded].to_vec()
    }

    /// What has to be recorded in the journal.
    pub(crate) fn unrecorded(&self) -> Vec<Extent> {
        let pieces = self.pieces.read();
        pieces.extents[pieces.recorded..].to_vec()
    }

    /// The journal has all.
    pub(crate) fn record(&self) {
        let mut pieces = self.pieces.write();
        pieces.recorded = pieces.extents.len();
    }

    /// The same bytes are now stored elsewhere.
    pub(crate) fn replace(&self, extents: Vec<Extent>) {
        let mut pieces = self.pieces.write();
        let mut start = 0;
        pieces.starts.clear();
        for extent in &extents {
            pieces.starts.push(start);
            start += u64::from(extent.bytes);
        }
        (pieces.extents, pieces.len) = (extents, start);
    }

    pub(crate) fn made(&self, name: &str) -> CreateRecord {
        CreateRecord {
            id: self.id,
            stay: self.stay,
            log_bytes: self.log_bytes,
            name: name.to_owned(),
        }
    }

    /// Appends a piece.
    pub(crate) fn push(&self, extent: Extent) {
        let pieces = &mut *self.pieces.write();
        let start = pieces.len;
        pieces.len += u64::from(extent.bytes);
        if pieces.recorded < pieces.extents.len()
            && let Some(last) = pieces.extents.last_mut()
            && last.chunk == extent.chunk
            && last.start() + u64::from(last.bytes) == extent.start()
        {
            last.bytes += extent.bytes;
            return;
        }
        pieces.starts.push(start);
        pieces.extents.push(extent);
    }

    pub(crate) fn read(
        &self,
        source: &Source,
        name: &str,
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let pieces = self.pieces.read();
        let len = self.log_bytes.unwrap_or(pieces.len);
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > len) {
            let what = format!("{} bytes are wanted, and the file ends at {len}", out.len());
            return Err(Error::corruption(name, offset, what));
        }
        match self.log_bytes {
            Some(_) => read_log(&pieces, source, offset, out),
            None => read_pieces(&pieces, source, name, offset, out),
        }
    }

    /// Finds the writes of a log on its chunks. Says which of these are bad and may have had some. A bad one is the log's no
    /// more if it is known that none was in it: chunks are written in order, and one before it has space.
    pub(crate) fn scan(&self, zones: &dyn ChunkDevice, proof: &mut Proof) -> Result<Vec<u32>> {
        let mut pieces = self.pieces.write();
        let mut position = self.position.lock();
        let geometry = zones.geometry();
        let chunk_bytes = u64::from(geometry.chunk_bytes);
        let (mut lost, mut unused, mut has_room) = (Vec::new(), Vec::new(), false);
        for (number, extent) in pieces.extents.clone().into_iter().enumerate() {
            let chunk = geometry.chunk(extent.chunk as usize);
            if zones.is_bad(chunk) {
                let bad = if has_room { &mut unused } else { &mut lost };
                bad.push(extent.chunk);
                continue;
            }
            let mut content = Content::of(zones, chunk)?;
            let written = content.written;
            let mut at = 0;
            loop {
                while let Some((offset, len)) = self.write_at(&mut content, at)? {
                    pieces.writes.push(Write { offset, len, chunk, at });
                    proof.learn(content.from(at, LOG_HEADER)?, extent.chunk);
                    at += (LOG_HEADER as u64 + u64::from(len)).next_multiple_of(BLOCK_BYTES);
                }
                let remains = self.remains_at(&mut content, at, chunk, &pieces.writes)?;
                pieces.writes.extend(remains);
                match self.next_write(&mut content, at)? {
                    Some(next) => at = next,
                    None => break,
                }
            }
            has_room = at == written && at + BLOCK_BYTES <= chunk_bytes;
            // Nothing is found after an incomplete write, so the next write starts in the next
            // chunk.
            if written > 0 {
                let is_whole = at == written;
                let end = if is_whole { written } else { chunk_bytes };
                (position.extent, position.at) = (number, end);
                lost.append(&mut unused);
            }
        }
        pieces.extents.retain(|extent| !unused.contains(&extent.chunk));
        pieces.recorded = pieces.extents.len();
        Ok(lost)
    }

    /// What is left of a write whose record is not whole: its bytes as they are, where they belong if all writes follow each
    /// other. The log's reader finds that something was written there, and that it is damaged. `None` if
    /// nothing was.
    fn remains_at(
        &self,
        content: &mut Content<'_>,
        at: u64,
        chunk: Chunk,
        before: &[Write],
    ) -> Result<Option<Write>> {
        if at + BLOCK_BYTES > content.written {
            return Ok(None);
        }
        let block = content.from(at, BLOCK_BYTES as usize)?;
        let block = &block[..block.len().min(BLOCK_BYTES as usize)];
        // A block that does not resemble a record may belong to another file.
        if block.len() < BLOCK_BYTES as usize || !format::resembles_log(block, self.id) {
            return Ok(None);
        }
        let told = format::log_bytes(block, self.id).map_or(0, |bytes| bytes as u64);
        let left = content.written - at;
        let bytes = if told > left { left } else { told.max(BLOCK_BYTES) };
        let offset = before.last().map_or(0, |last| last.offset + u64::from(last.len));
        let room = self.log_bytes.unwrap_or(0).saturating_sub(offset);
        let len = (bytes - LOG_HEADER as u64).min(room) as u32;
        Ok((len > 0).then_some(Write { offset, len, chunk, at }))
    }

    /// Where the next whole record begins behind one at `at` that is not whole.
    fn next_write(&self, content: &mut Content<'_>, at: u64) -> Result<Option<u64>> {
        let mut next = at + BLOCK_BYTES;
        while next < content.written && next <= at + LOOKED_BEHIND_BYTES {
            if self.write_at(content, next)?.is_some() {
                return Ok(Some(next));
            }
            next += BLOCK_BYTES;
        }
        Ok(None)
    }

    /// The offset and the length of the write whose record begins at `at` of a chunk.
    fn write_at(&self, content: &mut Content<'_>, at: u64) -> Result<Option<(u64, u32)>> {
        let Some(len) = format::log_bytes(content.from(at, LOG_HEADER)?, self.id) else {
            return Ok(None);
        };
        Ok(format::decode_log(content.from(at, len)?, self.id))
    }
}

fn read_pieces(
    pieces: &Pieces,
    source: &Source,
    name: &str,
    offset: u64,
    out: &mut [u8],
) -> Result<()> {
    let geometry = source.zones.geometry();
    let mut done = 0;
    while done < out.len() {
        let at = offset + done as u64;
        let place = pieces.starts.partition_point(|start| *start <= at) - 1;
        let (extent, skip) = (pieces.extents[place], at - pieces.starts[place]);
        let here = (u64::from(extent.bytes) - skip).min((out.len() - done) as u64) as usize;
        let chunk = geometry.chunk(extent.chunk as usize);
        let part = &mut out[done..done + here];
        source.read(chunk, extent.start() + skip, part).map_err(|error| {
            match source.zones.is_bad(chunk) {
                true => lost_part(&*source.zones, name, extent.chunk, at, &error),
                false => error,
            }
        })?;
        done += here;
    }
    Ok(())
}

/// Explains why a part of a file in a bad chunk cannot be read.
fn lost_part(zones: &dyn ChunkDevice, name: &str, chunk: u32, at: u64, found: &Error) -> Error {
    let what = format!(
        "chunk {chunk} of {} has gone bad, and what the file has there from byte {at} on is lost; files that `esker flash \
         info` does not name are whole: copy what can be read, or restore it from a copy ({found})",
        zones.describe()
    );
    Error::Lost { file: name.to_owned(), offset: at, what }
}

/// Zeros, and over them what was written, in order.
fn read_log(pieces: &Pieces, source: &Source, offset: u64, out: &mut [u8]) -> Result<()> {
    out.fill(0);
    let end = offset + out.len() as u64;
    for write in &pieces.writes {
        let from = write.offset.max(offset);
        let to = (write.offset + u64::from(write.len)).min(end);
        if from < to {
            let at = write.at + LOG_HEADER as u64 + (from - write.offset);
            let part = &mut out[(from - offset) as usize..(to - offset) as usize];
            source.read(write.chunk, at, part)?;
        }
    }
    Ok(())
}

/// The device that is read, and what counts that.
pub(crate) struct Source {
    pub(crate) zones: Arc<dyn ChunkDevice>,
    pub(crate) reads: Arc<ReadCounters>,
}

impl Source {
    /// Reads whole blocks, and out of these what is wanted.
    fn read(&self, chunk: Chunk, start: u64, out: &mut [u8]) -> Result<()> {
        let first = start / BLOCK_BYTES * BLOCK_BYTES;
        let end = (start + out.len() as u64).next_multiple_of(BLOCK_BYTES);
        self.reads.count(self.zones.geometry().index(chunk), end - first);
        if (first, end) == (start, start + out.len() as u64) {
            return self.zones.read(chunk, first, out);
        }
        let mut blocks = vec![0; (end - first) as usize];
        self.zones.read(chunk, first, &mut blocks)?;
        let skip = (start - first) as usize;
        out.copy_from_slice(&blocks[skip..skip + out.len()]);
        Ok(())
    }
}

/// An open file.
pub(crate) struct Reader {
    pub(crate) source: Source,
    pub(crate) body: Arc<FileMeta>,
    pub(crate) name: String,
}

impl ReadableFile for Reader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.body.read(&self.source, &self.name, offset, out)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.body.log_bytes.unwrap_or_else(|| self.body.pieces.read().len))
    }

    fn name(&self) -> &str {
        &self.name
    }
}
