//! Images: files to copy and damage, and what is known of their contents.

use super::judge::History;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Where a database is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Files,
    Pool,
    Flash,
}

/// The contents of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Database(Place),
    Hash,
}

/// Files that can be copied and damaged.
pub struct Image {
    pub name: String,
    pub kind: Kind,
    pub dir: PathBuf,
    pub history: History,
    /// Where each of the last writes is stored, in files below `dir`: at least of those that are not flushed.
    pub stored: Vec<Vec<Span>>,
}

/// Bytes of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    pub file: PathBuf,
    pub bytes: Range<usize>,
}

/// Follows which bytes each write changes.
pub struct Recorder {
    dir: PathBuf,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

/// Differences are sought in blocks of so many bytes. Equal blocks separate spans.
const BLOCK_BYTES: usize = 512;

impl Recorder {
    pub fn new(dir: &Path) -> io::Result<Self> {
        Ok(Recorder { dir: dir.to_owned(), before: contents(dir)? })
    }

    /// The bytes that changed since the last call and that hold `key`.
    pub fn spans_of(&mut self, key: &[u8]) -> io::Result<Vec<Span>> {
        let after = contents(&self.dir)?;
        let mut spans = Vec::new();
        for (file, bytes) in &after {
            let before = self.before.get(file).map_or(&[][..], |before| before);
            for changed in differences(before, bytes) {
                if bytes[changed.clone()].windows(key.len()).any(|part| part == key) {
                    spans.push(Span { file: file.clone(), bytes: changed });
                }
            }
        }
        self.before = after;
        Ok(spans)
    }
}

/// The ranges of `after` that are not in `before`.
fn differences(before: &[u8], after: &[u8]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut is_adjacent = false;
    for start in (0..after.len()).step_by(BLOCK_BYTES) {
        let end = (start + BLOCK_BYTES).min(after.len());
        let differs = |at: &usize| before.get(*at) != after.get(*at);
        let is_equal = before.get(start..end) == Some(&after[start..end]);
        if !is_equal && let Some(last) = (start..end).rfind(differs) {
            match found.last_mut().filter(|_| is_adjacent) {
                Some(range) => range.end = last + 1,
                None => found.push((start..end).find(differs).unwrap_or(start)..last + 1),
            }
        }
        is_adjacent = !is_equal;
    }
    found
}

/// The files in a directory and in those below it, except locks. Paths begin at the directory.
fn contents(dir: &Path) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    files(dir)?
        .into_keys()
        .map(|file| Ok((file.clone(), std::fs::read(dir.join(&file))?)))
        .collect()
}

/// The same files with their sizes.
pub fn files(dir: &Path) -> io::Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let meta = entry.metadata()?;
        match meta.is_dir() {
            true => {
                let below = files(&entry.path())?;
                found.extend(below.into_iter().map(|(file, bytes)| (name.join(file), bytes)));
            }
            false if name.as_os_str() == "LOCK" => {}
            false => drop(found.insert(name, meta.len())),
        }
    }
    Ok(found)
}

/// Copies a directory, in place of what was at `to`.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => std::fs::create_dir(to)?,
    }
    for entry in std::fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        match path.is_dir() {
            true => copy(&path, &target)?,
            false => drop(std::fs::copy(&path, target)?),
        }
    }
    Ok(())
}
