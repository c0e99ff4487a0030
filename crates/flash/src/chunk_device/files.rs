//! Chunks as files in a directory, to run flash management on any file system.
//!
//! `GEOMETRY` contains the device's geometry (`GEOMETRY.new` until it is complete). `zone-00000`
//! and so on are its chunks; each file is as long as the data written to it. A chunk that was never
//! written has no file.
//!
//! Every file is opened relative to the opened and locked directory, never by its path. If the
//! directory is renamed, its files stay with it, and a new directory at the old path is not
//! touched. A flush fails if another program removed or truncated a file that it covers.

use super::dirty_files::DirtyFiles;
use super::{BLOCK_BYTES, ChunkDevice, check};
use crate::storage::{self, JOURNAL_CHUNKS};
use crate::{Chunk, Geometry};
use esker_base::{Error, FileKind, Result, WriteHint};
use esker_storage::{PosixStorage, Storage};
use parking_lot::Mutex;
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const GEOMETRY: &str = "GEOMETRY";
/// The same until it is complete, so that an interrupted creation can be repeated.
const UNFINISHED: &str = "GEOMETRY.new";
const HEADER: &str = "esker zones 1";
const CHUNK: &str = "zone-";

/// Files that are kept open in addition to those in use: a process may have 1,024, and has others.
const KEPT_OPEN: usize = 256;

/// A directory of chunks.
pub struct FileChunkDevice {
    // Constant after construction.
    geometry: Geometry,
    names: PosixStorage,
    is_writable: bool,
    // What changes.
    open: Mutex<BTreeMap<usize, Arc<ChunkFile>>>,
    unflushed: DirtyFiles<ChunkFile>,
}

/// The open file of a chunk.
struct ChunkFile {
    file: File,
    /// The length that it must have at least, in bytes.
    end: AtomicU64,
}

impl ChunkFile {
    fn of(file: File) -> io::Result<Self> {
        let end = file.metadata()?.len().into();
        Ok(ChunkFile { file, end })
    }

    /// Writes at `at`, unless what was written before is gone.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.check()?;
        self.file.write_all_at(bytes, at)?;
        self.end.fetch_max(at + bytes.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    fn empty(&self) -> io::Result<()> {
        self.end.store(0, Ordering::Release);
        self.file.set_len(0)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()?;
        self.check()
    }

    /// Fails if the file was removed or shortened behind our back: what was acknowledged is lost then.
    fn check(&self) -> io::Result<()> {
        let end = self.end.load(Ordering::Acquire);
        let found = self.file.metadata()?;
        if found.nlink() == 0 {
            return Err(io::Error::new(ErrorKind::NotFound, "the file was removed while in use"));
        }
        if found.len() < end {
            let what = format!(
                "the file was shortened while in use, from {end} to {} bytes; run `esker flash repair`",
                found.len()
            );
            return Err(io::Error::new(ErrorKind::UnexpectedEof, what));
        }
        Ok(())
    }
}

impl FileChunkDevice {
    /// Makes a device in an empty or missing directory.
    pub fn create(dir: &Path, geometry: Geometry) -> Result<Self> {
        check(&geometry)?;
        let names = PosixStorage::create(dir)?;
        let lock = names.lock()?;
        if names.list()?.iter().any(|name| name != UNFINISHED) {
            let found = io::Error::new(ErrorKind::AlreadyExists, "it is not empty; choose another");
            return Err(Error::io("make a device in", dir.display().to_string(), found));
        }
        write_geometry(&names, &geometry)?;
        drop(lock);
        Self::open_in(names, true)
    }

    /// Opens a device that is there.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_as(dir, true)
    }

    /// Opens a device that is there to read it, which works where nothing may be written.
    pub fn open_to_look(dir: &Path) -> Result<Self> {
        Self::open_as(dir, false)
    }

