//! Provides log segments: in files, in a pool, or in memory only.

use super::pmem_wal;
use super::wal_files::{LOG_ALIGNMENT, WalFiles};
use crate::options::sizes::segments_ahead;
use esker_base::{Error, Result};
use esker_memtable::{
    FrameMode, GROUPS, HeapMemory, MemTable, Memory, RecycledArrays, Room, SegmentHeader,
};
use esker_pmem::Pool;
use esker_storage::{LogFile, Pace};
use parking_lot::Mutex;
use std::sync::Arc;

/// See the file's head.
pub(crate) enum SegmentProvider {
    Files(WalFiles),
    Pool(PoolLogs),
    None { segment_bytes: usize },
}

/// A pool, until the database is closed. Extents that are still read keep it open a little longer.
pub(crate) struct PoolLogs {
    pool: Mutex<Option<Arc<Pool>>>,
    extents: usize,
}

impl PoolLogs {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        PoolLogs { extents: pool.extents(), pool: Mutex::new(Some(pool)) }
    }

    fn get(&self) -> Option<Arc<Pool>> {
        self.pool.lock().clone()
    }
}

/// So much of new memory is touched before writers have it, which takes 10 to 30 ms. To touch a whole segment
/// takes longer than writers need to fill what is left of the one before.
const TOUCHED_FIRST: u32 = 8 << 20;

/// How much of a segment is there from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// All of the index, and of the memory if that of another is spare. The rest is prepared as it fills.
    WholeIndex,
    /// Little of both; the rest is prepared as it fills.
    Growing,
}

/// A MemTable and the log file that its bytes go to.
#[derive(Clone)]
pub(crate) struct LogSegment {
    pub(crate) memtable: Arc<MemTable>,
    /// `None`: no log.
    pub(crate) file: Option<Arc<dyn LogFile>>,
}

/// What is left of a MemTable that was flushed, for the next one.
#[derive(Default)]
pub(crate) struct Spare {
    heap: Option<HeapMemory>,
    arrays: Option<RecycledArrays>,
    /// How many entries its like would have.
    entries: Option<usize>,
}

impl Spare {
    /// Takes a MemTable apart. An extent goes back to its pool.
    pub(crate) fn of(memtable: MemTable) -> Self {
        let entries = memtable.expected_entries(memtable.header().capacity as usize);
        let (memory, arrays) = memtable.into_parts();
        let heap = match memory {
            Memory::Heap(heap) => Some(heap),
            Memory::Pmem(_) => None,
        };
        Spare { heap, arrays: Some(arrays), entries }
    }
}

/// The salt of the segment `epoch` of a process that has drawn `drawn`.
///
/// It is one salt for all of them, so that their marks differ as their epochs do, but for the one epoch
/// that would have zero for its mark.
pub(crate) fn salt_of(drawn: u64, epoch: u32) -> u64 {
    // Neither half is zero: no segment is of version 1, by its mark or by its checksums.
    let salt = drawn | 1 << 63 | 1 << 31;
    if salt as u32 == epoch { salt ^ (1 << 32 | 1) } else { salt }
}

impl SegmentProvider {
    /// The pool, if the log is in one and the database is not closed.
    pub(crate) fn pool(&self) -> Option<Arc<Pool>> {
        match self {
            SegmentProvider::Pool(pool) => pool.get(),
            _ => None,
        }
    }

    /// Whether a segment can be had now.
    pub(crate) fn has_room(&self) -> bool {
        match self {
            SegmentProvider::Pool(pool) => pool.get().is_some_and(|pool| pool.free() > 0),
            _ => true,
        }
    }

    /// How many segments are to be in readiness while writers are faster than flushes. In a pool one is filled in a
    /// tenth of a second, and to map the next one's pages and sync the manifest may take as long; further ones
    /// cost no memory there.
    pub(crate) fn segments_ahead(&self) -> usize {
        match self {
            SegmentProvider::Pool(pool) => segments_ahead(pool.extents),
            _ => 1,
        }
    }

