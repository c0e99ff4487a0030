//! A copy of another database that arrives next to an older copy, and replaces it once all of it is there.
//!
//! The files of the new copy have names that begin with [`STAGED`] until then, so the older copy stays readable and
//! can be promoted. [`StagedCopy::commit`] gives the staged `CURRENT` its name, last. From then on the new copy counts:
//! [`settle`] removes the older files and renames the new ones, and goes on after a crash where it stopped.
//!
//! | there is | after a crash |
//! |---|---|
//! | neither `BASE.CURRENT` nor `BASE.INSTALL` | the older copy is as it was: staged files are removed |
//! | `BASE.CURRENT` | all staged files are durable; files of the older copy may be missing |
//! | `BASE.INSTALL` | the older files are gone; staged files may have their names already |

use super::lineage::{FOLLOWS, Origin};
use crate::manifest::manifest_file::CURRENT;
use crate::manifest::original::{self, ORIGINAL};
use esker_base::{FileKind, Result, WriteHint};
use esker_storage::Storage;

/// A file that a restore of a backup creates first, and removes once there is a database.
pub const RESTORING: &str = "RESTORING";

/// What the names of staged files begin with.
const STAGED: &str = "BASE.";
/// The staged `CURRENT` before the copy counts.
const PARTIAL: &str = "BASE.PARTIAL";
/// The staged `CURRENT` of a copy that counts, while the older one is removed.
const COMMITTED: &str = "BASE.CURRENT";
/// The same once nothing of the older one is left.
const INSTALL: &str = "BASE.INSTALL";

/// A copy that arrives in a storage, next to an older one or nothing. The caller has the lock of the storage.
pub struct StagedCopy<'a> {
    storage: &'a dyn Storage,
}

