//! The names, as stored in the journal: read when a device is opened, and written as a snapshot.

use super::found::Found;
use crate::chunk_device::ChunkDevice;
use crate::placement::PlacementPolicy;
use crate::storage::chunks::chunk_table::ChunkTable;
use crate::storage::files::file_meta::FileMeta;
use crate::storage::files::proof::{Ids, Place, Proof};
use crate::storage::files::replayer::Replayer;
use crate::storage::format::{Extent, JOURNAL_CHUNKS, JournalRecord, journal_bytes};
use esker_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// What a journal says there is.
pub(crate) struct Files {
    pub(crate) names: BTreeMap<String, Arc<FileMeta>>,
    /// The number of the next file.
    pub(crate) next_id: u64,
    pub(crate) space: ChunkTable,
    /// Files that chunks which have gone bad had parts of, by name.
    pub(crate) lost: Vec<LostFile>,
    /// Logs that had chunks which have gone bad with nothing in them, and are without these now.
    pub(crate) shrunk: Vec<Arc<FileMeta>>,
    /// The last edit of the journal that was durable, if it is lost.
    pub(crate) lost_edit: Option<u64>,
}

/// A file that is not whole, as chunks with parts of it have gone bad.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostFile {
    /// Its name.
    pub name: String,
    /// Whether it is a log. The length of its content is then unknown, and the device cannot be
    /// used without it.
    pub is_log: bool,
    /// The places of the chunks.
    pub chunks: Vec<u32>,
    /// Bytes that are lost; of a log, at the most.
    pub bytes: u64,
}

/// The part of the journal's chunk that wear counts may use. The rest is for names.
const WEAR_OF_JOURNAL: u64 = 8;

/// The files that a journal says there are. `found` is in doubt if logs prove that its end is lost.
pub(crate) fn files(
    zones: &dyn ChunkDevice,
    policy: Box<dyn PlacementPolicy + Send>,
    found: &mut Found,
) -> Result<Files> {
    let lost = |what: String| Error::corruption(zones.describe(), 0, what);
    let mut replay = Replayer::new(zones.geometry().chunks());
    found.ops.iter().try_for_each(|op| replay.apply(op)).map_err(lost)?;
    let Replayer { names, ids, next_id, wear } = replay;
    let mut proof = Proof::new(found.sequence());
    let mut space = ChunkTable::new(zones, policy, wear)?;
    let (mut all_lost, mut shrunk) = (Vec::new(), Vec::new());
    // Nothing is written after a truncated chunk: files own what follows.
    let mut cut_off = BTreeSet::new();
    for (name, body) in &names {
        let is_log = body.log_bytes.is_some();
        let before = body.pieces.read().extents.len();
        let of_log = if is_log { body.scan(zones, &mut proof)? } else { Vec::new() };
        let extents = body.pieces.read().extents.clone();
        if !extents.iter().all(|extent| space.found(extent)) {
            return Err(lost(format!("{name} has chunks that are not there, or the journal's")));
        }
        let is_lost = |extent: &&Extent| match is_log {
            true => of_log.contains(&extent.chunk),
            false => space.is_lost(extent.chunk as usize) || space.is_cut_off(extent),
        };
        if extents.len() < before {
            shrunk.push(body.clone());
        }
        let parts: Vec<&Extent> = extents.iter().filter(is_lost).collect();
        cut_off.extend(parts.iter().map(|extent| extent.chunk));
        if !parts.is_empty() {
            let chunks: BTreeSet<u32> = parts.iter().map(|extent| extent.chunk).collect();
            let bytes = parts.iter().map(|extent| u64::from(extent.bytes)).sum();
            let (name, chunks) = (name.clone(), chunks.into_iter().collect());
            all_lost.push(LostFile { name, is_log, chunks, bytes });
        }
    }
    let indices = JOURNAL_CHUNKS as u32..zones.geometry().chunks() as u32;
    let places = indices.map(|index| Place { index, is_free: space.live(index) == 0 });
    let ids = Ids { next: next_id, is_found: |id: u64| ids.contains_key(&id) };
    proof.seek(zones, places, &ids);
    found.doubt = found.doubt.take().or_else(|| proof.doubt());
    let lost_edit = proof.edit();
    for body in names.values().filter(|body| body.log_bytes.is_none()) {
        let pieces = body.pieces.read();
        for extent in &pieces.extents {
            if !cut_off.contains(&extent.chunk) && space.pool_found(extent, body.stay) {
                zones.expect(zones.geometry().chunk(extent.chunk as usize), body.stay.lifetime());
            }
        }
    }
    Ok(Files { names, next_id, space, lost: all_lost, shrunk, lost_edit })
}

impl Files {
    /// Rejects a device with an incomplete log: the missing part may contain acknowledged writes,
    /// which cannot be determined.
    pub(crate) fn check(&self, zones: &dyn ChunkDevice) -> Result<()> {
        let Some(log) = self.lost.iter().find(|lost| lost.is_log) else { return Ok(()) };
        let what = format!(
            "chunk {} has gone bad, which had a part of the log {}: what was acknowledged last may be lost; nothing was \
             changed. Restore a copy to another device, or run `esker flash repair`",
            log.chunks[0], log.name
        );
        Err(Error::io("use", zones.describe(), io::Error::other(what)))
    }
}

/// The directory as changes that make it, and how worn the chunks are.
pub(crate) fn snapshot(
    names: &BTreeMap<String, Arc<FileMeta>>,
    space: &ChunkTable,
) -> Vec<JournalRecord> {
    let of_one = |(name, body): (&String, &Arc<FileMeta>)| {
        let extents = body.recorded();
        [JournalRecord::Create(body.made(name)), JournalRecord::Extend(body.id, extents)]
    };
    let wear_bytes = journal_bytes(&space.geometry) / WEAR_OF_JOURNAL;
    let wear = space.wear.snapshot(wear_bytes as usize);
    names.iter().flat_map(of_one).chain([wear]).collect()
}
