//! A log file: allocated and written once, then overwritten in place.

use super::directory::Directory;
use super::fadvise::Punched;
use super::{fadvise, failure};
use crate::{LogFile, Pace};
use esker_base::{Error, Result};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The zeros written at a time. A write this size leaves a folio this size in the page cache, and a
/// file system visits every block of a folio on each later write into it. On ext4, writes of 136
/// bytes took 1,600–4,200 ns after zeroing by the MiB, and 460–690 after zeroing by 16 KiB; smaller
/// pieces gain no more and make syncs longer.
const ZERO_BYTES: u64 = 16 << 10;

/// The bytes whose writeback is asked for while the next are written.
const WRITEBACK_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct PosixLog {
    file: File,
    bytes: u64,
    /// Writes may go to the bytes below this.
    prepared: AtomicU64,
    /// Whether the first sync is still to make the length durable.
    is_length_new: AtomicBool,
    /// The file, opened once more, for [`LogFile::prepare`]. The system reports a failure to write back once
    /// for each opening: a sync of a step must not take from the log's sync the failure of a frame.
    steps: Option<File>,
    path: PathBuf,
    name: String,
}

impl PosixLog {
    /// Creates a log. If that fails half-way, neither the name nor the space stays taken.
    pub(super) fn create(directory: &Directory, name: &str, bytes: u64) -> Result<Self> {
        let log = PosixLog::create_in_steps(directory, name, bytes, bytes)?;
        log.sync().inspect_err(|_| {
            let _ = directory.remove(name);
        })?;
        Ok(log)
    }

    /// Creates a log of which only the first `prepared` bytes are allocated. The rest is a hole. Does not
    /// sync: nothing relies on a log before its header is in it, and the sync of the header covers both.
    pub(super) fn create_in_steps(
        directory: &Directory,
        name: &str,
        bytes: u64,
        prepared: u64,
    ) -> Result<Self> {
        let path = directory.path_of(name);
        let file = directory
            .create_file(name, OFlags::WRONLY | OFlags::EXCL)
            .map_err(|source| failure("create", &path, source))?;
        let prepared = prepared.min(bytes);
        let set_length = || match prepared < bytes {
            true => file.set_len(bytes),
            false => Ok(()),
        };
        let filled = set_length().and_then(|()| fill_with_zeros(&file, 0..prepared));
        if let Err(source) = filled {
            // The first failure says more than that of the clean-up.
            let _ = directory.remove(name);
            return Err(failure("allocate", &path, source));
        }
        let steps = directory.open_file(name, OFlags::WRONLY).map_err(|source| {
            let _ = directory.remove(name);
            failure("open", &path, source)
        })?;
        let steps = Some(steps);
        fadvise::read_ahead(&file, 0, prepared);
        let is_length_new = AtomicBool::new(prepared < bytes);
        Ok(PosixLog { steps, is_length_new, ..PosixLog::over(file, bytes, prepared, path, name) })
    }

    fn over(file: File, bytes: u64, prepared: u64, path: PathBuf, name: &str) -> Self {
        let (prepared, name) = (prepared.into(), name.to_owned());
        let is_length_new = AtomicBool::new(false);
        PosixLog { file, bytes, prepared, is_length_new, steps: None, path, name }
    }

    /// Opens a log as it is.
    pub(super) fn open(directory: &Directory, name: &str) -> Result<Self> {
        let path = directory.path_of(name);
        let opened = directory.open_file(name, OFlags::WRONLY);
        let file = opened.map_err(|source| failure("open", &path, source))?;
        let bytes = file.metadata().map_err(|source| failure("measure", &path, source))?.len();
        Ok(PosixLog::over(file, bytes, bytes, path, name))
    }

