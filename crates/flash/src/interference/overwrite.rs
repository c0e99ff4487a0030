//! Overwrites tables on a device until it is full. Measures how much of the device files can use,
//! and the write amplification.
//!
//! The next table to replace is random, and one in ten is in a level of its own. This is harder
//! than a leveled tree, whose tables become obsolete in rotation: here chunks rarely become empty
//! on their own.

use crate::FlashStorage;
use crate::chunk_device::MemoryChunkDevice;
use crate::placement::PlacementPolicy;
use crate::storage::EraseCounts;
use esker_base::{Result, Rng, WriteHint};
use esker_storage::Storage;
use std::sync::Arc;

/// The two levels that tables are of, and one in so many is of the first.
const LEVELS: [u8; 2] = [3, 4];
const IN_FIRST: u64 = 10;
/// Tables are shorter than their size by up to this part of it.
const SHORTER: usize = 8;

/// What is written.
#[derive(Clone, Copy, Debug)]
pub struct Overwrite {
    /// The size of a table, in bytes.
    pub table_bytes: usize,
    /// The part of the device that is alive meanwhile.
    pub kept: f64,
    /// How often that is written, after the first time.
    pub times: usize,
    /// Decides which tables go.
    pub seed: u64,
}

/// What came out when the device was full for the first time.
#[derive(Clone, Copy, Debug)]
pub struct FillResult {
    /// Bytes of files, as a part of the good bytes that are not the journal's.
    pub live: f64,
    /// What the device was asked to write for each byte of files, their last blocks filled up.
    pub media_over_host: f64,
    /// The part of it that was moved to free chunks.
    pub moved_over_host: f64,
    /// How often chunks were reset.
    pub erases: EraseCounts,
}

impl Overwrite {
    /// Writes until a device is full, and fails if it fails otherwise, or is full before the last table is overwritten.
    pub fn run(
        &self,
        device: &MemoryChunkDevice,
        policy: Box<dyn PlacementPolicy + Send>,
    ) -> Result<FillResult> {
        let storage = FlashStorage::placed_by(Arc::new(device.clone()), policy)?;
        let mut tables =
            Tables { storage: &storage, rng: Rng::new(self.seed), made: 0, live: vec![] };
        let kept = (storage.usage().good_bytes as f64 * self.kept) as usize / self.table_bytes;
        for _ in 0..(1 + self.times) * kept {
            if tables.live.len() == kept {
                tables.remove_one()?;
            }
            tables.add(self.table_bytes)?;
        }
        let full = loop {
            if let Err(error) = tables.add(self.table_bytes) {
                break error;
            }
        };
        if !full.is_out_of_space() {
            return Err(full);
        }
        let usage = storage.usage();
        let live: u64 = tables.live.iter().map(|(_, bytes)| *bytes as u64).sum();
        let of_host = |bytes: u64| bytes as f64 / usage.host_bytes as f64;
        Ok(FillResult {
            live: live as f64 / usage.good_bytes as f64,
            media_over_host: of_host(device.written_in_all()),
            moved_over_host: of_host(usage.moved_bytes),
            erases: usage.erases,
        })
    }
}

/// The tables that there are, by name and size.
struct Tables<'a> {
    storage: &'a FlashStorage,
    rng: Rng,
    made: u64,
    live: Vec<(String, usize)>,
}

impl Tables<'_> {
    fn add(&mut self, table_bytes: usize) -> Result<()> {
        let name = self.made.to_string();
        self.made += 1;
        let level = LEVELS[usize::from(self.rng.below(IN_FIRST) > 0)];
        let bytes = table_bytes - self.rng.below((table_bytes / SHORTER) as u64) as usize;
        let mut file = self.storage.create(&name, WriteHint::table(level))?;
        let done = file.append(&vec![self.made as u8; bytes]).and_then(|()| file.sync());
        drop(file);
        match done {
            Ok(()) => self.live.push((name, bytes)),
            Err(_) => self.storage.remove(&name)?,
        }
        done
    }

    fn remove_one(&mut self) -> Result<()> {
        let place = self.rng.below(self.live.len() as u64) as usize;
        let (name, _) = self.live.swap_remove(place);
        self.storage.remove(&name)
    }
}
