//! From the device to a partition: the journal, then the window.
//!
//! Reads the checkpoints of both halves of the journal, and the blocks that the last one lists, which are at most a sixteenth
//! of the partition's or 256 MiB, each at most twice: that bounds the time.

use crate::device::{Device, read};
use crate::extent::{Extent, Extents};
use crate::format::journal::{
    Checkpoint, HEADER_BYTES, decode_mark, entry_bytes, put_change, take_change,
};
use crate::format::record::{self, RecordKind};
use crate::format::superblock::Layout;
use crate::keydir::{EXTENT_BLOCKS_MAX, KeyDir};
use crate::partition::{JournalState, Start};
use esker_base::{Error, Result};
use esker_uring::Buffer;

mod salvage;
mod window;

pub(crate) use salvage::{Salvaged, salvage};
use window::RecoveredRecord;

/// Seqnos left out after a recovery: more than there can be of records that were on their way and can't be
/// seen. So what is left of them has seqnos that are below any that count.
const SEQNOS_SKIPPED: u64 = 1 << 20;

/// Epochs and seqnos are lower: no store lives so long.
const NUMBERS_MAX: u64 = 1 << 62;

/// And by this much lower when a store is opened, so that those that it gives out are, too, whatever its device says.
const NUMBERS_LEFT: u64 = 1 << 40;

/// A write behind the last checkpoint whose record is not what was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedWrite {
    /// The key that was stored.
    pub key: Vec<u8>,
    /// Where the record begins on the device, in bytes.
    pub offset: u64,
}

impl DamagedWrite {
    /// The same as an error of a store.
    pub(crate) fn error(&self, store: &str) -> Error {
        let what = format!(
            "key {}: the record of its last write is not what was written",
            self.key.escape_ascii()
        );
        Error::HashStoreDamaged { store: store.to_owned(), offset: self.offset, what }
    }
}

/// A partition as the device has it.
pub(crate) struct Recovered {
    pub start: Start,
    /// Records found in the window.
    pub replayed: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Durable writes of keys that cannot be read any more. Reads of these keys fail.
    pub damaged: Vec<DamagedWrite>,
    /// Incomplete writes that no record marks as durable. They do not count.
    pub torn: Vec<DamagedWrite>,
}

struct Recovery<'a> {
    device: &'a dyn Device,
    layout: &'a Layout,
    number: u32,
    read_bytes: u64,
}

/// Reads partition `number`.
pub(crate) fn recover(device: &dyn Device, layout: &Layout, number: u32) -> Result<Recovered> {
    Recovery { device, layout, number, read_bytes: 0 }.run()
}

/// A half of a journal.
#[derive(Default)]
struct JournalHalf {
    checkpoints: Vec<Checkpoint>,
    used: u64,
}

impl JournalHalf {
    fn epoch(&self) -> u64 {
        self.checkpoints.last().map_or(0, |last| last.epoch)
    }
}

