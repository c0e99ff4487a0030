//! Reading a manifest while another process appends to it.
//!
//! A record that is not whole yet is one that the writer is just appending, and is read later. If the
//! writer cannot append it, it starts another manifest, which `CURRENT` then names.

use super::invariants;
use super::manifest_file::{Author, author, file_path, read_current, read_manifest};
use super::manifest_record::{RECORD_HEADER_BYTES, record_at};
use super::manifest_state::ManifestState;
use super::version_edit::VersionEdit;
use crate::user_keys::KeyFormat;
use esker_base::{Error, Result};
use esker_storage::{ReadableFile, Storage};
use std::sync::Arc;

/// See the file's head.
pub(crate) struct ManifestTail {
    pub(crate) name: String,
    pub(crate) author: Author,
    path: String,
    file: Arc<dyn ReadableFile>,
    /// Where the next record starts.
    end: u64,
}

/// What a manifest says.
pub(crate) struct Loaded {
    pub(crate) identity: u64,
    pub(crate) state: ManifestState,
    /// Where its last record starts.
    last: u64,
}

/// Reads the manifest `name`, and the state that it describes.
pub(crate) fn load(storage: &Arc<dyn Storage>, name: &str) -> Result<Loaded> {
    let path = file_path(&**storage, name);
    let (identity, records) = read_manifest(&**storage, name)?;
    // What pre-release builds wrote does not say how keys are stored.
    let mut state = ManifestState { keys: KeyFormat::AsGiven, ..ManifestState::default() };
    for record in &records {
        let removed = state
            .apply(&record.edit, storage)
            .map_err(|what| Error::corruption(&path, record.offset, what))?;
        state.removed_files.extend(removed.iter().map(|table| table.meta.id.file));
    }
    invariants::check(&state.version).map_err(|what| Error::corruption(&path, 0, what))?;
    let last = records.last().map_or(0, |record| record.offset);
    Ok(Loaded { identity, state, last })
}

impl ManifestTail {
    /// The manifest `name`, and the state that it describes so far.
    pub(crate) fn open(storage: &Arc<dyn Storage>, name: &str) -> Result<(Self, ManifestState)> {
        let file = storage.open(name)?;
        let path = file_path(&**storage, name);
        let author = author(&*file, &path)?;
        let Loaded { mut state, last, .. } = load(storage, name)?;
        // Only an open that removes files asks for them.
        state.removed_files.clear();
        let end = end_of(&*file, last)?;
        Ok((ManifestTail { name: name.to_owned(), author, path, file, end }, state))
    }

    /// The name of the current manifest, if it is not this one: another one may have the same name.
    pub(crate) fn replaced_by(&self, storage: &dyn Storage) -> Result<Option<String>> {
        let current = read_current(storage)?;
        let is_this =
            current == self.name && author(&*storage.open(&current)?, &self.path)? == self.author;
        Ok((!is_this).then_some(current))
    }

    /// Reads the edits that were appended since, as far as they are whole.
    pub(crate) fn read(&mut self) -> Result<Vec<VersionEdit>> {
        let length = self.file.len()?;
        let mut edits = Vec::new();
        if length <= self.end {
            return Ok(edits);
        }
        let mut bytes = vec![0; (length - self.end) as usize];
        self.file.read_exact_at(self.end, &mut bytes)?;
        let (mut rest, mut offset) = (&bytes[..], self.end);
        while let Some(edit) = record_at(rest, offset) {
            let length = RECORD_HEADER_BYTES + edit.len();
            let edit = VersionEdit::decode(edit);
            edits.push(edit.map_err(|what| Error::corruption(&self.path, offset, what))?);
            rest = &rest[length..];
            offset += length as u64;
        }
        self.end = offset;
        Ok(edits)
    }
}

/// Where the record at `offset` ends.
fn end_of(file: &dyn ReadableFile, offset: u64) -> Result<u64> {
    let mut length = [0; 4];
    file.read_exact_at(offset, &mut length)?;
    Ok(offset + RECORD_HEADER_BYTES as u64 + u64::from(u32::from_le_bytes(length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::manifest_file::{Manifest, manifest_file_name};
    use crate::manifest::version_edit::VersionChange;
    use esker_base::{FileKind, WriteHint};
    use esker_storage::MemoryStorage;

    const AUTHOR: Author = Author { database: 42, process: 7 };

    fn edit(file: u64) -> VersionEdit {
        VersionEdit::of([VersionChange::NextFile(file)])
    }

    #[test]
    fn appended_edits_are_read_once_and_in_order() {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let snapshot = ManifestState::default().snapshot();
        let mut manifest = Manifest::create(&*storage, 1, AUTHOR, &snapshot).unwrap();
        manifest.append(&edit(2)).unwrap();
        let (mut tail, state) = ManifestTail::open(&storage, manifest.name()).unwrap();
        assert_eq!((tail.author, state.next_file), (AUTHOR, 2));
        assert_eq!(tail.read().unwrap(), []);
        manifest.append(&edit(3)).unwrap();
        manifest.append(&edit(4)).unwrap();
        assert_eq!(tail.read().unwrap(), [edit(3), edit(4)]);
        assert_eq!(tail.read().unwrap(), []);
    }

    #[test]
    fn a_manifest_of_the_same_name_by_another_process_replaces_one() {
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let snapshot = ManifestState::default().snapshot();
        Manifest::create(&*storage, 1, AUTHOR, &snapshot).unwrap();
        let (tail, _) = ManifestTail::open(&storage, &manifest_file_name(1)).unwrap();
        assert_eq!(tail.replaced_by(&*storage).unwrap(), None);
        storage.remove(&tail.name).unwrap();
        Manifest::create(&*storage, 1, Author { process: 8, ..AUTHOR }, &snapshot).unwrap();
        assert_eq!(tail.replaced_by(&*storage).unwrap(), Some(tail.name));
    }

    /// At every length that a reader may see while the record is appended.
    #[test]
    fn a_record_that_is_not_whole_is_read_later() {
        let whole: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let snapshot = ManifestState::default().snapshot();
        let mut manifest = Manifest::create(&*whole, 1, AUTHOR, &snapshot).unwrap();
        let before = manifest.bytes() as usize;
        manifest.append(&edit(3)).unwrap();
        let name = manifest_file_name(1);
        let mut bytes = vec![0; manifest.bytes() as usize];
        whole.open(&name).unwrap().read_exact_at(0, &mut bytes).unwrap();
        for cut in before..bytes.len() {
            let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
            let mut file = storage.create(&name, WriteHint::of(FileKind::Manifest)).unwrap();
            file.append(&bytes[..before]).unwrap();
            file.append(&bytes[before..cut]).unwrap();
            let (mut tail, _) = ManifestTail::open(&storage, &name).unwrap();
            assert_eq!(tail.read().unwrap(), [], "{cut}");
            file.append(&bytes[cut..]).unwrap();
            assert_eq!(tail.read().unwrap(), [edit(3)], "{cut}");
        }
    }
}
