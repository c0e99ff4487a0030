//! A file: where its bytes are.

use super::format::{CHUNK_BYTES, DATA_START, Extent};
use super::shared::BlockFsShared;
use super::{BLOCK_BYTES, BlockDevice};
use crate::ReadableFile;
use esker_base::{Error, Result};
use parking_lot::RwLock;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A file's place, shared by the directory and all handles. When the last of them goes and the file was removed, its
/// chunks become free: but not in this process if a write of them failed, which may still be done at any time, and would
/// go over another file's bytes.
pub(super) struct Inode {
    core: Arc<BlockFsShared>,
    place: RwLock<Place>,
    /// The directory that does without it first; 0 while it has a name.
    removed_by: AtomicU64,
    /// Whether a write or a flush failed.
    is_doubtful: AtomicBool,
}

struct Place {
    runs: Vec<Extent>,
    /// Bytes that are on the device.
    written: u64,
    /// Bytes of them that the directory reports.
    recorded: u64,
}

impl Inode {
    /// A file of `len` bytes in `runs`.
    pub(super) fn new(core: Arc<BlockFsShared>, runs: Vec<Extent>, len: u64) -> Arc<Self> {
        let place = RwLock::new(Place { runs, written: len, recorded: len });
        let (removed_by, is_doubtful) = (AtomicU64::new(0), AtomicBool::new(false));
        Arc::new(Inode { core, place, removed_by, is_doubtful })
    }

    pub(super) fn core(&self) -> &Arc<BlockFsShared> {
        &self.core
    }

    fn device(&self) -> &dyn BlockDevice {
        self.core.device.as_ref()
    }

    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful.load(Relaxed)
    }

    /// What its chunks hold, or whose they are, is not known from here on.
    pub(super) fn doubt(&self) {
        self.is_doubtful.store(true, Relaxed);
    }

    fn known<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.doubt();
        }
        outcome
    }

    /// The length that the directory has, and the runs for it.
    pub(super) fn recorded(&self) -> (u64, Vec<Extent>) {
        let place = self.place.read();
        let mut chunks = place.recorded.div_ceil(CHUNK_BYTES) as u32;
        let mut runs = Vec::new();
        for run in &place.runs {
            let count = run.count.min(chunks);
            chunks -= count;
            if count > 0 {
                runs.push(Extent { first: run.first, count });
            }
        }
        (place.recorded, runs)
    }

    /// The length that the next directory is to have. Returns the one before.
    pub(super) fn record(&self, len: u64) -> u64 {
        std::mem::replace(&mut self.place.write().recorded, len)
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
            let more = self.core.allocate(wanted - held)?;
            let runs = &mut self.place.write().runs;
            more.into_iter().for_each(|run| push(runs, run));
        }
        Ok(())
    }

    /// The places on the device of the file's bytes from `offset` on, in order. The range is in chunks that it has.
    fn places(&self, offset: u64, bytes: u64) -> Vec<Range<u64>> {
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
            self.known(self.device().write(place.start, part))?;
            rest = after;
        }
        Ok(())
    }

    /// Makes the first `bytes` bytes zero: whole blocks, for which there are chunks.
    pub(super) fn write_zeroes(&self, bytes: u64) -> Result<()> {
        for place in self.places(0, bytes) {
            self.known(self.device().write_zeroes(place.start, place.end - place.start))?;
        }
        Ok(())
    }

    /// Makes what was written survive power loss.
    pub(super) fn flush(&self) -> Result<()> {
        self.known(self.core.flush().map(drop))
    }
}

/// Adds `run` to the last of `runs` if it follows that: the directory has space for some runs of a file, not for one a
/// chunk.
fn push(runs: &mut Vec<Extent>, run: Extent) {
    match runs.last_mut() {
        Some(last) if last.first + last.count == run.first => last.count += run.count,
        _ => runs.push(run),
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        let sequence = *self.removed_by.get_mut();
        if sequence > 0 && !*self.is_doubtful.get_mut() {
            let runs = std::mem::take(&mut self.place.get_mut().runs);
            self.core.free_after(sequence, runs);
        }
    }
}

/// Reads a file.
pub(super) struct Reader {
    pub(super) body: Arc<Inode>,
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

#[cfg(test)]
mod tests {
    use super::super::MemoryDevice;
    use super::super::chunk_allocator::ChunkAllocator;
    use super::super::write_behind::WriteBehind;
    use super::*;
    use esker_base::background::Stepped;

    #[test]
    fn a_file_that_grows_alone_is_one_run() {
        let behind = WriteBehind::start(&Stepped).unwrap();
        let core =
            BlockFsShared::new(Arc::new(MemoryDevice::new(0)), behind, ChunkAllocator::new(1_000));
        let core = Arc::new(core);
        let [one, other] = [(); 2].map(|()| Inode::new(core.clone(), Vec::new(), 0));
        let grow = |body: &Inode, chunks: std::ops::RangeInclusive<u64>| {
            for chunk in chunks {
                body.reserve(chunk * CHUNK_BYTES).unwrap();
                body.record(chunk * CHUNK_BYTES);
            }
        };
        grow(&one, 1..=300);
        grow(&other, 1..=1);
        grow(&one, 301..=302);
        let expected = [Extent { first: 0, count: 300 }, Extent { first: 301, count: 2 }];
        assert_eq!(one.recorded().1, expected);
    }
}
