//! Which names lead to which files: as the system shows it, and as the device holds it.

use esker_base::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// The identity of a file, whatever its names.
pub(super) type FileId = u64;

/// A change that the device may not have yet.
#[derive(Clone, Debug)]
enum Change {
    Created { name: String, file: FileId },
    Removed { name: String, file: FileId },
    Renamed { from: String, to: String, file: FileId },
}

type Map = BTreeMap<String, FileId>;

impl Change {
    /// Makes the change in `names` if it makes sense there: changes before it may be missing.
    fn apply(&self, names: &mut Map) {
        match self {
            Change::Created { name, file } => {
                names.entry(name.clone()).or_insert(*file);
            }
            Change::Removed { name, file } => {
                if names.get(name) == Some(file) {
                    names.remove(name);
                }
            }
            Change::Renamed { from, to, file } => {
                if names.get(from) == Some(file) {
                    names.remove(from);
                    names.insert(to.clone(), *file);
                }
            }
        }
    }
}

/// The names of a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedDirectory {
    shown: Map,
    durable: Map,
    /// What leads from `durable` to `shown`, in order.
    pending: Vec<Change>,
}

impl SimulatedDirectory {
    pub(super) fn get(&self, name: &str) -> Option<FileId> {
        self.shown.get(name).copied()
    }

    /// The names that the system shows.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&String, FileId)> {
        self.shown.iter().map(|(name, &file)| (name, file))
    }

    /// The files that have a name, or could have one after a power loss.
    pub(super) fn needed(&self) -> BTreeSet<FileId> {
        let created = self.pending.iter().filter_map(|change| match change {
            Change::Created { file, .. } => Some(file),
            Change::Removed { .. } | Change::Renamed { .. } => None,
        });
        self.shown.values().chain(self.durable.values()).chain(created).copied().collect()
    }

    pub(super) fn create(&mut self, name: &str, file: FileId) {
        self.change(Change::Created { name: name.to_owned(), file });
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(file) = self.get(name) {
            self.change(Change::Removed { name: name.to_owned(), file });
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if let Some(file) = self.get(from) {
            self.change(Change::Renamed { from: from.to_owned(), to: to.to_owned(), file });
        }
    }

    /// Gives `file` the name `name`, on the device too. For the harness only.
    pub(super) fn set_durably(&mut self, name: &str, file: FileId) {
        self.shown.insert(name.to_owned(), file);
        self.sync();
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.shown);
        self.pending.push(change);
    }

    /// Makes the device hold what the system shows.
    pub(super) fn sync(&mut self) {
        self.pending.clear();
        self.durable.clone_from(&self.shown);
    }

    /// Keeps what a power loss leaves: all of the pending changes, none, a prefix, or any of them.
    pub(super) fn survive(&mut self, rng: &mut Rng) {
        let changes = self.pending.len() as u64;
        let mode = rng.below(5);
        let prefix = match mode {
            0 => 0,
            1 => changes,
            _ => rng.below(changes + 1),
        };
        for (at, change) in self.pending.drain(..).enumerate() {
            let survives = if mode < 3 { (at as u64) < prefix } else { rng.one_in(2) };
            if survives {
                change.apply(&mut self.durable);
            }
        }
        self.shown.clone_from(&self.durable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All outcomes of power losses after `changes`, each written as `name=file,…`.
    fn outcomes(changes: impl Fn(&mut SimulatedDirectory)) -> BTreeSet<String> {
        let mut rng = Rng::new(3);
        let outcome = |_| {
            let mut names = SimulatedDirectory::default();
            names.set_durably("old", 1);
            changes(&mut names);
            names.survive(&mut rng);
            let shown: Vec<_> =
                names.shown().map(|(name, file)| format!("{name}={file}")).collect();
            shown.join(",")
        };
        (0..500).map(outcome).collect()
    }

    fn set(expected: &[&str]) -> BTreeSet<String> {
        expected.iter().map(|&outcome| outcome.to_owned()).collect()
    }

    #[test]
    fn changes_survive_each_for_itself() {
        let seen = outcomes(|names| {
            names.create("a", 2);
            names.remove("old");
        });
        assert_eq!(seen, set(&["", "a=2", "a=2,old=1", "old=1"]));
    }

    #[test]
    fn a_rename_is_never_half_done() {
        let seen = outcomes(|names| names.rename("old", "new"));
        assert_eq!(seen, set(&["old=1", "new=1"]));
    }

    #[test]
    fn a_replacing_rename_leaves_the_old_or_the_new_file() {
        let seen = outcomes(|names| {
            names.create("tmp", 2);
            names.sync();
            names.rename("tmp", "old");
        });
        assert_eq!(seen, set(&["old=1,tmp=2", "old=2"]));
    }

    #[test]
    fn a_rename_does_not_survive_without_its_creation() {
        let seen = outcomes(|names| {
            names.create("tmp", 2);
            names.rename("tmp", "old");
        });
        assert_eq!(seen, set(&["old=1", "old=1,tmp=2", "old=2"]));
    }

    #[test]
    fn synced_names_always_survive() {
        let seen = outcomes(|names| {
            names.create("a", 2);
            names.rename("old", "b");
            names.sync();
        });
        assert_eq!(seen, set(&["a=2,b=1"]));
    }
}
