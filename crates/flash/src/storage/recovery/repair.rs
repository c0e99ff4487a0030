//! Repairs a device whose journal is damaged, or which has lost parts of files.
//!
//! Every complete edit in the journal's chunks is used, unless a newer generation replaced it. The
//! directory is the newest snapshot with all later edits applied. If an edit is missing:
//!
//! * a file that it created is known only by its number, from later edits that name its pieces. It
//!   is called `lost-` followed by the number;
//! * a file that it removed or renamed keeps its earlier state. If one of its chunks was reused
//!   since, the file is omitted;
//! * a piece that it named is lost, except for log chunks: their records name their log.
//!
//! The result is written as a new generation into the journal chunk with the least information.
//! Data is not moved.

use super::pieces::{Known, Pieces};
use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use crate::storage::chunks::chunk_table::default_policy;
use crate::storage::format::chunk_reader::Content;
use crate::storage::format::journal_edits::{self, WholeEdit};
use crate::storage::format::{self, CreateRecord, Extent, JOURNAL_CHUNKS, JournalRecord};
use crate::storage::journal::found::{self, Found};
use crate::storage::journal::journal_file::Journal;
use crate::storage::journal::replay::{self, snapshot};
use esker_base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// What a repair found and kept.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct RepairReport {
    /// The names of the files that are there now.
    pub names: Vec<String>,
    /// What was not as it must be, and what follows from that.
    pub problems: Vec<String>,
    /// Whether anything was written.
    pub is_changed: bool,
}

/// Repairs the files on a device. Changes nothing if nothing is damaged.
///
/// # Errors
///
/// Fails if another process has the device, if no snapshot of the journal is whole, or if the device cannot be written.
pub fn repair(zones: Arc<dyn ChunkDevice>) -> Result<RepairReport> {
    let _lock = zones.lock()?;
    let mut repaired = RepairReport::default();
    if let Some(names) = names_as_they_are(&*zones, &mut repaired.problems) {
        return Ok(RepairReport { names, ..repaired });
    }
    let (mut found, edits, first_lost) = read(&*zones, &mut repaired.problems)?;
    found.ops = mend(&*zones, edits, first_lost, &mut repaired.problems)?;
    let files = replay::files(&*zones, default_policy(&zones.geometry()), &mut found)?;
    if let Some(edit) = files.lost_edit {
        repaired.problems.push(lost_edits(found.sequence() + 1, edit));
        found.skip_to(edit);
    }
    repaired.names = files.names.keys().cloned().collect();
    let snapshot = snapshot(&files.names, &files.space);
    Journal::rewrite(zones, &found, &snapshot)?;
    repaired.is_changed = true;
    Ok(repaired)
}

/// The names on a device of which the journal is sound, and all logs are. Parts of other files may be lost: nothing can be
/// done about that here.
fn names_as_they_are(zones: &dyn ChunkDevice, problems: &mut Vec<String>) -> Option<Vec<String>> {
    let files = found::find(zones).and_then(|mut found| {
        if found.is_new() {
            return Ok(None);
        }
        let files = replay::files(zones, default_policy(&zones.geometry()), &mut found);
        problems.extend(found.doubt);
        files.map(Some)
    });
    match files {
        Ok(Some(files)) => {
            let is_sound = problems.is_empty() && files.lost.iter().all(|lost| !lost.is_log);
            problems.extend(files.lost.iter().map(|lost| {
                format!(
                    "{}: {} of its bytes are lost, in chunks {:?}",
                    lost.name, lost.bytes, lost.chunks
                )
            }));
            is_sound.then(|| files.names.into_keys().collect())
        }
        Ok(None) => Some(Vec::new()),
        Err(error) => {
            problems.push(error.to_string());
            None
        }
    }
}

