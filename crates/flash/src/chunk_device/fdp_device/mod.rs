//! A disk with placement identifiers, as chunks.
//!
//! The disk can be written anywhere and has no chunks. The bytes after a header are divided into
//! chunks of one reclaim unit, or an equal part of one. Data of a chunk is written with an
//! identifier of its lifetime class (`placement_ids`). A reset zeroes the chunk's bytes, which
//! deallocates them.
//!
//! The disk does not record how far a chunk was written by earlier processes. Safety therefore
//! needs:
//!
//! * A chunk found at open counts as full (`written`), so it is reset before other data begins in
//!   it. It can be written after the last byte that files own (`is_rewritable`), as no file owns
//!   what follows.
//! * A reset is durable before the chunk is written again. The written data is thus followed by
//!   zeros, or by later writes that power loss left, and never by records from before the reset.
//! * Power loss may keep any subset of the unflushed blocks. No sequential reader continues after
//!   an incomplete record (`crate::storage`).
//! * The header is written last when a disk is formatted: by the first flush that makes anything
//!   durable. A disk without a header is not opened, and formatting one destroys its data.

mod header;
mod placement_ids;

use super::{BLOCK_BYTES, ChunkDevice, Placement, check};
use crate::device::fdp::{Disk, KernelDisk};
use crate::placement::Lifetime;
use crate::{Chunk, Geometry};
use esker_base::{Error, Result};
use esker_uring::Buffer;
use header::HEADER_BYTES;
use parking_lot::Mutex;
use placement_ids::PlacementIds;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The longest chunk. Reclaim units can be longer.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// A disk with placement identifiers.
pub struct FdpDevice {
    // Constant after construction.
    disk: Box<dyn Disk>,
    geometry: Geometry,
    // What changes.
    identifiers: Mutex<PlacementIds>,
    /// By place.
    chunks: Mutex<Vec<State>>,
    /// Held for the whole of a flush.
    flushing: Mutex<Flushing>,
    /// What was claimed when the disk was laid out, for who locks it.
    claim: Mutex<Option<Box<dyn Send + Sync>>>,
}

/// What is known of a chunk.
#[derive(Clone, Copy)]
struct State {
    /// Bytes written since its reset; `None` if that was not this process.
    written: Option<u64>,
    identifier: u16,
}

struct Flushing {
    /// The first failure. What was lost then no later flush brings back.
    failed: Option<Error>,
    /// Whether the header is missing still.
    is_new: bool,
}

