//! The superblock: what a store is and where its parts are. Written once, in two copies.

use super::{TAG_BYTES, is_sealed, seal};
use esker_base::coding::{u32_at, u64_at};
use esker_base::{Error, Result};

/// The newest version that this code reads, and the one it writes.
pub const VERSION: u32 = 1;

/// What structures with places of their own are aligned to, whatever the block size.
pub const PAGE_BYTES: u64 = 4096;

/// The two copies are one behind the other, and the first region behind them.
pub const REGIONS_AT: u64 = 2 * PAGE_BYTES;

/// Where the copies of the superblock are.
pub const SUPERBLOCKS: [u64; 2] = [0, PAGE_BYTES];

const MAGIC: u64 = u64::from_le_bytes(*b"ESKRHASH");
/// The superblock is read before its secret is known, so its tag has a seed of its own.
const SEED: u64 = MAGIC;
const SUPERBLOCK_BYTES: usize = 80;

/// A region starts with two pages for marks, and goes on with the halves of the journal.
const MARK_PAGES: u64 = 2;

/// The smallest half of a journal: space for a window's list, and some keys.
const HALF_BYTES_MIN: u64 = 64 << 10;
/// What the journal is given for a key: a key of 16 bytes and its extent take 24 bytes, and as much again
/// is for changes.
const JOURNAL_BYTES_A_KEY: u64 = 48;

/// The most partitions. Their number is a power of two.
pub const PARTITIONS_MAX: u32 = 64;
/// Fewer, larger partitions fill more evenly than many small ones.
const REGION_BYTES_MIN: u64 = 1 << 30;
/// A partition has at most this much of data for each byte of a block: its blocks' numbers are 32 bits.
const BLOCKS_MAX: u64 = u32::MAX as u64;

/// The smallest device.
pub const DEVICE_BYTES_MIN: u64 = 1 << 20;

/// Seals a superblock whose bytes were changed.
pub(crate) fn seal_again(bytes: &mut [u8]) {
    seal(&mut bytes[..SUPERBLOCK_BYTES], SEED);
}

/// Where things are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The store's own random number.
    pub identity: u64,
    /// What tags are seeded with.
    pub secret: u64,
    /// The size of the device, or what of it is used.
    pub device_bytes: u64,
    /// The unit of space: 512 or 4096.
    pub block_bytes: u32,
    /// How many partitions; a power of two.
    pub partitions: u32,
    /// The size of each partition's region.
    pub region_bytes: u64,
    /// The size of each half of a partition's journal.
    pub half_bytes: u64,
}

impl Layout {
    /// The layout of a new store. `bytes_a_key` is how much device a key is expected to take at the
    /// least; the journal is sized for it.
    pub fn of(
        device_bytes: u64,
        block_bytes: u32,
        bytes_a_key: u64,
        partitions: Option<u32>,
    ) -> Layout {
        let fitting = (device_bytes / REGION_BYTES_MIN).clamp(1, u64::from(PARTITIONS_MAX)) as u32;
        let needed = device_bytes.div_ceil(BLOCKS_MAX * u64::from(block_bytes)) as u32;
        let chosen = partitions.unwrap_or((fitting + 1).next_power_of_two() / 2).max(needed);
        let partitions = chosen.next_power_of_two();
        let region_bytes =
            (device_bytes - REGIONS_AT) / u64::from(partitions) / PAGE_BYTES * PAGE_BYTES;
        let half_bytes = (region_bytes / bytes_a_key.max(u64::from(block_bytes))
            * JOURNAL_BYTES_A_KEY)
            .max(HALF_BYTES_MIN)
            .next_multiple_of(PAGE_BYTES);
        Layout {
            identity: 0,
            secret: 0,
            device_bytes,
            block_bytes,
            partitions,
            region_bytes,
            half_bytes,
        }
    }

    /// Where a partition's region starts.
    pub fn region(&self, partition: u32) -> u64 {
        REGIONS_AT + u64::from(partition) * self.region_bytes
    }

    /// Where the mark of `epoch` is: two take turns.
    pub fn mark(&self, partition: u32, epoch: u64) -> u64 {
        self.region(partition) + epoch % MARK_PAGES * PAGE_BYTES
    }

