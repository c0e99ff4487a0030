//! Installs an edit: first durably in the manifest, then for readers.

use super::feed_state::FeedState;
use super::invariants;
use super::manifest_file::{Author, Manifest};
use super::manifest_state::ManifestState;
use super::settings_code::settings_property;
use super::undecided_drops::Undecided;
use super::version_edit::{VersionChange, VersionEdit};
use super::zombie_tables::ZombieTables;
use crate::stats::cumulative::CumulativeStats;
use crate::user_keys::KeyFormat;
use crate::version::readers::super_version::{SuperVersion, SuperVersionCell};
use crate::version::{KeyspaceVersion, TableHandle, TableId, Version};
use esker_base::{Error, KeyspaceId, Result};
use esker_storage::Storage;
use esker_table::Origin;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A manifest beyond this is replaced by a fresh one, unless its snapshot alone comes near.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// The one place that changes the tree.
///
/// # Locking
///
/// The manifest's lock is held across the sync of an edit, so only background work and changes of
/// keyspaces take it. The lock of the view is taken under it, never the other way round.
pub(crate) struct VersionSet {
    storage: Arc<dyn Storage>,
    /// Changes only in a follower.
    identity: AtomicU64,
    keys: KeyFormat,
    next_file: AtomicU64,
    /// The number of the last edit that is durable.
    edits: AtomicU64,
    manifest: Mutex<Open>,
    left: ZombieTables,
    /// Tables, by file and offset, that were dropped since the open, and that no table replaces. Their
    /// files were still in use.
    dropped: Mutex<BTreeSet<(u64, u64)>>,
    /// Set under the manifest's lock, read by writers.
    undecided: Undecided,
}

struct Open {
    /// `None`: opened for reading.
    manifest: Option<Manifest>,
    state: ManifestState,
    snapshot_bytes: u64,
}

/// An edit that was not installed.
pub(crate) struct FailedInstall {
    pub(crate) error: Error,
    /// Whether the next open may find the edit in the manifest. So the files that it adds must stay.
    pub(crate) is_undecided: bool,
}

