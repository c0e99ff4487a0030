//! What a region says of itself as a pool, and what of that is corrupt.

use super::{RESTORE, state_at};
use crate::format::{
    BadHeader, ExtentState, HEADER_BYTES, Layout, OWNER_AT, OWNER_COMPLEMENT_AT, POOL_VERSION,
    PoolHeader,
};
use crate::region::Region;
use esker_base::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pool says of itself.
#[derive(Debug)]
pub struct PoolReport {
    /// The pool's number.
    pub identity: u64,
    /// The database it belongs to, if there is one and its two words match.
    pub owner: Option<u64>,
    /// Its extents.
    pub extents: Vec<ExtentInfo>,
    /// What is corrupt. A pool with any of these is not opened.
    pub problems: Vec<Error>,
    pub(crate) layout: Layout,
}

/// What a pool says of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentInfo {
    /// Where it starts in the pool.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// The segment in it, if there is one and its state is known.
    pub epoch: Option<u32>,
    /// Whether its state word holds, and says something that no other says.
    pub is_known: bool,
}

/// Reads the header and all state words. Fails if there is no header to go by.
pub fn examine(region: &dyn Region, name: &str) -> Result<PoolReport> {
    let damaged = |offset: usize, what: String| Error::PoolDamaged {
        pool: name.to_owned(),
        offset: offset as u64,
        what,
    };
    if region.len() < HEADER_BYTES {
        return Err(damaged(region.len(), "it ends inside its header".into()));
    }
    let expect = |bytes: usize| {
        let found = region.expect(0, bytes);
        found.map_err(|source| Error::io("read the header of", name.to_owned(), source))
    };
    expect(HEADER_BYTES)?;
    let header = read_header(region).map_err(|bad| refuse(name, bad))?;
    let layout = header.layout;
    if layout.pool_bytes > region.len() as u64 {
        let what = format!("it was truncated here; it had {} bytes", layout.pool_bytes);
        return Err(damaged(region.len(), what));
    }
    expect(state_at(layout.extents))?;
    let mut problems = Vec::new();
    let (owner, complement) = (word(region, OWNER_AT), word(region, OWNER_COMPLEMENT_AT));
    // A claim that was cut off leaves a complement without an owner.
    if owner != 0 && complement != !owner {
        problems.push(damaged(OWNER_AT, "the owner's two words do not match".into()));
    }
    let mut extents: Vec<ExtentInfo> = Vec::new();
    for index in 0..layout.extents {
        let state = ExtentState::decode(word(region, state_at(index)), header.identity, index);
        let taken = |epoch| extents.iter().any(|extent| extent.epoch == Some(epoch));
        let known = match state {
            Some(ExtentState::Free) => Ok(None),
            Some(ExtentState::Used(epoch)) if taken(epoch) => {
                Err(format!("extent {index} holds the same epoch as another"))
            }
            Some(ExtentState::Used(epoch)) => Ok(Some(epoch)),
            None => Err(format!("the state word of extent {index} is corrupt")),
        };
        let (epoch, is_known) = (known.clone().unwrap_or_default(), known.is_ok());
        problems.extend(known.err().map(|what| damaged(state_at(index), what)));
        let offset = layout.data_at + u64::from(index) * layout.extent_bytes;
        extents.push(ExtentInfo { offset, bytes: layout.extent_bytes, epoch, is_known });
    }
    let owner = (owner != 0 && complement == !owner).then_some(owner);
    Ok(PoolReport { identity: header.identity, owner, extents, problems, layout })
}

fn read_header(region: &dyn Region) -> Result<PoolHeader, BadHeader> {
    let mut bytes = [0; HEADER_BYTES];
    for (number, out) in bytes.chunks_exact_mut(8).enumerate() {
        out.copy_from_slice(&word(region, number * 8).to_le_bytes());
    }
    PoolHeader::decode(&bytes)
}

/// Loads a word of the header or the table. The region is at least as long as those.
pub(super) fn word(region: &dyn Region, at: usize) -> u64 {
    assert!(at.is_multiple_of(8) && at + 8 <= region.len(), "words are in the region");
    // SAFETY: the word lies in the region and is aligned; words are only stored atomically.
    let word = unsafe { AtomicU64::from_ptr(region.base().add(at).cast()) };
    u64::from_le(word.load(Ordering::Acquire))
}

fn refuse(name: &str, bad: BadHeader) -> Error {
    let refused = |reason| Error::PoolRefused { pool: name.to_owned(), reason };
    match bad {
        BadHeader::Unfinished => refused(format!(
            "its creation was not finished, or its beginning was wiped; if it is new, nothing was \
             ever written to it: remove it and create it again; otherwise writes that no table has \
             yet are in it alone: {RESTORE}"
        )),
        BadHeader::Foreign => refused(format!(
            "it is no Esker pool: its first eight bytes are not the magic; give the path of a pool, \
             or if this was one, {RESTORE}"
        )),
        BadHeader::Newer(found) => refused(format!(
            "it has format version {found}, and this program reads up to {POOL_VERSION}: use a newer \
             one; writes that no table has yet are in it alone, all others are safe"
        )),
        BadHeader::UnknownFeatures(flags) => refused(format!(
            "it needs format features {flags:#x}, which this program does not know: use a newer one; \
             writes that no table has yet are in it alone, all others are safe"
        )),
        BadHeader::Damaged { offset, what } => {
            Error::PoolDamaged { pool: name.to_owned(), offset, what: what.to_owned() }
        }
    }
}