    /// Takes the log `old` over as `new`, if it has the size wanted.
    pub(super) fn recycle(
        directory: &Directory,
        old: &str,
        new: &str,
        bytes: u64,
    ) -> Result<Option<Self>> {
        let PosixLog { file, bytes: found, .. } = PosixLog::open(directory, old)?;
        if found != bytes {
            return Ok(None);
        }
        let steps = directory.open_file(old, OFlags::WRONLY);
        let steps = Some(steps.map_err(|source| failure("open", &directory.path_of(old), source))?);
        let path = directory.path_of(new);
        let renamed = match directory.exists(new) {
            Ok(true) => Err(ErrorKind::AlreadyExists.into()),
            Ok(false) => directory.rename(old, new),
            Err(source) => Err(source),
        };
        renamed.map_err(|source| failure("recycle a log as", &path, source))?;
        fadvise::read_ahead(&file, 0, bytes);
        Ok(Some(PosixLog { steps, ..PosixLog::over(file, bytes, bytes, path, new) }))
    }

    #[cold]
    fn outside(&self, offset: u64, len: usize) -> Error {
        let prepared = self.prepared.load(Ordering::Relaxed);
        let what = format!(
            "{len} bytes at {offset} do not fit into a log of {} bytes, {prepared} of them prepared",
            self.bytes
        );
        failure("write to", &self.path, io::Error::new(ErrorKind::InvalidInput, what))
    }
}

/// Allocates `range`, and writes it. Does not sync.
fn fill_with_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    fadvise::allocate(file, range.clone())?;
    let zeros = [0; ZERO_BYTES as usize];
    let (mut written, mut in_writeback) = (range.start, range.start);
    while written < range.end {
        let part = &zeros[..(range.end - written).min(ZERO_BYTES) as usize];
        file.write_all_at(part, written)?;
        written += part.len() as u64;
        if written - in_writeback >= WRITEBACK_BYTES {
            fadvise::start_writeback(file, in_writeback, written - in_writeback);
            in_writeback = written;
        }
    }
    Ok(())
}

/// Frees the blocks of `step`, the last that were allocated. `bytes` is the length of the file.
fn give_back(file: &File, step: Range<u64>, bytes: u64) {
    if fadvise::punch_hole(file, step.clone()) != Punched::Freed {
        let _ = file.set_len(step.start);
        let _ = file.set_len(bytes);
    }
}

impl PosixLog {
    /// Prepares `step` with `fill`. If that fails, the log keeps none of its blocks: on a full disk, a
    /// flush may need them.
    fn extend(
        &self,
        step: Range<u64>,
        fill: impl FnOnce(&File, Range<u64>) -> io::Result<()>,
    ) -> Result<()> {
        let file = self.steps.as_ref().unwrap_or(&self.file);
        // No writer is beyond what is prepared, so zeros can't overwrite a frame.
        if let Err(source) = fill(file, step.clone()) {
            give_back(file, step, self.bytes);
            return Err(failure("allocate", &self.path, source));
        }
        self.prepared.store(step.end, Ordering::Release);
        Ok(())
    }
}

impl LogFile for PosixLog {
    fn prepare(&self, through: u64, pace: Pace) -> Result<()> {
        let step = self.prepared.load(Ordering::Acquire)..through.min(self.bytes);
        if step.is_empty() {
            return Ok(());
        }
        self.extend(step, |file, step| match pace {
            Pace::AheadOfSyncs | Pace::AheadOfWrites => {
                fill_with_zeros(file, step.clone())?;
                if pace == Pace::AheadOfSyncs {
                    file.sync_data()?;
                }
                fadvise::read_ahead(file, step.start, step.end - step.start);
                Ok(())
            }
            Pace::Hurried => match fadvise::allocate(file, step.clone())? {
                true => Ok(()),
                false => fill_with_zeros(file, step),
            },
        })
    }

    fn give_back(&self, from: u64) -> bool {
        let prepared = self.prepared.load(Ordering::Acquire);
        // The blocks are prepared again through an opening of their own, as new ones are.
        let Some(file) = self.steps.as_ref().filter(|_| from < prepared) else { return true };
        self.prepared.store(from, Ordering::Release);
        // After another failure a part may be free: all of it is prepared again.
        let is_able = fadvise::punch_hole(file, from..prepared) != Punched::Unsupported;
        if !is_able {
            self.prepared.store(prepared, Ordering::Release);
        }
        is_able
    }

