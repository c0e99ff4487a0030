//! What recovery must find in an image.

use super::known::Known;
use super::record::Recorded;
use esker_api::WriteBatch;
use esker_base::{KeyspaceId, Kind, hash64};
use esker_memtable::{MemTable, Memory, SegmentHeader, scan};
use esker_pmem::Pool;
use esker_pmem::sim::SimRegion;
use std::sync::Arc;

/// What is wrong with an image.
pub(super) type Wrong = String;

/// What recovery finds in `region`. The number of batches.
pub(super) fn check(
    region: &Arc<SimRegion>,
    known: &Known,
    recorded: &Recorded,
) -> Result<usize, Wrong> {
    let pool = Pool::over(region.clone(), "pool").map_err(|error| error.to_string())?;
    let used = pool.used();
    if let Some(lost) = known.listed.iter().find(|epoch| !used.contains(epoch)) {
        return Err(format!("segment {lost} is listed and gone"));
    }
    if let Some(back) = known.released.iter().find(|epoch| used.contains(epoch)) {
        return Err(format!("segment {back} was released and is back"));
    }
    for &epoch in used.iter().filter(|epoch| !known.listed.contains(epoch)) {
        let mut memory = Memory::Pmem(pool.extent(epoch).ok_or("an extent is in use")?);
        SegmentHeader::decode(memory.contents(), "extent").map_err(|error| error.to_string())?;
    }
    let lengths = recorded.batches.iter().map(|batch| batch.len() as u64);
    let start = lengths.clone().take(known.flushed).sum::<u64>();
    let mut expected = recorded.first_seqno + start;
    let mut found = known.flushed;
    let mut durable_through = 0;
    let mut memtables = Vec::new();
    for &epoch in &known.listed {
        let extent = pool.extent(epoch).ok_or("an extent is in use")?;
        let mut memory = Memory::Pmem(extent);
        let header = SegmentHeader::decode(memory.contents(), "extent")
            .map_err(|error| error.to_string())?;
        if header.epoch != epoch {
            return Err(format!("the header of segment {epoch} is that of {}", header.epoch));
        }
        let scanned = scan(memory.contents(), &header, Some(expected));
        durable_through =
            scanned.later.map_or(0, |later| later.durable_through).max(durable_through);
        for frame in &scanned.frames {
            let batch = recorded.batches.get(found).ok_or("there is a frame that nobody wrote")?;
            let start = frame.offset as usize + 32;
            if memory.contents()[start..].get(..batch.encoded().len()) != Some(batch.encoded())
                || frame.count as usize != batch.len()
            {
                return Err(format!("frame {found} is not what was written"));
            }
            found += 1;
            expected = frame.next_seqno();
        }
        if !scanned.frames.is_empty() {
            memory.make_durable(&scanned);
            memtables.push(MemTable::recover(memory, header, &scanned));
        }
    }
    if durable_through >= expected {
        return Err(format!("a torn end reads as damage: {durable_through} is said to be durable"));
    }
    if found < known.acknowledged {
        return Err(format!("{found} of {} batches are there", known.acknowledged));
    }
    check_reads(&memtables, &recorded.batches[known.flushed..found])?;
    Ok(found)
}

/// Compares what readers of `memtables`, oldest first, get with `batches`.
fn check_reads(memtables: &[MemTable], batches: &[WriteBatch]) -> Result<(), Wrong> {
    let entries = batches.iter().flat_map(|batch| {
        let mut rest = batch.encoded();
        std::iter::from_fn(move || esker_base::Entry::decode(&mut rest))
    });
    let entries: Vec<_> = entries.collect();
    for (at, entry) in entries.iter().enumerate() {
        let same = |other: &&esker_base::Entry<'_>| {
            other.key == entry.key && other.kind != Kind::RangeDelete
        };
        if entry.kind == Kind::RangeDelete || entries[at + 1..].iter().any(|other| same(&other)) {
            continue;
        }
        let found = memtables.iter().rev().find_map(|memtable| {
            let hash = hash64(entry.key);
            memtable.get(KeyspaceId::DEFAULT, entry.key, hash, memtable.last_seqno())
        });
        if found.is_none_or(|found| (found.kind, found.value) != (entry.kind, entry.value)) {
            return Err(format!("a get of \"{}\" is wrong", entry.key.escape_ascii()));
        }
    }
    let deletes = entries.iter().filter(|entry| entry.kind == Kind::RangeDelete).count();
    let found: usize = memtables.iter().map(|memtable| memtable.range_deletes()).sum();
    if found != deletes {
        return Err(format!("{found} range deletes are there, and {deletes} were written"));
    }
    Ok(())
}
