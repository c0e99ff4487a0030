//! Value files: values that are not stored next to their keys.
//!
//! A flush writes long values to a value file, and their places to tables. Compaction carries the
//! places. A table says how much of each value file it refers to, so the live bytes of a file are a
//! sum over the tables of a version. A file leaves the version in the edit that takes its last value,
//! and is removed with its last reader. `docs/formats/values.md` describes the bytes.

pub(crate) mod blocks;
mod file;
mod format;

use crate::fold::values::Values;
use esker_base::{Error, KeyspaceId, Result, ValuePlace};
use esker_storage::Storage;
use esker_table::ValueFileUse;
pub use file::ValueFile;
pub(crate) use file::describe_value_file;
pub use format::{ValueFileMeta, parse_value_file_name, value_file_name};
pub(crate) use format::{large_value_header, value_checksum, value_file_header};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value file of a version.
#[derive(Clone, Debug)]
pub struct ListedValueFile {
    /// The file.
    pub file: Arc<ValueFile>,
    /// The keyspace of its values.
    pub keyspace: KeyspaceId,
    /// What the manifest says of it.
    pub meta: ValueFileMeta,
    /// The values that tables refer to.
    pub live_values: u64,
    /// Their bytes.
    pub live_bytes: u64,
}

/// The value files of a version. An edit copies the part of each keyspace that it changes.
#[derive(Clone, Debug, Default)]
pub struct ValueFiles {
    /// The keyspace of each file, and what reads the file.
    files: Arc<BTreeMap<u64, (KeyspaceId, Arc<ValueFile>)>>,
    keyspaces: Arc<BTreeMap<KeyspaceId, Arc<KeyspaceValueFiles>>>,
    /// Files that no table may refer to any more. Empty between edits.
    perhaps_dead: Vec<u64>,
}

/// The value files of a keyspace, by ID, which is not empty.
#[derive(Clone, Debug, Default)]
struct KeyspaceValueFiles {
    files: BTreeMap<u64, ListedValueFile>,
    sums: ValueSums,
}

/// What the value files of a keyspace hold together, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ValueSums {
    /// Their values.
    pub(crate) value_bytes: u64,
    /// Of these, the values that tables refer to.
    pub(crate) live_bytes: u64,
}

impl ValueFiles {
    /// All of them, by keyspace and ID.
    pub fn iter(&self) -> impl Iterator<Item = &ListedValueFile> {
        self.keyspaces.values().flat_map(|part| part.files.values())
    }

    /// The one with this ID.
    pub fn get(&self, file: u64) -> Option<&ListedValueFile> {
        let (keyspace, _) = self.files.get(&file)?;
        self.keyspaces.get(keyspace)?.files.get(&file)
    }

    /// Those of a keyspace, in the order of their IDs.
    pub(crate) fn of(&self, keyspace: KeyspaceId) -> impl Iterator<Item = &ListedValueFile> {
        self.keyspaces.get(&keyspace).into_iter().flat_map(|part| part.files.values())
    }

