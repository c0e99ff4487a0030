//! The names as the journal has them: read when a device is opened, and written as a snapshot.

use super::body::Body;
use super::format::Op;
use super::journal::{Found, journal_bytes};
use super::space::Space;
use super::wear::Wear;
use crate::placement::Policy;
use crate::zones::Zones;
use esker_base::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Files by name, the next file's number, and the chunks.
pub(super) type Files = (BTreeMap<String, Arc<Body>>, u64, Space);

/// The part of the journal's chunk that may tell how worn chunks are: what is left is for names.
const WEAR_OF_JOURNAL: u64 = 8;

/// The files that a journal says there are.
pub(super) fn files(
    zones: &dyn Zones,
    policy: Box<dyn Policy + Send>,
    found: &Found,
) -> Result<Files> {
    let lost = |what: String| Error::corruption(zones.describe(), 0, what);
    let mut replay = Replay::new(zones.geometry().chunks());
    found.ops.iter().try_for_each(|op| replay.apply(op)).map_err(lost)?;
    let Replay { names, next_id, wear, .. } = replay;
    let mut space = Space::new(zones, policy, wear)?;
    for (name, body) in &names {
        let extents = body.pieces.read().extents.clone();
        if !extents.iter().all(|extent| space.found(extent)) {
            return Err(lost(format!("{name} has chunks that are not there, or bad")));
        }
        if body.log_bytes.is_some() {
            body.scan(zones)?;
        }
    }
    for body in names.values().filter(|body| body.log_bytes.is_none()) {
        let pieces = body.pieces.read();
        for extent in &pieces.extents {
            if space.pool_found(extent, body.stay) {
                zones.expect(zones.geometry().chunk(extent.chunk as usize), body.stay.lifetime());
            }
        }
    }
    Ok((names, next_id, space))
}

/// The directory as changes that make it, and how worn the chunks are.
pub(super) fn snapshot(names: &BTreeMap<String, Arc<Body>>, space: &Space) -> Vec<Op> {
    let of_one = |(name, body): (&String, &Arc<Body>)| {
        let extents = body.recorded();
        [Op::Create(body.made(name)), Op::Extend(body.id, extents)]
    };
    let wear_bytes = journal_bytes(&space.geometry) / WEAR_OF_JOURNAL;
    let wear = space.wear.snapshot(wear_bytes as usize);
    names.iter().flat_map(of_one).chain([wear]).collect()
}

/// The files while the journal's changes are made anew.
struct Replay {
    names: BTreeMap<String, Arc<Body>>,
    /// The same by number. A journal may have so many that to look through all of them for each change is felt.
    ids: BTreeMap<u64, Arc<Body>>,
    next_id: u64,
    wear: Wear,
}

impl Replay {
    fn new(chunks: usize) -> Self {
        let (names, ids) = Default::default();
        Replay { names, ids, next_id: 1, wear: Wear::new(chunks) }
    }

    fn apply(&mut self, op: &Op) -> std::result::Result<(), String> {
        match op {
            Op::Create(made) => {
                self.next_id = made.id.max(self.next_id - 1) + 1;
                let body = Body::new(made);
                self.ids.insert(made.id, body.clone());
                if self.names.insert(made.name.clone(), body).is_some() {
                    return Err(format!("its journal makes {} twice", made.name));
                }
            }
            // A file that was removed while it was written is extended by its writer still.
            Op::Extend(id, extents) => {
                if let Some(body) = self.ids.get(id) {
                    extents.iter().for_each(|extent| body.push(*extent));
                    body.record();
                }
            }
            Op::Replace(id, extents) => {
                if let Some(body) = self.ids.get(id) {
                    body.replace(extents.clone());
                    body.record();
                }
            }
            Op::Reset(chunks) => self.wear.learn_more(chunks),
            Op::Resets(resets) => self.wear.learn(resets),
            Op::Remove(name) => _ = self.take_out(name),
            Op::Rename(from, to) => {
                let body = self.take_out(from);
                let body =
                    body.ok_or_else(|| format!("its journal renames {from}, which is not there"))?;
                self.take_out(to);
                self.ids.insert(body.id, body.clone());
                self.names.insert(to.clone(), body);
            }
        }
        Ok(())
    }

    fn take_out(&mut self, name: &str) -> Option<Arc<Body>> {
        let body = self.names.remove(name)?;
        self.ids.remove(&body.id)
    }
}