impl<'a> StagedCopy<'a> {
    /// Begins a copy of `database`, and removes what an interrupted one has left.
    ///
    /// # Errors
    /// [`Error::Io`](esker_base::Error::Io) if the storage cannot be written.
    pub fn begin(storage: &'a dyn Storage, database: u64) -> Result<StagedCopy<'a>> {
        settle(storage)?;
        if !storage.exists(FOLLOWS)? {
            Origin::new(database, 0).write(storage)?;
        }
        Ok(StagedCopy { storage })
    }

    /// Returns the name that the file `name` of the copy is created with. It is synced before the commit.
    pub fn name_of(&self, name: &str) -> String {
        match name {
            CURRENT => PARTIAL.to_owned(),
            name => format!("{STAGED}{name}"),
        }
    }

    /// Makes the copy, which is one of `origin`, the one that counts: [`settle`] installs it.
    ///
    /// # Errors
    /// [`Error::Io`](esker_base::Error::Io) if the storage cannot be written.
    pub fn commit(self, origin: Origin) -> Result<()> {
        origin.write_as(self.storage, &format!("{STAGED}{FOLLOWS}"))?;
        original::note_as(self.storage, &format!("{STAGED}{ORIGINAL}"), origin.database)?;
        // Before the name by which a recovery trusts them.
        self.storage.sync_names()?;
        self.storage.rename(PARTIAL, COMMITTED)?;
        self.storage.sync_names()
    }
}

/// Installs the copy in `storage` that was committed, if there is one, and removes what an interrupted one has left.
/// The caller has the lock of the storage, and nothing in it is open.
///
/// # Errors
/// [`Error::Io`](esker_base::Error::Io) if the storage cannot be written.
pub fn settle(storage: &dyn Storage) -> Result<()> {
    if storage.exists(COMMITTED)? {
        remove_older(storage)?;
        storage.rename(COMMITTED, INSTALL)?;
        storage.sync_names()?;
    }
    let is_installed = storage.exists(INSTALL)?;
    for staged in storage.list()?.iter().filter(|name| name.starts_with(STAGED)) {
        match staged.strip_prefix(STAGED) {
            Some(_) if staged == INSTALL => {}
            Some(name) if is_installed => storage.rename(staged, name)?,
            _ => storage.remove(staged)?,
        }
    }
    storage.sync_names()?;
    if is_installed {
        storage.rename(INSTALL, CURRENT)?;
        storage.sync_names()?;
    }
    // Of an installation that was done but for this.
    if storage.exists(RESTORING)? && storage.exists(CURRENT)? {
        storage.remove(RESTORING)?;
        storage.sync_names()?;
    }
    Ok(())
}

/// Removes all files of the older copy but the one that says what the directory is. Until the new copy is installed,
/// `RESTORING` keeps everything else from taking the rest for a database.
fn remove_older(storage: &dyn Storage) -> Result<()> {
    if !storage.exists(RESTORING)? {
        storage.create(RESTORING, WriteHint::of(FileKind::Meta))?.sync()?;
        storage.sync_names()?;
    }
    if storage.exists(CURRENT)? {
        storage.remove(CURRENT)?;
        storage.sync_names()?;
    }
    let is_kept = |name: &str| name == FOLLOWS || name == RESTORING || name.starts_with(STAGED);
    for name in storage.list()?.iter().filter(|name| !is_kept(name)) {
        storage.remove(name)?;
    }
    storage.sync_names()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;
    use esker_storage::FaultStorage;
    use std::collections::BTreeMap;

    fn put(storage: &dyn Storage, name: &str, content: &str) -> Result<()> {
        let mut file = storage.create(name, WriteHint::of(FileKind::Meta))?;
        file.append(content.as_bytes())?;
        file.sync()
    }

    /// The older copy and the new one share the name of a table, and each has a file of its own.
    fn older(storage: &FaultStorage) {
        Origin::new(1, 2).write(storage).unwrap();
        for (name, content) in [("00000007.tables", "old"), ("00000009.log", "l"), (CURRENT, "old")]
        {
            put(storage, name, content).unwrap();
        }
        storage.sync_names().unwrap();
    }

    fn replace(storage: &FaultStorage) -> Result<()> {
        let staged = StagedCopy::begin(storage, 1)?;
        for (name, content) in [("00000007.tables", "new"), ("00000008.manifest", "n")] {
            put(storage, &staged.name_of(name), content)?;
        }
        put(storage, &staged.name_of(CURRENT), "new")?;
        staged.commit(Origin::new(1, 3))?;
        settle(storage)
    }

    fn files(storage: &FaultStorage) -> BTreeMap<String, Vec<u8>> {
        let names = storage.files().into_iter();
        names.map(|name| (name.clone(), storage.read_all(&name).unwrap())).collect()
    }

    /// The power fails at each call, and again at each call of the recovery.
    #[test]
    fn a_power_loss_leaves_the_older_copy_or_the_new_one() {
        let (before, whole) = (FaultStorage::new(Rng::new(1)), FaultStorage::new(Rng::new(1)));
        older(&before);
        older(&whole);
        replace(&whole).unwrap();
        let (before, after) = (files(&before), files(&whole));
        assert_eq!(
            after.keys().collect::<Vec<_>>(),
            ["00000007.tables", "00000008.manifest", CURRENT, FOLLOWS, ORIGINAL]
        );
        let (mut kept, mut replaced) = (0, 0);
        for cut in 0.. {
            for again in 0..24 {
                let mut storage = FaultStorage::new(Rng::new(cut * 100 + again));
                older(&storage);
                storage.crash_after(cut);
                if replace(&storage).is_ok() {
                    assert!(kept > 0 && replaced > 0, "{kept} and {replaced}");
                    return;
                }
                storage = storage.crash();
                storage.crash_after(again);
                if settle(&storage).is_err() {
                    storage = storage.crash();
                    settle(&storage).unwrap();
                }
                let found = files(&storage);
                let is_older = found == before;
                assert!(is_older || found == after, "cut at {cut} and {again}: {found:?}");
                kept += u32::from(is_older);
                replaced += u32::from(!is_older);
            }
        }
    }

    #[test]
    fn what_was_not_committed_is_removed() {
        let storage = FaultStorage::new(Rng::new(1));
        older(&storage);
        let before = files(&storage);
        let staged = StagedCopy::begin(&storage, 1).unwrap();
        put(&storage, &staged.name_of("00000007.tables"), "new").unwrap();
        put(&storage, &staged.name_of(CURRENT), "new").unwrap();
        settle(&storage).unwrap();
        assert_eq!(files(&storage), before);
    }
}