    /// The keyspaces that have value files.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = KeyspaceId> {
        self.keyspaces.keys().copied()
    }

    /// What the files of a keyspace hold.
    pub(crate) fn sums_of(&self, keyspace: KeyspaceId) -> ValueSums {
        self.keyspaces.get(&keyspace).map(|part| part.sums).unwrap_or_default()
    }

    /// Opens all of them. Fails with the first error, after it has tried all.
    pub(crate) fn open(&self) -> Result<()> {
        self.files.values().map(|(_, file)| file.reader().map(|_| ())).fold(Ok(()), Result::and)
    }

    /// Lets compactions of `keyspace`, or of all, try those again that could not be read.
    pub(crate) fn retry(&self, keyspace: Option<KeyspaceId>) {
        let asked = self.files.values().filter(|(of, _)| keyspace.is_none_or(|it| it == *of));
        asked.for_each(|(_, file)| file.retry());
    }

    /// Adds a file that no table refers to yet.
    pub(crate) fn add(
        &mut self,
        keyspace: KeyspaceId,
        meta: ValueFileMeta,
        storage: &Arc<dyn Storage>,
    ) -> Result<(), String> {
        let file = ValueFile::new(storage.clone(), &meta);
        let files = Arc::make_mut(&mut self.files);
        if files.insert(meta.file, (keyspace, file.clone())).is_some() {
            return Err(format!("value file {} is added twice", meta.file));
        }
        let listed = ListedValueFile { file, keyspace, meta, live_values: 0, live_bytes: 0 };
        let part = Arc::make_mut(&mut self.keyspaces).entry(keyspace).or_default();
        let part = Arc::make_mut(part);
        part.sums.value_bytes += meta.value_bytes;
        part.files.insert(meta.file, listed);
        self.perhaps_dead.push(meta.file);
        Ok(())
    }

    /// Counts what a table that is added refers to.
    pub(crate) fn count(
        &mut self,
        keyspace: KeyspaceId,
        uses: &[ValueFileUse],
    ) -> Result<(), String> {
        for of in uses {
            let (listed, sums) = self.listed(of.file)?;
            listed.live_values += of.values;
            listed.live_bytes += of.bytes;
            sums.live_bytes += of.bytes;
            let is_possible = listed.keyspace == keyspace
                && listed.live_values <= listed.meta.values
                && listed.live_bytes <= listed.meta.value_bytes;
            if !is_possible {
                return Err(format!("tables refer to more than value file {} has", of.file));
            }
        }
        Ok(())
    }

    /// Takes off what a table that is removed refers to.
    pub(crate) fn discount(&mut self, uses: &[ValueFileUse]) -> Result<(), String> {
        for of in uses {
            let (listed, sums) = self.listed(of.file)?;
            let left = listed.live_values.checked_sub(of.values);
            let left = left.zip(listed.live_bytes.checked_sub(of.bytes));
            (listed.live_values, listed.live_bytes) =
                left.ok_or_else(|| format!("value file {} has fewer values", of.file))?;
            sums.live_bytes -= of.bytes;
            if listed.live_values == 0 {
                self.perhaps_dead.push(of.file);
            }
        }
        Ok(())
    }

    /// Drops the files that no table refers to.
    pub(crate) fn drop_dead(&mut self) {
        for file in std::mem::take(&mut self.perhaps_dead) {
            let Some(listed) = self.get(file).filter(|listed| listed.live_values == 0) else {
                continue;
            };
            let keyspace = listed.keyspace;
            Arc::make_mut(&mut self.files).remove(&file);
            let keyspaces = Arc::make_mut(&mut self.keyspaces);
            let part = Arc::make_mut(keyspaces.entry(keyspace).or_default());
            if let Some(gone) = part.files.remove(&file) {
                part.sums.value_bytes -= gone.meta.value_bytes;
            }
            if part.files.is_empty() {
                keyspaces.remove(&keyspace);
            }
        }
    }

    /// Marks the files that `now` does not have as obsolete.
    pub(crate) fn mark_obsolete(&self, now: &ValueFiles) {
        if !Arc::ptr_eq(&self.files, &now.files) {
            let gone = self.files.iter().filter(|(file, _)| !now.files.contains_key(file));
            gone.for_each(|(_, (_, file))| file.mark_obsolete());
        }
    }

    fn listed(&mut self, file: u64) -> Result<(&mut ListedValueFile, &mut ValueSums), String> {
        let keyspace = self.files.get(&file).map(|(keyspace, _)| *keyspace);
        let keyspaces = Arc::make_mut(&mut self.keyspaces);
        let part = keyspace.and_then(|keyspace| keyspaces.get_mut(&keyspace)).map(Arc::make_mut);
        let found = part.and_then(|part| Some((part.files.get_mut(&file)?, &mut part.sums)));
        found.ok_or_else(|| format!("a table refers to value file {file}, which is not listed"))
    }
}

impl ValueFiles {
    /// The place that an entry stores, and the file that it is in.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is no place, or of a file that is not there.
    pub(crate) fn find(&self, stored: &[u8]) -> Result<(ValuePlace, &Arc<ValueFile>)> {
        let place = ValuePlace::decode(stored)
            .ok_or_else(|| Error::corruption("a table", 0, "a place of no value"))?;
        let Some((_, file)) = self.files.get(&place.file) else {
            let what = "a table refers to a value in it, and the manifest does not list it";
            return Err(Error::corruption(value_file_name(place.file), place.offset, what));
        };
        Ok((place, file))
    }

    /// Checks the value at the place that an entry stores, without holding all of a large one.
    ///
    /// # Errors
    /// The errors of [`Values::read`].
    pub(crate) fn check(&self, stored: &[u8]) -> Result<()> {
        let (place, file) = self.find(stored)?;
        file.check(&place)
    }
}

impl Values for ValueFiles {
    fn read(&self, stored: &[u8]) -> Result<Vec<u8>> {
        let (place, file) = self.find(stored)?;
        file.read(&place)
    }
}