impl Recovery<'_> {
    fn run(mut self) -> Result<Recovered> {
        let halves = [self.half(0)?, self.half(1)?];
        let half = u32::from(halves[1].epoch() > halves[0].epoch());
        let [first, second] = halves;
        let chosen = if half == 0 { first } else { second };
        let end = self.layout.half(self.number, half) + chosen.used;
        let marked = self.mark()?;
        let is_whole = |last: &&Checkpoint| last.epoch >= marked && !last.is_followed();
        let Some(last) = chosen.checkpoints.last().filter(is_whole) else {
            let what = "a checkpoint of the journal, which was durable, is not what was written";
            return Err(self.damaged(end, what));
        };
        let mut directory = KeyDir::new(self.layout.partition_bits());
        for checkpoint in &chosen.checkpoints {
            self.apply(&mut directory, checkpoint, end)?;
        }
        let found = self.later_records(last)?;
        if let Some(missing) = found.missing(last).next() {
            return Err(self.not_found(&found, missing));
        }
        let seqno = found.records.keys().next_back().copied().unwrap_or(0).max(last.seqno);
        if seqno.max(last.epoch) > NUMBERS_MAX - NUMBERS_LEFT {
            return Err(self.damaged(end, "it says of itself that all numbers are used up"));
        }
        let mut changes = Vec::new();
        for record in found.records.values() {
            match record.kind {
                RecordKind::Store => {
                    put_change(&mut changes, &record.key, &record.extents);
                    directory.insert(&record.key, &record.extents);
                }
                RecordKind::Delete => {
                    put_change(&mut changes, &record.key, &[]);
                    directory.remove(&record.key);
                }
            }
        }
        let journal = JournalState {
            half,
            used: chosen.used,
            epoch: last.epoch,
            generation: last.generation,
            changes,
        };
        let (damaged, torn) = self.damaged_writes(&found, &directory);
        let free = self.free(&directory)?;
        let entry_bytes = directory.iter().map(|(key, extents)| entry_bytes(key, &extents)).sum();
        let seqno = seqno + SEQNOS_SKIPPED;
        Ok(Recovered {
            start: Start { directory, entry_bytes, free, seqno, journal },
            replayed: found.records.len() as u64,
            read_bytes: self.read_bytes,
            damaged,
            torn,
        })
    }

    /// The damaged writes that no later write of the key replaces, and the torn ones.
    fn damaged_writes(
        &self,
        found: &RecoveredRecord,
        directory: &KeyDir,
    ) -> (Vec<DamagedWrite>, Vec<DamagedWrite>) {
        let write = |record: &record::Record| DamagedWrite {
            key: record.key.clone(),
            offset: self.layout.block(self.number, record.extents[0].start),
        };
        let damaged = found.damaged.iter().filter_map(|seqno| found.records.get(seqno));
        let is_last = |record: &&record::Record| {
            directory.get(&record.key).as_deref() == Some(&record.extents)
        };
        (damaged.filter(is_last).map(write).collect(), found.torn.values().map(write).collect())
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        let (store, what) = (self.device.name().to_owned(), what.to_owned());
        Error::HashStoreDamaged { store, offset, what }
    }

    fn read(&mut self, offset: u64, bytes: u64) -> Result<Buffer> {
        self.read_bytes += bytes;
        read(self.device, offset, bytes as usize)
    }

    /// The latest checkpoint that was known durable.
    fn mark(&mut self) -> Result<u64> {
        let mut latest = 0;
        for turn in 0..2 {
            let offset = self.layout.mark(self.number, turn);
            let bytes = self.read(offset, u64::from(self.layout.block_bytes))?;
            let epoch = decode_mark(&bytes, self.number, self.layout.secret);
            latest = latest.max(epoch.unwrap_or(0));
        }
        Ok(latest)
    }

    /// The checkpoints of a half: a snapshot, and what follows it without a gap.
    fn half(&mut self, half: u32) -> Result<JournalHalf> {
        let (start, mut found) = (self.layout.half(self.number, half), JournalHalf::default());
        while let Some((checkpoint, bytes)) = self.checkpoint(start, found.used)? {
            let follows = match found.checkpoints.last() {
                None => checkpoint.is_snapshot(),
                Some(last) => {
                    checkpoint.generation == last.generation && checkpoint.epoch == last.epoch + 1
                }
            };
            if !follows {
                break;
            }
            found.checkpoints.push(checkpoint);
            found.used += bytes;
        }
        Ok(found)
    }

    /// The checkpoint at `used` of the half that starts at `start`, and its bytes.
    fn checkpoint(&mut self, start: u64, used: u64) -> Result<Option<(Checkpoint, u64)>> {
        let block_bytes = u64::from(self.layout.block_bytes);
        if used + block_bytes > self.layout.half_bytes {
            return Ok(None);
        }
        let offset = start + used;
        let first = self.read(offset, block_bytes)?;
        let bytes = Checkpoint::bytes_of(&first[..HEADER_BYTES]);
        let bytes = bytes.map(|bytes| bytes.next_multiple_of(block_bytes));
        let Some(bytes) = bytes.filter(|bytes| used + bytes <= self.layout.half_bytes) else {
            return Ok(None);
        };
        let whole = self.read(offset, bytes)?;
        let checkpoint = Checkpoint::decode(&whole, offset, self.layout.secret);
        let checkpoint = checkpoint.filter(|checkpoint| self.is_possible(checkpoint));
        Ok(checkpoint.map(|checkpoint| (checkpoint, bytes)))
    }

    /// Whether a checkpoint could have been written, as far as its numbers and lists of blocks show.
    fn is_possible(&self, checkpoint: &Checkpoint) -> bool {
        let Checkpoint { epoch, generation, seqno, windows, late, .. } = checkpoint;
        let blocks = self.layout.blocks();
        let mut unlisted = Extents::of(Extent { start: 0, blocks });
        let is_unlisted = |window: &Extent| {
            window.blocks > 0
                && window.start.checked_add(window.blocks).is_some_and(|end| end <= blocks)
                && unlisted.remove(*window)
        };
        [epoch, generation, seqno].iter().all(|number| **number < NUMBERS_MAX)
            && windows.iter().all(is_unlisted)
            && late.iter().all(|(seqno, start)| *seqno < NUMBERS_MAX && *start < blocks)
    }

    fn apply(&self, directory: &mut KeyDir, checkpoint: &Checkpoint, end: u64) -> Result<()> {
        let mut rest = &checkpoint.changes[..];
        while !rest.is_empty() {
            let change = take_change(&mut rest).filter(|(_, extents)| self.are_inside(extents));
            let Some((key, extents)) = change else {
                return Err(self.damaged(end, "a checkpoint says what none can say"));
            };
            if extents.is_empty() {
                directory.remove(key);
            } else {
                directory.insert(key, &extents);
            }
        }
        Ok(())
    }

    fn are_inside(&self, extents: &[Extent]) -> bool {
        let blocks = u64::from(self.layout.blocks());
        extents.len() <= record::EXTENTS_MAX
            && extents.iter().all(|extent| {
                (1..=EXTENT_BLOCKS_MAX).contains(&extent.blocks)
                    && u64::from(extent.start) + u64::from(extent.blocks) <= blocks
            })
    }

    /// All blocks that no value has.
    fn free(&self, directory: &KeyDir) -> Result<Extents> {
        let mut free = Extents::of(Extent { start: 0, blocks: self.layout.blocks() });
        for (_, extents) in directory.iter() {
            for &extent in extents.iter() {
                if !free.remove(extent) {
                    let offset = self.layout.block(self.number, extent.start);
                    return Err(self.damaged(offset, "two values are in the same place"));
                }
            }
        }
        Ok(free)
    }
}
