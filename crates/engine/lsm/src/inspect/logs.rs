//! Reads the logs of a database one by one.

use super::Inspector;
use crate::log::wal_files::{log_file_name, parse_log_file_name};
use crate::log::wal_reader::WalHandle;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::LogEnd;
use crate::recovery::replay::Rejected;
use esker_base::{Entry, Error, Result, Seqno};
use esker_memtable::{FRAME_HEADER_BYTES, FrameInfo, ScanResult, SegmentHeader, scan};

/// The content of a log.
#[non_exhaustive]
pub struct LogDump {
    /// The name of the file.
    pub name: String,
    /// The header of the segment.
    pub header: SegmentHeader,
    /// The frames, whatever their sequence numbers, and why the scan ended.
    pub scan: ScanResult,
    /// The error that the file is shorter than the segment, or `None`.
    pub cut_short: Option<Error>,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for LogDump {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogDump")
            .field("name", &self.name)
            .field("header", &self.header)
            .field("scan", &self.scan)
            .field("cut_short", &self.cut_short)
            .finish_non_exhaustive()
    }
}

impl LogDump {
    /// Where its sound frames end that name only keyspaces below `next_keyspace`, or `None` if the
    /// first does not. An open refuses the others.
    pub(super) fn end_of_known(&self, next_keyspace: u32) -> Option<LogEnd> {
        let frames = &self.scan.frames;
        let is_known = |frame: &FrameInfo| {
            self.entries(frame).all(|(_, entry)| entry.keyspace.0 < next_keyspace)
        };
        let known = frames.iter().take_while(|frame| is_known(frame)).count();
        let offset = frames.get(known).map_or(self.scan.end, |unknown| unknown.offset);
        let last = frames[..known].last()?;
        Some(LogEnd { offset, last_seqno: last.next_seqno() - 1 })
    }

    /// Where the last batch ends that ends in this log, at `end` at the latest.
    pub(super) fn end_of_batches(&self, end: LogEnd) -> Option<LogEnd> {
        let ends_here = |frame: &&FrameInfo| frame.offset < end.offset && !frame.continues;
        let last = self.scan.frames.iter().rfind(ends_here)?;
        let offset = last.offset + u64::from(last.bytes);
        Some(LogEnd { offset, last_seqno: last.next_seqno() - 1 })
    }

    /// The log's content, if whole frames follow those that are accepted.
    pub(super) fn rejected(&self) -> Option<Rejected> {
        self.scan.later.map(|_| self.content())
    }

    /// The log's content up to the end of its last whole frame.
    pub(super) fn content(&self) -> Rejected {
        let end = self.scan.later.map_or(self.scan.end, |later| later.end);
        Rejected { name: self.name.clone(), bytes: self.bytes[..end as usize].to_vec() }
    }

    /// Returns the entries of a frame of this log, each with its sequence number.
    pub fn entries(&self, frame: &FrameInfo) -> impl Iterator<Item = (Seqno, Entry<'_>)> {
        let start = frame.offset as usize + FRAME_HEADER_BYTES;
        let end = frame.offset as usize + frame.bytes as usize;
        let mut rest = self.bytes.get(start..end).unwrap_or_default();
        // The scan has decoded them all once; behind the last there is padding.
        let entries = std::iter::from_fn(move || Entry::decode(&mut rest));
        (frame.first_seqno..frame.next_seqno()).zip(entries)
    }
}

impl Inspector {
    /// Returns the epochs of the logs in the current manifest, oldest first.
    ///
    /// # Errors
    /// The errors of [`Inspector::manifest`].
    pub fn logs(&self) -> Result<Vec<u32>> {
        Ok(self.state()?.1.logs.keys().copied().collect())
    }

    /// Whether there is a log with this epoch, in the manifest or not.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read.
    pub fn has_log(&self, epoch: u32) -> Result<bool> {
        self.log_storage.exists(&log_file_name(epoch))
    }

    /// Reads the log with this epoch.
    ///
    /// # Errors
    /// [`Error::Io`] if it does not exist or cannot be read, [`Error::Corruption`] if its header is
    /// damaged.
    pub fn log(&self, epoch: u32) -> Result<LogDump> {
        self.read_log(epoch, None, None)
    }

    /// The log of `epoch`, up to where an earlier recovery found its end: what it rejected stays
    /// rejected.
    pub(super) fn read_log(
        &self,
        epoch: u32,
        end: Option<LogEnd>,
        expected: Option<Seqno>,
    ) -> Result<LogDump> {
        let found = WalHandle::of(&*self.log_storage, epoch)?;
        let mut bytes = vec![0; found.bytes()];
        found.read(&mut bytes)?;
        let cut_short = found.check_whole().err();
        let end = end.map_or(bytes.len(), |end| bytes.len().min(end.offset as usize));
        let WalHandle { name, header, .. } = found;
        let scan = scan(&bytes[..end], &header, expected);
        Ok(LogDump { name, header, scan, cut_short, bytes })
    }

    /// Logs that `state` does not know and that hold writes beyond all it knows. A log that was
    /// retired holds only writes that are in tables.
    pub(super) fn unlisted_logs(&self, state: &ManifestState) -> Result<Vec<u32>> {
        let mut last_seqno = state.version.flushed_through;
        for &epoch in state.logs.keys() {
            // One that can't be read is reported by whoever reads it in earnest.
            let frames = self.log(epoch).map(|log| log.scan.frames).unwrap_or_default();
            last_seqno = frames.last().map_or(last_seqno, |frame| frame.next_seqno() - 1);
        }
        let names = self.log_storage.list()?;
        let mut epochs: Vec<u32> =
            names.iter().filter_map(|name| parse_log_file_name(name)).collect();
        epochs.retain(|&epoch| !state.lists_log(epoch));
        epochs.sort_unstable();
        let mut unlisted = Vec::new();
        for epoch in epochs {
            let frames = match self.log(epoch) {
                Ok(log) => log.scan.frames,
                // One without a sound header never held anything.
                Err(error) if error.is_corruption() => continue,
                Err(error) => return Err(error),
            };
            if frames.last().is_some_and(|frame| frame.next_seqno() > last_seqno + 1) {
                unlisted.push(epoch);
            }
        }
        Ok(unlisted)
    }
}
