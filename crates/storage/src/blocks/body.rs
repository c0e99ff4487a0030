//! A file: where its bytes are.

use super::core::Core;
use super::format::{CHUNK_BYTES, DATA_START, Run};
use super::{BLOCK_BYTES, BlockDevice};
use crate::ReadableFile;
use esker_base::{Error, Result};
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A file's place, shared by the directory and all handles. When the last of them goes and the file was removed, its
/// chunks become free.
pub(super) struct Body {
    core: Arc<Core>,
    place: RwLock<Place>,
    /// The directory that does without it first; 0 while it has a name.
    removed_by: AtomicU64,
}

struct Place {
    runs: Vec<Run>,
    /// Bytes that are on the device.
    written: u64,
    /// Bytes of them that the directory tells of.
    recorded: u64,
}

impl Body {
    /// A file of `len` bytes in `runs`.
    pub(super) fn new(core: Arc<Core>, runs: Vec<Run>, len: u64) -> Arc<Self> {
        let place = RwLock::new(Place { runs, written: len, recorded: len });
        Arc::new(Body { core, place, removed_by: AtomicU64::new(0) })
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn device(&self) -> &dyn BlockDevice {
        self.core.device.as_ref()
    }

    /// The length that the directory has, and the runs for it.
    pub(super) fn recorded(&self) -> (u64, Vec<Run>) {
        let place = self.place.read();
        let mut chunks = place.recorded.div_ceil(CHUNK_BYTES) as u32;
        let mut runs = Vec::new();
        for run in &place.runs {
            let count = run.count.min(chunks);
            chunks -= count;
            if count > 0 {
                runs.push(Run { first: run.first, count });
            }
        }
        (place.recorded, runs)
    }

    /// The length that the next directory is to have. Says whether it is another.
    pub(super) fn record(&self, len: u64) -> bool {
        std::mem::replace(&mut self.place.write().recorded, len) != len
    }

    pub(super) fn written(&self) -> u64 {
        self.place.read().written
    }

    /// Bytes up to `len` are on the device.
    pub(super) fn wrote(&self, len: u64) {
        let mut place = self.place.write();
        place.written = place.written.max(len);
    }

    /// The file is in no directory from `sequence` on.
    pub(super) fn remove_by(&self, sequence: u64) {
        self.removed_by.store(sequence, Relaxed);
    }

    /// Gets chunks for `len` bytes.
    pub(super) fn reserve(&self, len: u64) -> Result<()> {
        let held: u64 = self.place.read().runs.iter().map(|run| u64::from(run.count)).sum();
        let wanted = len.div_ceil(CHUNK_BYTES);
        if wanted > held {
            let more = self.core.allocate((wanted - held) as u32)?;
            self.place.write().runs.extend(more);
        }
        Ok(())
    }

    /// The places on the device of the file's bytes from `offset` on, in order. The range lies in chunks that it has.
    pub(super) fn places(&self, offset: u64, bytes: u64) -> Vec<Range<u64>> {
        let (mut places, mut start, end) = (Vec::new(), 0, offset + bytes);
        for run in &self.place.read().runs {
            let length = u64::from(run.count) * CHUNK_BYTES;
            let (from, to) = (offset.max(start), end.min(start + length));
            if from < to {
                let base = DATA_START + u64::from(run.first) * CHUNK_BYTES;
                places.push(base + from - start..base + to - start);
            }
            start += length;
        }
        places
    }

    /// Fills `out`, from whole blocks on the device.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        for place in self.places(offset, rest.len() as u64) {
            let (part, after) = rest.split_at_mut((place.end - place.start) as usize);
            rest = after;
            let start = place.start / BLOCK_BYTES * BLOCK_BYTES;
            let end = place.end.next_multiple_of(BLOCK_BYTES);
            if (start, end) == (place.start, place.end) {
                self.device().read(start, part)?;
            } else {
                let mut blocks = vec![0; (end - start) as usize];
                self.device().read(start, &mut blocks)?;
                part.copy_from_slice(&blocks[(place.start - start) as usize..][..part.len()]);
            }
        }
        Ok(())
    }

    /// Writes whole blocks, for which there are chunks.
    pub(super) fn write(&self, offset: u64, blocks: &[u8]) -> Result<()> {
        let mut rest = blocks;
        for place in self.places(offset, blocks.len() as u64) {
            let (part, after) = rest.split_at((place.end - place.start) as usize);
            self.device().write(place.start, part)?;
            rest = after;
        }
        Ok(())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let sequence = *self.removed_by.get_mut();
        if sequence > 0 {
            let runs = std::mem::take(&mut self.place.get_mut().runs);
            self.core.free_after(sequence, runs);
        }
    }
}

/// Reads a file.
pub(super) struct Reader {
    pub(super) body: Arc<Body>,
    pub(super) name: String,
}

impl ReadableFile for Reader {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let found = self.body.written();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > found) {
            let what = format!("{} bytes are wanted, and the file ends at {found}", out.len());
            return Err(Error::corruption(&self.name, offset, what));
        }
        self.body.read(offset, out)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.body.written())
    }

    fn name(&self) -> &str {
        &self.name
    }
}