    /// Where a half of a partition's journal starts.
    pub fn half(&self, partition: u32, half: u32) -> u64 {
        self.region(partition) + MARK_PAGES * PAGE_BYTES + u64::from(half) * self.half_bytes
    }

    /// Where a partition's data starts.
    pub fn data(&self, partition: u32) -> u64 {
        self.half(partition, 2)
    }

    /// Where a block is.
    pub fn block(&self, partition: u32, block: u32) -> u64 {
        self.data(partition) + u64::from(block) * u64::from(self.block_bytes)
    }

    /// The blocks of a partition's data.
    pub fn blocks(&self) -> u32 {
        let bytes = self.region_bytes - (self.data(0) - self.region(0));
        (bytes / u64::from(self.block_bytes)) as u32
    }

    /// The blocks that `bytes` take.
    pub fn blocks_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.block_bytes))
    }

    /// The bits of a hash that choose the partition: the first ones.
    pub fn partition_bits(&self) -> u32 {
        self.partitions.trailing_zeros()
    }

    /// The partition of a hash.
    pub fn partition_of(&self, hash: u64) -> u32 {
        hash.checked_shr(64 - self.partition_bits()).unwrap_or(0) as u32
    }

    /// The superblock, a page.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; TAG_BYTES];
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        for word in [self.identity, self.secret, self.device_bytes] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [self.block_bytes, self.partitions] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [self.region_bytes, self.half_bytes] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.resize(SUPERBLOCK_BYTES, 0);
        seal(&mut bytes, SEED);
        bytes.resize(PAGE_BYTES as usize, 0);
        bytes
    }

    /// Reads the superblock from its two copies. `file` is for messages.
    pub fn decode(copies: &[u8], file: &str) -> Result<Layout> {
        let (first, second) = copies.split_at(PAGE_BYTES as usize);
        let sound =
            [first, second].into_iter().find(|copy| is_sealed(&copy[..SUPERBLOCK_BYTES], SEED));
        let Some(bytes) = sound else {
            let is_ours = [first, second].iter().any(|copy| u64_at(copy, 8) == MAGIC);
            return Err(if is_ours {
                Error::corruption(file, 0, "neither copy of the superblock is what was written")
            } else {
                let reason = "it has no superblock of one; make one with `esker hash create`";
                Error::NotADatabase { dir: file.to_owned(), reason: reason.to_owned() }
            });
        };
        let (version, features) = (u32_at(bytes, 16), u32_at(bytes, 20));
        if version > VERSION {
            let supported = VERSION;
            return Err(Error::NewerVersion { file: file.to_owned(), found: version, supported });
        }
        if features != 0 {
            return Err(Error::UnknownFeatures { file: file.to_owned(), flags: features });
        }
        let layout = Layout {
            identity: u64_at(bytes, 24),
            secret: u64_at(bytes, 32),
            device_bytes: u64_at(bytes, 40),
            block_bytes: u32_at(bytes, 48),
            partitions: u32_at(bytes, 52),
            region_bytes: u64_at(bytes, 56),
            half_bytes: u64_at(bytes, 64),
        };
        if layout.is_sane() {
            Ok(layout)
        } else {
            Err(Error::corruption(file, 0, "the superblock says what none can say"))
        }
    }

    fn is_sane(&self) -> bool {
        let regions = u64::from(self.partitions).checked_mul(self.region_bytes);
        let data = self.half_bytes.checked_mul(2).and_then(|halves| {
            self.region_bytes.checked_sub(halves)?.checked_sub(MARK_PAGES * PAGE_BYTES)
        });
        matches!(self.block_bytes, 512 | 4096)
            && self.partitions.is_power_of_two()
            && self.partitions <= PARTITIONS_MAX
            && self.half_bytes.is_multiple_of(PAGE_BYTES)
            && self.region_bytes.is_multiple_of(PAGE_BYTES)
            && data.is_some_and(|data| data / u64::from(self.block_bytes) <= BLOCKS_MAX && data > 0)
            && regions
                .is_some_and(|regions| regions <= self.device_bytes.saturating_sub(REGIONS_AT))
    }
}
