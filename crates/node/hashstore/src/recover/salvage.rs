//! A partition that does not recover as a whole: what is sound of its journal, and the records behind that.
//!
//! The newest whole snapshot with what follows it is the base. Later checkpoints that are sound, and the records of all
//! blocks with seqnos above the base's, are applied in the order of their seqnos. What cannot be had:
//!
//! * a delete whose record was overwritten since: the key's older value comes back if its record is still whole;
//! * a value whose record was overwritten since, as it was replaced: the newer one is there, or was lost itself.

use super::{NUMBERS_LEFT, NUMBERS_MAX, Recovered, RecoveredRecord, Recovery, SEQNOS_SKIPPED};
use crate::device::Device;
use crate::extent::{Extent, Extents};
use crate::format::journal::{Checkpoint, entry_bytes};
use crate::format::record::{Record, RecordKind};
use crate::format::superblock::Layout;
use crate::keydir::KeyDir;
use crate::partition::{JournalState, Start};
use esker_base::{Error, Result};
use esker_uring::Buffer;
use std::collections::{BTreeMap, BTreeSet};

/// What is left of a partition.
pub(crate) struct Salvaged {
    pub directory: KeyDir,
    /// What did not recover.
    pub problems: Vec<Error>,
    /// The highest seqno and epoch seen.
    seqno: u64,
    epoch: u64,
    /// The half of the journal that the next snapshot leaves alone.
    half: u32,
}

/// Reads what is sound of partition `number`, which does not recover because of `problem`. Fails if a read fails: what cannot be
/// read now may be sound.
pub(crate) fn salvage(
    device: &dyn Device,
    layout: &Layout,
    number: u32,
    problem: Option<Error>,
) -> Result<Salvaged> {
    Recovery { device, layout, number, read_bytes: 0 }.salvage(problem)
}

impl Salvaged {
    /// A partition that recovered as a whole.
    pub fn of(recovered: Recovered) -> Self {
        let Start { directory, seqno, journal, .. } = recovered.start;
        let JournalState { half, epoch, .. } = journal;
        Salvaged { directory, problems: Vec::new(), seqno, epoch, half }
    }

    /// The partition from here on: its first checkpoint is a snapshot.
    pub fn start(self, layout: &Layout) -> Start {
        let Salvaged { directory, seqno, epoch, half, .. } = self;
        let mut free = Extents::of(Extent { start: 0, blocks: layout.blocks() });
        for (_, extents) in directory.iter() {
            extents.iter().for_each(|extent| _ = free.remove(*extent));
        }
        let entry_bytes = directory.iter().map(|(key, extents)| entry_bytes(key, &extents)).sum();
        let journal = JournalState { half, epoch, ..JournalState::default() };
        Start { directory, entry_bytes, free, seqno: seqno + SEQNOS_SKIPPED, journal }
    }
}

/// A checkpoint as it was found, and in which half.
struct Sound {
    half: u32,
    checkpoint: Checkpoint,
}

