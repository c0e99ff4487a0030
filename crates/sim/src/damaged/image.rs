//! What is damaged, and what is known of it.

use super::database::Place;
use super::{database, hash};
use esker_base::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// A write: a key, and a value or none.
pub type Write = (Vec<u8>, Option<Vec<u8>>);

/// What an image is of.
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
    /// All writes, in their order; the last is the first that may be lost without a trace.
    pub history: Vec<Write>,
}

/// What came of a trial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Seen {
    Harmless,
    Cut,
    Reported,
}

/// What was read.
#[derive(Default)]
pub struct Found {
    /// Keys whose value is not the last one, and which were no error.
    pub old: u64,
    /// Keys that were errors.
    pub errors: u64,
    /// All writes up to some point are there, and none after it.
    pub is_prefix: bool,
}

impl Image {
    pub fn copy_to(&self, target: &Path) -> io::Result<()> {
        copy(&self.dir, target)
    }

    /// Reads all keys. `Err` says which has a value that it never had.
    pub fn compare(
        &self,
        mut get: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>>,
    ) -> std::result::Result<Found, String> {
        let mut values: BTreeMap<&[u8], Vec<Option<&[u8]>>> = BTreeMap::new();
        for (key, value) in &self.history {
            values.entry(key).or_insert_with(|| vec![None]).push(value.as_deref());
        }
        let (mut found, mut read) = (Found::default(), BTreeMap::new());
        for (key, versions) in &values {
            match get(key) {
                Err(_) => found.errors += 1,
                Ok(value) => {
                    if !versions.contains(&value.as_deref()) {
                        return Err(format!(
                            "{} has a value that it never had",
                            key.escape_ascii()
                        ));
                    }
                    found.old += u64::from(versions.last() != Some(&value.as_deref()));
                    read.insert(*key, value);
                }
            }
        }
        found.is_prefix = found.errors == 0 && self.is_prefix(&read);
        Ok(found)
    }

    fn is_prefix(&self, read: &BTreeMap<&[u8], Option<Vec<u8>>>) -> bool {
        let mut state: BTreeMap<&[u8], Option<&[u8]>> =
            read.keys().map(|key| (*key, None)).collect();
        let mut differing: BTreeSet<&[u8]> =
            read.iter().filter(|(_, value)| value.is_some()).map(|(key, _)| *key).collect();
        let mut is_prefix = differing.is_empty();
        for (key, value) in &self.history {
            state.insert(key, value.as_deref());
            match read[&key[..]].as_deref() == value.as_deref() {
                true => differing.remove(&key[..]),
                false => differing.insert(key),
            };
            is_prefix |= differing.is_empty();
        }
        is_prefix
    }
}

impl Kind {
    /// Opens, reads, changes, closes and reopens a damaged copy.
    pub fn judge(
        self,
        dir: &Path,
        image: &Image,
        may_cut: bool,
    ) -> std::result::Result<Seen, String> {
        let before = files(dir).map_err(|error| error.to_string())?;
        let outcomes = match self {
            Kind::Database(place) => database::use_damaged(dir, place, image)?,
            Kind::Hash => hash::use_damaged(dir, image)?,
        };
        if outcomes.iter().any(|outcome| !outcome.is_open) {
            let after = files(dir).map_err(|error| error.to_string())?;
            if let Some(lost) = before.difference(&after).next() {
                return Err(format!("an open that failed removed {}", lost.display()));
            }
        }
        let mut worst = Seen::Harmless;
        for outcome in outcomes {
            let seen = match outcome {
                Outcome { is_reported: true, .. } => Seen::Reported,
                Outcome { old: 0, .. } => Seen::Harmless,
                Outcome { is_prefix: true, .. } if may_cut => Seen::Cut,
                Outcome { way, old, .. } => {
                    return Err(format!("{way}: {old} keys have lost their last values, silently"));
                }
            };
            worst = worst.max(seen);
        }
        Ok(worst)
    }

    /// Repairs a damaged copy, and opens it. `false` if the repair refused.
    pub fn repair(
        self,
        dir: &Path,
        image: &Image,
        is_manifest: bool,
    ) -> std::result::Result<bool, String> {
        match self {
            Kind::Database(place) => database::repair_damaged(dir, place, image, is_manifest),
            Kind::Hash => hash::repair_damaged(dir, image),
        }
    }
}

/// What one way of using a damaged copy saw.
pub struct Outcome {
    /// The way.
    pub way: &'static str,
    /// Whether it was opened at all.
    pub is_open: bool,
    pub is_reported: bool,
    /// Keys with an older value in any of the readings, and whether all of them are explained by the end of a log.
    pub old: u64,
    pub is_prefix: bool,
}

impl Outcome {
    pub fn of(way: &'static str) -> Self {
        Outcome { way, is_open: true, is_reported: false, old: 0, is_prefix: true }
    }

    pub fn failed(self) -> Self {
        Outcome { is_reported: true, ..self }
    }

    pub fn add(&mut self, found: &Found) {
        self.is_reported |= found.errors > 0;
        self.old = self.old.max(found.old);
        self.is_prefix &= found.is_prefix;
    }
}

/// The paths of the files in a directory and in those below it, sorted.
pub fn files(dir: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.append(&mut files(&path)?),
            false => drop(found.insert(path)),
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
