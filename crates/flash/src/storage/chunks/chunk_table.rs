//! Tracks the use of every chunk, and allocates the next one to write.
//!
//! A chunk is free, leased to one writer, pooled, or closed. A pooled chunk waits for a writer of
//! the same lifetime class (`lifetime`), which continues at its end. A chunk becomes free when it
//! contains no live data. It is reset before it is written again, and not before the removal of its
//! data is durable.
//!
//! If a chunk with parts of files becomes bad, these parts are lost: they count as stored nowhere.
//! When the last of them is removed, the chunk is an ordinary bad chunk.

use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use crate::placement::{DeviceLoad, LIFETIMES, Lifetime, PlacementPolicy, Rotating, UnitState};
use crate::storage::chunks::erase_counts::EraseCounter;
use crate::storage::chunks::read_heat::ReadHeat;
use crate::storage::format::{Extent, JOURNAL_CHUNKS};
use crate::storage::lifetimes::lifetime::LifetimeClass;
use crate::storage::lifetimes::quiescence::{MAX_FRACTION_OF_FREE, QuiescenceTracker};
use crate::{Chunk, Geometry, Unit};
use esker_base::Result;
use std::collections::BTreeSet;

/// The part of all units that one lifetime is taken to keep busy: an eighth for all of them.
const NEEDED_OF_UNITS: f64 = 1.0 / (8 * LIFETIMES) as f64;

/// How much more often than any other free chunk one is erased that is taken.
const AHEAD_MAX: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChunkUse {
    Free,
    Leased,
    Pooled(LifetimeClass),
    Closed,
    /// Bad, and files have parts in it.
    Lost,
    /// Bad with nothing alive in it, or the journal's.
    Out,
}

impl ChunkUse {
    fn is_good(self) -> bool {
        !matches!(self, ChunkUse::Lost | ChunkUse::Out)
    }
}

#[derive(Clone, Copy, Debug)]
struct Record {
    used: ChunkUse,
    /// Bytes written since the last reset.
    written: u64,
    /// Bytes of these that files have, in whole blocks.
    live: u64,
    /// The edit after which nothing in it is alive.
    free_after: u64,
}

/// How often chunks were reset, those that can be used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct EraseCounts {
    /// Of the one that was reset least.
    pub least: u32,
    /// Of all of them.
    pub mean: f64,
    /// Of the one that was reset most.
    pub most: u32,
}

/// A chunk with a writer, and the position of the next write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenChunk {
    pub(crate) chunk: Chunk,
    pub(crate) at: u64,
}

/// All chunks of a device.
pub(crate) struct ChunkTable {
    pub(crate) geometry: Geometry,
    /// Whether a chunk that is found can be written on behind what files have of it, however far it was written.
    is_rewritable: bool,
    policy: Box<dyn PlacementPolicy + Send>,
    /// What the policy knows.
    state: DeviceLoad,
    records: Vec<Record>,
    pub(crate) wear: EraseCounter,
    pub(crate) heat: ReadHeat,
    /// Closed chunks that a log writes for the first time.
    starting: BTreeSet<Chunk>,
    turn: usize,
}

impl ChunkTable {
    /// The chunks as the device has them, with nothing alive.
    pub(crate) fn new(
        zones: &dyn ChunkDevice,
        policy: Box<dyn PlacementPolicy + Send>,
        wear: EraseCounter,
    ) -> Result<Self> {
        let geometry = zones.geometry();
        let mut state = DeviceLoad::new(geometry);
        let mut records = Vec::with_capacity(geometry.chunks());
        for index in 0..geometry.chunks() {
            let chunk = geometry.chunk(index);
            let is_out = index < JOURNAL_CHUNKS || zones.is_bad(chunk);
            let used = if is_out { ChunkUse::Out } else { ChunkUse::Free };
            let written = zones.written(chunk)?;
            records.push(Record { used, written, live: 0, free_after: 0 });
            state.units[usize::from(chunk.unit.0)].erases += u64::from(wear.of(index));
            if is_out {
                state.units[usize::from(chunk.unit.0)].free_chunks -= 1;
            }
        }
        let (starting, is_rewritable) = (BTreeSet::new(), zones.is_rewritable());
        let (heat, turn) = (ReadHeat::new(geometry.chunks()), 0);
        Ok(ChunkTable {
            geometry,
            is_rewritable,
            policy,
            state,
            records,
            wear,
            heat,
            starting,
            turn,
        })
    }