impl VersionSet {
    /// Returns the set of `state`, which is in `manifest`. Without one, nothing can be installed.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        identity: u64,
        manifest: Option<Manifest>,
        state: ManifestState,
    ) -> Self {
        let keys = state.keys;
        let (next_file, edits) = (AtomicU64::new(state.next_file), AtomicU64::new(state.edits));
        let snapshot_bytes = manifest.as_ref().map_or(0, Manifest::bytes);
        VersionSet {
            storage,
            identity: AtomicU64::new(identity),
            keys,
            next_file,
            edits,
            manifest: Mutex::new(Open { manifest, state, snapshot_bytes }),
            left: ZombieTables::default(),
            dropped: Mutex::default(),
            undecided: Undecided::default(),
        }
    }

    /// Lets go of the manifest and of the tables of the state. Nothing is installed any more.
    pub(crate) fn release(&self) {
        let mut open = self.manifest.lock();
        open.manifest = None;
        open.state =
            ManifestState { closed: true, account: open.state.account, ..ManifestState::default() };
    }

    /// Takes over the state of a manifest that another process writes, of the database with this identity.
    pub(crate) fn follow(&self, identity: u64, state: &ManifestState) {
        let mut open = self.manifest.lock();
        self.identity.store(identity, Ordering::Release);
        open.state = state.clone();
    }

    /// A file id that was never used.
    pub(crate) fn next_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of the last edit that is durable.
    pub(crate) fn edits(&self) -> u64 {
        self.edits.load(Ordering::Acquire)
    }

    /// The database's identity.
    pub(crate) fn identity(&self) -> u64 {
        self.identity.load(Ordering::Acquire)
    }

    /// How the database stores keys.
    pub(crate) fn key_format(&self) -> KeyFormat {
        self.keys
    }

    /// The time that the manifest says the database does not go back behind.
    pub(crate) fn expiry_mark(&self) -> Option<u64> {
        self.manifest.lock().state.expiry_mark
    }

    /// Notes that nothing replaces `tables`, which were removed. `files` are in use.
    pub(crate) fn note_dropped(
        &self,
        tables: impl Iterator<Item = TableId>,
        files: &BTreeSet<u64>,
    ) {
        let mut dropped = self.dropped.lock();
        dropped.extend(tables.map(|table| (table.file, table.offset)));
        dropped.retain(|(file, _)| files.contains(file));
    }

    /// What a table of `keyspace` that is begun now says of where it comes from. A manifest that ends before the
    /// edit named there has lost edits.
    pub(crate) fn origin(&self, keyspace: &KeyspaceVersion) -> Arc<Origin> {
        Arc::new(Origin {
            database: self.identity(),
            edits: self.edits.load(Ordering::Acquire),
            name: keyspace.name.clone(),
            settings: settings_property(&keyspace.settings, self.keys),
            obsolete: self.dropped.lock().iter().copied().collect(),
            ..Origin::default()
        })
    }

    /// Notes outside of the manifest that the database was closed and the manifest ends here. The closing record in the
    /// manifest is valid without it.
    pub(crate) fn seal(&self) {
        let open = self.manifest.lock();
        if let (true, Some(manifest)) = (open.state.closed, &open.manifest) {
            let _ = manifest.seal(&*self.storage);
        }
    }

    /// A copy of the current state.
    pub(crate) fn state(&self) -> ManifestState {
        self.manifest.lock().state.clone()
    }

    /// Keyspace ids below this one are in use or were used.
    pub(crate) fn next_keyspace(&self) -> u32 {
        self.manifest.lock().state.next_keyspace
    }

    /// What `look` finds in the state of change feeds.
    pub(crate) fn feed<T>(&self, look: impl FnOnce(&FeedState) -> T) -> T {
        look(&self.manifest.lock().state.feed)
    }

    /// Whether flushed logs may have to be kept.
    pub(crate) fn has_consumers(&self) -> bool {
        self.feed(|feed| !feed.consumers.is_empty())
    }

    /// What the manifest says that the database has cost.
    pub(crate) fn account(&self) -> CumulativeStats {
        self.manifest.lock().state.account
    }

    /// What of its tables each keyspace has lost and the storage has not, in bytes.
    pub(crate) fn zombie_bytes(&self) -> BTreeMap<KeyspaceId, u64> {
        self.left.bytes()
    }

    /// Replaces a manifest whose last append failed, if it did. For callers that are about to write
    /// much that only an edit would make of use.
    pub(crate) fn mend(&self) -> Result<()> {
        let mut open = self.manifest.lock();
        match &open.manifest {
            Some(manifest) if manifest.failed() => self.roll_manifest(&mut open),
            _ => Ok(()),
        }
    }

    /// Notes the files that have more bytes than the tables in use, by `bytes_of` each file: there are tables in them
    /// that were removed before.
    pub(crate) fn find_left_tables(&self, bytes_of: impl Fn(u64) -> u64) {
        self.left.find_left(&self.manifest.lock().state.version, bytes_of);
    }

    /// Tries again to free what tables have left in files that others use.
    pub(crate) fn retry_left_tables(&self) {
        self.left.retry();
    }

    /// Whether [`VersionSet::expect_decided`] has anything to do.
    #[inline]
    pub(crate) fn may_be_undecided(&self) -> bool {
        self.undecided.any()
    }

    /// Fails if one of `keyspaces` may be dropped at the next open, and that can't be decided now.
    #[cold]
    pub(crate) fn expect_decided(
        &self,
        keyspaces: impl Iterator<Item = KeyspaceId>,
        name: impl Fn(KeyspaceId) -> String,
    ) -> Result<()> {
        let Some(keyspace) = self.undecided.first_of(keyspaces) else { return Ok(()) };
        self.mend().map_err(|cause| Error::DropUndecided {
            keyspace: name(keyspace),
            cause: Arc::new(cause),
        })
    }

    /// Makes the edit that `plan` derives from the present state durable, and then installs it:
    /// `change` sees the new version and adjusts the view's MemTables at the same time.
    ///
    /// After an error nothing has changed for readers, but if the device fails for longer than one
    /// call, the edit may be in the manifest file. So the files that it adds must stay until the
    /// database is opened again.
    pub(crate) fn install(
        &self,
        view: &SuperVersionCell,
        plan: impl FnOnce(&ManifestState) -> Result<VersionEdit>,
        change: impl FnOnce(&mut SuperVersion),
    ) -> Result<()> {
        self.try_install(view, plan, change).map_err(|failed| failed.error)
    }

    /// The same. An error says whether the edit may be in the manifest file.
    pub(crate) fn try_install(
        &self,
        view: &SuperVersionCell,
        plan: impl FnOnce(&ManifestState) -> Result<VersionEdit>,
        change: impl FnOnce(&mut SuperVersion),
    ) -> Result<(), FailedInstall> {
        let not_written = |error| FailedInstall { error, is_undecided: false };
        let mut open = self.manifest.lock();
        if open.state.closed {
            // To whoever reads it, what follows the closing record is damage.
            return Err(not_written(Error::Closed));
        }
        let mut edit = plan(&open.state).map_err(not_written)?;
        edit.changes.push(VersionChange::NextFile(self.next_file.load(Ordering::Relaxed)));
        let Some(manifest) = &open.manifest else { return Err(not_written(Error::ReadOnly)) };
        let large = open.snapshot_bytes.saturating_mul(2).max(MANIFEST_BYTES_MAX);
        if manifest.failed() || manifest.bytes() > large {
            self.roll_manifest(&mut open).map_err(not_written)?;
        }
        let mut state = open.state.clone();
        let broken = |what| not_written(broken_edit(what));
        let removed = state.apply(&edit, &self.storage).map_err(broken)?;
        if cfg!(debug_assertions) {
            invariants::check(&state.version).map_err(broken)?;
        }
        let Some(manifest) = &mut open.manifest else { return Err(not_written(Error::ReadOnly)) };
        if let Err(error) = manifest.append(&edit) {
            // A fresh manifest, if one can be made now, settles that the edit is not in force.
            let is_undecided = self.roll_manifest(&mut open).is_err();
            if is_undecided {
                self.undecided.note(&edit);
            }
            return Err(FailedInstall { error, is_undecided });
        }
        let values_before = open.state.version.values.clone();
        open.state = state;
        self.edits.store(open.state.edits, Ordering::Release);
        // Before readers lose sight of them: counted twice rather than not at all.
        self.left.add(&edit, &removed);

        let version = Arc::new(open.state.version.clone());
        version.gather_bounds();
        view.change(|view| {
            view.version = version.clone();
            change(view);
        });
        mark_obsolete(&version, &removed);
        values_before.mark_obsolete(&version.values);
        drop(open);
        self.left.retry();
        // Otherwise they would use memory until other blocks need it.
        removed.iter().filter_map(|table| table.opened()).for_each(|table| table.leave_cache());
        Ok(())
    }

    /// Starts a new manifest file with the current state. What the old file's tail holds does not
    /// matter from then on.
    fn roll_manifest(&self, open: &mut Open) -> Result<()> {
        let id = self.next_file();
        let mut state = open.state.clone();
        state.next_file = self.next_file.load(Ordering::Relaxed);
        // If this fails, `CURRENT` may name the new file all the same: the next attempt takes another id.
        let author =
            open.manifest.as_ref().map_or_else(|| Author::of(self.identity()), Manifest::author);
        let manifest = Manifest::create(&*self.storage, id, author, &state.snapshot())?;
        self.undecided.settle();
        open.snapshot_bytes = manifest.bytes();
        let Some(old) = open.manifest.replace(manifest) else { return Ok(()) };
        // If it can't be removed now, the next open does it.
        let _ = self.storage.remove(old.name());
        Ok(())
    }
}

