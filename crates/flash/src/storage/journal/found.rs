//! Finds the newest journal on a device, and whether there may have been a newer one.

use crate::Chunk;
use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use crate::storage::files::replayer;
use crate::storage::format::chunk_reader::Content;
use crate::storage::format::journal_edits::{Edits, edits, scan};
use crate::storage::format::{self, Header, JOURNAL_CHUNKS, JournalRecord};
use esker_base::{Error, Result};
use std::io::{self, ErrorKind};

/// How far an open looks for edits behind one that is not whole.
const LOOKED_BEHIND_BYTES: u64 = 8 << 20;

/// What a device was found to hold.
pub(crate) struct Found {
    pub(crate) generation: u64,
    pub(crate) current: Option<usize>,
    /// Which of the journal's chunks it knows to be bad.
    bad: u16,
    pub(crate) sequence: u64,
    /// Where its last edit ends in its chunk.
    end: u64,
    pub(crate) version: u32,
    /// Why there may have been a newer one.
    pub(crate) doubt: Option<String>,
    /// All changes that lead to the directory as it is.
    pub(crate) ops: Vec<JournalRecord>,
}

impl Found {
    /// Refuses to write to a device whose newest state may have been lost.
    pub(crate) fn check(&self, zones: &dyn ChunkDevice) -> Result<()> {
        let Some(doubt) = &self.doubt else { return Ok(()) };
        let what = format!(
            "{doubt}; nothing was changed. Restore a copy to another device, or run `esker flash repair`"
        );
        Err(Error::io("use", zones.describe(), io::Error::other(what)))
    }
}

/// Reads the journal of a device. Changes nothing.
pub(crate) fn find(zones: &dyn ChunkDevice) -> Result<Found> {
    let geometry = zones.geometry();
    let mut found = Found::nothing();
    let (mut has_header, mut has_other) = (false, false);
    // Chunks that may have had something newer.
    let mut suspects = Vec::new();
    for place in 0..JOURNAL_CHUNKS {
        let chunk = geometry.chunk(place);
        let mut content = Content::of(zones, chunk)?;
        if content.written == 0 || zones.is_bad(chunk) {
            continue;
        }
        let has_more = content.written > BLOCK_BYTES;
        let first = content.from(0, BLOCK_BYTES as usize)?;
        let first = &first[..first.len().min(BLOCK_BYTES as usize)];
        let is_cut_off = first.is_empty() && !has_more;
        let version = if first.is_empty() { 0 } else { format::version_of(first) };
        let header = format::check_header(first, &geometry);
        let header = header.map_err(|what| Error::corruption(zones.describe(), 0, what))?;
        let Some(Header { generation, bad }) = header else {
            has_other |= !is_cut_off && !zones.is_read_only(chunk);
            suspects.push((place, 0));
            continue;
        };
        has_header = true;
        match edits(&mut content)? {
            Some(Edits { sequence, end, ops }) if generation > found.generation => {
                let current = Some(place);
                let doubt = None;
                found = Found { generation, current, bad, sequence, end, version, doubt, ops };
            }
            Some(_) => {}
            None => suspects.push((place, generation)),
        }
    }
    if let Some(current) = found.current {
        found.doubt = doubt(zones, current, found.bad);
        suspects.retain(|(_, generation)| *generation == 0 || *generation > found.generation);
        if found.doubt.is_none() {
            found.doubt = damage(zones, &found, current, &suspects)?;
        }
    } else if has_other || !is_empty(zones, has_header)? {
        let what = "it holds data that is not Esker's, or whose journal is lost; nothing was changed. \
                    Empty it, or choose another";
        let source = io::Error::new(ErrorKind::InvalidData, what);
        return Err(Error::io("use", zones.describe(), source));
    }
    Ok(found)
}

/// Why the generation after the one that was found may have been lost.
fn doubt(zones: &dyn ChunkDevice, current: usize, bad: u16) -> Option<String> {
    for place in following(current) {
        let chunk = zones.geometry().chunk(place);
        let is_known = bad & 1 << place != 0;
        if zones.is_bad(chunk) && !is_known {
            return Some(format!(
                "chunk {place} has gone bad, which may have had the newest journal, and the one before does not \
                 know its files"
            ));
        }
        if !zones.is_bad(chunk) && !zones.is_read_only(chunk) {
            break;
        }
    }
    None
}

/// Where the next generation is written: the first of these that can be.
pub(crate) fn following(current: usize) -> impl Iterator<Item = usize> {
    (1..JOURNAL_CHUNKS).map(move |step| (current + step) % JOURNAL_CHUNKS)
}

