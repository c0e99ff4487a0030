//! Edits of the journal that records of logs prove to have been durable.
//!
//! Damage may take the journal's end. Its blocks then say nothing, and a crash may leave the same. But each record of a log
//! names the last edit that was durable when it was written.

use super::content::Content;
use super::format::{self, LOG_HEADER};
use crate::zones::{BLOCK_BYTES, Zones};
use esker_base::Result;

/// The newest durable edit behind the last one that was found.
pub(super) struct Proof {
    last: u64,
    /// The edit, and the chunk with the record.
    newest: Option<(u64, u32)>,
}

impl Proof {
    /// `last` is the last edit that was found.
    pub(super) fn new(last: u64) -> Self {
        Proof { last, newest: None }
    }

    /// The lost edit.
    pub(super) fn edit(&self) -> Option<u64> {
        self.newest.map(|(edit, _)| edit)
    }

    /// Why the journal is not what was written.
    pub(super) fn doubt(&self) -> Option<String> {
        self.newest.map(|(edit, chunk)| {
            format!(
                "the journal ends with edit {}; edit {edit} was durable, as a log in chunk {chunk} proves",
                self.last
            )
        })
    }

    /// Reads the beginning of a whole record.
    pub(super) fn learn(&mut self, record: &[u8], chunk: u32) {
        let named = format::edit_behind(record, self.last).map(|edit| (edit, chunk));
        self.newest = self.newest.max(named);
    }

    /// Reads the records in a chunk without files: the first one, and the others if the log may be in use.
    pub(super) fn seek(
        &mut self,
        zones: &dyn Zones,
        index: u32,
        may_be_used: impl Fn(u64) -> bool,
    ) -> Result<()> {
        let chunk = zones.geometry().chunk(index as usize);
        if zones.is_bad(chunk) || zones.written(chunk)? < BLOCK_BYTES {
            return Ok(());
        }
        // Most chunks have no record: read no more than a block.
        let mut block = vec![0; BLOCK_BYTES as usize];
        if zones.read(chunk, 0, &mut block).is_err() {
            return Ok(());
        }
        let Some(id) = format::log_in(&block) else { return Ok(()) };
        let (mut content, mut at) = (Content::of(zones, chunk)?, 0);
        while let Some(len) = format::log_bytes(content.from(at, LOG_HEADER)?, id) {
            let record = content.from(at, len)?;
            if format::decode_log(record, id).is_none() {
                break;
            }
            self.learn(record, index);
            at += (len as u64).next_multiple_of(BLOCK_BYTES);
            if !may_be_used(id) {
                break;
            }
        }
        Ok(())
    }
}
