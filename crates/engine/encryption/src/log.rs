//! A log file: each write is one record, or several if it is long. A record is behind the one before it, so
//! the file takes more than its decrypted bytes.
//!
//! A file that was opened, not created, takes only bytes that it has: a new open writes the end of a log once
//! more, to be sure that the device has it. It gets the same encrypted bytes.

use crate::header::{HEADER_BYTES, Header};
use crate::log_space::{bytes_below, sealed};
use crate::record::{self, ALIGNMENT, DATA_BYTES_MAX, RECORD_BYTES_MAX};
use crate::stream::StreamReader;
use esker_base::{Error, Result};
use esker_storage::{LogFile, Pace, ReadableFile};
use parking_lot::Mutex;
use std::io::{self, ErrorKind};
use std::sync::Arc;

/// A log file that was created.
pub(crate) struct EncryptedLog {
    below: Arc<dyn LogFile>,
    path: String,
    header: Header,
    state: Mutex<State>,
}

struct State {
    /// Where the next record begins in the file below.
    position: u64,
    /// The end of the last write.
    written: u64,
    sealed: Vec<u8>,
    /// The first failure: what is at the position is unknown, and nothing else may be written there.
    failed: Option<Error>,
}

impl EncryptedLog {
    /// `below` has the header, and no record of its key.
    pub(crate) fn new(below: Arc<dyn LogFile>, path: String, header: Header) -> Self {
        let position = HEADER_BYTES as u64;
        let state = State { position, written: 0, sealed: Vec::new(), failed: None };
        EncryptedLog { below, path, header, state: Mutex::new(state) }
    }

    /// Returns the highest offset in the file below that the bytes before `through` can use. Of the whole log
    /// it is the end of the file, so that a log whose bytes are all prepared can be used again.
    fn below_of(&self, through: u64) -> u64 {
        if through >= self.header.log_bytes {
            return bytes_below(self.header.log_bytes);
        }
        let position = {
            let state = self.state.lock();
            state.position + sealed(through.saturating_sub(state.written))
        };
        position.min(bytes_below(self.header.log_bytes))
    }

    fn refused(&self, action: &'static str, kind: ErrorKind) -> Error {
        Error::io(action, &self.path, io::Error::from(kind))
    }
}

impl LogFile for EncryptedLog {
    fn prepare(&self, through: u64, pace: Pace) -> Result<()> {
        self.below.prepare(self.below_of(through), pace)
    }

    fn give_back(&self, from: u64) -> bool {
        self.below.give_back(self.below_of(from))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.state.lock();
        let State { position, written, sealed, failed } = &mut *state;
        if let Some(error) = failed {
            return Err(error.clone());
        }
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.header.log_bytes) {
            return Err(self.refused("write outside", ErrorKind::InvalidInput));
        }
        if offset < *written {
            return Err(self.refused("write a second time to", ErrorKind::Unsupported));
        }
        sealed.clear();
        let mut at = offset;
        for data in bytes.chunks(DATA_BYTES_MAX) {
            let place = *position + sealed.len() as u64;
            record::append(&self.header.key, place, at, data, sealed);
            sealed.resize(sealed.len().next_multiple_of(ALIGNMENT), 0);
            at += data.len() as u64;
        }
        if let Err(error) = self.below.write_at(*position, sealed) {
            *failed = Some(error.clone());
            return Err(error);
        }
        *position += sealed.len() as u64;
        *written = at;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.below.sync()
    }

    fn name(&self) -> &str {
        self.below.name()
    }
}

/// A log file that was opened.
pub(crate) struct OpenedLog {
    below: Arc<dyn LogFile>,
    path: String,
    file: Arc<dyn ReadableFile>,
    header: Header,
}

impl OpenedLog {
    pub(crate) fn new(
        below: Arc<dyn LogFile>,
        path: String,
        file: Arc<dyn ReadableFile>,
        header: Header,
    ) -> Self {
        OpenedLog { below, path, file, header }
    }
}

impl LogFile for OpenedLog {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let reader = StreamReader::new(self.file.clone(), self.path.clone(), self.header.clone());
        let (data, end, _) = reader.records()?;
        let there = usize::try_from(offset).ok().and_then(|start| data.get(start..));
        if there.and_then(|data| data.get(..bytes.len())) != Some(bytes) {
            let source = io::Error::from(ErrorKind::Unsupported);
            return Err(Error::io("write other bytes to", &self.path, source));
        }
        // As they are: another encryption of the bytes would use a nonce a second time.
        let mut chunk = vec![0; RECORD_BYTES_MAX];
        let mut position = 0;
        while position < end {
            let part = (end - position).min(chunk.len() as u64) as usize;
            self.file.read_exact_at(position, &mut chunk[..part])?;
            self.below.write_at(position, &chunk[..part])?;
            position += part as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.below.sync()
    }

    fn name(&self) -> &str {
        self.below.name()
    }
}