/// Where the next generation is to be written; the changes of all whole edits; and the lowest number that a file may have which
/// a lost edit made.
fn read(
    zones: &dyn ChunkDevice,
    problems: &mut Vec<String>,
) -> Result<(Found, Vec<Vec<JournalRecord>>, u64)> {
    let geometry = zones.geometry();
    let mut parts = Vec::new();
    for place in 0..JOURNAL_CHUNKS {
        if !zones.is_bad(geometry.chunk(place)) {
            parts.push(Part::read(zones, place)?);
        }
    }
    let usable: Vec<usize> = parts.iter().map(|part| part.place).collect();
    let generation = parts.iter().filter_map(|part| part.generation).max().unwrap_or(0);
    let history = history(parts);
    // The chunk with the oldest edits is written next.
    let newest = |place: &usize| history.values().rfind(|it| it.place == *place);
    let newest = |place: &usize| newest(place).map_or(0, |found| found.edit.sequence);
    let target = usable.into_iter().min_by_key(newest).unwrap_or(0);
    let current = (target + JOURNAL_CHUNKS - 1) % JOURNAL_CHUNKS;
    let snapshots = history.values().filter(|found| found.is_snapshot);
    let Some(base) = snapshots.map(|found| found.edit.sequence).next_back() else {
        let what = "no snapshot in its journal is whole, and without one it is unknown which files have which chunks; \
                    restore a copy to another device";
        let source = io::Error::new(io::ErrorKind::InvalidData, what);
        return Err(Error::io("repair", zones.describe(), source));
    };
    let (mut last, mut edits) = (base - 1, Vec::new());
    let (mut next_id, mut first_lost) = (1, u64::MAX);
    for (sequence, FoundEdit { edit, .. }) in history.range(base..) {
        if *sequence > last + 1 {
            problems.push(lost_edits(last + 1, sequence - 1));
            first_lost = first_lost.min(next_id);
        }
        let made = edit.ops.iter().filter_map(|op| match op {
            JournalRecord::Create(made) => Some(made.id + 1),
            _ => None,
        });
        next_id = made.fold(next_id, u64::max);
        edits.push(edit.ops.clone());
        last = *sequence;
    }
    // If no edit is missing between others, the last one may be.
    let first_lost = first_lost.min(next_id);
    Ok((Found::mended(generation, current, last), edits, first_lost))
}

/// An edit, and where it was found.
struct FoundEdit {
    edit: WholeEdit,
    place: usize,
    is_snapshot: bool,
}

/// What is whole in one of the journal's chunks.
struct Part {
    place: usize,
    /// `None` if the header is damaged, or nothing was ever written.
    generation: Option<u64>,
    /// The edits in their order.
    edits: Vec<FoundEdit>,
}

impl Part {
    fn read(zones: &dyn ChunkDevice, place: usize) -> Result<Self> {
        let geometry = zones.geometry();
        let mut content = Content::of(zones, geometry.chunk(place))?;
        let mut generation = None;
        if let Some(block) = content.from(0, BLOCK_BYTES as usize)?.get(..BLOCK_BYTES as usize) {
            let header = format::check_header(block, &geometry)
                .map_err(|what| Error::corruption(zones.describe(), 0, what))?;
            generation = header.map(|header| header.generation);
        }
        let mut edits: Vec<FoundEdit> = Vec::new();
        for (at, edit) in journal_edits::scan(&mut content, BLOCK_BYTES, u64::MAX)? {
            // On some disks remains of an earlier generation follow the chunk's own edits.
            if edits.last().is_none_or(|before| before.edit.sequence < edit.sequence) {
                edits.push(FoundEdit { edit, place, is_snapshot: at == BLOCK_BYTES });
            }
        }
        Ok(Part { place, generation, edits })
    }

    fn first(&self) -> u64 {
        self.edits.first().map_or(0, |first| first.edit.sequence)
    }
}

/// The edits of all chunks, by sequence number.
///
/// Each generation goes on where the one before was known to end. What follows there in the older chunk is an abandoned history: power
/// loss may have kept edits behind one that it took. The newer generation used their numbers again. If its first edits are lost, it
/// does not say where it went on; then the first missing number of the older chunk does.
fn history(parts: Vec<Part>) -> BTreeMap<u64, FoundEdit> {
    let (mut ordered, mut others): (Vec<Part>, Vec<Part>) =
        parts.into_iter().partition(|part| part.generation.is_some());
    ordered.sort_by_key(|part| part.generation);
    others.retain(|part| !part.edits.is_empty());
    // A chunk whose header is damaged has its place among them by its first edit.
    for part in others {
        let at = ordered.iter().rposition(|other| other.first() <= part.first());
        ordered.insert(at.map_or(0, |at| at + 1), part);
    }
    let mut history = BTreeMap::new();
    for part in ordered {
        let goes_on_at = match part.edits.first() {
            Some(first) if first.is_snapshot => first.edit.sequence,
            first => {
                let first = first.map_or(u64::MAX, |first| first.edit.sequence);
                unproved_gap(&history).map_or(first, |gap| gap.min(first))
            }
        };
        history.retain(|sequence, _| *sequence < goes_on_at);
        history.extend(part.edits.into_iter().map(|found| (found.edit.sequence, found)));
    }
    history
}

/// The first missing number behind the newest snapshot, unless a later edit says that the missing one was durable: damage took that.
fn unproved_gap(history: &BTreeMap<u64, FoundEdit>) -> Option<u64> {
    let (first, _) = history.iter().rfind(|(_, found)| found.is_snapshot)?;
    let mut last = *first;
    for &sequence in history.range(*first..).map(|(sequence, _)| sequence) {
        let missing = last + 1;
        let mut later = history.range(sequence..).map(|(_, found)| found);
        if sequence > missing && !later.any(|it| it.edit.durable.is_some_and(|it| it >= missing)) {
            return Some(missing);
        }
        last = sequence;
    }
    None
}

fn lost_edits(first: u64, last: u64) -> String {
    format!(
        "edits {first} to {last} of the journal are lost: files that they made or extended may be missing or truncated, and \
         files that they removed may be there again"
    )
}

