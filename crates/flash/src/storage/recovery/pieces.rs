//! The files and their pieces while a repair applies the journal's edits again.
//!
//! A sound journal never gives one place to two files, and never resets a chunk of a file. Where one does, the edit that
//! removed or moved the file is lost, and its bytes are gone.

use crate::storage::format::{CreateRecord, Extent};
use std::collections::{BTreeMap, BTreeSet};

/// A file and what is known of it.
pub(super) struct Known {
    pub(super) made: CreateRecord,
    pub(super) pieces: Vec<Extent>,
    /// Pieces that were used again since.
    pub(super) overwritten: usize,
}

/// Files by number.
#[derive(Default)]
pub(super) struct Pieces {
    files: BTreeMap<u64, Known>,
    /// The files that had a piece in a chunk, some of them earlier.
    by_chunk: BTreeMap<u32, BTreeSet<u64>>,
}

impl Pieces {
    pub(super) fn create(&mut self, made: CreateRecord) {
        self.files.insert(made.id, Known { made, pieces: Vec::new(), overwritten: 0 });
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.files.remove(&id);
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Known> {
        self.files.get_mut(&id)
    }

    pub(super) fn chunks(&self) -> BTreeSet<u32> {
        self.files.values().flat_map(|file| &file.pieces).map(|piece| piece.chunk).collect()
    }

    pub(super) fn into_files(self) -> impl Iterator<Item = (u64, Known)> {
        self.files.into_iter()
    }

    /// The file goes on with these pieces.
    pub(super) fn extend(&mut self, id: u64, pieces: Vec<Extent>) {
        for piece in &pieces {
            self.overwrite(piece.chunk, |other, it| other != id && piece.overlaps(it));
            self.by_chunk.entry(piece.chunk).or_default().insert(id);
        }
        if let Some(file) = self.files.get_mut(&id) {
            file.pieces.extend(pieces);
        }
    }

    /// The file has these pieces instead of all others.
    pub(super) fn replace(&mut self, id: u64, pieces: Vec<Extent>) {
        if let Some(file) = self.files.get_mut(&id) {
            (file.pieces, file.overwritten) = (Vec::new(), 0);
            self.extend(id, pieces);
        }
    }

    /// The chunk was reset.
    pub(super) fn reset(&mut self, chunk: u32) {
        self.overwrite(chunk, |_, _| true);
    }

    /// Takes pieces in a chunk from their files, by the file's number and the piece.
    fn overwrite(&mut self, chunk: u32, is_overwritten: impl Fn(u64, &Extent) -> bool) {
        for &id in self.by_chunk.get(&chunk).into_iter().flatten() {
            let Some(file) = self.files.get_mut(&id) else { continue };
            let before = file.pieces.len();
            file.pieces.retain(|piece| piece.chunk != chunk || !is_overwritten(id, piece));
            file.overwritten += before - file.pieces.len();
        }
    }
}
