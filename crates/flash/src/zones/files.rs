//! Chunks as files in a directory: to use what manages flash on any file system.
//!
//! `GEOMETRY` says what the device is made of (`GEOMETRY.new` until that is whole), and `zone-00000` and so on are its chunks, each as long as what is
//! written into it. A chunk that was never written has no file.

use super::unflushed::Unflushed;
use super::{BLOCK_BYTES, Zones, check};
use crate::{Chunk, Geometry};
use esker_base::{Error, Result};
use esker_storage::{PosixStorage, Storage};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const GEOMETRY: &str = "GEOMETRY";
/// The same until it is whole: so a creation that was cut off can be done again.
const UNFINISHED: &str = "GEOMETRY.new";
const HEADER: &str = "esker zones 1";
const CHUNK: &str = "zone-";

/// Files that are kept open beside those in use: a process may have 1,024, and has others.
const KEPT_OPEN: usize = 256;

/// A directory of chunks.
pub struct FileZones {
    // Constant after construction.
    dir: PathBuf,
    geometry: Geometry,
    names: PosixStorage,
    is_writable: bool,
    // What changes.
    open: Mutex<BTreeMap<usize, Arc<File>>>,
    unflushed: Unflushed<File>,
}

impl FileZones {
    /// Makes a device in an empty or missing directory.
    pub fn create(dir: &Path, geometry: Geometry) -> Result<Self> {
        check(&geometry)?;
        let names = PosixStorage::create(dir)?;
        if names.list()?.iter().any(|name| name != UNFINISHED) {
            let found = io::Error::new(ErrorKind::AlreadyExists, "it is not empty; choose another");
            return Err(Error::io("make a device in", dir.display().to_string(), found));
        }
        let text = format!(
            "{HEADER}\ngroups {}\nunits_per_group {}\nchunks_per_unit {}\nchunk_bytes {}\n",
            geometry.groups,
            geometry.units_per_group,
            geometry.chunks_per_unit,
            geometry.chunk_bytes
        );
        if names.exists(UNFINISHED)? {
            names.remove(UNFINISHED)?;
        }
        let mut file =
            names.create(UNFINISHED, esker_base::Hint::of(esker_base::FileKind::Meta))?;
        file.append(text.as_bytes())?;
        file.sync()?;
        drop(file);
        names.rename(UNFINISHED, GEOMETRY)?;
        names.sync_names()?;
        FileZones::open(dir)
    }

    /// Opens a device that is there.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_as(dir, true)
    }

    /// Opens a device that is there to read it, which works where nothing may be written.
    pub fn open_to_look(dir: &Path) -> Result<Self> {
        Self::open_as(dir, false)
    }

    fn open_as(dir: &Path, is_writable: bool) -> Result<Self> {
        let names = PosixStorage::open(dir)?;
        let file = names.open(GEOMETRY)?;
        let mut text = vec![0; file.len()?.min(BLOCK_BYTES) as usize];
        file.read_exact_at(0, &mut text)?;
        let path = dir.join(GEOMETRY).display().to_string();
        let geometry = std::str::from_utf8(&text).ok().and_then(parse);
        let unknown = || Error::corruption(path, 0, "it says no geometry that this program knows");
        let geometry = geometry.ok_or_else(unknown)?;
        check(&geometry)?;
        let listed = names.list()?;
        let numbers = listed.iter().filter_map(|name| name.strip_prefix(CHUNK)?.parse().ok());
        let unflushed = Unflushed::of(numbers.filter(|index| *index < geometry.chunks()));
        let open = Mutex::default();
        Ok(FileZones { dir: dir.to_owned(), geometry, names, is_writable, open, unflushed })
    }

    /// Whether there is a device in a directory.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(GEOMETRY).is_file()
    }

    fn path(&self, index: usize) -> PathBuf {
        self.dir.join(format!("{CHUNK}{index:05}"))
    }

    /// A chunk's file. `None` if it was never written.
    fn existing(&self, index: usize) -> Result<Option<Arc<File>>> {
        let mut open = self.open.lock();
        if let Some(file) = open.get(&index) {
            return Ok(Some(file.clone()));
        }
        match File::options().read(true).write(self.is_writable).open(self.path(index)) {
            Ok(file) => Ok(Some(keep(&mut open, index, file))),
            Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.failure("open", index, source)),
        }
    }

    fn file(&self, index: usize) -> Result<Arc<File>> {
        if let Some(file) = self.existing(index)? {
            return Ok(file);
        }
        let options =
            File::options().read(true).write(true).create_new(true).open(self.path(index));
        let file = options.map_err(|source| self.failure("create", index, source))?;
        Ok(keep(&mut self.open.lock(), index, file))
    }

    /// Changes a chunk's file. A flush makes that durable.
    fn change(
        &self,
        index: usize,
        file: &Arc<File>,
        change: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let outcome = self.unflushed.change(index, file, change);
        self.unflushed.relieve(|index, file| self.sync(index, file));
        outcome
    }

    fn sync(&self, index: usize, file: &File) -> Result<()> {
        file.sync_all().map_err(|source| self.failure("sync", index, source))
    }

    fn failure(&self, action: &'static str, index: usize, source: io::Error) -> Error {
        Error::io(action, self.path(index).display().to_string(), source)
    }
}