/// The changes as a journal without damage has them.
fn mend(
    zones: &dyn ChunkDevice,
    edits: Vec<Vec<JournalRecord>>,
    first_lost: u64,
    problems: &mut Vec<String>,
) -> Result<Vec<JournalRecord>> {
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    let mut files = Pieces::default();
    let (mut wear, mut known) = (Vec::new(), BTreeSet::new());
    for edit in edits {
        // An edit reports the resets before it, also of chunks that it uses.
        for op in &edit {
            if let JournalRecord::Reset(chunks) = op {
                chunks.iter().for_each(|chunk| files.reset(*chunk));
            }
        }
        for op in edit {
            // Files that were removed while they were written are extended still.
            if let JournalRecord::Extend(id, _) | JournalRecord::Replace(id, _) = &op
                && *id >= first_lost
                && known.insert(*id)
            {
                let made = CreateRecord::unnamed(*id);
                names.insert(made.name.clone(), *id);
                files.create(made);
            }
            match op {
                JournalRecord::Create(made) => {
                    known.insert(made.id);
                    if let Some(before) = names.insert(made.name.clone(), made.id) {
                        files.remove(before);
                    }
                    files.create(made);
                }
                JournalRecord::Extend(id, pieces) => files.extend(id, pieces),
                JournalRecord::Replace(id, pieces) => files.replace(id, pieces),
                JournalRecord::Remove(name) => {
                    names.remove(&name).into_iter().for_each(|id| files.remove(id));
                }
                JournalRecord::Rename(from, to) => match names.remove(&from) {
                    Some(id) => {
                        if let Some(before) = names.insert(to.clone(), id).filter(|it| *it != id) {
                            files.remove(before);
                        }
                        if let Some(file) = files.get_mut(id) {
                            file.made.name = to;
                        }
                    }
                    None => problems.push(format!("{to}: it was {from} before, which is lost")),
                },
                JournalRecord::Reset(_) | JournalRecord::Resets(_) => wear.push(op),
            }
        }
    }
    adopt(zones, &mut files, first_lost, &known, problems)?;
    let mut mended = Vec::new();
    for (id, Known { made, mut pieces, overwritten }) in files.into_files() {
        let (before, is_log) = (pieces.len() + overwritten, made.log_bytes.is_some());
        pieces.retain(|piece| is_possible(zones, piece, is_log));
        if pieces.len() < before {
            let lost = before - pieces.len();
            problems.push(format!("{}: {lost} of its {before} pieces are lost", made.name));
            // Which of its bytes the others are is not known, but for logs.
            if !is_log || pieces.is_empty() {
                continue;
            }
        }
        mended.push(JournalRecord::Create(made));
        mended.push(JournalRecord::Extend(id, pieces));
    }
    mended.extend(wear);
    Ok(mended)
}

/// Whether a piece can belong to a file. A log drops chunks that became bad; otherwise the device
/// would stay read-only.
fn is_possible(zones: &dyn ChunkDevice, piece: &Extent, is_log: bool) -> bool {
    let geometry = zones.geometry();
    let index = piece.chunk as usize;
    (JOURNAL_CHUNKS..geometry.chunks()).contains(&index)
        && piece.start() + piece.taken() <= u64::from(geometry.chunk_bytes)
        && !(is_log && zones.is_bad(geometry.chunk(index)))
}

/// Gives logs the chunks back that no file has and that begin with one of their records. A log that a lost edit made is known by
/// its number alone.
fn adopt(
    zones: &dyn ChunkDevice,
    files: &mut Pieces,
    first_lost: u64,
    known: &BTreeSet<u64>,
    problems: &mut Vec<String>,
) -> Result<()> {
    let geometry = zones.geometry();
    let taken = files.chunks();
    for index in JOURNAL_CHUNKS as u32..geometry.chunks() as u32 {
        let chunk = geometry.chunk(index as usize);
        if taken.contains(&index) || zones.is_bad(chunk) || zones.written(chunk)? == 0 {
            continue;
        }
        let mut content = Content::of(zones, chunk)?;
        let Some(id) = format::log_of(content.from(0, BLOCK_BYTES as usize)?) else { continue };
        if id >= first_lost && !known.contains(&id) && files.get_mut(id).is_none() {
            files.create(CreateRecord::unnamed(id));
        }
        let Some(Known { made, pieces, .. }) = files.get_mut(id) else { continue };
        if pieces.is_empty() || made.log_bytes.is_some() {
            problems.push(format!("{}: chunk {index} begins with a record of it", made.name));
            pieces.push(Extent { chunk: index, block: 0, bytes: geometry.chunk_bytes });
            let bytes = pieces.len() as u64 * u64::from(geometry.chunk_bytes);
            made.log_bytes = made.log_bytes.max(Some(bytes));
        }
    }
    Ok(())
}
