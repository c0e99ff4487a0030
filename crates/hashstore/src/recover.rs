//! From the device to a partition: the journal, then the window.
//!
//! Reads the checkpoints of both halves of the journal, and the blocks that the last one lists, which are at most a sixteenth
//! of the partition's or 256 MiB, each at most twice: that bounds the time.

use crate::device::{Device, read};
use crate::directory::{Directory, EXTENT_BLOCKS_MAX};
use crate::extent::{Extent, Extents};
use crate::format::journal::{
    Checkpoint, HEADER_BYTES, decode_mark, entry_bytes, put_change, take_change,
};
use crate::format::record::{self, Record, RecordKind};
use crate::format::superblock::Layout;
use crate::partition::{JournalState, Start};
use esker_base::{Error, Result};
use esker_uring::Buffer;
use std::collections::BTreeMap;

/// Seqnos left out after a recovery: more than there can be of records that were on their way and can't be
/// seen. So what is left of them has seqnos that are below any that count.
const SEQNOS_SKIPPED: u64 = 1 << 20;

/// Epochs and seqnos are lower: no store lives so long.
const NUMBERS_MAX: u64 = 1 << 62;

/// And by this much lower when a store is opened, so that those that it gives out are, too, whatever its device says.
const NUMBERS_LEFT: u64 = 1 << 40;

