//! What all files share: the device, its free space, and the thread that writes behind.

use super::BlockDevice;
use super::chunk_allocator::ChunkAllocator;
use super::format::Extent;
use super::write_behind::WriteBehind;
use esker_base::{Error, Result};
use parking_lot::Mutex;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

pub(super) struct BlockFsShared {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) behind: WriteBehind,
    /// A leaf: nothing is locked under it, and no I/O is done.
    space: Mutex<ChunkAllocator>,
    /// The last directory that was written.
    written: AtomicU64,
    /// The first flush that failed. What the device had to write then, whoever's it was, it may have
    /// forgotten, and a later flush that succeeds says nothing of that: so there is none.
    failed: OnceLock<Error>,
    /// Held by a flush, so that none succeeds that another's failure overtakes.
    flushing: Mutex<()>,
}

impl BlockFsShared {
    pub(super) fn new(
        device: Arc<dyn BlockDevice>,
        behind: WriteBehind,
        space: ChunkAllocator,
    ) -> Self {
        let (space, written) = (Mutex::new(space), AtomicU64::new(0));
        BlockFsShared {
            device,
            behind,
            space,
            written,
            failed: OnceLock::new(),
            flushing: Mutex::new(()),
        }
    }

    /// Gives out chunks. If there are not enough, removals are made durable, and what they free is used.
    pub(super) fn allocate(&self, chunks: u64) -> Result<Vec<Extent>> {
        let full = || {
            Error::io("find space on", self.device.describe(), io::ErrorKind::StorageFull.into())
        };
        let chunks = u32::try_from(chunks).map_err(|_| full())?;
        if let Some(runs) = self.space.lock().allocate(chunks) {
            return Ok(runs);
        }
        self.flush()?;
        self.space.lock().allocate(chunks).ok_or_else(full)
    }

    pub(super) fn free_after(&self, sequence: u64, runs: Vec<Extent>) {
        self.space.lock().free_after(sequence, runs);
    }

    pub(super) fn take(&self, run: Extent) -> bool {
        self.space.lock().take(run)
    }

    /// The directory `sequence` was written.
    pub(super) fn wrote_directory(&self, sequence: u64) {
        self.written.store(sequence, SeqCst);
    }

    /// Makes every earlier write survive power loss. Says which directory does, at least. Once it has
    /// failed it fails permanently: what is on the device shows when it is opened anew.
    pub(super) fn flush(&self) -> Result<u64> {
        let _flushing = self.flushing.lock();
        let written = self.written.load(SeqCst);
        if self.failed.get().is_none()
            && let Err(error) = self.device.flush()
        {
            self.failed.get_or_init(|| error);
        }
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        self.space.lock().durable(written);
        Ok(written)
    }
}
