//! How far the journal was written: for records of logs, which name the edit that was durable before them.

use crate::chunk_device::ChunkDevice;
use esker_base::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far the journal was written, known without its lock.
#[derive(Default)]
pub(crate) struct Marks {
    /// The last whole edit written, and the last known durable.
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    /// Whether records of logs may name edits.
    pub(crate) is_named: AtomicBool,
}

impl Marks {
    /// The edit that a log's record is to name.
    pub(crate) fn named(&self) -> Option<u64> {
        self.is_named.load(Ordering::Acquire).then(|| self.durable())
    }

    /// Makes all that was written on a device survive power loss.
    pub(crate) fn flush(&self, zones: &dyn ChunkDevice) -> Result<()> {
        let written = self.written.load(Ordering::Acquire);
        zones.flush()?;
        self.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }
}
