//! Checkpoints: a consistent copy of an open database that shares its tables.
//!
//! All acknowledged writes are flushed first, so the copy needs no log. The version is held while
//! its files are linked, so none of them is removed. Then a new manifest makes the links a
//! database. `request` does so for another process. `live_files` is for copies that are made elsewhere.

pub(crate) mod live_files;
pub(crate) mod request;

use crate::engine::Engine;
use crate::manifest::manifest_file::{Author, CURRENT, Manifest};
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::original;
use crate::manifest::version_edit::VersionChange;
use crate::recovery::replay;
use crate::recovery::replay::DirectoryState;
use crate::stats::events::{EventKind, Span};
use esker_base::{Error, Result, Rng};
use esker_storage::{PosixStorage, Storage, encrypted_as};
use std::path::Path;
use std::sync::Arc;

/// Writes a checkpoint into the directory `dir`, which must be missing or empty. Stops once
/// `goes_on` returns false.
pub(crate) fn checkpoint_into(
    inner: &Engine,
    dir: &Path,
    goes_on: &dyn Fn() -> bool,
) -> Result<()> {
    // Directories that the checkpoint makes, the deepest first.
    let missing: Vec<_> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    let directory = Arc::new(PosixStorage::create(dir)?);
    let target = encrypted_as(&*inner.tree.storage, directory.clone());
    let made = checkpoint(inner, &*target, goes_on);
    drop(target);
    if made.is_err() && !missing.is_empty() {
        let _ = directory.remove_if_empty();
        for parent in &missing[1..] {
            // One that somebody else uses by now is not empty, and stays.
            let _ = std::fs::remove_dir(parent);
        }
    }
    made
}

/// Writes a checkpoint into `target`, as long as `goes_on` says so. A failure leaves nothing of it.
pub(crate) fn checkpoint(
    inner: &Engine,
    target: &dyn Storage,
    goes_on: &dyn Fn() -> bool,
) -> Result<()> {
    let (started, _span) = (inner.tree.clock.now(), Span::checkpoint());
    // Before the lock, which writes a file; and again, as another process may have made a database meanwhile.
    expect_empty(target)?;
    let lock = target.lock()?;
    expect_empty(target)?;
    let made = inner.flush_all().and_then(|()| {
        // Holding the state holds its tables' files.
        let state = inner.tree.installer.state();
        if state.closed {
            // A close has come in between. It may have emptied the state.
            return Err(Error::Closed);
        }
        link(inner, &state, target, goes_on)
    });
    if made.is_err() {
        remove_all(target);
    }
    drop(lock);
    if made.is_ok() {
        let took = inner.tree.clock.now().saturating_sub(started);
        inner.tree.note_event(EventKind::Checkpoint { took });
    }
    made
}

fn expect_empty(target: &dyn Storage) -> Result<()> {
    match replay::look(target)? {
        DirectoryState::Nothing => Ok(()),
        DirectoryState::Database(_) => Err(Error::DatabaseExists { dir: target.describe() }),
    }
}

/// Removes what a checkpoint that failed has left in `target`, which held nothing before. Tables without a
/// manifest would pass for a damaged database.
fn remove_all(target: &dyn Storage) {
    let _ = target.remove(CURRENT);
    for name in target.list().unwrap_or_default() {
        let _ = target.remove(&name);
    }
}

fn link(
    inner: &Engine,
    state: &ManifestState,
    target: &dyn Storage,
    goes_on: &dyn Fn() -> bool,
) -> Result<()> {
    for name in state.file_names() {
        if !goes_on() {
            return Err(Error::Cancelled { what: "checkpoint" });
        }
        inner.tree.storage.link_to(&name, target)?;
    }
    original::note_original(target, inner.tree.installer.identity())?;
    target.sync_names()?;
    write_manifest(inner, state, target)
}

/// Writes a manifest of `state` into `target`, whose database has no log.
fn write_manifest(inner: &Engine, state: &ManifestState, target: &dyn Storage) -> Result<()> {
    let id = state.next_file;
    let copy = ManifestState {
        logs: Default::default(),
        feed: Default::default(),
        next_file: id + 1,
        closed: true,
        ..state.clone()
    };
    // The copy is a database of its own from here on. With the original's identity it would pass for
    // the owner of the original's log directory.
    let chance = inner.tree.clock.now().as_nanos() as u64 ^ inner.tree.installer.next_file();
    let identity = Rng::new(inner.tree.installer.identity() ^ chance).next_u64();
    // A manifest whose length `CURRENT` notes ends with a closing record.
    let mut snapshot = copy.snapshot();
    snapshot.changes.push(VersionChange::Closed);
    Manifest::create(target, id, Author::of(identity), &snapshot)?.seal(target)
}

#[cfg(test)]
mod tests {
    use super::checkpoint;
    use crate::recovery::replay::{DirectoryState, look};
    use crate::{Db, Env, Settings};
    use esker_base::Error;
    use esker_storage::MemoryStorage;
    use std::sync::Arc;

    #[test]
    fn a_database_that_is_closed_meanwhile_makes_no_empty_copy() {
        let env = Env::over(Arc::new(MemoryStorage::new()));
        let settings = Settings::default().segment_bytes(64 << 10).memory_bytes(8 << 20);
        let db = Db::open_with(env, settings).unwrap();
        db.put(&db.default_keyspace(), b"k", b"v").unwrap();
        let inner = db.handle.inner.clone();
        db.close().unwrap();
        let target = MemoryStorage::new();
        assert!(matches!(checkpoint(&inner, &target, &|| true), Err(Error::Closed)));
        assert!(matches!(look(&target), Ok(DirectoryState::Nothing)));
    }
}
