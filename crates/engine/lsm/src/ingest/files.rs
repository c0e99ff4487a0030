//! The files of an ingest before it is installed.

use crate::engine::Engine;
use crate::output::output_files::value_file_hint;
use crate::version::{ingest_file_name, table_file_name, unsettled_file_name, value_file_name};
use esker_base::{FileKind, Result, WriteHint};
use esker_storage::WritableFile;
use std::sync::Arc;

/// Files that are removed when this is dropped, unless they were installed.
pub(super) struct IngestFiles {
    inner: Arc<Engine>,
    /// With what each holds.
    ids: Vec<(u64, Content)>,
    /// So many of `ids` have their final names.
    renamed: usize,
    /// Whether files say that no edit names the tables.
    is_unsettled: bool,
}

/// What a file of an ingest holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// Tables, to be read once and removed.
    Scratch,
    /// Tables.
    Tables,
    /// A large value.
    Value,
}

impl Content {
    fn hint(self) -> WriteHint {
        match self {
            Content::Scratch => WriteHint::of(FileKind::Scratch),
            Content::Tables => WriteHint::table(0),
            Content::Value => value_file_hint(),
        }
    }

    fn final_name(self, id: u64) -> String {
        match self {
            Content::Scratch | Content::Tables => table_file_name(id),
            Content::Value => value_file_name(id),
        }
    }
}

impl IngestFiles {
    pub(super) fn new(inner: Arc<Engine>) -> Self {
        IngestFiles { inner, ids: Vec::new(), renamed: 0, is_unsettled: false }
    }

    /// Creates the next file, and returns its id, too.
    pub(super) fn create(&mut self, content: Content) -> Result<(u64, Box<dyn WritableFile>)> {
        let inner = self.inner.begin_upkeep()?;
        let id = inner.tree.installer.next_file();
        let file = inner.tree.storage.create(&ingest_file_name(id), content.hint())?;
        self.ids.push((id, content));
        Ok((id, file))
    }

    /// Whether there are files of large values.
    pub(super) fn has_values(&self) -> bool {
        self.ids.iter().any(|(_, content)| *content == Content::Value)
    }

    /// The names of the files that say that no edit names the tables.
    fn unsettled(&self) -> impl Iterator<Item = String> {
        let tables = self.ids.iter().filter(|(_, content)| *content == Content::Tables);
        tables.map(|(id, _)| unsettled_file_name(*id))
    }

    /// Gives all files their final names, durably.
    ///
    /// An open sets tables aside that no edit names, because an edit may be lost. Those of large values would use
    /// much space permanently. So if there are any, a file says before that they were not acknowledged, and goes once they
    /// may be.
    pub(super) fn rename(&mut self, has_values: bool) -> Result<()> {
        let storage = &self.inner.tree.storage;
        if has_values {
            self.is_unsettled = true;
            for name in self.unsettled() {
                storage.create(&name, WriteHint::of(FileKind::Scratch))?.publish()?;
            }
            storage.sync_names()?;
        }
        for &(id, content) in &self.ids[self.renamed..] {
            storage.rename(&ingest_file_name(id), &content.final_name(id))?;
            self.renamed += 1;
        }
        storage.sync_names()
    }

    /// Leaves the files alone: an edit names them, or may, if it `is_undecided`.
    pub(super) fn keep(&mut self, is_undecided: bool) {
        if self.is_unsettled && !is_undecided {
            self.settle();
        }
        self.ids.clear();
        (self.renamed, self.is_unsettled) = (0, false);
    }

    /// Removes the files that say that no edit names the tables.
    fn settle(&self) {
        let storage = &self.inner.tree.storage;
        // One that stays says nothing of tables that an edit names. The next open removes it.
        self.unsettled().for_each(|name| drop(storage.remove(&name)));
        let _ = storage.sync_names();
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
        let mut are_gone = true;
        for (at, &(id, content)) in self.ids.iter().enumerate() {
            let is_renamed = at < self.renamed;
            let name = if is_renamed { content.final_name(id) } else { ingest_file_name(id) };
            // A file that cannot be removed now is removed, or set aside, at the next open.
            are_gone &= storage.remove(&name).is_ok();
        }
        // A file that stays needs what says that it may be removed.
        if self.is_unsettled && are_gone && storage.sync_names().is_ok() {
            self.settle();
        }
    }
}