impl FdpDevice {
    /// Opens a disk that was laid out. Anything else is refused.
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(of_kernel(path, true)?)
    }

    /// Opens a formatted disk to inspect it, also while a process uses it.
    pub fn open_to_look(path: &Path) -> Result<Self> {
        Self::of(of_kernel(path, false)?)
    }

    /// Lays out a disk. All that is on it is lost.
    pub fn create(path: &Path) -> Result<Self> {
        Self::lay_out(of_kernel(path, true)?)
    }

    /// A disk that was laid out.
    pub fn of(disk: impl Disk) -> Result<Self> {
        let geometry = header_of(&disk)?.ok_or_else(|| not_laid_out(&disk))?;
        let ends = HEADER_BYTES + geometry.chunks() as u64 * u64::from(geometry.chunk_bytes);
        if ends > disk.bytes() {
            let what = format!("it was laid out with {ends} bytes, and has {}", disk.bytes());
            return Err(failure(&disk, io::Error::new(ErrorKind::InvalidData, what)));
        }
        Ok(Self::with(disk, geometry, None))
    }

    /// Lays out a disk. All that is on it is lost.
    pub fn lay_out(disk: impl Disk) -> Result<Self> {
        let geometry = geometry_of(disk.bytes(), disk.reclaim_unit_bytes());
        check(&geometry)?;
        let claim = disk.claim().map_err(|source| Error::io("lock", disk.name(), source))?;
        empty(&disk).map_err(|source| Error::io("empty", disk.name(), source))?;
        let placed = Self::with(disk, geometry, Some(0));
        *placed.claim.lock() = Some(claim);
        Ok(placed)
    }

    fn with(disk: impl Disk, geometry: Geometry, written: Option<u64>) -> Self {
        let identifiers = PlacementIds::of(disk.identifiers());
        let state = State { written, identifier: identifiers.first() };
        let flushing = Flushing { failed: None, is_new: written.is_some() };
        FdpDevice {
            disk: Box::new(disk),
            geometry,
            identifiers: Mutex::new(identifiers),
            chunks: Mutex::new(vec![state; geometry.chunks()]),
            flushing: Mutex::new(flushing),
            claim: Mutex::default(),
        }
    }

    fn state(&self, chunk: Chunk) -> State {
        self.chunks.lock()[self.geometry.index(chunk)]
    }

    fn set_written(&self, chunk: Chunk, written: Option<u64>) {
        self.chunks.lock()[self.geometry.index(chunk)].written = written;
    }

    fn offset(&self, chunk: Chunk) -> u64 {
        HEADER_BYTES + self.geometry.index(chunk) as u64 * self.chunk_bytes()
    }

    fn chunk_bytes(&self) -> u64 {
        self.geometry.chunk_bytes.into()
    }

    fn failure(&self, action: &'static str, chunk: Chunk, source: io::Error) -> Error {
        let number = self.geometry.index(chunk);
        Error::io(action, format!("chunk {number} of {}", self.disk.name()), source)
    }

    /// Whether anything was written since the disk was laid out.
    fn is_begun(&self) -> bool {
        self.chunks.lock().iter().any(|state| state.written != Some(0))
    }

    fn write_header(&self) -> io::Result<()> {
        let identifier = self.identifiers.lock().first();
        self.disk.write_at(0, &header::encode(&self.geometry), identifier)?;
        self.disk.flush()
    }
}

fn of_kernel(path: &Path, writable: bool) -> Result<KernelDisk> {
    let opened = KernelDisk::open(path, writable);
    opened.map_err(|source| Error::io("open as a device", path.display().to_string(), source))
}

fn failure(disk: &dyn Disk, source: io::Error) -> Error {
    Error::io("use", disk.name(), source)
}

/// How a disk was laid out, if it was.
fn header_of(disk: &dyn Disk) -> Result<Option<Geometry>> {
    let mut block = Buffer::zeroed(BLOCK_BYTES as usize);
    let read = disk.read_at(0, &mut block);
    read.map_err(|source| Error::io("read the header of", disk.name(), source))?;
    let found = header::decode(&block);
    found.map_err(|what| Error::corruption(disk.name(), 0, format!("{what}; nothing was changed")))
}

/// Empties a disk. The header is removed first, so that a half-emptied disk cannot be opened.
fn empty(disk: &dyn Disk) -> io::Result<()> {
    disk.zero(0, HEADER_BYTES)?;
    disk.flush()?;
    disk.zero(HEADER_BYTES, disk.bytes() / BLOCK_BYTES * BLOCK_BYTES - HEADER_BYTES)?;
    disk.flush()
}

fn not_laid_out(disk: &dyn Disk) -> Error {
    let what = "it was not laid out for Esker, and such a disk does not report whether it holds anything; nothing was \
                changed. If all of it can be lost: esker flash create --overwrite";
    failure(disk, io::Error::new(ErrorKind::InvalidData, what))
}

/// Chunks of a reclaim unit each, or of the same part of one, on a disk of so many bytes.
fn geometry_of(bytes: u64, reclaim_unit_bytes: u64) -> Geometry {
    let parts = reclaim_unit_bytes.div_ceil(CHUNK_BYTES_MAX).max(1);
    let chunk_bytes = reclaim_unit_bytes / parts / BLOCK_BYTES * BLOCK_BYTES;
    let chunks = bytes.saturating_sub(HEADER_BYTES).checked_div(chunk_bytes).unwrap_or(0);
    let units = chunks.div_ceil(u16::MAX.into()).min(u16::MAX.into());
    let chunks = chunks.checked_div(units).unwrap_or(0).min(u16::MAX.into());
    Geometry::of_blocks(1, units as u16, chunks as u16, chunk_bytes as u32)
}

