//! A disk with placement in memory, emulated: its bytes, and where its blocks are (`units`). It can lose power, and then
//! loses any blocks that were not flushed, in no order, as disks with a write cache may.

mod reclaim_units;

use super::{Disk, Statistics};
use esker_base::Rng;
use esker_uring::Buffer;
use parking_lot::Mutex;
use reclaim_units::ReclaimUnits;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK: usize = 4096;

/// A disk in memory. Clones share it.
#[derive(Clone)]
pub struct EmulatedDisk {
    // Constant after construction.
    identifiers: Vec<u16>,
    unit_blocks: usize,
    bytes: usize,
    // What changes.
    state: Arc<Mutex<State>>,
    claimed: Arc<AtomicBool>,
}

struct State {
    now: Vec<u8>,
    /// What is flushed of the blocks that were changed since.
    before: BTreeMap<usize, Vec<u8>>,
    units: ReclaimUnits,
    /// Writes, zeros and flushes until everything fails, and all of them so far.
    calls_left: Option<u64>,
    calls: u64,
}

impl EmulatedDisk {
    /// An empty disk of so many reclaim units, with so many identifiers.
    pub fn new(units: usize, unit_bytes: usize, identifiers: u16) -> Self {
        let (blocks, bytes) = (unit_bytes / BLOCK, units * unit_bytes);
        let identifiers: Vec<u16> = (0..identifiers).collect();
        let units = ReclaimUnits::new(units, blocks, identifiers.len());
        let (now, before) = (vec![0; bytes], BTreeMap::new());
        let state = State { now, before, units, calls_left: None, calls: 0 };
        let (state, claimed) = (Arc::new(Mutex::new(state)), Arc::default());
        EmulatedDisk { identifiers, unit_blocks: blocks, bytes, state, claimed }
    }

    /// Fails all writes, zeros and flushes after so many more. The first that fails is done in part.
    pub fn fail_after(&self, calls: u64) {
        self.state.lock().calls_left = Some(calls);
    }

    /// How many writes, zeros and flushes there were.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Takes the power away and brings it back: each block that was not flushed is as it was, or as it was written.
    pub fn lose_power(&self, rng: &mut Rng) {
        let mut state = self.state.lock();
        for (block, before) in std::mem::take(&mut state.before) {
            if rng.below(2) == 0 {
                state.now[block * BLOCK..][..BLOCK].copy_from_slice(&before);
            }
        }
        state.calls_left = None;
        self.claimed.store(false, Ordering::Release);
    }

    /// Executes a change of `count` blocks; `change` receives how many of them complete.
    fn change(&self, count: usize, change: impl FnOnce(&mut State, usize)) -> io::Result<()> {
        let mut state = self.state.lock();
        let done = state.call(count);
        change(&mut state, done);
        if done == count { Ok(()) } else { Err(io::Error::other("the disk is gone")) }
    }
}

impl State {
    /// How many of `count` blocks a call changes.
    fn call(&mut self, count: usize) -> usize {
        self.calls += 1;
        match &mut self.calls_left {
            None => count,
            Some(0) => 0,
            Some(left) => {
                *left -= 1;
                if *left > 0 { count } else { count / 2 }
            }
        }
    }

    fn set(&mut self, block: usize, bytes: &[u8]) {
        let now = &mut self.now[block * BLOCK..][..BLOCK];
        self.before.entry(block).or_insert_with(|| now.to_vec());
        now.copy_from_slice(bytes);
    }
}

impl Disk for EmulatedDisk {
    fn name(&self) -> String {
        "an emulated disk with placement".to_owned()
    }

    fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn reclaim_unit_bytes(&self) -> u64 {
        (self.unit_blocks * BLOCK) as u64
    }

    fn identifiers(&self) -> &[u16] {
        &self.identifiers
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        let len = out.len();
        out.copy_from_slice(&self.state.lock().now[offset as usize..][..len]);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], identifier: u16) -> io::Result<()> {
        assert!((offset as usize | bytes.len()).is_multiple_of(BLOCK), "not whole blocks");
        let first = offset as usize / BLOCK;
        let open = self.identifiers.iter().position(|known| *known == identifier);
        let open = open.ok_or(ErrorKind::InvalidInput)?;
        self.change(bytes.len() / BLOCK, |state, done| {
            for (number, block) in bytes.chunks_exact(BLOCK).take(done).enumerate() {
                state.set(first + number, block);
                state.units.write_for_host(first + number, open);
            }
        })
    }

    fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let first = offset as usize / BLOCK;
        self.change(bytes as usize / BLOCK, |state, done| {
            for block in first..first + done {
                state.set(block, &[0; BLOCK]);
                state.units.forget(block);
            }
        })
    }

    fn flush(&self) -> io::Result<()> {
        self.change(1, |state, done| {
            if done == 1 {
                state.before.clear();
            }
        })
    }

    fn claim(&self) -> io::Result<Box<dyn Send + Sync>> {
        match self.claimed.swap(true, Ordering::AcqRel) {
            true => Err(ErrorKind::ResourceBusy.into()),
            false => Ok(Box::new(Claim(self.claimed.clone()))),
        }
    }

    fn statistics(&self) -> io::Result<Statistics> {
        Ok(self.state.lock().units.statistics())
    }
}

struct Claim(Arc<AtomicBool>);

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Media bytes over host bytes after two streams were written in turns and one was written over and over.
    fn amplification(hot: u16) -> f64 {
        let disk = EmulatedDisk::new(64, 8 * BLOCK, 2);
        let cold_blocks = 60 * 8;
        for number in 0..cold_blocks {
            disk.write_at((number * BLOCK) as u64, &[1; BLOCK], 0).unwrap();
            let place = cold_blocks + number % 16;
            disk.write_at((place * BLOCK) as u64, &[2; BLOCK], hot).unwrap();
        }
        for number in 0..2_000 {
            let place = cold_blocks + number % 16;
            disk.write_at((place * BLOCK) as u64, &[2; BLOCK], hot).unwrap();
        }
        let Statistics { host_bytes, media_bytes } = disk.statistics().unwrap();
        media_bytes as f64 / host_bytes as f64
    }

    #[test]
    fn nothing_is_moved_where_what_is_written_over_lies_apart() {
        assert_eq!(amplification(1), 1.0);
        let together = amplification(0);
        assert!(together > 1.02, "{together}");
    }

    #[test]
    fn power_loss_leaves_what_was_flushed_and_any_blocks_of_the_rest() {
        let disk = EmulatedDisk::new(8, 8 * BLOCK, 1);
        disk.write_at(0, &[1; 8 * BLOCK], 0).unwrap();
        disk.flush().unwrap();
        disk.write_at(0, &[2; 8 * BLOCK], 0).unwrap();
        disk.lose_power(&mut Rng::new(3));
        let mut found = Buffer::zeroed(8 * BLOCK);
        disk.read_at(0, &mut found).unwrap();
        let blocks: Vec<u8> = found.chunks(BLOCK).map(|block| block[0]).collect();
        assert!(blocks.windows(2).any(|pair| pair == [1, 2]), "{blocks:?}");
        assert!(blocks.windows(2).any(|pair| pair == [2, 1]), "{blocks:?}");
    }
}
