//! What was written behind a checkpoint: records in the blocks that it lists.

use super::{NUMBERS_MAX, Recovery};
use crate::extent::{Extent, Extents};
use crate::format::journal::Checkpoint;
use crate::format::record::{Record, RecordKind, Remains};
use esker_base::{Error, Result};
use esker_uring::Buffer;
use std::collections::{BTreeMap, BTreeSet};

/// What is read of a window at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How many blocks that look like damaged headers are kept, and how many of them are tried to be mended: the values of a
/// hostile host may look like them.
const SUSPECTS_MAX: usize = 1024;
const MENDED_MAX: usize = 64;

/// What a scan has found.
#[derive(Default)]
pub(super) struct RecoveredRecord {
    /// Records that count, by seqno.
    pub records: BTreeMap<u64, Record>,
    /// Those of them whose bytes are not what was written.
    pub damaged: BTreeSet<u64>,
    /// Records with a damaged value that no other record marks as durable.
    pub torn: BTreeMap<u64, Record>,
    /// Writes up to this one were durable.
    pub durable_through: u64,
    /// Blocks that look like headers and are none, and what is left of these.
    suspects: Vec<(u32, Remains)>,
}

impl RecoveredRecord {
    /// Durable writes behind a checkpoint that were not found, in order.
    pub fn missing(&self, checkpoint: &Checkpoint) -> impl Iterator<Item = u64> {
        let late = checkpoint.late.iter().map(|(seqno, _)| *seqno);
        let late = late.filter(|seqno| *seqno <= self.durable_through);
        let due = late.chain(checkpoint.seqno + 1..self.durable_through + 1);
        due.filter(|seqno| !self.records.contains_key(seqno))
    }

    /// What may be left of the record of a write: its first block, and its header as far as that can be read.
    pub fn remains_of(&self, seqno: u64) -> Option<&(u32, Remains)> {
        self.suspects.iter().find(|(_, remains)| remains.seqno == seqno)
    }

    /// Takes a record whose header is whole.
    pub fn add(&mut self, record: Record, has_value: bool) {
        self.durable_through = self.durable_through.max(record.durable_through);
        let records = if has_value { &mut self.records } else { &mut self.torn };
        records.insert(record.seqno, record);
    }

    /// All records were seen: of those with damaged values the durable ones count.
    pub fn settle(&mut self) {
        let torn = self.torn.split_off(&(self.durable_through + 1));
        let damaged = std::mem::replace(&mut self.torn, torn);
        self.damaged.extend(damaged.keys());
        self.records.extend(damaged);
    }
}

impl Recovery<'_> {
    /// That the record of a durable write is not there.
    pub(super) fn not_found(&self, found: &RecoveredRecord, seqno: u64) -> Error {
        let what =
            format!("write {seqno} of partition {} was durable, and its record", self.number);
        match found.remains_of(seqno) {
            Some((start, remains)) => {
                let offset = self.layout.block(self.number, *start);
                let key = remains.key.escape_ascii();
                self.damaged(
                    offset,
                    &format!("{what} is not what was written; its key may be {key}"),
                )
            }
            None => self.damaged(
                self.layout.data(self.number),
                &format!("{what} is not found; its key is not known"),
            ),
        }
    }

    /// What was written after a checkpoint. A durable write whose value is damaged counts, so that no older value of its key
    /// comes back; so does one whose header has one damaged byte.
    pub(super) fn later_records(&mut self, checkpoint: &Checkpoint) -> Result<RecoveredRecord> {
        let mut found = RecoveredRecord::default();
        for &(seqno, start) in &checkpoint.late {
            let offset = self.layout.block(self.number, start);
            let bytes = self.read(offset, u64::from(self.layout.block_bytes))?;
            match self.record(&bytes, start, self.layout.blocks())? {
                Some(record) if record.seqno == seqno => self.take(record, &bytes, &mut found)?,
                Some(_) => {}
                None => self.suspect(&bytes, start, &mut found),
            }
        }
        // Records may lie across neighbours.
        let mut windows = Extents::default();
        checkpoint.windows.iter().for_each(|window| windows.insert(*window));
        for window in windows.iter() {
            self.scan(window, checkpoint.seqno, &mut found)?;
        }
        found.settle();
        if found.missing(checkpoint).next().is_some() {
            self.mend(checkpoint, &mut found)?;
        }
        Ok(found)
    }

    /// Notes a block that is not a record's first and looks like one.
    fn suspect(&self, bytes: &[u8], start: u32, found: &mut RecoveredRecord) {
        if found.suspects.len() < SUSPECTS_MAX
            && let Some(remains) = Record::remains(bytes, (self.number, start))
        {
            found.suspects.push((start, remains));
        }
    }

    /// Takes records that are missing for one damaged byte of their headers.
    fn mend(&mut self, checkpoint: &Checkpoint, found: &mut RecoveredRecord) -> Result<()> {
        let suspects: Vec<u32> =
            found.suspects.iter().take(MENDED_MAX).map(|(start, _)| *start).collect();
        for start in suspects {
            let missing: BTreeSet<u64> = found.missing(checkpoint).take(MENDED_MAX).collect();
            let offset = self.layout.block(self.number, start);
            let bytes = self.read(offset, u64::from(self.layout.block_bytes))?;
            let Some(mended) = Record::mended(&bytes, self.layout.secret) else { continue };
            let record = self.record(&mended, start, self.layout.blocks())?;
            let Some(record) = record.filter(|record| missing.contains(&record.seqno)) else {
                continue;
            };
            if record.kind == RecordKind::Store {
                found.damaged.insert(record.seqno);
            }
            found.add(record, true);
            found.settle();
        }
        Ok(())
    }

    /// Looks for records above `seqno` in a window. Where one is, the scan goes on behind it, whether its value is
    /// whole or not: its blocks were no other thread's since the checkpoint.
    fn scan(&mut self, window: Extent, seqno: u64, found: &mut RecoveredRecord) -> Result<()> {
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
            if record.is_none() {
                self.suspect(bytes, at, found);
            }
            at += 1;
            if let Some(record) = record.filter(|record| record.seqno > seqno) {
                at = record.extents[0].end();
                self.take(record, bytes, found)?;
            }
        }
        Ok(())
    }

    /// The record that starts at a block, of which `bytes` is at least the first, and whose first extent ends by
    /// `end`, if there is one; its value was not inspected.
    pub(super) fn record(&mut self, bytes: &[u8], start: u32, end: u32) -> Result<Option<Record>> {
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

    /// Takes a record. `bytes` begins with it and may have all of it.
    fn take(&mut self, record: Record, bytes: &[u8], found: &mut RecoveredRecord) -> Result<()> {
        let has_value = self.has_value(&record, bytes)?;
        found.add(record, has_value);
        Ok(())
    }

    /// Whether a record's value is what was written. `bytes` begins with the record and may have all of it.
    pub(super) fn has_value(&mut self, record: &Record, bytes: &[u8]) -> Result<bool> {
        if record.extents.len() == 1 && record.value().end <= bytes.len() {
            return Ok(record.has_value(bytes));
        }
        let mut whole = Vec::new();
        for extent in &record.extents {
            let offset = self.layout.block(self.number, extent.start);
            let size = u64::from(extent.blocks) * u64::from(self.layout.block_bytes);
            whole.extend_from_slice(&self.read(offset, size)?);
        }
        Ok(record.has_value(&whole))
    }
}