    /// This is on the path of every put: one system call, no lock, no allocation.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset
            .checked_add(bytes.len() as u64)
            .is_none_or(|end| end > self.prepared.load(Ordering::Relaxed))
        {
            return Err(self.outside(offset, bytes.len()));
        }
        self.file
            .write_all_at(bytes, offset)
            .map_err(|source| failure("write to", &self.path, source))
    }

    fn sync(&self) -> Result<()> {
        // A data sync need not make a length durable that no data reaches.
        let synced = match self.is_length_new.load(Ordering::Relaxed) {
            true => self.file.sync_all(),
            false => self.file.sync_data(),
        };
        synced.map_err(|source| failure("sync", &self.path, source))?;
        self.is_length_new.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{fcntl_getfl, fcntl_setfl};

    const BYTES: u64 = 1 << 20;

    fn log() -> (tempfile::TempDir, PosixLog) {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path().to_owned()).unwrap();
        let log = PosixLog::create_in_steps(&directory, "log", BYTES, 8 << 10).unwrap();
        (place, log)
    }

    #[test]
    fn steps_have_an_opening_of_their_own() {
        let (_place, log) = log();
        // Flags belong to an opening, as the failures to write back do.
        let steps = log.steps.as_ref().unwrap();
        fcntl_setfl(steps, fcntl_getfl(steps).unwrap() | OFlags::NONBLOCK).unwrap();
        assert!(!fcntl_getfl(&log.file).unwrap().contains(OFlags::NONBLOCK));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_step_that_fails_keeps_no_blocks() {
        use std::os::unix::fs::MetadataExt;
        let (_place, log) = log();
        log.write_at(0, &[7; 8 << 10]).unwrap();
        log.sync().unwrap();
        let blocks = || log.file.metadata().unwrap().blocks();
        let before = blocks();
        // The disk is full half-way.
        let error = log.extend(8 << 10..BYTES, |file, step| {
            fill_with_zeros(file, step.start..BYTES / 2)?;
            file.sync_data()?;
            assert!(blocks() > before);
            Err(ErrorKind::StorageFull.into())
        });
        assert!(error.unwrap_err().is_out_of_space());
        assert_eq!(blocks(), before);
        assert!(log.write_at(8 << 10, b"1").is_err(), "nothing is prepared there");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_log_gives_back_what_is_not_written_and_is_prepared_there_again() {
        let place = tempfile::tempdir().unwrap();
        let directory = Directory::open(place.path().to_owned()).unwrap();
        let new = PosixLog::create(&directory, "log", BYTES).unwrap();
        gives_back(&place.path().join("log"), &new);
        drop(PosixLog::create(&directory, "old", BYTES).unwrap());
        let log = PosixLog::recycle(&directory, "old", "recycled", BYTES).unwrap().unwrap();
        gives_back(&place.path().join("recycled"), &log);
    }

    #[cfg(target_os = "linux")]
    fn gives_back(path: &std::path::Path, log: &PosixLog) {
        use std::os::unix::fs::MetadataExt;
        log.write_at(0, &[7; 4 << 10]).unwrap();
        let blocks = || log.file.metadata().unwrap().blocks() * 512;
        assert!(blocks() >= BYTES);
        assert!(log.give_back(8 << 10));
        assert!(blocks() < BYTES / 2, "{} bytes are left", blocks());
        assert_eq!(log.file.metadata().unwrap().len(), BYTES);
        assert!(log.write_at(8 << 10, b"1").is_err(), "it is not prepared");
        assert!(log.give_back(8 << 10), "there is nothing more, but it could");
        log.prepare(BYTES, Pace::AheadOfSyncs).unwrap();
        assert!(blocks() >= BYTES);
        log.write_at(BYTES - 1, b"1").unwrap();
        let mut expected = vec![0; BYTES as usize];
        expected[..4 << 10].fill(7);
        expected[BYTES as usize - 1] = b'1';
        assert_eq!(std::fs::read(path).unwrap(), expected);
    }

    #[test]
    fn a_step_neither_writes_nor_syncs_through_the_opening_of_the_frames() {
        let (_place, mut log) = log();
        // It takes no write and no sync.
        log.file = File::open("/dev/null").unwrap();
        assert!(log.sync().is_err());
        log.prepare(64 << 10, Pace::AheadOfSyncs).unwrap();
        log.prepare(128 << 10, Pace::Hurried).unwrap();
    }
}
