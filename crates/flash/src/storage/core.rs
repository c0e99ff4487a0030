//! What all of a storage's handles share: the names, the journal and the space, under one lock. It is not held while
//! data is read or written, but for data that is moved to make room.

use super::body::Body;
use super::format::{Extent, Op};
use super::journal::{self, Found, Journal};
use super::slots::{self, Need};
use super::space::{Lease, Space};
use crate::Chunk;
use crate::placement::{Lifetime, Policy};
use crate::zones::{BLOCK_BYTES, Zones};
use esker_base::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Core {
    pub(super) zones: Arc<dyn Zones>,
    pub(super) state: Mutex<State>,
    /// A chunk was given back.
    given_back: Condvar,
    /// Bytes that users wrote, in whole blocks, and bytes of these that were moved to free their chunks.
    pub(super) host_bytes: AtomicU64,
    pub(super) moved_bytes: AtomicU64,
    /// Two that write the journal would destroy each other's files.
    _lock: Box<dyn Send + Sync>,
}

pub(super) struct State {
    pub(super) names: BTreeMap<String, Arc<Body>>,
    /// Removed, and perhaps still open; and the edit that says so.
    leaving: Vec<(Arc<Body>, u64)>,
    pub(super) space: Space,
    /// Chunks that can't be emptied to make room, as something alive in them can't be read.
    unmovable: BTreeSet<u32>,
    pub(super) journal: Journal,
    pub(super) next_id: u64,
}

/// Free chunks that only data which is moved may take.
const KEPT_CHUNKS: u32 = 1;

impl Core {
    /// Reads what a device holds, or lays it out if that is nothing.
    pub(super) fn open(zones: Arc<dyn Zones>, policy: Box<dyn Policy + Send>) -> Result<Self> {
        let lock = zones.lock()?;
        let found = journal::find(&*zones)?;
        let (names, next_id, mut space) = files(&*zones, policy, &found)?;
        slots::settle(&mut space, &*zones)?;
        let journal = Journal::begin(zones.clone(), &found, &snapshot(&names))?;
        let (leaving, unmovable) = Default::default();
        let state = State { names, leaving, space, unmovable, journal, next_id };
        let (given_back, host_bytes, moved_bytes) = Default::default();
        let state = Mutex::new(state);
        Ok(Core { zones, state, given_back, host_bytes, moved_bytes, _lock: lock })
    }

    /// A chunk to write data of this lifetime into. Fails with an error that says so if the device is full.
    pub(super) fn lease(&self, lifetime: Lifetime) -> Result<Lease> {
        let mut state = self.state.lock();
        loop {
            if let Some(lease) = state.space.pooled(lifetime) {
                return Ok(lease);
            }
            if state.make_place(&*self.zones, Need::Data)? {
                break;
            }
            if let Some(lease) = state.space.any_pooled() {
                return Ok(lease);
            }
            self.wait(&mut state)?;
        }
        state.sweep();
        while state.space.free_chunks() <= KEPT_CHUNKS && state.make_room(self)? {}
        if state.space.free_chunks() > KEPT_CHUNKS
            && let Some(lease) = state.lease_free(&*self.zones, lifetime)?
        {
            return Ok(lease);
        }
        let full =
            || Error::io("find room on", self.zones.describe(), ErrorKind::StorageFull.into());
        state.space.any_pooled().ok_or_else(full)
    }

    /// A whole chunk.
    pub(super) fn lease_whole(&self, lifetime: Lifetime) -> Result<Lease> {
        let mut state = self.state.lock();
        // What is moved to make room may need a place.
        while state.space.free_chunks() <= KEPT_CHUNKS
            && !state.make_place(&*self.zones, Need::Must)?
        {
            self.wait(&mut state)?;
        }
        state.sweep();
        while state.space.free_chunks() <= KEPT_CHUNKS && state.make_room(self)? {}
        let full =
            || Error::io("find room on", self.zones.describe(), ErrorKind::StorageFull.into());
        if state.space.free_chunks() <= KEPT_CHUNKS {
            return Err(full());
        }
        state.lease_free(&*self.zones, lifetime)?.ok_or_else(full)
    }

    /// Gives back a chunk that was written up to `lease.at`.
    pub(super) fn give_back(&self, state: &mut State, lease: Lease, lifetime: Lifetime) {
        state.space.give_back(lease, lifetime);
        self.given_back.notify_all();
    }

    /// Gives back a chunk that is not to be written on.
    pub(super) fn close(&self, chunk: Chunk) {
        self.state.lock().space.close(chunk);
        self.given_back.notify_all();
    }

