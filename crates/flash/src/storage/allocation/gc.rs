//! Garbage collection when no chunk is free: moves the live data out of a mostly obsolete chunk.

use crate::chunk_device::BLOCK_BYTES;
use crate::storage::allocation::active_zones::OpenReason;
use crate::storage::allocation::shared_device::{SharedDevice, State};
use crate::storage::chunks::chunk_table::OpenChunk;
use crate::storage::files::file_meta::FileMeta;
use crate::storage::format::{Extent, JournalRecord};
use crate::storage::lifetimes::lifetime::LifetimeClass;
use esker_base::{Error, Result};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl State {
    /// Moves what is alive out of a chunk that is mostly dead, so that it becomes free. `false` if there is none. One that
    /// can't be read is left as it is, and not tried again: then nothing became free, and another chunk may do.
    pub(crate) fn collect_one(&mut self, core: &SharedDevice) -> Result<bool> {
        // What is being written is not in the journal yet.
        let all = self.bodies();
        let open = all.clone().filter(|body| body.is_open());
        let chunks = |body: &Arc<FileMeta>| body.pieces.read().extents.clone();
        let written = open.flat_map(chunks).map(|extent| extent.chunk);
        let busy = written.chain(self.gc_excluded.keys().copied()).collect();
        let Some(best_gc_victim) = self.space.best_gc_victim(&busy) else { return Ok(false) };
        let has_it = |body: &&Arc<FileMeta>| {
            body.pieces.read().extents.iter().any(|extent| extent.chunk == best_gc_victim)
        };
        let bodies: Vec<Arc<FileMeta>> = all.filter(has_it).cloned().collect();
        let mut copies = Copies::default();
        let moved = self.copy_all(core, best_gc_victim, &bodies, &mut copies);
        if let Some(lease) = copies.lease {
            self.space.give_back(lease, bodies[0].stay);
        }
        if moved.is_err() {
            // No file will ever own the earlier copies.
            let sequence = self.journal.sequence;
            copies.pieces.iter().for_each(|piece| self.space.remove(piece, sequence));
        }
        if let Some(error) = copies.unreadable {
            self.gc_excluded.insert(best_gc_victim, error);
            return Ok(true);
        }
        let moved = moved?;
        // The copies have to be durable before anything says that they are what counts.
        self.journal.flush()?;
        let ops: Vec<JournalRecord> = moved
            .iter()
            .filter(|(body, _)| body.is_linked())
            .map(|(body, new)| JournalRecord::Replace(body.id, new.clone()))
            .collect();
        for (body, new) in moved {
            body.replace(new);
            body.record();
        }
        self.write(&ops)?;
        let sequence = self.journal.sequence;
        self.space.empty(best_gc_victim, sequence);
        self.journal.flush()?;
        Ok(true)
    }

    /// Copies what bodies have in a chunk. Says which pieces each of them has then.
    fn copy_all(
        &mut self,
        core: &SharedDevice,
        from: u32,
        bodies: &[Arc<FileMeta>],
        copies: &mut Copies,
    ) -> Result<Vec<(Arc<FileMeta>, Vec<Extent>)>> {
        let mut moved = Vec::with_capacity(bodies.len());
        for body in bodies {
            let mut new = Vec::new();
            for extent in body.pieces.read().extents.clone() {
                if extent.chunk == from {
                    let first = copies.pieces.len();
                    self.copy(core, extent, body.stay, copies)?;
                    new.extend_from_slice(&copies.pieces[first..]);
                } else {
                    new.push(extent);
                }
            }
            moved.push((body.clone(), new));
        }
        Ok(moved)
    }

    /// Copies a piece. The copy may be split in two.
    fn copy(
        &mut self,
        core: &SharedDevice,
        extent: Extent,
        stay: LifetimeClass,
        copies: &mut Copies,
    ) -> Result<()> {
        let geometry = self.space.geometry;
        let mut bytes = vec![0; extent.taken() as usize];
        let chunk = geometry.chunk(extent.chunk as usize);
        let read = core.zones.read(chunk, extent.start(), &mut bytes);
        copies.unreadable = read.clone().err();
        read?;
        let mut left = extent.bytes;
        while left > 0 {
            let mut to = match copies.lease.take() {
                Some(lease) => lease,
                None => self.lease_for_copy(core, stay)?,
            };
            let room = u64::from(geometry.chunk_bytes) - to.at;
            let here = u64::from(left).min(room) as u32;
            let index = geometry.index(to.chunk) as u32;
            let piece = Extent { chunk: index, block: (to.at / BLOCK_BYTES) as u32, bytes: here };
            let rest = bytes.split_off(piece.taken().min(bytes.len() as u64) as usize);
            if let Err(error) = core.zones.write(to.chunk, to.at, &bytes) {
                self.space.close(to.chunk);
                return Err(error);
            }
            core.moved_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            (bytes, left) = (rest, left - here);
            self.space.add(&piece);
            to.at += piece.taken();
            copies.pieces.push(piece);
            if to.at + BLOCK_BYTES > u64::from(geometry.chunk_bytes) {
                self.space.give_back(to, stay);
            } else {
                copies.lease = Some(to);
            }
        }
        Ok(())
    }

    /// A chunk that is written already, of any lifetime, or else a free one.
    fn lease_for_copy(&mut self, core: &SharedDevice, stay: LifetimeClass) -> Result<OpenChunk> {
        if let Some(lease) = self.space.pooled(stay).or_else(|| self.space.take_any_idle()) {
            return Ok(lease);
        }
        if !self.reserve_active_slot(&*core.zones, OpenReason::Must)? {
            return Err(self.device_full_error(core));
        }
        let lease = self.lease_free(&*core.zones, stay)?;
        lease.ok_or_else(|| self.device_full_error(core))
    }

    /// Explains why no space can be freed: all data is live, or live data in a mostly obsolete
    /// chunk is unreadable.
    pub(crate) fn device_full_error(&self, core: &SharedDevice) -> Error {
        self.no_room_unless_unmovable(core, "find space on", ErrorKind::StorageFull.into())
    }

    /// Why a log can't have another chunk, where logs leave so many free.
    pub(crate) fn no_room_for_log(&self, core: &SharedDevice, kept: u32) -> Error {
        let what = format!(
            "{} of its chunks are free, and logs leave {kept}, so that tables can be made of them; a database that was \
             flushed, or is opened again, has space for one log more, to delete something",
            self.space.free_chunks()
        );
        let full = io::Error::new(ErrorKind::StorageFull, what);
        self.no_room_unless_unmovable(core, "find space for a log on", full)
    }

    fn no_room_unless_unmovable(
        &self,
        core: &SharedDevice,
        action: &'static str,
        full: io::Error,
    ) -> Error {
        let is_alive = |(index, _): &(&u32, &Error)| self.space.live(**index) > 0;
        let mut gc_excluded = self.gc_excluded.iter().filter(is_alive);
        let source = match gc_excluded.next() {
            None => full,
            Some((_, error)) => io::Error::other(format!(
                "{} of its chunks can't be emptied, as files in them can't be read; remove these files, or others. The \
                 first failure: {error}",
                1 + gc_excluded.count()
            )),
        };
        Error::io(action, core.zones.describe(), source)
    }
}

/// The copies made to free chunks, and where the next piece goes.
#[derive(Default)]
struct Copies {
    pieces: Vec<Extent>,
    lease: Option<OpenChunk>,
    /// Why something that should be copied could not be read.
    unreadable: Option<Error>,
}
