//! The data on the device: tables of a leveled tree, by level.
//!
//! Each level is ten times the size of the one above and receives as many writes, as in a leveled
//! tree with fanout 10. Within a level, tables become obsolete in the order of writing, since
//! compactions move round-robin through the key space. An output table is readable once it is
//! closed, and its inputs, the oldest of its level, become obsolete at that point. The installation
//! of outputs is delayed as long as the policy asks for, up to half of their level and a fifth of
//! the free space. Until then the inputs are read.

use crate::placement::{DeviceLoad, Lifetime, PlacementPolicy};
use crate::{Chunk, Geometry, Media, Unit};
use std::collections::VecDeque;

/// Levels. The first is 10^-4 of the last: 165 MB under 1.65 TB, a few MemTables.
pub const LEVELS: usize = 5;
const FANOUT: f64 = 10.0;
/// The most of a level, and of what is free, that may be written and not yet read.
const HELD_OF_LEVEL: f64 = 0.5;
const HELD_OF_FREE: f64 = 0.2;

/// How often the last level is rewritten before measuring. Chunks of tables that were written to
/// the empty device are mixed; after three to five times this is no longer so.
const REWRITES: usize = 5;

/// A table: a stripe of chunks.
pub type Table = Vec<Chunk>;

/// A table that is being written.
#[derive(Debug)]
pub struct Open {
    /// What its writes are called.
    pub id: u32,
    pub lifetime: Lifetime,
    pub table: Table,
    /// Write units given to the queues.
    pub given: u32,
    /// Write units done.
    pub done: u32,
    /// Write units that it takes.
    pub all: u32,
}

impl Open {
    /// Whether it takes more of this lifetime.
    pub fn takes(&self, lifetime: Lifetime) -> bool {
        self.lifetime == lifetime && self.given < self.all
    }
}

#[derive(Debug, Default)]
struct Level {
    /// Oldest first.
    tables: VecDeque<Table>,
    held: VecDeque<Table>,
    chunks: usize,
    settle_distance_chunks: usize,
    chunks_most: usize,
    held_most: usize,
}

/// What the device holds.
#[derive(Debug)]
pub struct Store {
    state: DeviceLoad,
    /// Chunks with nothing alive in them, by unit.
    free: Vec<VecDeque<Chunk>>,
    levels: Vec<Level>,
    /// All readable chunks, and the position of each among them.
    readable: Vec<Chunk>,
    place: Vec<u32>,
    is_read: bool,
}

const NOWHERE: u32 = u32::MAX;

impl Store {
    /// A device of which `fill` is alive, as many writes have left it. Its chunks are filled on `media`.
    pub fn aged(
        policy: &mut dyn PlacementPolicy,
        media: &mut Media,
        fill: f64,
        needed: f64,
    ) -> Store {
        let geometry = *media.geometry();
        let mut store = Store::empty(geometry, media, policy.is_read());
        if policy.is_read() {
            store.age(policy, fill, needed);
        } else {
            store.prefill(&policy.read_units(&store.state), fill);
        }
        // What is not alive was: it has to be reset.
        for unit in geometry.all_units() {
            for number in 0..geometry.chunks_per_unit {
                let chunk = Chunk { unit, number };
                if !media.is_bad(chunk) {
                    media.fill(chunk).expect("it is good");
                }
            }
        }
        store
    }

    fn empty(geometry: Geometry, media: &Media, is_read: bool) -> Store {
        let mut state = DeviceLoad::new(geometry);
        let chunks =
            |unit: Unit| (0..geometry.chunks_per_unit).map(move |number| Chunk { unit, number });
        let good = |unit| chunks(unit).filter(|chunk| !media.is_bad(*chunk)).collect();
        let free: Vec<VecDeque<Chunk>> = geometry.all_units().map(good).collect();
        for (unit, free) in state.units.iter_mut().zip(&free) {
            unit.free_chunks = free.len() as u32;
        }
        Store {
            state,
            free,
            levels: (0..LEVELS).map(|_| Level::default()).collect(),
            readable: Vec::new(),
            place: vec![NOWHERE; geometry.chunks()],
            is_read,
        }
    }

    /// All that can be read.
    pub fn readable(&self) -> &[Chunk] {
        &self.readable
    }

    /// Opens a table. Its chunks have to be reset before they are written, if they ever were. `None` if
    /// the device is full.
    pub fn open(
        &mut self,
        policy: &mut dyn PlacementPolicy,
        lifetime: Lifetime,
        needed: f64,
    ) -> Option<Table> {
        let mut units = policy.stripe(&self.state, lifetime, needed);
        if units.is_empty() {
            // Other lifetimes have all units that are left.
            let has_room = |unit: &Unit| self.state.unit(*unit).free_chunks > 0;
            units.extend(self.state.geometry.all_units().find(has_room));
        }
        let table: Table = units
            .iter()
            .map(|unit| {
                let at = usize::from(unit.0);
                self.state.units[at].free_chunks -= 1;
                self.free[at].pop_front().expect("the policy knows that there is one")
            })
            .collect();
        (!table.is_empty()).then_some(table)
    }

    /// Says that a chunk is being reset.
    pub fn was_reset(&mut self, chunk: Chunk) {
        self.state.units[usize::from(chunk.unit.0)].erases += 1;
    }

