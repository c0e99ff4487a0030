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
    let mut names = BTreeMap::<String, Arc<Body>>::new();
    let (mut next_id, mut wear) = (1, Wear::new(zones.geometry().chunks()));
    let lost = |what: String| Error::corruption(zones.describe(), 0, what);
    for op in &found.ops {
        replay(&mut names, &mut next_id, &mut wear, op).map_err(lost)?;
    }
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
        let lifetime = body.lifetime.into();
        for extent in &pieces.extents {
            if space.pool_found(extent, lifetime) {
                zones.expect(zones.geometry().chunk(extent.chunk as usize), lifetime);
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

fn replay(
    names: &mut BTreeMap<String, Arc<Body>>,
    next_id: &mut u64,
    wear: &mut Wear,
    op: &Op,
) -> std::result::Result<(), String> {
    let of_id = |names: &BTreeMap<String, Arc<Body>>, id: u64| {
        names.values().find(|body| body.id == id).cloned()
    };
    match op {
        Op::Create(made) => {
            *next_id = made.id.max(*next_id - 1) + 1;
            let body = Body::new(made);
            if names.insert(made.name.clone(), body).is_some() {
                return Err(format!("its journal makes {} twice", made.name));
            }
        }
        // A file that was removed while it was written is extended by its writer still.
        Op::Extend(id, extents) => {
            let body = of_id(names, *id);
            body.iter().for_each(|body| extents.iter().for_each(|extent| body.push(*extent)));
            body.iter().for_each(|body| body.record());
        }
        Op::Replace(id, extents) => {
            let body = of_id(names, *id);
            body.iter().for_each(|body| body.replace(extents.clone()));
            body.iter().for_each(|body| body.record());
        }
        Op::Reset(chunks) => wear.learn_more(chunks),
        Op::Resets(resets) => wear.learn(resets),
        Op::Remove(name) => _ = names.remove(name),
        Op::Rename(from, to) => {
            let body = names.remove(from);
            let body =
                body.ok_or_else(|| format!("its journal renames {from}, which is not there"))?;
            names.insert(to.clone(), body);
        }
    }
    Ok(())
}
