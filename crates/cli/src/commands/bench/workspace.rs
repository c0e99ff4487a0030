//! The directories that the stores of a campaign lie in, gone when it is over.

use crate::failure::{Failure, Outcome};
use std::fs;
use std::path::{Path, PathBuf};

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
    /// nobody's measurement.
    pub fn copy(&self, from: &str, to: &str) -> Outcome<PathBuf> {
        let dir = self.empty(to)?;
        let from = self.root.join(from);
        copy_files(&from, &dir).map_err(|error| {
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
            let _ = fs::remove_dir_all(file.path());
        }
        if !self.was_there {
            let _ = fs::remove_dir(&self.root);
        }
    }
}

fn create(dir: &Path) -> Outcome {
    fs::create_dir_all(dir).map_err(|error| Failure::io("create", dir.display().to_string(), error))
}

fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for file in from.read_dir()? {
        let file = file?;
        let (source, target) = (file.path(), to.join(file.file_name()));
        if file.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_files(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    Ok(())
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
        let to = workspace.copy("from", "to").unwrap();
        assert_eq!(fs::read(to.join("inner/a")).unwrap(), b"1");
        assert!(!to.join("old").exists());
    }

    #[test]
    fn nothing_is_left_of_a_workspace_but_what_was_there() {
        let outer = tempfile::tempdir().unwrap();
        let (new, old) = (outer.path().join("new"), outer.path().join("old"));
        fs::create_dir(&old).unwrap();
        for dir in [&new, &old] {
            let workspace = Workspace::create(Some(dir)).unwrap();
            fs::write(workspace.empty("store").unwrap().join("a"), "1").unwrap();
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