/// What is read of a window at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// A partition as the device has it.
pub(crate) struct Recovered {
    pub start: Start,
    /// Records found in the window.
    pub replayed: u64,
    /// Bytes read.
    pub read_bytes: u64,
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
struct Half {
    checkpoints: Vec<Checkpoint>,
    used: u64,
}

impl Half {
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
        let mut directory = Directory::new(self.layout.partition_bits());
        for checkpoint in &chosen.checkpoints {
            self.apply(&mut directory, checkpoint, end)?;
        }
        let mut changes = Vec::new();
        let records = self.later_records(last)?;
        let seqno = records.keys().next_back().copied().unwrap_or(0).max(last.seqno);
        if seqno.max(last.epoch) > NUMBERS_MAX - NUMBERS_LEFT {
            return Err(self.damaged(end, "it says of itself that all numbers are used up"));
        }
        for record in records.values() {
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
        let free = self.free(&directory)?;
        let entry_bytes = directory.iter().map(|(key, extents)| entry_bytes(key, &extents)).sum();
        let seqno = seqno + SEQNOS_SKIPPED;
        Ok(Recovered {
            start: Start { directory, entry_bytes, free, seqno, journal },
            replayed: records.len() as u64,
            read_bytes: self.read_bytes,
        })
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
    fn half(&mut self, half: u32) -> Result<Half> {
        let (start, mut found) = (self.layout.half(self.number, half), Half::default());
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

    /// Whether a checkpoint could have been written, as far as its numbers and lists of blocks tell.
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

    fn apply(&self, directory: &mut Directory, checkpoint: &Checkpoint, end: u64) -> Result<()> {
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

    /// What was written after a checkpoint, by seqno.
    fn later_records(&mut self, checkpoint: &Checkpoint) -> Result<BTreeMap<u64, Record>> {
        let mut found = Found { records: BTreeMap::new(), durable_through: 0 };
        for &(seqno, start) in &checkpoint.late {
            let offset = self.layout.block(self.number, start);
            let bytes = self.read(offset, u64::from(self.layout.block_bytes))?;
            if let Some(record) = self.record(&bytes, start, self.layout.blocks())?
                && record.seqno == seqno
            {
                self.take(record, &bytes, &mut found)?;
            }
        }
        // Records may lie across neighbours.
        let mut windows = Extents::default();
        checkpoint.windows.iter().for_each(|window| windows.insert(*window));
        for window in windows.iter() {
            self.scan(window, checkpoint.seqno, &mut found)?;
        }
        let is_there = |seqno: &u64| found.records.contains_key(seqno);
        let late = checkpoint.late.iter().map(|(seqno, _)| *seqno);
        let late = late.filter(|seqno| *seqno <= found.durable_through);
        let due = late.chain(checkpoint.seqno + 1..found.durable_through + 1);
        if let Some(missing) = { due }.find(|seqno| !is_there(seqno)) {
            let offset = self.layout.data(self.number);
            let what = format!(
                "write {missing} of partition {} was durable, and its record is not found",
                self.number
            );
            return Err(self.damaged(offset, &what));
        }
        Ok(found.records)
    }

    /// Looks for records above `seqno` in a window. Where one is, the scan goes on behind it, whether its value is
    /// whole or not: its blocks were nobody else's since the checkpoint.
    fn scan(&mut self, window: Extent, seqno: u64, found: &mut Found) -> Result<()> {
        let block_bytes = self.layout.block_bytes as usize;
        let (mut at, mut chunk_start, mut chunk) = (window.start, window.start, Buffer::zeroed(0));
        while at < window.end() {
            if at >= chunk_start + (chunk.len() / block_bytes) as u32 {
                let left = (window.end() - at) as usize * block_bytes;
                let offset = self.layout.block(self.number, at);
                chunk = self.read(offset, left.min(CHUNK_BYTES) as u64)?;
                chunk_start = at;
            }
            let bytes = &chunk[(at - chunk_start) as usize * block_bytes..];
            let record = match Record::may_start(bytes) {
                true => self.record(bytes, at, window.end())?,
                false => None,
            };
            at += 1;
            if let Some(record) = record.filter(|record| record.seqno > seqno) {
                at = record.extents[0].end();
                self.take(record, bytes, found)?;
            }
        }
        Ok(())
    }

    /// The record that starts at a block, of which `bytes` is at least the first, and whose first extent ends by
    /// `end`, if there is one; its value was not looked at.
    fn record(&mut self, bytes: &[u8], start: u32, end: u32) -> Result<Option<Record>> {
        let Some(prefix) = Record::prefix_bytes(bytes) else { return Ok(None) };
        let (place, secret) = ((self.number, start), self.layout.secret);
        let block_bytes = self.layout.block_bytes;
        let record = if prefix <= bytes.len() {
            Record::decode(bytes, place, block_bytes, secret)
        } else {
            let blocks = self.layout.blocks_of(prefix as u64);
            if u64::from(start) + blocks > u64::from(end) {
                return Ok(None);
            }
            let offset = self.layout.block(self.number, start);
            let bytes = self.read(offset, blocks * u64::from(block_bytes))?;
            Record::decode(&bytes, place, block_bytes, secret)
        };
        Ok(record.filter(|record| {
            let first = record.extents[0];
            self.are_inside(&record.extents)
                && first.start == start
                && first.end() <= end
                && (record.durable_through..NUMBERS_MAX).contains(&record.seqno)
        }))
    }

    /// Takes a record if its value is whole. `bytes` begins with the record and may have all of it.
    fn take(&mut self, record: Record, bytes: &[u8], found: &mut Found) -> Result<()> {
        found.durable_through = found.durable_through.max(record.durable_through);
        let has_all = record.extents.len() == 1 && record.value().end <= bytes.len();
        let has_value = if has_all {
            record.has_value(bytes)
        } else {
            let mut whole = Vec::new();
            for extent in &record.extents {
                let offset = self.layout.block(self.number, extent.start);
                let size = u64::from(extent.blocks) * u64::from(self.layout.block_bytes);
                whole.extend_from_slice(&self.read(offset, size)?);
            }
            record.has_value(&whole)
        };
        if has_value {
            found.records.insert(record.seqno, record);
        }
        Ok(())
    }

    /// All blocks that no value has.
    fn free(&self, directory: &Directory) -> Result<Extents> {
        let mut free = Extents::of(Extent { start: 0, blocks: self.layout.blocks() });
        for (_, extents) in directory.iter() {
            for &extent in extents.iter() {
                if !free.remove(extent) {
                    let offset = self.layout.block(self.number, extent.start);
                    return Err(self.damaged(offset, "two values lie in the same place"));
                }
            }
        }
        Ok(free)
    }
}

/// What a scan has found.
struct Found {
    records: BTreeMap<u64, Record>,
    /// Writes up to this one were durable.
    durable_through: u64,
}