/// Lets the files of `removed` tables go with their last reader, if nothing else is in them.
fn mark_obsolete(version: &Version, removed: &[Arc<TableHandle>]) {
    for table in removed {
        let file = table.meta.id.file;
        let mut tables = version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        match tables.any(|(_, _, other)| other.meta.id.file == file) {
            true => table.extent().into_iter().for_each(|extent| extent.mark_obsolete()),
            false => table.file().into_iter().for_each(|file| file.mark_obsolete()),
        }
    }
}

/// An edit that does not fit the tree is a bug. It is refused before it reaches
/// the manifest.
fn broken_edit(what: String) -> Error {
    Error::corruption("the edit about to be installed", 0, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Settings};
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;

    #[test]
    fn nothing_is_installed_behind_the_closing_record() {
        let storage = Arc::new(MemoryStorage::new());
        let env = Env::over(storage).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let late = db.clone();
        db.close().unwrap();
        // A compaction by hand may have passed all other checks by then.
        let inner = late.inner();
        let bytes = || inner.tree.installer.manifest.lock().manifest.as_ref().map(Manifest::bytes);
        let before = bytes();
        let installed =
            inner.tree.installer.install(&inner.tree.view, |_| Ok(VersionEdit::of([])), |_| {});
        assert!(matches!(installed, Err(Error::Closed)));
        assert_eq!(bytes(), before);
    }
}