    /// Writes what a device is made of again, if that is missing or damaged and the journal says it. Says whether it did.
    ///
    /// # Errors
    ///
    /// Fails if neither says it, and if the directory cannot be written.
    pub fn restore_geometry(dir: &Path) -> Result<bool> {
        let names = PosixStorage::open(dir)?;
        let _lock = names.lock()?;
        let mut said = None;
        for index in 0..JOURNAL_CHUNKS {
            let name = name_of(index);
            if !names.exists(&name)? {
                continue;
            }
            let file = names.open(&name)?;
            let mut block = vec![0; file.len()?.min(BLOCK_BYTES) as usize];
            file.read_exact_at(0, &mut block)?;
            said = said.or(storage::geometry_in(&block));
        }
        let text = match names.exists(GEOMETRY)? {
            true => Self::text(&names)?,
            false => Vec::new(),
        };
        let found = std::str::from_utf8(&text).ok().and_then(parse);
        match said {
            Some(geometry) if found != Some(geometry) => {
                write_geometry(&names, &geometry)?;
                Ok(true)
            }
            None if found.is_none() => {
                let path = format!("{}/{GEOMETRY}", names.describe());
                let what = "it says no geometry, and no chunk of the journal does; restore a copy";
                Err(Error::corruption(path, 0, what))
            }
            _ => Ok(false),
        }
    }

    fn text(names: &PosixStorage) -> Result<Vec<u8>> {
        let file = names.open(GEOMETRY)?;
        let mut text = vec![0; file.len()?.min(BLOCK_BYTES) as usize];
        file.read_exact_at(0, &mut text)?;
        Ok(text)
    }

    fn open_as(dir: &Path, is_writable: bool) -> Result<Self> {
        Self::open_in(PosixStorage::open(dir)?, is_writable)
    }

    fn open_in(names: PosixStorage, is_writable: bool) -> Result<Self> {
        let text = Self::text(&names)?;
        let path = format!("{}/{GEOMETRY}", names.describe());
        let geometry = std::str::from_utf8(&text).ok().and_then(parse);
        let what = "it says no geometry that this program knows; run `esker flash repair`";
        let unknown = || Error::corruption(path, 0, what);
        let geometry = geometry.ok_or_else(unknown)?;
        check(&geometry)?;
        let listed = names.list()?;
        let numbers = listed.iter().filter_map(|name| name.strip_prefix(CHUNK)?.parse().ok());
        let unflushed = DirtyFiles::of(numbers.filter(|index| *index < geometry.chunks()));
        let open = Mutex::default();
        Ok(FileChunkDevice { geometry, names, is_writable, open, unflushed })
    }

    /// Whether there is a device in a directory.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(GEOMETRY).is_file()
    }

    /// The path of a chunk's file, for messages.
    fn path(&self, index: usize) -> String {
        format!("{}/{}", self.names.describe(), name_of(index))
    }

    /// The directory that was opened.
    fn dir(&self) -> rustix::io::Result<BorrowedFd<'_>> {
        self.names.directory().ok_or(Errno::BADF)
    }

    fn open_at(&self, index: usize, flags: OFlags) -> io::Result<ChunkFile> {
        let mode = Mode::from_raw_mode(0o666);
        let file = openat(self.dir()?, name_of(index), flags | OFlags::CLOEXEC, mode)?;
        ChunkFile::of(file.into())
    }

    /// A chunk's file. `None` if it was never written.
    fn existing(&self, index: usize) -> Result<Option<Arc<ChunkFile>>> {
        let mut open = self.open.lock();
        if let Some(file) = open.get(&index) {
            return Ok(Some(file.clone()));
        }
        let flags = if self.is_writable { OFlags::RDWR } else { OFlags::RDONLY };
        match self.open_at(index, flags) {
            Ok(file) => Ok(Some(keep(&mut open, index, file))),
            Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.failure("open", index, source)),
        }
    }

    fn file(&self, index: usize) -> Result<Arc<ChunkFile>> {
        if let Some(file) = self.existing(index)? {
            return Ok(file);
        }
        let file = self.open_at(index, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL);
        let file = file.map_err(|source| self.failure("create", index, source))?;
        Ok(keep(&mut self.open.lock(), index, file))
    }

    /// Changes a chunk's file. A flush makes that durable.
    fn change(
        &self,
        index: usize,
        file: &Arc<ChunkFile>,
        change: impl FnOnce(&ChunkFile) -> io::Result<()>,
    ) -> io::Result<()> {
        let outcome = self.unflushed.change(index, file, change);
        self.unflushed.relieve(|index, file| self.sync(index, file));
        outcome
    }

    fn sync(&self, index: usize, file: &ChunkFile) -> Result<()> {
        file.sync().map_err(|source| self.failure("sync", index, source))
    }

    fn failure(&self, action: &'static str, index: usize, source: io::Error) -> Error {
        Error::io(action, self.path(index), source)
    }
}

