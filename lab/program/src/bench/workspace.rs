//! The directories that the stores of a campaign are in, gone when it is over.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What is copied between two inspects the user's wish to stop: a fraction of a second's writing.
const PIECE_BYTES: u64 = 16 << 20;

/// Files that one store may share with another: Esker's tables, RocksDB's, LevelDB's.
///
/// All three write a table once, into a new file with a number that is never used again, and only read it
/// from then on; what replaces it is another file, and its own name is removed. So a store that runs on links
/// leaves what they link to as it was. (RocksDB shortens a file before it removes it if its deletions are
/// limited by rate, but not if the file has other links; here they are not limited.) Everything else is
/// copied: logs are written over, and of a file of unknown kind nothing is known.
const TABLE_EXTENSIONS: [&str; 3] = ["tables", "sst", "ldb"];

/// A directory for stores.
pub struct Workspace {
    root: PathBuf,
    /// Removes it, if it is temporary.
    temporary: Option<tempfile::TempDir>,
    was_there: bool,
}

/// Fails if stores can't be put in `dir`, without making anything.
pub fn check(dir: &Path) -> Outcome {
    let mut files = match dir.read_dir() {
        Ok(files) => files,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::io("read", dir.display().to_string(), error)),
    };
    if files.next().is_none() {
        return Ok(());
    }
    let dir = dir.display();
    Err(Failure::Usage(format!(
        "{dir} is not empty; stores are measured in a directory of their own"
    )))
}

