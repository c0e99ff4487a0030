//! Chunks in memory with the timing of a device model.
//!
//! A write unit is sent to the model when its last block is written. Until then it is in the host's
//! buffer, as is a write unit that is not yet readable from the medium. A reset is accepted
//! immediately, and executes after the unit's writes.

use super::{BLOCK_BYTES, ChunkDevice};
use crate::exclusive::ExclusiveUse;
use crate::host_ftl::HostFtl;
use crate::{Chunk, Geometry};
use esker_base::{Error, Result};
use parking_lot::RwLock;
use std::io;
use std::sync::Arc;

/// A device in memory with the timing of a model.
pub struct SimulatedDevice {
    host: Arc<HostFtl>,
    geometry: Geometry,
    chunks: Vec<RwLock<Vec<u8>>>,
    locked: ExclusiveUse,
}

impl SimulatedDevice {
    /// An empty device.
    pub fn new(host: Arc<HostFtl>) -> Self {
        let geometry = host.geometry();
        let chunks = (0..geometry.chunks()).map(|_| RwLock::default()).collect();
        SimulatedDevice { host, geometry, chunks, locked: ExclusiveUse::default() }
    }

    fn content(&self, chunk: Chunk) -> &RwLock<Vec<u8>> {
        &self.chunks[self.geometry.index(chunk)]
    }

    fn failure(&self, action: &'static str, reason: String) -> Error {
        Error::io(action, self.describe(), io::Error::other(reason))
    }
}

impl ChunkDevice for SimulatedDevice {
    fn describe(&self) -> String {
        format!("a model of {}", self.host.preset())
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, chunk: Chunk) -> bool {
        self.host.is_bad(chunk)
    }

    fn written(&self, chunk: Chunk) -> Result<u64> {
        Ok(self.content(chunk).read().len() as u64)
    }

    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        assert!((bytes.len() as u64).is_multiple_of(BLOCK_BYTES), "not whole blocks");
        let mut content = self.content(chunk).write();
        let end = content.len() + bytes.len();
        if content.len() as u64 != at || end > self.geometry.chunk_bytes as usize {
            let what = format!("{chunk:?} has {} bytes, and {at} were expected", content.len());
            return Err(self.failure("write to", what));
        }
        content.extend_from_slice(bytes);
        drop(content);
        self.host.write(chunk, end as u32 / self.geometry.write_unit_bytes);
        Ok(())
    }

    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        let end = at + out.len() as u64;
        let content = self.content(chunk).read();
        let ends = || Error::corruption(self.describe(), at, format!("{chunk:?} ends before"));
        out.copy_from_slice(content.get(at as usize..end as usize).ok_or_else(ends)?);
        drop(content);
        let unit = u64::from(self.geometry.write_unit_bytes);
        let parts = (at / unit..end.div_ceil(unit)).map(|number| {
            let (from, to) = (at.max(number * unit), end.min((number + 1) * unit));
            let begin = number * unit;
            (number as u32, (from - begin) as u32..(to - begin) as u32)
        });
        let read = self.host.read(chunk, parts);
        read.map_err(|refused| self.failure("read from", refused.to_string()))
    }

    fn reset(&self, chunk: Chunk) -> Result<()> {
        self.content(chunk).write().clear();
        let went_bad = || self.failure("reset a chunk of", format!("{chunk:?} is worn out"));
        self.host.reset(chunk).then_some(()).ok_or_else(went_bad)
    }

    fn flush(&self) -> Result<()> {
        // What was accepted survives.
        Ok(())
    }

    fn is_busy(&self) -> bool {
        self.host.is_busy()
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.locked.take(|| self.describe())
    }
}