/// Keeps a file open. If many are, those that nobody uses are closed before.
fn keep(open: &mut BTreeMap<usize, Arc<File>>, index: usize, file: File) -> Arc<File> {
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

impl Zones for FileZones {
    fn describe(&self) -> String {
        self.dir.display().to_string()
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn is_bad(&self, _chunk: Chunk) -> bool {
        false
    }

    fn written(&self, chunk: Chunk) -> Result<u64> {
        let index = self.geometry.index(chunk);
        match fs::metadata(self.path(index)) {
            // A block that was cut off can't be read; nor can it be filled up.
            Ok(metadata) => Ok(metadata.len().next_multiple_of(BLOCK_BYTES)),
            Err(source) if source.kind() == ErrorKind::NotFound => Ok(0),
            Err(source) => Err(self.failure("look at", index, source)),
        }
    }

    fn write(&self, chunk: Chunk, at: u64, bytes: &[u8]) -> Result<()> {
        let index = self.geometry.index(chunk);
        let file = self.file(index)?;
        let written = self.change(index, &file, |file| file.write_all_at(bytes, at));
        written.map_err(|source| self.failure("write to", index, source))
    }

    fn read(&self, chunk: Chunk, at: u64, out: &mut [u8]) -> Result<()> {
        let index = self.geometry.index(chunk);
        let missing =
            || Error::corruption(self.path(index).display().to_string(), at, "it is empty");
        let file = self.existing(index)?.ok_or_else(missing)?;
        file.read_exact_at(out, at).map_err(|source| match source.kind() {
            ErrorKind::UnexpectedEof => {
                let what = format!("{} bytes are wanted, and it ends before", out.len());
                Error::corruption(self.path(index).display().to_string(), at, what)
            }
            _ => self.failure("read", index, source),
        })
    }

    fn reset(&self, chunk: Chunk) -> Result<()> {
        let index = self.geometry.index(chunk);
        let Some(file) = self.existing(index)? else { return Ok(()) };
        let emptied = self.change(index, &file, |file| file.set_len(0));
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
        let made = FileZones::create(dir.path(), Geometry::of_blocks(2, 2, 4, 65_536)).unwrap();
        let chunk = Chunk { unit: crate::Unit(3), number: 2 };
        made.write(chunk, 0, &[7; 8192]).unwrap();
        drop(made);
        let found = FileZones::open(dir.path()).unwrap();
        assert_eq!(found.geometry(), Geometry::of_blocks(2, 2, 4, 65_536));
        assert_eq!(found.written(chunk).unwrap(), 8192);
        found.reset(chunk).unwrap();
        assert_eq!(found.written(chunk).unwrap(), 0);
    }

    /// How many files are open after each of `count` chunks was written.
    fn open_after(zones: &FileZones, count: usize, flush_every: usize) -> usize {
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
        let zones = FileZones::create(dir.path(), geometry).unwrap();
        assert!(open_after(&zones, 400, 8) <= KEPT_OPEN);
        drop(zones);
        let again = FileZones::open(dir.path()).unwrap();
        let written = |index| again.written(geometry.chunk(index)).unwrap();
        assert!((0..400).all(|index| written(index) == 4096));
        assert!(again.open.lock().is_empty());
    }

    #[test]
    fn a_device_that_is_looked_at_is_opened_without_the_right_to_write() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(2, 2, 8, 65_536);
        open_after(&FileZones::create(dir.path(), geometry).unwrap(), 2, 1);
        for (zones, is_writable) in [
            (FileZones::open_to_look(dir.path()).unwrap(), false),
            (FileZones::open(dir.path()).unwrap(), true),
        ] {
            zones.read(geometry.chunk(1), 0, &mut [0; 4096]).unwrap();
            let file = zones.open.lock()[&1].clone();
            assert_eq!(file.write_all_at(&[2], 0).is_ok(), is_writable);
        }
    }

    #[test]
    fn writes_to_2000_chunks_without_a_flush_keep_few_files_open() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(2, 25, 40, 32_768);
        let zones = FileZones::create(dir.path(), geometry).unwrap();
        assert!(open_after(&zones, 2_000, usize::MAX) <= KEPT_OPEN);
        zones.flush().unwrap();
        assert!((0..2_000).all(|index| zones.written(geometry.chunk(index)).unwrap() == 4096));
    }

    #[test]
    fn the_first_flush_takes_what_a_process_before_wrote() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(2, 2, 8, 65_536);
        open_after(&FileZones::create(dir.path(), geometry).unwrap(), 3, 100);
        let again = FileZones::open(dir.path()).unwrap();
        again.flush().unwrap();
        assert_eq!(again.open.lock().keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_directory_with_other_files_and_sizes_that_make_no_device_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let geometry = Geometry::of_blocks(1, 1, 16, 65_536);
        for wrong in [(0, 1, 16, 65_536), (1, 1, 7, 65_536), (1, 1, 16, 65_537), (1, 1, 16, 4096)] {
            let wrong = Geometry::of_blocks(wrong.0, wrong.1, wrong.2, wrong.3);
            let refused = FileZones::create(dir.path(), wrong).err().unwrap();
            assert!(matches!(refused, Error::InvalidSetting { .. }), "{refused}");
        }
        std::fs::write(dir.path().join("letter"), "dear").unwrap();
        assert!(FileZones::create(dir.path(), geometry).is_err());
        assert_eq!(std::fs::read(dir.path().join("letter")).unwrap(), b"dear");
        std::fs::write(dir.path().join(GEOMETRY), "esker zones 9\n").unwrap();
        assert!(FileZones::open(dir.path()).err().unwrap().is_corruption());
    }
}