impl ChunkDevice for FdpDevice {
    fn describe(&self) -> String {
        self.disk.name()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, _chunk: Chunk) -> bool {
        false
    }

    fn is_rewritable(&self) -> bool {
        true
    }

    fn spreads_wear(&self) -> bool {
        true
    }

    fn expect(&self, chunk: Chunk, lifetime: Lifetime) {
        let identifier = self.identifiers.lock().next(lifetime);
        self.chunks.lock()[self.geometry.index(chunk)].identifier = identifier;
    }

    fn written(&self, chunk: Chunk) -> Result<u64> {
        Ok(self.state(chunk).written.unwrap_or(self.chunk_bytes()))
    }

    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        let State { written, identifier } = self.state(chunk);
        let end = at + bytes.len() as u64;
        if written.is_some_and(|written| written != at) || end > self.chunk_bytes() {
            let what = format!("{at} is not where it ends, or has no space for {}", bytes.len());
            let source = io::Error::new(ErrorKind::InvalidInput, what);
            return Err(self.failure("write to", chunk, source));
        }
        let outcome = self.disk.write_at(self.offset(chunk) + at, bytes, identifier);
        self.set_written(chunk, outcome.is_ok().then_some(end));
        outcome.map_err(|source| self.failure("write to", chunk, source))
    }

    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        if at + out.len() as u64 > self.written(chunk)? {
            let what = format!("{} bytes are wanted, and the chunk ends before", out.len());
            return Err(Error::corruption(self.disk.name(), self.offset(chunk) + at, what));
        }
        let mut buffer = Buffer::zeroed(out.len());
        let read = self.disk.read_at(self.offset(chunk) + at, &mut buffer);
        read.map_err(|source| self.failure("read", chunk, source))?;
        out.copy_from_slice(&buffer);
        Ok(())
    }

    fn reset(&self, chunk: Chunk) -> Result<()> {
        self.set_written(chunk, None);
        let emptied = self.disk.zero(self.offset(chunk), self.chunk_bytes());
        emptied.map_err(|source| self.failure("empty", chunk, source))?;
        self.flush()?;
        self.set_written(chunk, Some(0));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let mut flushing = self.flushing.lock();
        flushing.failed.clone().map_or(Ok(()), Err)?;
        let needs_header = flushing.is_new && self.is_begun();
        let mut flushed = self.disk.flush();
        if needs_header {
            flushed = flushed.and_then(|()| self.write_header());
        }
        let flushed = flushed.map_err(|source| Error::io("flush", self.disk.name(), source));
        flushing.failed = flushed.clone().err();
        flushing.is_new &= !needs_header;
        flushed
    }

    fn placement(&self) -> Result<Option<Placement>> {
        let statistics = self.disk.statistics();
        let statistics = statistics
            .map_err(|source| Error::io("read the statistics of", self.disk.name(), source))?;
        let identifiers = self.disk.identifiers().len();
        let reclaim_unit_bytes = self.disk.reclaim_unit_bytes();
        Ok(Some(Placement { identifiers, reclaim_unit_bytes, statistics }))
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        if let Some(claim) = self.claim.lock().take() {
            return Ok(claim);
        }
        let claim = self.disk.claim();
        let claim = claim.map_err(|source| Error::io("lock", self.disk.name(), source))?;
        // Another user may have been at work since this was opened.
        match header_of(&*self.disk)? {
            Some(geometry) if geometry == self.geometry => {}
            _ => {
                let what = "it was formatted just now";
                return Err(failure(&*self.disk, io::Error::other(what)));
            }
        }
        let mut chunks = self.chunks.lock();
        chunks.iter_mut().for_each(|state| state.written = None);
        Ok(claim)
    }
}

#[cfg(test)]
mod tests;
