//! Partially written (open) chunks on a device that limits their number, as zoned disks do.
//!
//! On such a device a writer owns its chunk only while it writes a piece, so a few chunks are
//! enough for any number of files. Before another chunk is opened, one may have to be finished: it
//! then counts as full. The order is:
//!
//! 1. Chunks without a writer: their data is obsolete, a write failed, or the journal moved
//!    elsewhere.
//! 2. Chunks of logs except the newest two, the current log and the next one. A log that is written
//!    again continues in another chunk.
//! 3. The fullest chunk that waits for a writer. Its rest is unusable until it is reset. Data does
//!    not cause this; it shares a chunk with other lifetimes instead. A few slots are therefore
//!    reserved for logs and for garbage collection.

use crate::Chunk;
use crate::chunk_device::ChunkDevice;
use crate::storage::allocation::shared_device::State;
use crate::storage::chunks::chunk_table::ChunkTable;
use crate::storage::format::JOURNAL_CHUNKS;
use esker_base::Result;
use std::collections::BTreeSet;

/// Places that data does not take.
const RESERVED_SLOTS: usize = 2;

/// Logs that are written, or will be next.
const NEWEST_LOGS: usize = 2;

/// What a chunk is begun for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenReason {
    /// Data that can go elsewhere.
    Data,
    /// What has to have a chunk.
    Must,
}

impl State {
    /// Makes sure that another chunk may be begun. `false` if all places are taken by what is being written.
    pub(crate) fn reserve_active_slot(
        &mut self,
        zones: &dyn ChunkDevice,
        need: OpenReason,
    ) -> Result<bool> {
        let Some(most) = zones.active_max() else { return Ok(true) };
        let most = if need == OpenReason::Data { most - RESERVED_SLOTS } else { most };
        if self.begun(zones) < most {
            return Ok(true);
        }
        self.sweep();
        let kept = self.kept();
        for chunk in zones.active() {
            let is_idle = self.space.is_idle(chunk) && !kept.contains(&chunk);
            if is_idle && chunk != self.journal.current_chunk() {
                zones.finish(chunk)?;
            }
        }
        self.finish_old_logs(zones)?;
        while self.begun(zones) >= most {
            let fullest = if need == OpenReason::Must { self.space.fullest_idle() } else { None };
            let Some(chunk) = fullest else { return Ok(false) };
            zones.finish(chunk)?;
            self.space.close(chunk);
        }
        Ok(true)
    }

    /// How many chunks are written in part, or will be at any time. The journal's is one of them even when it is full
    /// to the last block, as the next edit begins another.
    fn begun(&self, zones: &dyn ChunkDevice) -> usize {
        let mut begun: BTreeSet<Chunk> = zones.active().into_iter().collect();
        begun.extend(self.space.open_chunks());
        begun.insert(self.journal.current_chunk());
        begun.len()
    }

    /// Chunks of logs.
    fn kept(&self) -> BTreeSet<Chunk> {
        let geometry = self.space.geometry;
        let mut kept = BTreeSet::new();
        for body in self.bodies().filter(|body| body.log_bytes.is_some()) {
            let pieces = body.pieces.read();
            kept.extend(pieces.extents.iter().map(|extent| geometry.chunk(extent.chunk as usize)));
        }
        kept
    }

    fn finish_old_logs(&self, zones: &dyn ChunkDevice) -> Result<()> {
        let mut logs: Vec<_> = self.bodies().filter(|body| body.log_bytes.is_some()).collect();
        logs.sort_by_key(|body| std::cmp::Reverse(body.id));
        for body in logs.into_iter().skip(NEWEST_LOGS) {
            // If the lock is taken, its owner is writing.
            let Some(_position) = body.position.try_lock() else { continue };
            let pieces = body.pieces.read();
            for extent in &pieces.extents {
                let chunk = self.space.geometry.chunk(extent.chunk as usize);
                if zones.active().contains(&chunk) {
                    zones.finish(chunk)?;
                }
            }
        }
        Ok(())
    }
}

/// Frees a slot for the journal of a device that was just opened. No thread writes yet.
pub(crate) fn settle(space: &mut ChunkTable, zones: &dyn ChunkDevice) -> Result<()> {
    let Some(most) = zones.active_max() else { return Ok(()) };
    for chunk in zones.active() {
        if space.is_idle(chunk) && space.geometry.index(chunk) >= JOURNAL_CHUNKS {
            // One without a byte is free: it has to take some.
            match zones.written(chunk)? {
                0 => zones.reset(chunk)?,
                _ => zones.finish(chunk)?,
            }
        }
    }
    while zones.active().len() + RESERVED_SLOTS > most {
        let Some(chunk) = space.fullest_idle() else { break };
        zones.finish(chunk)?;
        space.close(chunk);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk_device::{BLOCK_BYTES, MemoryChunkDevice};
    use crate::storage::lifetimes::lifetime::LifetimeClass;
    use crate::{FlashStorage, Geometry};
    use esker_base::WriteHint;
    use esker_storage::Storage;
    use std::sync::Arc;

    const BLOCK: [u8; BLOCK_BYTES as usize] = [1; BLOCK_BYTES as usize];

    /// A device of which so many chunks may be active, and files on it. It panics if there is one more.
    fn narrow(active_max: usize) -> (MemoryChunkDevice, FlashStorage) {
        let zones = MemoryChunkDevice::new(Geometry::of_blocks(1, 1, 32, 32 << 10));
        zones.limit_active(active_max);
        (zones.clone(), FlashStorage::open(Arc::new(zones)).unwrap())
    }

    /// Begins chunks of data until no more may be, and keeps them.
    fn lease_all(zones: &MemoryChunkDevice, storage: &FlashStorage) {
        let may_begin =
            || storage.core.state.lock().reserve_active_slot(zones, OpenReason::Data).unwrap();
        while may_begin() {
            let lease = storage.core.lease(LifetimeClass::decode(1)).unwrap();
            zones.write(lease.chunk, lease.at, &BLOCK).unwrap();
        }
    }

    #[test]
    fn a_journal_that_is_full_to_the_last_block_has_a_place_for_the_next() {
        let (zones, storage) = narrow(5);
        let logs = ["a", "b"].map(|name| storage.create_log(name, 4_096).unwrap());
        let journal = || storage.core.state.lock().journal.current_chunk();
        let mut number = 0;
        while zones.written(journal()).unwrap() < 32 << 10 {
            drop(storage.create(&format!("{number}"), WriteHint::table(1)).unwrap());
            number += 1;
        }
        lease_all(&zones, &storage);
        logs.iter().for_each(|log| log.write_at(0, &[1; 100]).unwrap());
        storage.remove("0").unwrap();
        storage.sync_names().unwrap();
    }

    #[test]
    fn a_place_that_was_taken_and_is_not_written_yet_is_not_given_to_another() {
        let (zones, storage) = narrow(5);
        let logs = ["a", "b", "c"].map(|name| storage.create_log(name, 4_096).unwrap());
        lease_all(&zones, &storage);
        logs[1].write_at(0, &[1; 100]).unwrap();
        let first = storage.core.state.lock().names["a"].recorded()[0];
        let chunk = zones.geometry().chunk(first.chunk as usize);
        let is_free =
            || storage.core.state.lock().reserve_active_slot(&zones, OpenReason::Must).unwrap();
        assert!(is_free());
        storage.core.place(chunk).unwrap();
        assert!(!is_free());
        storage.core.placed(chunk);
        assert!(is_free());
    }
}