    /// Gives up pieces that no file came to have.
    pub(super) fn forsake(&self, extents: &[Extent]) {
        let mut state = self.state.lock();
        let sequence = state.journal.sequence;
        extents.iter().for_each(|extent| state.space.remove(extent, sequence));
    }

    /// Takes a place for a chunk that has to be begun. It is taken until [`placed`](Core::placed).
    pub(super) fn place(&self, chunk: Chunk) -> Result<()> {
        let mut state = self.state.lock();
        while !state.make_place(&*self.zones, Need::Must)? {
            self.wait(&mut state)?;
        }
        state.space.set_starting(chunk, true);
        Ok(())
    }

    /// A chunk for which a place was taken was written, or that failed: the device says now whether it is active.
    pub(super) fn placed(&self, chunk: Chunk) {
        self.state.lock().space.set_starting(chunk, false);
        self.given_back.notify_all();
    }

    /// Waits until somebody has written a piece. Nobody who has a chunk waits.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        if state.space.written_now().next().is_none() {
            let what = "all chunks that may be written in part are";
            let source = io::Error::new(ErrorKind::ResourceBusy, what);
            return Err(Error::io("begin another chunk of", self.zones.describe(), source));
        }
        self.given_back.wait(state);
        Ok(())
    }

    pub(super) fn count(&self, bytes: u64) {
        self.host_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl State {
    /// Writes changes that were made to the names.
    pub(super) fn write(&mut self, ops: &[Op]) -> Result<()> {
        let names = &self.names;
        self.journal.write(ops, || snapshot(names))
    }

    /// Writes that a file was made. It has no name if that fails.
    pub(super) fn write_made(&mut self, name: &str, ops: &[Op]) -> Result<()> {
        let written = self.write(ops);
        if written.is_err() {
            self.take_out(name);
        }
        written
    }

    /// Takes a name out. Its chunks become free when nobody reads it any more and the edit is durable.
    pub(super) fn take_out(&mut self, name: &str) -> bool {
        let found = self.names.remove(name);
        let sequence = self.journal.sequence + 1;
        let is_found = found.is_some();
        self.leaving.extend(found.map(|body| (body, sequence)));
        is_found
    }

    /// All files that take space.
    pub(super) fn bodies(&self) -> impl Iterator<Item = &Arc<Body>> + Clone {
        self.names.values().chain(self.leaving.iter().map(|(body, _)| body))
    }

    /// Gives back what removed files had that nobody reads any more.
    pub(super) fn sweep(&mut self) {
        let space = &mut self.space;
        self.leaving.retain(|(body, sequence)| {
            let is_read = Arc::strong_count(body) > 1;
            if !is_read {
                body.pieces
                    .read()
                    .extents
                    .iter()
                    .for_each(|extent| space.remove(extent, *sequence));
            }
            is_read
        });
    }

    /// A free chunk, reset. One that can't be reset is out for good, and another is taken.
    fn lease_free(&mut self, zones: &dyn Zones, lifetime: Lifetime) -> Result<Option<Lease>> {
        while let Some((chunk, free_after)) = self.space.free(lifetime) {
            zones.expect(chunk, lifetime);
            if !self.space.needs_reset(chunk) {
                return Ok(Some(Lease { chunk, at: 0 }));
            }
            if free_after > self.journal.durable {
                self.journal.flush()?;
            }
            let outcome = zones.reset(chunk);
            let is_good = outcome.is_ok() || !zones.is_bad(chunk);
            self.space.was_reset(chunk, is_good);
            self.unmovable.remove(&(self.space.geometry.index(chunk) as u32));
            match outcome {
                Ok(()) => return Ok(Some(Lease { chunk, at: 0 })),
                Err(error) if is_good => {
                    self.space.close(chunk);
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Moves what is alive out of a chunk that is mostly dead, so that it becomes free. `false` if there is none. One that
    /// can't be read is left as it is, and not tried again: then nothing became free, and another chunk may do.
    fn make_room(&mut self, core: &Core) -> Result<bool> {
        // What is being written is not in the journal yet.
        let all = self.bodies();
        let open = all.clone().filter(|body| body.is_open());
        let chunks = |body: &Arc<Body>| body.pieces.read().extents.clone();
        let written = open.flat_map(chunks).map(|extent| extent.chunk);
        let busy = written.chain(self.unmovable.iter().copied()).collect();
        let Some(emptiest) = self.space.emptiest(&busy) else { return Ok(false) };
        let has_it = |body: &&Arc<Body>| {
            body.pieces.read().extents.iter().any(|extent| extent.chunk == emptiest)
        };
        let bodies: Vec<Arc<Body>> = all.filter(has_it).cloned().collect();
        let mut copies = Copies::default();
        let moved = self.copy_all(core, emptiest, &bodies, &mut copies);
        if let Some(lease) = copies.lease {
            self.space.give_back(lease, bodies[0].lifetime.into());
        }
        if moved.is_err() {
            // Nobody will ever have what was copied before.
            let sequence = self.journal.sequence;
            copies.pieces.iter().for_each(|piece| self.space.remove(piece, sequence));
        }
        if copies.is_unreadable {
            self.unmovable.insert(emptiest);
            return Ok(true);
        }
        let moved = moved?;
        // The copies have to be durable before anything says that they are what counts.
        self.journal.flush()?;
        let ops: Vec<Op> = moved
            .iter()
            .filter(|(body, _)| self.names.values().any(|named| Arc::ptr_eq(named, body)))
            .map(|(body, new)| Op::Replace(body.id, new.clone()))
            .collect();
        for (body, new) in moved {
            body.replace(new);
            body.record();
        }
        self.write(&ops)?;
        let sequence = self.journal.sequence;
        self.space.empty(emptiest, sequence);
        self.journal.flush()?;
        Ok(true)
    }

    /// Copies what bodies have in a chunk. Says which pieces each of them has then.
    fn copy_all(
        &mut self,
        core: &Core,
        from: u32,
        bodies: &[Arc<Body>],
        copies: &mut Copies,
    ) -> Result<Vec<(Arc<Body>, Vec<Extent>)>> {
        let mut moved = Vec::with_capacity(bodies.len());
        for body in bodies {
            let mut new = Vec::new();
            for extent in body.pieces.read().extents.clone() {
                if extent.chunk == from {
                    let first = copies.pieces.len();
                    self.copy(core, extent, body.lifetime.into(), copies)?;
                    new.extend_from_slice(&copies.pieces[first..]);
                } else {
                    new.push(extent);
                }
            }
            moved.push((body.clone(), new));
        }
        Ok(moved)
    }

    /// Copies a piece; it may come to lie in two.
    fn copy(
        &mut self,
        core: &Core,
        extent: Extent,
        lifetime: Lifetime,
        copies: &mut Copies,
    ) -> Result<()> {
        let geometry = self.space.geometry;
        let mut bytes = vec![0; extent.taken() as usize];
        let chunk = geometry.chunk(extent.chunk as usize);
        let read = core.zones.read(chunk, extent.start(), &mut bytes);
        copies.is_unreadable = read.is_err();
        read?;
        let mut left = extent.bytes;
        while left > 0 {
            let mut to = match copies.lease.take() {
                Some(lease) => lease,
                None => self.lease_for_copy(core, lifetime)?,
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
                self.space.give_back(to, lifetime);
            } else {
                copies.lease = Some(to);
            }
        }
        Ok(())
    }

    /// A chunk that is written already, of any lifetime, or else a free one.
    fn lease_for_copy(&mut self, core: &Core, lifetime: Lifetime) -> Result<Lease> {
        if let Some(lease) = self.space.pooled(lifetime).or_else(|| self.space.any_pooled()) {
            return Ok(lease);
        }
        let full =
            || Error::io("find room on", core.zones.describe(), ErrorKind::StorageFull.into());
        if !self.make_place(&*core.zones, Need::Must)? {
            return Err(full());
        }
        self.lease_free(&*core.zones, lifetime)?.ok_or_else(full)
    }
}

/// What was copied to make room, and where the next piece goes.
#[derive(Default)]
struct Copies {
    pieces: Vec<Extent>,
    lease: Option<Lease>,
    /// Something that should be copied could not be read.
    is_unreadable: bool,
}

/// Files by name, the next file's number, and the chunks.
pub(super) type Files = (BTreeMap<String, Arc<Body>>, u64, Space);

/// The files that a journal says there are.
pub(super) fn files(
    zones: &dyn Zones,
    policy: Box<dyn Policy + Send>,
    found: &Found,
) -> Result<Files> {
    let mut names = BTreeMap::<String, Arc<Body>>::new();
    let mut next_id = 1;
    let lost = |what: String| Error::corruption(zones.describe(), 0, what);
    for op in &found.ops {
        replay(&mut names, &mut next_id, op).map_err(lost)?;
    }
    let mut space = Space::new(zones, policy)?;
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

/// The directory as changes that make it.
fn snapshot(names: &BTreeMap<String, Arc<Body>>) -> Vec<Op> {
    let of_one = |(name, body): (&String, &Arc<Body>)| {
        let extents = body.recorded();
        [Op::Create(body.made(name)), Op::Extend(body.id, extents)]
    };
    names.iter().flat_map(of_one).collect()
}

fn replay(
    names: &mut BTreeMap<String, Arc<Body>>,
    next_id: &mut u64,
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