    /// Whether the manifest lists segments before they are written to.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self, SegmentProvider::None { .. })
    }

    /// A MemTable for the segment `epoch` with this salt, in what `spare` has, with an index that suits what
    /// is written now, as far as `like` shows it, and has space for `most_entries` if nothing shows that; and
    /// the file its bytes go to if there is one. Whatever recovery needs to find the segment is durable, but
    /// for its mention in the manifest. A pool's segment is whole from the start.
    pub(crate) fn begin(
        &self,
        epoch: u32,
        salt: u64,
        spare: Spare,
        like: Option<&MemTable>,
        most_entries: usize,
        extent: Extent,
    ) -> Result<(MemTable, Option<Arc<dyn LogFile>>)> {
        let in_dram = |segment_bytes: usize| SegmentHeader {
            epoch,
            capacity: segment_bytes as u64,
            alignment: LOG_ALIGNMENT,
            key_id: 0,
            salt,
            flags: GROUPS,
        };
        let Spare { heap, arrays, entries } = spare;
        let grows = extent == Extent::Growing && heap.is_none() && self.pool().is_none();
        // Not touched at once: a writer who needs the segment would wait for all of it.
        let touches = extent == Extent::WholeIndex && heap.is_none() && self.pool().is_none();
        let heap_of = |header: &SegmentHeader| {
            let bytes = header.capacity as usize;
            let new = || match (grows, touches) {
                (true, _) => HeapMemory::reserve(bytes),
                (false, true) => HeapMemory::reserve_huge(bytes),
                (false, false) => HeapMemory::new(bytes),
            };
            heap.unwrap_or_else(new).into()
        };
        let mut prepared = None;
        let (memory, header, frames, file): (Memory, _, _, _) = match self {
            SegmentProvider::Files(files) => {
                let capacity = files.segment_bytes();
                let first = match extent {
                    Extent::Whole => capacity,
                    _ => MemTable::first_room(capacity).bytes as usize,
                };
                let (header, file) = files.create(in_dram(capacity), first as u64)?;
                prepared = (!files.is_whole(header.epoch)).then_some(first as u32);
                (heap_of(&header), header, FrameMode::Logged, Some(file))
            }
            SegmentProvider::Pool(pool) => {
                let pool = pool.get().ok_or(Error::Closed)?;
                let header = pmem_wal::header_in(&pool, epoch, salt);
                let extent = pmem_wal::acquire(&pool, &header)?;
                (Memory::Pmem(extent), header, FrameMode::Logged, None)
            }
            SegmentProvider::None { segment_bytes } => {
                let header = in_dram(*segment_bytes);
                (heap_of(&header), header, FrameMode::Unlogged, None)
            }
        };
        let wanted = like.and_then(|like| like.expected_entries(header.capacity as usize));
        let entries = wanted.or(entries).unwrap_or(most_entries);
        let memtable = match grows {
            true => MemTable::growing(entries, memory, header, frames),
            false => MemTable::with_room_for(entries, memory, header, frames, arrays),
        };
        if touches {
            memtable.touch_first(TOUCHED_FIRST);
            prepared = prepared.or(Some(TOUCHED_FIRST.min(memtable.whole_room().bytes)));
        }
        if let Some(prepared) = prepared.filter(|_| !grows) {
            memtable.begin_with(prepared);
        }
        Ok((memtable, file))
    }

    /// Makes `room` of an active segment available. A full disk shows here: no seqno is reserved in
    /// what is not allocated.
    pub(crate) fn grow(&self, segment: &LogSegment, room: Room, pace: Pace) -> Result<()> {
        let memtable = &segment.memtable;
        if let (SegmentProvider::Files(files), Some(file)) = (self, &segment.file) {
            file.prepare(room.bytes.into(), pace)?;
            if room.bytes == memtable.whole_room().bytes {
                files.note_whole(memtable.epoch());
            }
        }
        memtable.grow(room);
        Ok(())
    }

    /// Takes back the segment `epoch`, which the manifest does not list any more, or never did.
    pub(crate) fn retire(&self, epoch: u32) {
        match self {
            SegmentProvider::Files(files) => files.retire(epoch),
            // If it fails, the next open does it.
            SegmentProvider::Pool(pool) => drop(pool.get().map(|pool| pool.release(epoch))),
            SegmentProvider::None { .. } => {}
        }
    }

    /// Drops the segment `epoch` as [`SegmentProvider::retire`] does, and keeps no file for reuse.
    pub(crate) fn discard(&self, epoch: u32) {
        match self {
            SegmentProvider::Files(files) => files.discard(epoch),
            _ => self.retire(epoch),
        }
    }

    /// Drops what is kept for reuse.
    pub(crate) fn close(&self) {
        if let SegmentProvider::Files(files) = self {
            files.remove_retired();
        }
    }

    /// Lets go of the pool, and so of its lock once no extent of it is read any more.
    pub(crate) fn release(&self) {
        if let SegmentProvider::Pool(pool) = self {
            pool.pool.lock().take();
        }
    }
}