/// Whether nothing but, perhaps, a journal was ever written into what can be emptied.
fn is_empty(zones: &dyn ChunkDevice, has_header: bool) -> Result<bool> {
    let geometry = zones.geometry();
    let first = if has_header { JOURNAL_CHUNKS } else { 0 };
    for chunk in (first..geometry.chunks()).map(|index| geometry.chunk(index)) {
        if zones.written(chunk)? > 0 && !zones.is_read_only(chunk) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The journal's chunks, in the order in which they can be emptied one after the other: what is left is never an older
/// directory without the newer one. What can't be read may be the newest.
pub(crate) fn from_the_oldest(zones: &dyn ChunkDevice) -> Vec<Chunk> {
    let geometry = zones.geometry();
    let generation = |chunk: &Chunk| -> Result<u64> {
        let mut content = Content::of(zones, *chunk)?;
        let block = content.from(0, BLOCK_BYTES as usize)?.get(..BLOCK_BYTES as usize);
        let header = block.and_then(|block| format::check_header(block, &geometry).ok()?);
        Ok(header.map_or(0, |header| header.generation))
    };
    let mut chunks: Vec<Chunk> = (0..JOURNAL_CHUNKS).map(|place| geometry.chunk(place)).collect();
    chunks.sort_by_key(|chunk| generation(chunk).unwrap_or(u64::MAX));
    chunks
}

impl Found {
    fn nothing() -> Self {
        let (generation, sequence, end, version) = (0, 0, 0, 0);
        let (current, bad, doubt, ops) = Default::default();
        Found { generation, current, bad, sequence, end, version, doubt, ops }
    }

    /// What a repair has found, which is to be written behind the chunk `current`.
    pub(crate) fn mended(generation: u64, current: usize, sequence: u64) -> Self {
        let current = Some(current);
        Found { generation, current, sequence, ..Found::nothing() }
    }

    /// The last edit.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Edits up to this one were lost: the next one follows it.
    pub(crate) fn skip_to(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Whether nothing was ever written.
    pub(crate) fn is_new(&self) -> bool {
        self.current.is_none()
    }
}

/// Why the newest edit may have been lost, other than by a power loss. One that power loss truncated was never durable: no edit
/// behind it says so, and of a single block nothing is left or all.
fn damage(
    zones: &dyn ChunkDevice,
    found: &Found,
    current: usize,
    suspects: &[(usize, u64)],
) -> Result<Option<String>> {
    let last = found.sequence;
    let places = suspects.iter().map(|(place, _)| (*place, 0));
    for (place, from) in [(current, found.end)].into_iter().chain(places) {
        let mut content = Content::of(zones, zones.geometry().chunk(place))?;
        // Of a snapshot that is being written, power loss may leave all but the header.
        let first = content.from(0, BLOCK_BYTES as usize)?;
        let has_header = first.iter().take(BLOCK_BYTES as usize).any(|byte| *byte != 0);
        for (at, edit) in scan(&mut content, from, LOOKED_BEHIND_BYTES)? {
            let is_proof = edit.durable.is_some_and(|durable| durable > last);
            // A close writes the directory that was found once more: then nothing newer is lost.
            let is_newer_snapshot = place != current
                && has_header
                && at == BLOCK_BYTES
                && edit.sequence > last
                && !replayer::is_same(&zones.geometry(), &found.ops, &edit.ops);
            if is_proof || is_newer_snapshot {
                return Ok(Some(format!(
                    "an edit of the journal behind edit {last}, which was durable, is not what was written: edit {} is, at \
                     byte {at} of chunk {place}",
                    edit.sequence
                )));
            }
        }
        if place == current && is_damaged_edit(&mut content, found)? {
            let at = found.end;
            return Ok(Some(format!(
                "edit {} of the journal, at byte {at} of chunk {place}, is not what was written",
                last + 1
            )));
        }
    }
    Ok(None)
}

/// Whether what is behind the last whole edit is one of a single block, which a power loss leaves whole or not at all. What
/// does not look like one may be another program's.
fn is_damaged_edit(content: &mut Content<'_>, found: &Found) -> Result<bool> {
    let block = content.from(found.end, BLOCK_BYTES as usize)?;
    let block = &block[..block.len().min(BLOCK_BYTES as usize)];
    let is_long = format::edit_bytes(block, found.sequence + 1)
        .is_some_and(|bytes| bytes > BLOCK_BYTES as usize);
    Ok(block.len() == BLOCK_BYTES as usize
        && format::resembles_edit(block, found.sequence + 1)
        && !is_long)
}
