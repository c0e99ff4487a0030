//! Finds journal edits that log records prove to have been durable.
//!
//! If the end of the journal is damaged, its blocks are unreadable, and a crash can leave the same
//! state. Each log record therefore names the last edit that was durable when the record was
//! written. The log itself may be named only by the missing edits. An open reads the first block of
//! every chunk, and reads further only if that block is a record of a log that may be in use.

use crate::chunk_device::{BLOCK_BYTES, ChunkDevice};
use crate::storage::format::chunk_reader::Content;
use crate::storage::format::{self, LOG_HEADER};

/// The longest record that is read in a chunk in which no log in use has records: its length may be damaged.
const FIRST_RECORD_BYTES_MAX: usize = 1 << 20;

/// The newest durable edit behind the last one that was found.
pub(crate) struct Proof {
    last: u64,
    /// The edit, and the chunk with the record.
    newest: Option<(u64, u32)>,
}

/// A chunk in which a record may prove something.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) index: u32,
    /// Whether no file has a part of it, as far as was found.
    pub(crate) is_free: bool,
}

/// The files that were found, by their ids.
pub(crate) struct Ids<F> {
    /// Lost edits gave their files ids from this one on.
    pub(crate) next: u64,
    pub(crate) is_found: F,
}

impl Proof {
    /// `last` is the last edit that was found.
    pub(crate) fn new(last: u64) -> Self {
        Proof { last, newest: None }
    }

    /// The lost edit.
    pub(crate) fn edit(&self) -> Option<u64> {
        self.newest.map(|(edit, _)| edit)
    }

    /// Why the journal is not what was written.
    pub(crate) fn doubt(&self) -> Option<String> {
        self.newest.map(|(edit, chunk)| {
            format!(
                "the journal ends with edit {}; edit {edit} was durable, as a log in chunk {chunk} proves",
                self.last
            )
        })
    }

    /// Reads the beginning of a whole record.
    pub(crate) fn learn(&mut self, record: &[u8], chunk: u32) {
        let named = format::edit_behind(record, self.last).map(|edit| (edit, chunk));
        self.newest = self.newest.max(named);
    }

    /// Reads the records in these chunks: the first of each, and the others if the log may be in use. What can't be read
    /// proves nothing.
    pub(crate) fn seek(
        &mut self,
        zones: &dyn ChunkDevice,
        places: impl Iterator<Item = Place>,
        ids: &Ids<impl Fn(u64) -> bool>,
    ) {
        places.for_each(|place| self.seek_in(zones, place, ids));
    }

    fn seek_in(
        &mut self,
        zones: &dyn ChunkDevice,
        Place { index, is_free }: Place,
        ids: &Ids<impl Fn(u64) -> bool>,
    ) {
        let chunk = zones.geometry().chunk(index as usize);
        // Nothing empties a read-only chunk: what it has may be of an older device.
        if zones.is_bad(chunk) || zones.is_read_only(chunk) {
            return;
        }
        let Ok(mut content) = Content::of(zones, chunk) else { return };
        // Most chunks have no record: read no more than a block.
        let mut block = vec![0; BLOCK_BYTES as usize];
        if content.written < BLOCK_BYTES || zones.read(chunk, 0, &mut block).is_err() {
            return;
        }
        let Some(id) = format::log_in(&block) else { return };
        let is_lost = id >= ids.next;
        if is_lost || is_free && (ids.is_found)(id) {
            self.learn_all(&mut content, index, id);
        } else if is_free && format::edit_behind(&block, self.last).is_some() {
            self.learn_first(zones, block, index, id);
        }
    }

    /// Reads all records of a log that begin a chunk.
    fn learn_all(&mut self, content: &mut Content<'_>, index: u32, id: u64) {
        let mut at = 0;
        while let Ok(head) = content.from(at, LOG_HEADER)
            && let Some(len) = format::log_bytes(head, id)
            && at + len as u64 <= content.written
            && let Ok(record) = content.from(at, len)
            && format::decode_log(record, id).is_some()
        {
            self.learn(record, index);
            at += (len as u64).next_multiple_of(BLOCK_BYTES);
        }
    }

    /// Reads the record of a log that begins with this block.
    fn learn_first(&mut self, zones: &dyn ChunkDevice, mut record: Vec<u8>, index: u32, id: u64) {
        let Some(len) = format::log_bytes(&record, id) else { return };
        let bytes = len.next_multiple_of(BLOCK_BYTES as usize);
        if bytes > FIRST_RECORD_BYTES_MAX {
            return;
        }
        let first = record.len();
        record.resize(bytes, 0);
        let chunk = zones.geometry().chunk(index as usize);
        let is_read =
            bytes == first || zones.read(chunk, BLOCK_BYTES, &mut record[first..]).is_ok();
        if is_read && format::decode_log(&record, id).is_some() {
            self.learn(&record, index);
        }
    }
}
