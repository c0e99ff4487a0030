//! The files of an ingest before it is installed.

use crate::engine::Engine;
use crate::version::{ingest_file_name, table_file_name};
use esker_base::{FileKind, Result, WriteHint};
use esker_storage::WritableFile;
use std::sync::Arc;

/// Files that are removed when this is dropped, unless they were installed.
pub(super) struct IngestFiles {
    inner: Arc<Engine>,
    ids: Vec<u64>,
    /// So many of `ids` have their final names.
    renamed: usize,
}

impl IngestFiles {
    pub(super) fn new(inner: Arc<Engine>) -> Self {
        IngestFiles { inner, ids: Vec::new(), renamed: 0 }
    }

    /// Creates the next file, and returns its id, too.
    pub(super) fn create(&mut self, is_scratch: bool) -> Result<(u64, Box<dyn WritableFile>)> {
        let inner = self.inner.begin_upkeep()?;
        let id = inner.tree.installer.next_file();
        let hint = if is_scratch { WriteHint::of(FileKind::Scratch) } else { WriteHint::table(0) };
        let file = inner.tree.storage.create(&ingest_file_name(id), hint)?;
        self.ids.push(id);
        Ok((id, file))
    }

    /// Gives all files their final names, durably.
    pub(super) fn rename(&mut self) -> Result<()> {
        let storage = &self.inner.tree.storage;
        for &id in &self.ids[self.renamed..] {
            storage.rename(&ingest_file_name(id), &table_file_name(id))?;
            self.renamed += 1;
        }
        storage.sync_names()
    }

    /// Leaves the files alone: an edit names them, or may.
    pub(super) fn keep(&mut self) {
        self.ids.clear();
        self.renamed = 0;
    }
}

impl Drop for IngestFiles {
    fn drop(&mut self) {
        let tree = &self.inner.tree;
        if !tree.owner.is_current() {
            // They are the parent's.
            return;
        }
        let storage = &tree.storage;
        for (at, &id) in self.ids.iter().enumerate() {
            let is_renamed = at < self.renamed;
            let name = if is_renamed { table_file_name(id) } else { ingest_file_name(id) };
            // A file that cannot be removed now is removed, or set aside, at the next open.
            let _ = storage.remove(&name);
        }
    }
}
