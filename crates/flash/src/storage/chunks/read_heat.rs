//! Tracks the access frequency of each chunk, from the reads that arrive.
//!
//! The unit is bytes of live data that are read as often as the average live byte. The sum over all
//! chunks is therefore about the number of live bytes, and a chunk without reads has zero. New data
//! starts at the average.
//!
//! Reads are counted without a lock, and applied once an eighth of the live data was read. The more
//! was read, the more of the earlier values decays: by half when as much was read as is live. The
//! decay depends on no clock and has no setting.

use crate::chunk_device::BLOCK_BYTES;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Reads are taken in when they come to this part of what is alive.
const TAKEN_IN: u64 = 8;

/// Blocks that were read since reads were taken in last.
pub(crate) struct ReadCounters {
    of_chunk: Vec<AtomicU32>,
    all: AtomicU64,
}

impl ReadCounters {
    /// Counts a read of a chunk.
    pub(crate) fn count(&self, index: usize, bytes: u64) {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        self.of_chunk[index].fetch_add(blocks as u32, Ordering::Relaxed);
        self.all.fetch_add(blocks, Ordering::Relaxed);
    }
}

/// The access frequency of all chunks, indexed by chunk.
pub(crate) struct ReadHeat {
    pub(crate) reads: Arc<ReadCounters>,
    of_chunk: Vec<f64>,
    sum: f64,
    live: u64,
}

impl ReadHeat {
    /// Of a device of so many chunks, nothing of which is alive.
    pub(crate) fn new(chunks: usize) -> Self {
        let of_chunk = (0..chunks).map(|_| AtomicU32::new(0)).collect();
        let reads = Arc::new(ReadCounters { of_chunk, all: AtomicU64::new(0) });
        ReadHeat { reads, of_chunk: vec![0.0; chunks], sum: 0.0, live: 0 }
    }

    pub(crate) fn of(&self, index: usize) -> f64 {
        self.of_chunk[index]
    }

    /// So many bytes more of a chunk are alive. Returns what that adds to it.
    pub(crate) fn add(&mut self, index: usize, bytes: u64) -> f64 {
        let mean = if self.live == 0 { 1.0 } else { self.sum / self.live as f64 };
        let added = mean * bytes as f64;
        self.of_chunk[index] += added;
        (self.sum, self.live) = (self.sum + added, self.live + bytes);
        added
    }

    /// So many bytes of a chunk are alive no more, of `live` that were. Returns what that takes from it.
    pub(crate) fn remove(&mut self, index: usize, bytes: u64, live: u64) -> f64 {
        let is_all = bytes == live;
        let taken = self.of_chunk[index] * if is_all { 1.0 } else { bytes as f64 / live as f64 };
        self.of_chunk[index] -= taken;
        (self.sum, self.live) = (self.sum - taken, self.live - bytes);
        taken
    }

    /// Takes in what was read since it was taken in last, if that is enough. Says whether it did.
    pub(crate) fn learn(&mut self) -> bool {
        let read = self.reads.all.load(Ordering::Relaxed) * BLOCK_BYTES;
        if read == 0 || read * TAKEN_IN < self.live {
            return false;
        }
        let counted = self.reads.of_chunk.iter().map(|reads| reads.swap(0, Ordering::Relaxed));
        let counted: Vec<u32> = counted.collect();
        self.reads.all.store(0, Ordering::Relaxed);
        let all: u64 = counted.iter().map(|blocks| u64::from(*blocks)).sum();
        let (live, new) = (self.live as f64, read as f64 / (read + self.live) as f64);
        for (heat, blocks) in self.of_chunk.iter_mut().zip(counted) {
            let part = f64::from(blocks) / all.max(1) as f64;
            *heat = *heat * (1.0 - new) + live * part * new;
        }
        self.sum = self.of_chunk.iter().sum();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk_device::MemoryChunkDevice;
    use crate::placement::Balanced;
    use crate::{FlashStorage, Geometry, Unit};
    use esker_base::WriteHint;
    use esker_storage::Storage;

    const BYTES: u64 = 1 << 20;

    /// Four chunks, the last empty and the others alive.
    fn heat() -> ReadHeat {
        let mut heat = ReadHeat::new(4);
        (0..3).for_each(|index| _ = heat.add(index, BYTES));
        heat
    }

    fn read(heat: &mut ReadHeat, index: usize, times: u64) {
        for _ in 0..times {
            heat.reads.count(index, BYTES);
            heat.learn();
        }
    }

    #[test]
    fn what_nobody_has_read_yet_is_read_alike() {
        let mut heat = heat();
        assert!(!heat.learn());
        assert!((0..3).all(|index| heat.of(index) == BYTES as f64) && heat.of(3) == 0.0);
    }

    #[test]
    fn heat_follows_reads_and_forgets() {
        let mut heat = heat();
        for hot in [1, 2] {
            read(&mut heat, hot, 30);
            let cold = (0..3).filter(|index| *index != hot);
            assert!(heat.of(hot) > 2.9 * BYTES as f64, "{}", heat.of(hot));
            cold.for_each(|index| assert!(heat.of(index) < 0.1 * BYTES as f64));
        }
    }

    #[test]
    fn few_reads_say_little_and_as_many_as_is_alive_half_of_it() {
        let mut heat = heat();
        heat.reads.count(0, BYTES / 4);
        assert!(!heat.learn());
        heat.reads.count(0, 3 * BYTES - BYTES / 4);
        assert!(heat.learn());
        assert_eq!(heat.of(1), BYTES as f64 / 2.0);
    }

    #[test]
    fn what_goes_takes_its_heat_with_it_and_what_comes_has_the_mean() {
        let mut heat = heat();
        read(&mut heat, 0, 30);
        let hot = heat.of(0);
        assert_eq!(heat.remove(0, BYTES / 4, BYTES), hot / 4.0);
        heat.remove(0, BYTES / 4 * 3, BYTES / 4 * 3);
        assert_eq!(heat.of(0), 0.0);
        let mean = heat.of(1) + heat.of(2);
        assert!((heat.add(3, BYTES) - mean / 2.0).abs() < 1.0);
    }

    /// Files of a chunk each fill half of the device; those on all units but one are read, and the next is put there,
    /// where the most is alive.
    #[test]
    fn a_policy_is_told_what_is_read_and_not_only_what_is_alive() {
        let zones = MemoryChunkDevice::new(Geometry::of_blocks(1, 4, 16, 64 << 10));
        let storage = FlashStorage::placed_by(Arc::new(zones), Box::new(Balanced)).unwrap();
        let unit_of = |name: &str| {
            let place = storage.core.state.lock().names[name].recorded()[0].chunk as usize;
            storage.core.zones.geometry().chunk(place).unit
        };
        let write = |name: &str| {
            let mut file = storage.create(name, WriteHint::table(5)).unwrap();
            file.append(&[1; 64 << 10]).unwrap();
            file.sync().unwrap();
        };
        let names: Vec<String> = (0..32).map(|number| number.to_string()).collect();
        names.iter().for_each(|name| write(name));
        let cold = Unit(2);
        for name in names.iter().filter(|name| unit_of(name) != cold) {
            let file = storage.open(name).unwrap();
            (0..20).for_each(|_| file.read_exact_at(0, &mut [0; 64 << 10]).unwrap());
        }
        for name in ["new", "newer"] {
            write(name);
            assert_eq!(unit_of(name), cold, "{name}");
        }
    }
}
