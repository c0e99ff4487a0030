//! Chunks that are written in part, on a device that has room for few of them at a time, as zoned disks have.
//!
//! There a writer has its chunk only while it writes a piece, so that few chunks are enough for any number of files.
//! Before another chunk is begun, one that is begun may have to be finished: then it counts as full. These come first:
//!
//! 1. chunks that nobody writes on: what is in them is dead, or a write failed, or the journal has gone on elsewhere;
//! 2. logs but the newest two, which are the one that is written and the one that is next. One that is written on all
//!    the same goes on in another chunk;
//! 3. the fullest chunk that waits for a writer, whose rest is lost until it is reset: not for data, which rather lies
//!    with data of other lifetimes. So a few places are left for logs and for what is moved to make room.

use super::core::State;
use super::journal::JOURNAL_CHUNKS;
use super::space::Space;
use crate::Chunk;
use crate::zones::Zones;
use esker_base::Result;
use std::collections::BTreeSet;

/// Places that data does not take.
const KEPT_PLACES: usize = 2;

/// Logs that are written, or will be next.
const NEWEST_LOGS: usize = 2;

/// What a chunk is begun for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// Data that can go elsewhere.
    Data,
    /// What has to have a chunk.
    Must,
}

impl State {
    /// Makes sure that another chunk may be begun. `false` if all places are taken by what is being written.
    pub(super) fn make_place(&mut self, zones: &dyn Zones, need: Need) -> Result<bool> {
        let Some(most) = zones.active_max() else { return Ok(true) };
        let most = if need == Need::Data { most - KEPT_PLACES } else { most };
        if begun(&self.space, zones) < most {
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
        while begun(&self.space, zones) >= most {
            let fullest = if need == Need::Must { self.space.fullest_pooled() } else { None };
            let Some(chunk) = fullest else { return Ok(false) };
            zones.finish(chunk)?;
            self.space.close(chunk);
        }
        Ok(true)
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

    fn finish_old_logs(&self, zones: &dyn Zones) -> Result<()> {
        let mut logs: Vec<_> = self.bodies().filter(|body| body.log_bytes.is_some()).collect();
        logs.sort_by_key(|body| std::cmp::Reverse(body.id));
        for body in logs.into_iter().skip(NEWEST_LOGS) {
            // Whoever has it is writing.
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

/// Makes room for the journal of a device that was just opened: nobody writes anything.
pub(super) fn settle(space: &mut Space, zones: &dyn Zones) -> Result<()> {
    let Some(most) = zones.active_max() else { return Ok(()) };
    for chunk in zones.active() {
        if space.is_idle(chunk) && space.geometry.index(chunk) >= JOURNAL_CHUNKS {
            zones.finish(chunk)?;
        }
    }
    while zones.active().len() + KEPT_PLACES > most {
        let Some(chunk) = space.fullest_pooled() else { break };
        zones.finish(chunk)?;
        space.close(chunk);
    }
    Ok(())
}

/// Chunks that are written in part, or will be at any moment.
fn begun(space: &Space, zones: &dyn Zones) -> usize {
    let mut begun: BTreeSet<Chunk> = zones.active().into_iter().collect();
    begun.extend(space.leased());
    begun.len()
}
