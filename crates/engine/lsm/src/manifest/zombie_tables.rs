//! Zombie tables: removed from every version, but their bytes are still there, because a reader has them open or because
//! the storage could not free them.
//!
//! A table of a file that other tables use is freed when its last reader is gone
//! ([`Storage::free_part`](esker_storage::Storage::free_part)). That fails while a checkpoint or another process has the
//! file, and it is not done if the process ends before. Later edits try again. No compaction frees these bytes, so no flush
//! waits for them: they do not count as space of the keyspace. Nor do the blocks at the ends of freed tables.

use super::version_edit::{VersionChange, VersionEdit};
use crate::version::{Remains, TableExtent, TableFile, TableHandle, TableId, Version};
use esker_base::KeyspaceId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};

/// How many tables or files are tried again with each edit, which waits for that.
const TRIES: usize = 8;

/// See the file's head. Its lock is a leaf.
#[derive(Default)]
pub(crate) struct ZombieTables {
    tables: Mutex<VecDeque<ZombieTable>>,
    files: Mutex<VecDeque<LeftFile>>,
}

struct ZombieTable {
    /// `None` if it was dropped.
    keyspace: Option<KeyspaceId>,
    bytes: u64,
    extent: Weak<TableExtent>,
    remains: Remains,
}

/// A file with tables that were removed before the database was opened.
struct LeftFile {
    file: Weak<TableFile>,
    /// The offsets of all other tables.
    live: BTreeSet<u64>,
}

impl ZombieTables {
    /// Notes the tables that `edit` took away. Those of a keyspace that was dropped count for none.
    pub(crate) fn add(&self, edit: &VersionEdit, removed: &[Arc<TableHandle>]) {
        let keyspaces: HashMap<TableId, KeyspaceId> = edit
            .changes
            .iter()
            .filter_map(|change| match change {
                VersionChange::RemoveTable { keyspace, id } => Some((*id, *keyspace)),
                _ => None,
            })
            .collect();
        let left = removed.iter().filter_map(|table| {
            let extent = table.extent()?;
            Some(ZombieTable {
                keyspace: keyspaces.get(&table.meta.id).copied(),
                bytes: table.meta.bytes,
                remains: extent.remains().clone(),
                extent: Arc::downgrade(extent),
            })
        });
        self.tables.lock().extend(left);
    }

    /// Notes the files of `version` that have more bytes than its tables, by `bytes_of` each file.
    pub(crate) fn find_left(&self, version: &Version, bytes_of: impl Fn(u64) -> u64) {
        let mut files: BTreeMap<u64, (u64, LeftFile)> = BTreeMap::new();
        let tables = version.keyspaces.values().flat_map(|keyspace| keyspace.tables());
        for (_, _, table) in tables {
            let Some(file) = table.file() else { continue };
            let (bytes, left) = files.entry(table.meta.id.file).or_insert_with(|| {
                (0, LeftFile { file: Arc::downgrade(file), live: BTreeSet::new() })
            });
            *bytes += table.meta.bytes;
            left.live.insert(table.meta.id.offset);
        }
        let left = files.into_iter().filter(|(file, (bytes, _))| bytes_of(*file) > *bytes);
        *self.files.lock() = left.map(|(_, (_, left))| left).collect();
    }

    /// Tries again to free what could not be freed: a few tables, and what is left in a file.
    pub(crate) fn retry(&self) {
        let mut due = Vec::new();
        let mut tables = self.tables.lock();
        tables.retain(|table| !table.remains.are_gone());
        for _ in 0..tables.len() {
            if due.len() == TRIES {
                break;
            }
            tables.rotate_left(1);
            let last = tables.back().expect("it was just moved there");
            due.extend((!last.is_held()).then(|| last.remains.clone()));
        }
        drop(tables);
        due.iter().for_each(Remains::free);
        let Some(left) = self.files.lock().pop_front() else { return };
        if left.file.upgrade().is_some_and(|file| !file.free_all_but(&left.live)) {
            self.files.lock().push_back(left);
        }
    }

    /// By keyspace, how many bytes readers hold.
    pub(crate) fn bytes(&self) -> BTreeMap<KeyspaceId, u64> {
        let mut bytes = BTreeMap::new();
        let mut tables = self.tables.lock();
        tables.retain(|table| !table.remains.are_gone());
        for table in tables.iter().filter(|table| table.is_held()) {
            if let Some(keyspace) = table.keyspace {
                *bytes.entry(keyspace).or_default() += table.bytes;
            }
        }
        bytes
    }
}

impl ZombieTable {
    /// Whether a reader has it.
    fn is_held(&self) -> bool {
        self.extent.strong_count() > 0
    }
}