impl Workspace {
    /// In `dir`, which is empty or not there, or else in a temporary directory.
    pub fn create(dir: Option<&Path>) -> Outcome<Self> {
        let Some(dir) = dir else {
            let failed = |error| Failure::io("create", "a temporary directory", error);
            let temporary =
                tempfile::Builder::new().prefix("esker-bench-").tempdir().map_err(failed)?;
            let root = temporary.path().to_owned();
            return Ok(Workspace { root, temporary: Some(temporary), was_there: false });
        };
        check(dir)?;
        let was_there = dir.exists();
        create(dir)?;
        Ok(Workspace { root: dir.to_owned(), temporary: None, was_there })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// An empty directory for a store. One of the same name that an earlier store left is removed.
    pub fn empty(&self, name: &str) -> Outcome<PathBuf> {
        self.remove(name)?;
        let dir = self.root.join(name);
        create(&dir)?;
        Ok(dir)
    }

    /// A copy of a closed store, on the device before this returns, so that its writing burdens
    /// nobody's measurement. An interrupt ends it. Tables are not copied but linked, where the file system
    /// can: see [`TABLE_EXTENSIONS`].
    pub fn copy(&self, from: &str, to: &str, interrupt: &Interrupt) -> Outcome<PathBuf> {
        let dir = self.empty(to)?;
        let from = self.root.join(from);
        let copied = copy_files(&from, &dir, interrupt);
        if interrupt.is_set() {
            return Err(Failure::Interrupted("interrupted".to_owned()));
        }
        copied.map_err(|error| {
            Failure::io("copy", format!("{} to {}", from.display(), dir.display()), error)
        })?;
        Ok(dir)
    }

    /// Removes a store.
    pub fn remove(&self, name: &str) -> Outcome {
        let dir = self.root.join(name);
        match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Failure::io("remove", dir.display().to_string(), error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if self.temporary.is_some() {
            return;
        }
        // All that is in it was made here: it was empty.
        for file in self.root.read_dir().into_iter().flatten().flatten() {
            let path = file.path();
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        if !self.was_there {
            let _ = fs::remove_dir(&self.root);
        }
    }
}

fn create(dir: &Path) -> Outcome {
    fs::create_dir_all(dir).map_err(|error| Failure::io("create", dir.display().to_string(), error))
}

/// Copies all files, or some if there is an interrupt.
fn copy_files(from: &Path, to: &Path, interrupt: &Interrupt) -> io::Result<()> {
    for file in from.read_dir()? {
        let file = file?;
        let (source, target) = (file.path(), to.join(file.file_name()));
        if file.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_files(&source, &target, interrupt)?;
        } else if !(is_table(&source) && fs::hard_link(&source, &target).is_ok()) {
            copy_file(&source, &target, interrupt)?;
        }
    }
    Ok(())
}

fn is_table(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| TABLE_EXTENSIONS.contains(&extension))
}

fn copy_file(from: &Path, to: &Path, interrupt: &Interrupt) -> io::Result<()> {
    let (source, mut target) = (fs::File::open(from)?, fs::File::create_new(to)?);
    // Synced piece by piece, so that an interrupt waits for a piece and no more.
    while !interrupt.is_set() && io::copy(&mut (&source).take(PIECE_BYTES), &mut target)? > 0 {
        target.sync_data()?;
    }
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_all_files_and_replaces_an_older_one() {
        let workspace = Workspace::create(None).unwrap();
        let from = workspace.empty("from").unwrap();
        fs::create_dir(from.join("inner")).unwrap();
        fs::write(from.join("inner/a"), "1").unwrap();
        fs::write(workspace.empty("to").unwrap().join("old"), "0").unwrap();
        let to = workspace.copy("from", "to", &Interrupt::default()).unwrap();
        assert_eq!(fs::read(to.join("inner/a")).unwrap(), b"1");
        assert!(!to.join("old").exists());
    }

    #[test]
    fn a_copy_shares_tables_and_nothing_else() {
        use std::os::unix::fs::MetadataExt;
        let workspace = Workspace::create(None).unwrap();
        let from = workspace.empty("from").unwrap();
        let names = ["1.tables", "2.sst", "3.ldb", "4.log", "MANIFEST-5", "node-blocks", "tables"];
        for name in names {
            fs::write(from.join(name), "1").unwrap();
        }
        let to = workspace.copy("from", "to", &Interrupt::default()).unwrap();
        let links = names.map(|name| fs::metadata(to.join(name)).unwrap().nlink());
        assert_eq!(links, [2, 2, 2, 1, 1, 1, 1]);
    }

    /// Names and contents of all files in a directory.
    fn state(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
        let files = dir.read_dir().unwrap().map(|file| file.unwrap());
        let mut all: Vec<_> =
            files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect();
        all.sort();
        all
    }

    #[test]
    fn what_runs_on_a_copy_leaves_the_store_as_it_was() {
        use esker::{Db, KeyspaceSettings, Settings};
        let workspace = Workspace::create(None).unwrap();
        let from = workspace.empty("from").unwrap();
        let settings = Settings::default().segment_bytes(64 << 10);
        let write = |dir: &Path, value: u8| {
            let db = Db::open(dir, settings.clone()).unwrap();
            let keyspace = db.keyspace("bench", KeyspaceSettings::default()).unwrap();
            for number in 0..2_000u32 {
                db.put(&keyspace, number.to_be_bytes(), [value; 100]).unwrap();
            }
            db.flush().unwrap();
            db.compact().unwrap();
            db.close().unwrap();
        };
        write(&from, 1);
        let before = state(&from);
        let to = workspace.copy("from", "to", &Interrupt::default()).unwrap();
        write(&to, 2);
        assert_eq!(state(&from), before);
        workspace.remove("to").unwrap();
        assert_eq!(state(&from), before);
    }

    #[test]
    fn an_interrupt_ends_a_copy() {
        let workspace = Workspace::create(None).unwrap();
        fs::write(workspace.empty("from").unwrap().join("a"), "1").unwrap();
        let interrupt = Interrupt::default();
        interrupt.set();
        let copied = workspace.copy("from", "to", &interrupt);
        assert!(matches!(copied, Err(Failure::Interrupted(_))));
        assert_eq!(fs::read(workspace.path().join("to/a")).unwrap(), b"");
    }

    #[test]
    fn nothing_is_left_of_a_workspace_but_what_was_there() {
        let outer = tempfile::tempdir().unwrap();
        let (new, old) = (outer.path().join("new"), outer.path().join("old"));
        fs::create_dir(&old).unwrap();
        for dir in [&new, &old] {
            let workspace = Workspace::create(Some(dir)).unwrap();
            fs::write(workspace.empty("store").unwrap().join("a"), "1").unwrap();
            fs::write(dir.join("node-blocks"), "1").unwrap();
        }
        assert!(!new.exists());
        assert_eq!(old.read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_directory_with_files_is_refused_and_left_alone() {
        let outer = tempfile::tempdir().unwrap();
        fs::write(outer.path().join("a"), "1").unwrap();
        assert!(matches!(check(outer.path()), Err(Failure::Usage(_))));
        assert!(Workspace::create(Some(outer.path())).is_err());
        assert!(outer.path().join("a").exists());
    }
}
