//! A disk that loses power: any set of the sectors that were not synced may be on it, each in any of the
//! versions that were written.

use esker_base::Rng;
use esker_hashstore::device::Device;
use esker_uring::Buffer;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

pub const SECTOR_BYTES: usize = 512;

pub type Sector = [u8; SECTOR_BYTES];

/// A disk: what it holds for sure, and what was written since.
#[derive(Clone)]
pub struct Disk {
    durable: Rc<Vec<u8>>,
    /// For each sector the versions written since the last sync that covers them, with their write's number.
    unsynced: BTreeMap<usize, Vec<(u64, Sector)>>,
    writes: u64,
}

impl Disk {
    pub fn new(bytes: usize) -> Self {
        Disk { durable: Rc::new(vec![0; bytes]), unsynced: BTreeMap::new(), writes: 0 }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.writes += 1;
        for (at, sector) in (offset as usize / SECTOR_BYTES..).zip(bytes.chunks_exact(SECTOR_BYTES))
        {
            let versions = self.unsynced.entry(at).or_default();
            versions.push((self.writes, sector.try_into().unwrap()));
        }
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) {
        for (at, out) in (offset as usize / SECTOR_BYTES..).zip(out.chunks_exact_mut(SECTOR_BYTES))
        {
            let durable = &self.durable[at * SECTOR_BYTES..][..SECTOR_BYTES];
            let latest = self.unsynced.get(&at).and_then(|versions| versions.last());
            out.copy_from_slice(latest.map_or(durable, |(_, sector)| sector));
        }
    }

    /// The number of the last write.
    pub fn last_write(&self) -> u64 {
        self.writes
    }

    /// The writes that `is_covered` says so of are on the disk for sure. An earlier one to the same place that it does not say so of may yet come,
    /// over them.
    pub fn sync(&mut self, is_covered: impl Fn(u64) -> bool) {
        let durable = Rc::make_mut(&mut self.durable);
        self.unsynced.retain(|at, versions| {
            let last = versions.iter().rposition(|(write, _)| is_covered(*write));
            if let Some(last) = last {
                durable[at * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(&versions[last].1);
                versions.retain(|(write, _)| !is_covered(*write));
            }
            !versions.is_empty()
        });
    }

    /// How many ways there are for the power to fail now.
    pub fn outcomes(&self) -> u128 {
        let ways = self.unsynced.values().map(|versions| versions.len() as u128 + 1);
        ways.fold(1, |all, ways| all.saturating_mul(ways))
    }

    /// What is left in way `number` of them.
    pub fn crash(&self, mut number: u128) -> Disk {
        let mut left = Disk { durable: self.durable.clone(), unsynced: BTreeMap::new(), writes: 0 };
        for (&at, versions) in &self.unsynced {
            let ways = versions.len() as u128 + 1;
            let way = (number % ways) as usize;
            number /= ways;
            if way > 0 {
                left.unsynced.insert(at, vec![(0, versions[way - 1].1)]);
            }
        }
        left
    }

    /// What is left in some way. The ends of the scale are where mistakes show.
    pub fn crash_somehow(&self, rng: &mut Rng) -> Disk {
        let mut left = Disk { durable: self.durable.clone(), unsynced: BTreeMap::new(), writes: 0 };
        let one_in = [1, 2, 2, 8, 1 << 40][rng.below(5) as usize];
        let inverted = rng.one_in(2);
        for (&at, versions) in &self.unsynced {
            if rng.one_in(one_in) != inverted {
                let version = rng.below(versions.len() as u64) as usize;
                left.unsynced.insert(at, vec![(0, versions[version].1)]);
            }
        }
        left
    }

    /// Flips a bit.
    pub fn flip(&mut self, bit: u64) {
        self.sync(|_| true);
        Rc::make_mut(&mut self.durable)[bit as usize / 8] ^= 1 << (bit % 8);
    }

    /// The sectors that hold anything.
    pub fn written(&self) -> Vec<usize> {
        let mut out = vec![0; self.bytes()];
        self.read(0, &mut out);
        let sectors = out.chunks(SECTOR_BYTES).enumerate();
        sectors.filter(|(_, sector)| sector.iter().any(|&b| b != 0)).map(|(at, _)| at).collect()
    }

    pub fn bytes(&self) -> usize {
        self.durable.len()
    }
}

/// A disk for one call at a time.
pub struct SimDevice(pub RefCell<Disk>);

impl SimDevice {
    pub fn new(disk: Disk) -> Self {
        SimDevice(RefCell::new(disk))
    }
}

impl Device for SimDevice {
    fn name(&self) -> &str {
        "disk"
    }

    fn bytes(&self) -> u64 {
        self.0.borrow().bytes() as u64
    }

    fn block_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        self.0.borrow().read(offset, out);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &Buffer) -> io::Result<()> {
        self.0.borrow_mut().write(offset, bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.borrow_mut().sync(|_| true);
        Ok(())
    }
}

/// A disk that cannot read some of its sectors until they are written.
pub struct Faulty {
    pub device: SimDevice,
    /// The offsets of these sectors.
    pub unreadable: RefCell<BTreeSet<u64>>,
}

impl Faulty {
    pub fn of(disk: Disk, unreadable: impl IntoIterator<Item = u64>) -> Self {
        let unreadable = RefCell::new(unreadable.into_iter().collect());
        Faulty { device: SimDevice::new(disk), unreadable }
    }
}

impl Device for Faulty {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn bytes(&self) -> u64 {
        self.device.bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    fn read_at(&self, offset: u64, out: &mut Buffer) -> io::Result<()> {
        match self.unreadable.borrow().range(offset..offset + out.len() as u64).next() {
            Some(_) => Err(io::Error::other("an unreadable sector")),
            None => self.device.read_at(offset, out),
        }
    }

    fn write_at(&self, offset: u64, bytes: &Buffer) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        self.unreadable.borrow_mut().retain(|at| !(offset..end).contains(at));
        self.device.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }
}