impl Recovery<'_> {
    fn salvage(mut self, problem: Option<Error>) -> Result<Salvaged> {
        let mut sound = self.sound_checkpoints(0)?;
        sound.extend(self.sound_checkpoints(1)?);
        let marked = self.mark()?;
        let epochs = sound.iter().map(|found| found.checkpoint.epoch);
        let epoch = epochs.max().unwrap_or(0).max(marked);
        let base = self.base(&sound);
        let (half, base_seqno) =
            base.last().map_or((0, 0), |last| (last.half, last.checkpoint.seqno));
        let mut directory = KeyDir::new(self.layout.partition_bits());
        let mut problems = Vec::from_iter(problem);
        for found in &base {
            self.apply_sound(&mut directory, &found.checkpoint, &mut problems);
        }
        let late: BTreeSet<u64> = base.last().map_or_else(BTreeSet::new, |last| {
            last.checkpoint.late.iter().map(|(seqno, _)| *seqno).collect()
        });
        let mut records = self.all_records(|seqno| seqno > base_seqno || late.contains(&seqno))?;
        let seqno = records.keys().next_back().copied().unwrap_or(0);
        let mut later: Vec<&Checkpoint> = sound.iter().map(|found| &found.checkpoint).collect();
        later.retain(|it| it.seqno > base_seqno && !it.is_followed());
        later.sort_by_key(|it| (it.seqno, it.epoch));
        let seqno = later.last().map_or(seqno, |last| seqno.max(last.seqno)).max(base_seqno);
        for checkpoint in later {
            let behind = records.split_off(&(checkpoint.seqno + 1));
            let is_late = |seqno: &u64| checkpoint.late.iter().any(|(late, _)| late == seqno);
            let (late, before) = std::mem::replace(&mut records, behind)
                .into_iter()
                .partition(|(seqno, _)| is_late(seqno));
            apply_records(&mut directory, before);
            self.apply_sound(&mut directory, checkpoint, &mut problems);
            records.extend(late);
        }
        apply_records(&mut directory, records);
        if seqno.max(epoch) > NUMBERS_MAX - NUMBERS_LEFT {
            let at = self.layout.region(self.number);
            return Err(self.damaged(at, "it says of itself that all numbers are used up"));
        }
        Ok(Salvaged { directory, problems, seqno, epoch, half })
    }

    /// All checkpoints in a half that are what was written, wherever they are.
    fn sound_checkpoints(&mut self, half: u32) -> Result<Vec<Sound>> {
        let (start, mut used, mut sound) = (self.layout.half(self.number, half), 0, Vec::new());
        while used < self.layout.half_bytes {
            match self.checkpoint(start, used)? {
                Some((checkpoint, bytes)) => {
                    sound.push(Sound { half, checkpoint });
                    used += bytes;
                }
                None => used += u64::from(self.layout.block_bytes),
            }
        }
        Ok(sound)
    }

    /// The newest whole snapshot with the checkpoints that follow it without a gap.
    fn base<'a>(&self, sound: &'a [Sound]) -> Vec<&'a Sound> {
        let chain = |first: usize| -> Vec<&'a Sound> {
            let mut chain: Vec<&Sound> = vec![&sound[first]];
            for next in &sound[first + 1..] {
                let last = &chain[chain.len() - 1];
                let follows = next.half == last.half
                    && next.checkpoint.generation == last.checkpoint.generation
                    && next.checkpoint.epoch == last.checkpoint.epoch + 1;
                if !follows {
                    break;
                }
                chain.push(next);
            }
            while chain.last().is_some_and(|last| last.checkpoint.is_followed()) {
                chain.pop();
            }
            chain
        };
        let snapshots = (0..sound.len()).filter(|at| sound[*at].checkpoint.is_snapshot());
        let chains = snapshots.map(chain).filter(|chain| !chain.is_empty());
        let newest = |chain: &Vec<&Sound>| {
            chain.last().map(|last| (last.checkpoint.seqno, last.checkpoint.epoch))
        };
        chains.max_by_key(newest).unwrap_or_default()
    }

    /// Applies the changes of a checkpoint, up to one that none can say.
    fn apply_sound(
        &self,
        directory: &mut KeyDir,
        checkpoint: &Checkpoint,
        problems: &mut Vec<Error>,
    ) {
        let at = self.layout.region(self.number);
        problems.extend(self.apply(directory, checkpoint, at).err());
    }

    /// The records of all blocks whose seqno is wanted. One whose value is damaged counts if it was durable.
    fn all_records(&mut self, is_wanted: impl Fn(u64) -> bool) -> Result<BTreeMap<u64, Record>> {
        let mut found = RecoveredRecord::default();
        let block_bytes = u64::from(self.layout.block_bytes);
        let blocks = self.layout.blocks();
        let mut chunk = (0, Buffer::zeroed(0));
        for at in 0..blocks {
            let offset = self.layout.block(self.number, at);
            let behind = (at - chunk.0) as usize * block_bytes as usize;
            if behind >= chunk.1.len() {
                let left = u64::from(blocks - at) * block_bytes;
                chunk = (at, self.read(offset, left.min(1 << 20))?);
            }
            let bytes = &chunk.1[(at - chunk.0) as usize * block_bytes as usize..];
            if !Record::may_start(bytes) {
                continue;
            }
            let record = self.record(bytes, at, blocks)?;
            if let Some(record) = record.filter(|record| is_wanted(record.seqno)) {
                let has_value = self.has_value(&record, bytes)?;
                found.add(record, has_value);
            }
        }
        found.settle();
        Ok(found.records)
    }
}

fn apply_records(directory: &mut KeyDir, records: BTreeMap<u64, Record>) {
    for record in records.into_values() {
        match record.kind {
            RecordKind::Store => drop(directory.insert(&record.key, &record.extents)),
            RecordKind::Delete => drop(directory.remove(&record.key)),
        }
    }
}