/// Writes what a device is made of.
fn write_geometry(names: &PosixStorage, geometry: &Geometry) -> Result<()> {
    let text = format!(
        "{HEADER}\ngroups {}\nunits_per_group {}\nchunks_per_unit {}\nchunk_bytes {}\n",
        geometry.groups, geometry.units_per_group, geometry.chunks_per_unit, geometry.chunk_bytes
    );
    if names.exists(UNFINISHED)? {
        names.remove(UNFINISHED)?;
    }
    let mut file = names.create(UNFINISHED, WriteHint::of(FileKind::Meta))?;
    file.append(text.as_bytes())?;
    file.sync()?;
    drop(file);
    names.rename(UNFINISHED, GEOMETRY)?;
    names.sync_names()
}

fn name_of(index: usize) -> String {
    format!("{CHUNK}{index:05}")
}

/// Keeps a file open. If there are many, unused ones are closed first.
fn keep(
    open: &mut BTreeMap<usize, Arc<ChunkFile>>,
    index: usize,
    file: ChunkFile,
) -> Arc<ChunkFile> {
    if open.len() >= KEPT_OPEN {
        open.retain(|_, file| Arc::strong_count(file) > 1);
    }
    let file = Arc::new(file);
    open.insert(index, file.clone());
    file
}

/// A device's numbers out of its text.
fn parse(text: &str) -> Option<Geometry> {
    let mut lines = text.lines();
    (lines.next()? == HEADER).then_some(())?;
    let mut number = |name: &str| lines.next()?.strip_prefix(name)?.trim().parse::<u32>().ok();
    let (groups, units) = (number("groups ")?, number("units_per_group ")?);
    let (chunks, chunk_bytes) = (number("chunks_per_unit ")?, number("chunk_bytes ")?);
    let [groups, units, chunks] = [groups, units, chunks].map(u16::try_from);
    Some(Geometry::of_blocks(groups.ok()?, units.ok()?, chunks.ok()?, chunk_bytes))
}

impl ChunkDevice for FileChunkDevice {
    fn describe(&self) -> String {
        self.names.describe()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, _chunk: Chunk) -> bool {
        false
    }