    /// Good bytes of the device, without the journal's, and how many of them files have.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let good = self.records.iter().filter(|record| record.used.is_good());
        let (count, live) =
            good.fold((0, 0), |(count, live), record| (count + 1, live + record.live));
        (count * u64::from(self.geometry.chunk_bytes), live)
    }

    /// How often chunks were reset since the device was laid out.
    pub(crate) fn erases(&self) -> EraseCounts {
        let is_used = |index: &usize| self.records[*index].used.is_good();
        let counts = (0..self.records.len()).filter(is_used).map(|index| self.wear.of(index));
        let sum: u64 = counts.clone().map(u64::from).sum();
        EraseCounts {
            least: counts.clone().min().unwrap_or(0),
            mean: sum as f64 / counts.clone().count().max(1) as f64,
            most: counts.max().unwrap_or(0),
        }
    }

    /// Counts a piece of a file as alive, as it is found at an open. Says whether it can be there.
    pub(crate) fn found(&mut self, extent: &Extent) -> bool {
        let chunk_bytes = u64::from(self.geometry.chunk_bytes);
        let Some(record) = self.records.get_mut(extent.chunk as usize) else { return false };
        let is_journal = (extent.chunk as usize) < JOURNAL_CHUNKS;
        if is_journal || extent.start() + extent.taken() > chunk_bytes {
            return false;
        }
        if !record.used.is_good() {
            self.set_use(extent.chunk as usize, ChunkUse::Lost);
            self.add(extent);
            return true;
        }
        if self.is_rewritable {
            let before = if record.used == ChunkUse::Free { 0 } else { record.written };
            record.written = before.max(extent.start() + extent.taken());
        }
        self.set_use(extent.chunk as usize, ChunkUse::Closed);
        self.add(extent);
        true
    }

    /// Whether a chunk ends before a file's piece in it: another program truncated it.
    pub(crate) fn is_cut_off(&self, extent: &Extent) -> bool {
        let record = &self.records[extent.chunk as usize];
        !self.is_rewritable && record.written < extent.start() + extent.taken()
    }

    /// Lets a chunk that is found partly written be written on by data that stays as long. Says whether it was not yet.
    pub(crate) fn pool_found(&mut self, extent: &Extent, stay: LifetimeClass) -> bool {
        let record = &self.records[extent.chunk as usize];
        let is_found = record.used == ChunkUse::Closed
            && record.written < u64::from(self.geometry.chunk_bytes);
        if is_found {
            self.set_use(extent.chunk as usize, ChunkUse::Pooled(stay));
        }
        is_found
    }

    /// A file has this piece.
    pub(crate) fn add(&mut self, extent: &Extent) {
        let index = extent.chunk as usize;
        self.records[index].live += extent.taken();
        let added = self.heat.add(index, extent.taken());
        self.unit_of(index).reads += added;
    }

    /// No file has this piece any more, once the edit `sequence` is durable.
    pub(crate) fn remove(&mut self, extent: &Extent, sequence: u64) {
        let index = extent.chunk as usize;
        self.take(index, extent.taken(), sequence);
        let record = &self.records[index];
        if record.live == 0 && matches!(record.used, ChunkUse::Closed | ChunkUse::Pooled(_)) {
            self.set_use(index, ChunkUse::Free);
        }
        if self.records[index].live == 0 && self.is_lost(index) {
            self.set_use(index, ChunkUse::Out);
        }
    }

    /// Whether what files have in a chunk is lost.
    pub(crate) fn is_lost(&self, index: usize) -> bool {
        self.records[index].used == ChunkUse::Lost
    }

    /// So many bytes of a chunk are alive no more once the edit `sequence` is durable.
    fn take(&mut self, index: usize, bytes: u64, sequence: u64) {
        let live = self.records[index].live;
        let taken = self.heat.remove(index, bytes, live);
        let unit = self.unit_of(index);
        unit.reads = (unit.reads - taken).max(0.0);
        let record = &mut self.records[index];
        record.live -= bytes;
        record.free_after = record.free_after.max(sequence);
    }

    fn unit_of(&mut self, index: usize) -> &mut UnitState {
        let unit = self.geometry.chunk(index).unit;
        &mut self.state.units[usize::from(unit.0)]
    }

    /// Reports the access frequencies to the policy.
    fn learn_reads(&mut self) {
        if !self.heat.learn() {
            return;
        }
        self.state.units.iter_mut().for_each(|unit| unit.reads = 0.0);
        for index in 0..self.records.len() {
            let heat = self.heat.of(index);
            self.unit_of(index).reads += heat;
        }
    }

    /// A chunk that data goes on in that stays as long.
    pub(crate) fn pooled(&mut self, stay: LifetimeClass) -> Option<OpenChunk> {
        let used = ChunkUse::Pooled(stay);
        let index = self.records.iter().position(|record| record.used == used)?;
        Some(self.lease(index as u32).0)
    }

    /// A chunk where data of any lifetime can continue: the one with the most free space.
    pub(crate) fn take_any_idle(&mut self) -> Option<OpenChunk> {
        let is_pooled = |index: &usize| matches!(self.records[*index].used, ChunkUse::Pooled(_));
        let all = (0..self.records.len()).filter(is_pooled);
        let index = all.min_by_key(|index| self.records[*index].written)?;
        Some(self.lease(index as u32).0)
    }

    /// A free chunk for data of this lifetime, and the edit that has to be durable before it is used. The least worn
    /// of the unit that the policy says; or of all, if that unit's are worn much more. A policy knows how worn units are and
    /// not chunks, and where few of a unit's are ever free, these would take all of its writes.
    pub(crate) fn free(&mut self, lifetime: Lifetime) -> Option<(Chunk, u64)> {
        self.learn_reads();
        let stripe = self.policy.stripe(&self.state, lifetime, self.needed());
        self.turn += 1;
        let unit = match stripe.get(self.turn % stripe.len().max(1)) {
            Some(unit) => *unit,
            // Other lifetimes have all units that are left.
            None => {
                let is_free = |unit: &Unit| self.state.unit(*unit).free_chunks > 0;
                self.geometry.all_units().find(is_free)?
            }
        };
        let chunks = usize::from(self.geometry.chunks_per_unit);
        let first = usize::from(unit.0) * chunks;
        let is_free = |index: &usize| self.records[*index].used == ChunkUse::Free;
        let least = |index: &usize| (self.wear.of(*index), self.records[*index].free_after);
        let in_unit = (first..first + chunks).filter(is_free).min_by_key(least)?;
        let anywhere = (0..self.records.len()).filter(is_free).min_by_key(least)?;
        let is_worn = self.wear.spread(in_unit, anywhere) > AHEAD_MAX;
        let (lease, free_after) = self.lease(if is_worn { anywhere } else { in_unit } as u32);
        Some((lease.chunk, free_after))
    }

    /// Takes a chunk that is free, or waits for a writer. Says which edit has to be durable before it is used.
    pub(crate) fn lease(&mut self, index: u32) -> (OpenChunk, u64) {
        let index = index as usize;
        self.set_use(index, ChunkUse::Leased);
        let record = &self.records[index];
        (OpenChunk { chunk: self.geometry.chunk(index), at: record.written }, record.free_after)
    }

    /// The units that are taken to be kept busy by what is written of one lifetime.
    fn needed(&self) -> f64 {
        self.state.units.len() as f64 * NEEDED_OF_UNITS
    }

    /// Sets how much has to be written after files until they are quiescent (`settling`), given the number
    /// of chunks left.
    pub(crate) fn update_settle_distance(&self, settling: &QuiescenceTracker, left: u32) {
        let most = u64::from(left) / MAX_FRACTION_OF_FREE;
        for lifetime in 0..LIFETIMES {
            let wanted =
                self.policy.settle_distance_chunks(&self.state, lifetime, self.needed()) as u64;
            let bytes = wanted.min(most) * u64::from(self.geometry.chunk_bytes);
            settling.set_held(lifetime, bytes);
        }
    }

    /// Free chunks of the device.
    pub(crate) fn free_chunks(&self) -> u32 {
        self.state.units.iter().map(|unit| unit.free_chunks).sum()
    }

    /// Whether a chunk has to be reset before it is written.
    pub(crate) fn needs_reset(&self, chunk: Chunk) -> bool {
        self.records[self.geometry.index(chunk)].written > 0
    }

    /// A leased chunk was reset, or turned out bad.
    pub(crate) fn was_reset(&mut self, chunk: Chunk, is_good: bool) {
        let index = self.geometry.index(chunk);
        self.records[index].written = 0;
        self.wear.count(index);
        self.state.units[usize::from(chunk.unit.0)].erases += 1;
        if !is_good {
            self.set_use(index, ChunkUse::Out);
        }
    }

    /// Gives back a chunk that was written up to `lease.at`.
    pub(crate) fn give_back(&mut self, lease: OpenChunk, stay: LifetimeClass) {
        let index = self.geometry.index(lease.chunk);
        self.records[index].written = lease.at;
        let is_full = lease.at + BLOCK_BYTES > u64::from(self.geometry.chunk_bytes);
        let used = match self.records[index].live {
            0 => ChunkUse::Free,
            _ if is_full => ChunkUse::Closed,
            _ => ChunkUse::Pooled(stay),
        };
        self.set_use(index, used);
    }

    /// Gives back a chunk that is not to be written on: a log's, or one where a write failed.
    pub(crate) fn close(&mut self, chunk: Chunk) {
        let index = self.geometry.index(chunk);
        self.records[index].written = u64::from(self.geometry.chunk_bytes);
        let used = if self.records[index].live == 0 { ChunkUse::Free } else { ChunkUse::Closed };
        self.set_use(index, used);
    }

    /// Whether a chunk has no writer and waits for none.
    pub(crate) fn is_idle(&self, chunk: Chunk) -> bool {
        let used = self.records[self.geometry.index(chunk)].used;
        matches!(used, ChunkUse::Free | ChunkUse::Closed | ChunkUse::Lost | ChunkUse::Out)
    }

    /// A log begins a chunk that it has, or has begun it.
    pub(crate) fn set_starting(&mut self, chunk: Chunk, is_starting: bool) {
        match is_starting {
            true => self.starting.insert(chunk),
            false => self.starting.remove(&chunk),
        };
    }

    /// Chunks that have a writer, or are about to.
    pub(crate) fn open_chunks(&self) -> impl Iterator<Item = Chunk> {
        let all =
            (0..self.records.len()).filter(|index| self.records[*index].used == ChunkUse::Leased);
        all.map(|index| self.geometry.chunk(index)).chain(self.starting.iter().copied())
    }

    /// The chunk with the least free space among those that wait for a writer.
    pub(crate) fn fullest_idle(&self) -> Option<Chunk> {
        let is_pooled = |index: &usize| matches!(self.records[*index].used, ChunkUse::Pooled(_));
        let all = (0..self.records.len()).filter(is_pooled);
        let fullest = all.max_by_key(|index| self.records[*index].written);
        fullest.map(|index| self.geometry.chunk(index))
    }

    /// The closed chunk with the least alive in it, if more than an eighth of it is dead, and it is none of `busy`.
    pub(crate) fn best_gc_victim(&self, busy: &BTreeSet<u32>) -> Option<u32> {
        let most = u64::from(self.geometry.chunk_bytes) / 8 * 7;
        let is_closed = |index: &usize| {
            self.records[*index].used == ChunkUse::Closed && !busy.contains(&(*index as u32))
        };
        let all = (0..self.records.len()).filter(is_closed);
        let found = all.min_by_key(|index| self.records[*index].live)?;
        (self.records[found].live <= most).then_some(found as u32)
    }

    /// The chunk with the fewest resets, among those that no thread writes and whose live data is
    /// all `movable`, in bytes by chunk.
    pub(crate) fn least_worn(&self, movable: &[u64]) -> Option<u32> {
        let is_movable = |index: &usize| {
            let Record { used, live, .. } = self.records[*index];
            matches!(used, ChunkUse::Closed | ChunkUse::Pooled(_))
                && live > 0
                && live == movable[*index]
        };
        let all = (0..self.records.len()).filter(is_movable);
        all.min_by_key(|index| self.wear.of(*index)).map(|index| index as u32)
    }

    /// The free chunk that was reset most, if it is none of `avoided`.
    pub(crate) fn most_worn_free(&self, avoided: &BTreeSet<u32>) -> Option<u32> {
        let is_free = |index: &usize| {
            self.records[*index].used == ChunkUse::Free && !avoided.contains(&(*index as u32))
        };
        let all = (0..self.records.len()).filter(is_free);
        all.max_by_key(|index| self.wear.of(*index)).map(|index| index as u32)
    }

    /// Bytes in a chunk that files have.
    pub(crate) fn live(&self, index: u32) -> u64 {
        self.records[index as usize].live
    }

    /// All that was alive in a chunk is elsewhere since the edit `sequence`.
    pub(crate) fn empty(&mut self, index: u32, sequence: u64) {
        let index = index as usize;
        self.take(index, self.records[index].live, sequence);
        self.set_use(index, ChunkUse::Free);
    }

    fn set_use(&mut self, index: usize, used: ChunkUse) {
        let before = std::mem::replace(&mut self.records[index].used, used);
        let unit = self.unit_of(index);
        unit.free_chunks -= u32::from(before == ChunkUse::Free);
        unit.free_chunks += u32::from(used == ChunkUse::Free);
    }
}

/// The default policy: a device of unknown timing may be written on all units of a channel at once.
pub(crate) fn default_policy(geometry: &Geometry) -> Box<dyn PlacementPolicy + Send> {
    Box::new(Rotating::new(LIFETIMES, false, geometry.units_per_group.into()))
}