    /// All of a table is written. Its inputs die when it is readable.
    pub fn close(&mut self, table: Table, lifetime: Lifetime) {
        if !self.is_read {
            table.into_iter().for_each(|chunk| self.release(chunk));
            return;
        }
        let level = &mut self.levels[lifetime];
        level.settle_distance_chunks += table.len();
        level.held.push_back(table);
        while self.levels[lifetime].settle_distance_chunks > self.levels[lifetime].held_most {
            let level = &mut self.levels[lifetime];
            let table = level.held.pop_front().expect("more is held than may be");
            level.settle_distance_chunks -= table.len();
            level.chunks += table.len();
            table.iter().for_each(|chunk| self.show(*chunk));
            self.levels[lifetime].tables.push_back(table);
        }
        while self.levels[lifetime].chunks > self.levels[lifetime].chunks_most {
            let level = &mut self.levels[lifetime];
            let table = level.tables.pop_front().expect("it has chunks");
            level.chunks -= table.len();
            for chunk in table {
                self.hide(chunk);
                self.release(chunk);
            }
        }
    }

    fn release(&mut self, chunk: Chunk) {
        let at = usize::from(chunk.unit.0);
        self.free[at].push_back(chunk);
        self.state.units[at].free_chunks += 1;
    }

    fn show(&mut self, chunk: Chunk) {
        self.place[self.state.geometry.index(chunk)] = self.readable.len() as u32;
        self.readable.push(chunk);
        self.state.units[usize::from(chunk.unit.0)].reads += 1.0;
    }

    fn hide(&mut self, chunk: Chunk) {
        let index = self.state.geometry.index(chunk);
        let place = std::mem::replace(&mut self.place[index], NOWHERE) as usize;
        self.readable.swap_remove(place);
        if let Some(moved) = self.readable.get(place) {
            self.place[self.state.geometry.index(*moved)] = place as u32;
        }
        self.state.units[usize::from(chunk.unit.0)].reads -= 1.0;
    }

    /// Fills some units with the data that is read, as in the published benchmark.
    fn prefill(&mut self, units: &[Unit], fill: f64) {
        for unit in units {
            let at = usize::from(unit.0);
            let count = (self.free[at].len() as f64 * fill) as usize;
            for _ in 0..count {
                let chunk = self.free[at].pop_front().expect("fill is below 1");
                self.state.units[at].free_chunks -= 1;
                self.show(chunk);
            }
        }
    }

    /// Writes, without time, until the last level was written often enough that its tables are as the policy
    /// wants.
    fn age(&mut self, policy: &mut dyn PlacementPolicy, fill: f64, needed: f64) {
        let good: usize = self.free.iter().map(VecDeque::len).sum();
        let free = good as f64 * (1.0 - fill);
        let whole: f64 = (0..LEVELS).map(|level| FANOUT.powi(-(level as i32))).sum();
        for (number, level) in self.levels.iter_mut().enumerate() {
            let share = FANOUT.powi(number as i32 + 1 - LEVELS as i32) / whole;
            level.chunks_most = ((good as f64 * fill * share) as usize).max(1);
            let most = (level.chunks_most as f64 * HELD_OF_LEVEL).min(free * HELD_OF_FREE);
            let wanted = policy.settle_distance_chunks(&self.state, number, needed);
            level.held_most = wanted.min(most as usize);
        }
        let goal = REWRITES * self.levels[LEVELS - 1].chunks_most;
        let mut written = [0; LEVELS];
        while written[LEVELS - 1] < goal {
            let least = (0..LEVELS).min_by_key(|level| written[*level]).expect("there are levels");
            let table = self.open(policy, least, needed).expect("fill leaves space");
            for &chunk in &table {
                self.was_reset(chunk);
            }
            written[least] += table.len();
            self.close(table, least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Preset;
    use crate::placement::Rotating;

    fn aged(fill: f64) -> (Store, Rotating) {
        let preset = Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(100);
        let (mut media, mut policy) = (Media::new(&preset, 1), Rotating::new(LEVELS, false, 6));
        (Store::aged(&mut policy, &mut media, fill, 3.2), policy)
    }

    #[test]
    fn a_device_is_filled_as_asked_and_each_level_is_ten_times_the_one_above() {
        let (store, _) = aged(0.8);
        let share = store.readable.len() as f64 / (store.state.geometry.chunks() as f64 * 0.99);
        assert!((0.78..0.81).contains(&share), "{share}");
        let [.., upper, last] = &store.levels[..] else { unreachable!() };
        let ratio = last.chunks as f64 / upper.chunks as f64;
        assert!((9.5..10.5).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_device_of_which_little_is_free_is_aged_too() {
        let preset = Preset::named("cnex-mlc").unwrap().with_chunks_per_unit(100);
        for (gives_way, needed) in [(false, 1.6), (true, 0.8), (true, 1.6), (true, 3.2)] {
            let (mut media, mut policy) =
                (Media::new(&preset, 1), Rotating::new(LEVELS, gives_way, 6));
            let store = Store::aged(&mut policy, &mut media, 0.93, needed);
            let share = store.readable.len() as f64 / (128.0 * 99.0);
            assert!((0.9..0.94).contains(&share), "{share}");
        }
    }

    #[test]
    fn chunks_are_free_or_in_one_table_or_bad() {
        let (store, _) = aged(0.8);
        let free = store.free.iter().flatten();
        let tables = store.levels.iter().flat_map(|level| level.tables.iter().chain(&level.held));
        let mut all: Vec<Chunk> = free.chain(tables.flatten()).copied().collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        let known: u32 = store.state.units.iter().map(|unit| unit.free_chunks).sum();
        assert_eq!(known as usize, store.free.iter().map(VecDeque::len).sum::<usize>());
    }

    #[test]
    fn what_is_being_written_is_colder_than_the_rest() {
        let (store, policy) = aged(0.8);
        let set: Vec<Unit> = policy.write_set().collect();
        let of_set: u32 = set.iter().map(|unit| store.state.unit(*unit).reads as u32).sum();
        let heat = f64::from(of_set) / set.len() as f64 / (store.readable.len() as f64 / 128.0);
        assert!(heat < 0.6, "{heat}");
    }
}
