//! A file that grows by appending, through a buffer.
//!
//! Appends reach the system in whole buffers, which therefore start at multiples of the buffer's
//! size, or when the file is synced. After a failure nothing more is accepted: how much of the last
//! write arrived is unknown.

use super::directory::Directory;
use super::{fadvise, failure};
use crate::WritableFile;
use esker_base::{Error, Result};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Large enough that the system call is noise, small enough to stay in a core's cache.
const BUFFER_BYTES: usize = 256 << 10;

/// How much is written before its writeback is asked for: dirty pages never pile up to where the
/// kernel throttles the writers of all files.
const WRITEBACK_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct PosixWriter {
    file: File,
    path: PathBuf,
    /// Appended and not yet written. Never longer than `BUFFER_BYTES`.
    buffer: Vec<u8>,
    /// The bytes the system has.
    written: u64,
    /// The bytes whose writeback was asked for: at most `written`.
    in_writeback: u64,
    /// What is removed before the system writes it back need not reach the device.
    is_scratch: bool,
    /// The first failure.
    failed: Option<Error>,
}

impl PosixWriter {
    /// Creates the file. Fails if the name is taken.
    pub(super) fn create(directory: &Directory, name: &str, is_scratch: bool) -> Result<Self> {
        let path = directory.path_of(name);
        let created = directory.create_file(name, OFlags::WRONLY | OFlags::EXCL);
        let file = created.map_err(|source| failure("create", &path, source))?;
        let buffer = Vec::new();
        let failed = None;
        Ok(PosixWriter { file, path, buffer, written: 0, in_writeback: 0, is_scratch, failed })
    }

    fn append_across_buffers(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let (head, rest) = bytes.split_at(BUFFER_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(head);
            self.flush()?;
            bytes = rest;
        }
        let whole = bytes.len() - bytes.len() % BUFFER_BYTES;
        self.write(&bytes[..whole])?;
        self.buffer.reserve_exact(BUFFER_BYTES);
        self.buffer.extend_from_slice(&bytes[whole..]);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        if self.written - self.in_writeback >= WRITEBACK_BYTES && !self.is_scratch {
            self.write_back();
        }
        Ok(())
    }

    fn write_back(&mut self) {
        fadvise::start_writeback(&self.file, self.in_writeback, self.written - self.in_writeback);
        self.in_writeback = self.written;
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, action: &'static str, source: io::Error) -> Error {
        let error = failure(action, &self.path, source);
        self.failed = Some(error.clone());
        error
    }
}

impl WritableFile for PosixWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        if self.buffer.len() + bytes.len() <= BUFFER_BYTES {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        self.append_across_buffers(bytes).map_err(|source| self.fail("write to", source))
    }

    fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn sync(&mut self) -> Result<()> {
        self.check()?;
        self.flush().map_err(|source| self.fail("write to", source))?;
        self.file.sync_data().map_err(|source| self.fail("sync", source))
    }

    /// What is still in the buffer waits for its turn: to write it now would undo the gathering.
    fn start_writeback(&mut self) -> Result<()> {
        self.check()?;
        self.write_back();
        Ok(())
    }

    fn publish(&mut self) -> Result<()> {
        self.check()?;
        self.flush().map_err(|source| self.fail("write to", source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// A writer whose writes the system refuses.
    fn refused(directory: &std::path::Path) -> PosixWriter {
        let path = directory.join("a");
        std::fs::write(&path, b"").unwrap();
        let file = File::open(&path).unwrap();
        let buffer = Vec::new();
        let (is_scratch, failed) = (false, None);
        PosixWriter { file, path, buffer, written: 0, in_writeback: 0, is_scratch, failed }
    }

    fn created(directory: &std::path::Path) -> Result<PosixWriter> {
        PosixWriter::create(&Directory::open(directory.to_owned())?, "a", false)
    }

    #[test]
    fn a_writer_that_failed_takes_nothing_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = refused(directory.path());
        writer.append(b"still in the buffer").unwrap();
        let first = writer.sync().unwrap_err().to_string();
        assert!(first.contains("write to"), "{first}");
        for again in
            [writer.append(b"x"), writer.sync(), writer.start_writeback(), writer.publish()]
        {
            assert_eq!(again.unwrap_err().to_string(), first);
        }
        let mut writer = refused(directory.path());
        writer.append(&[1; BUFFER_BYTES + 1]).unwrap_err();
        writer.sync().unwrap_err();
    }

    #[test]
    fn appends_reach_the_system_in_whole_buffers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let mut writer = created(directory.path()).unwrap();
        let found = || std::fs::metadata(&path).unwrap().len();
        writer.append(&[1; 100]).unwrap();
        assert_eq!(found(), 0);
        writer.append(&[1; 3 * BUFFER_BYTES]).unwrap();
        assert_eq!(found(), 3 * BUFFER_BYTES as u64);
        writer.publish().unwrap();
        assert_eq!(found(), writer.len());
        writer.append(&[1]).unwrap();
        writer.sync().unwrap();
        assert_eq!(found(), writer.len());
    }

    #[test]
    fn a_taken_name_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        std::fs::write(&path, b"mine").unwrap();
        let error = created(directory.path()).unwrap_err();
        assert_eq!(error.io_kind(), Some(ErrorKind::AlreadyExists));
        assert_eq!(std::fs::read(path).unwrap(), b"mine");
    }
}