    fn written(&self, chunk: Chunk) -> Result<u64> {
        let index = self.geometry.index(chunk);
        match self.dir().and_then(|dir| statat(dir, name_of(index), AtFlags::empty())) {
            // A block that was cut off can't be read; nor can it be filled up.
            Ok(found) => Ok((found.st_size as u64).next_multiple_of(BLOCK_BYTES)),
            Err(Errno::NOENT) => Ok(0),
            Err(source) => Err(self.failure("inspect", index, source.into())),
        }
    }

    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        let index = self.geometry.index(chunk);
        let file = self.file(index)?;
        let written = self.change(index, &file, |file| file.write(bytes, at));
        written.map_err(|source| self.failure("write to", index, source))
    }

    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        let index = self.geometry.index(chunk);
        let missing = || Error::corruption(self.path(index), at, "it is empty");
        let file = self.existing(index)?.ok_or_else(missing)?;
        file.file.read_exact_at(out, at).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => {
                let what = format!("{} bytes are wanted, and it ends before", out.len());
                Error::corruption(self.path(index), at, what)
            }
            _ => self.failure("read", index, source),
        })
    }

    fn reset(&self, chunk: Chunk) -> Result<()> {
        let index = self.geometry.index(chunk);
        let Some(file) = self.existing(index)? else { return Ok(()) };
        let emptied = self.change(index, &file, ChunkFile::empty);
        emptied.map_err(|source| self.failure("empty", index, source))
    }

    fn flush(&self) -> Result<()> {
        self.unflushed.flush(|files| {
            for (index, file) in files {
                if let Some(file) =
                    file.map_or_else(|| self.existing(index), |file| Ok(Some(file)))?
                {
                    self.sync(index, &file)?;
                }
            }
            self.names.sync_names()
        })
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        self.names.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_again_as_it_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let made =
            FileChunkDevice::create(dir.path(), Geometry::of_blocks(2, 2, 4, 65_536)).unwrap();
        let chunk = Chunk { unit: crate::Unit(3), number: 2 };
        made.write(chunk, 0, &[7; 8192]).unwrap();
        drop(made);
        let found = FileChunkDevice::open(dir.path()).unwrap();
        assert_eq!(found.geometry(), Geometry::of_blocks(2, 2, 4, 65_536));
        assert_eq!(found.written(chunk).unwrap(), 8192);
        found.reset(chunk).unwrap();
        assert_eq!(found.written(chunk).unwrap(), 0);
    }

    /// How many files are open after each of `count` chunks was written.
    fn open_after(zones: &FileChunkDevice, count: usize, flush_every: usize) -> usize {
        for index in 0..count {
            zones.write(zones.geometry.chunk(index), 0, &[1; 4096]).unwrap();
            if index % flush_every == 0 {
                zones.flush().unwrap();
            }
        }
        zones.open.lock().len()
    }

    #[test]
    fn a_device_of_many_chunks_keeps_few_files_open_and_looking_opens_none() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(2, 25, 8, 65_536);
        let zones = FileChunkDevice::create(dir.path(), geometry).unwrap();
        assert!(open_after(&zones, 400, 8) <= KEPT_OPEN);
        drop(zones);
        let again = FileChunkDevice::open(dir.path()).unwrap();
        let written = |index| again.written(geometry.chunk(index)).unwrap();
        assert!((0..400).all(|index| written(index) == 4096));
        assert!(again.open.lock().is_empty());
    }

    #[test]
    fn a_device_that_is_looked_at_is_opened_without_the_right_to_write() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(2, 2, 8, 65_536);
        open_after(&FileChunkDevice::create(dir.path(), geometry).unwrap(), 2, 1);
        for (zones, is_writable) in [
            (FileChunkDevice::open_to_look(dir.path()).unwrap(), false),
            (FileChunkDevice::open(dir.path()).unwrap(), true),
        ] {
            zones.read(geometry.chunk(1), 0, &mut [0; 4096]).unwrap();
            let file = zones.open.lock()[&1].clone();
            assert_eq!(file.file.write_all_at(&[2], 0).is_ok(), is_writable);
        }
    }

    #[test]
    fn writes_to_2000_chunks_without_a_flush_keep_few_files_open() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(2, 25, 40, 32_768);
        let zones = FileChunkDevice::create(dir.path(), geometry).unwrap();
        assert!(open_after(&zones, 2_000, usize::MAX) <= KEPT_OPEN);
        zones.flush().unwrap();
        assert!((0..2_000).all(|index| zones.written(geometry.chunk(index)).unwrap() == 4096));
    }

    #[test]
    fn the_first_flush_takes_what_a_process_before_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(2, 2, 8, 65_536);
        open_after(&FileChunkDevice::create(dir.path(), geometry).unwrap(), 3, 100);
        let again = FileChunkDevice::open(dir.path()).unwrap();
        again.flush().unwrap();
        assert_eq!(again.open.lock().keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_directory_with_other_files_and_sizes_that_make_no_device_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(1, 1, 16, 65_536);
        for wrong in [(0, 1, 16, 65_536), (1, 1, 7, 65_536), (1, 1, 16, 65_537), (1, 1, 16, 4096)] {
            let wrong = Geometry::of_blocks(wrong.0, wrong.1, wrong.2, wrong.3);
            let refused = FileChunkDevice::create(dir.path(), wrong).err().unwrap();
            assert!(matches!(refused, Error::InvalidSetting { .. }), "{refused}");
        }
        std::fs::write(dir.path().join("letter"), "dear").unwrap();
        assert!(FileChunkDevice::create(dir.path(), geometry).is_err());
        assert_eq!(std::fs::read(dir.path().join("letter")).unwrap(), b"dear");
        std::fs::write(dir.path().join(GEOMETRY), "esker zones 9\n").unwrap();
        assert!(FileChunkDevice::open(dir.path()).err().unwrap().is_corruption());
    }
}
