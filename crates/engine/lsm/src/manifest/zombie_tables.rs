//! Zombie tables: removed from every version, but their files still exist. A reader has them open,
//! or the file is shared with a table in use.

use super::version_edit::{VersionChange, VersionEdit};
use crate::version::{TableFile, TableHandle, TableId};
use esker_base::KeyspaceId;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

/// See the file's head. Its lock is a leaf.
#[derive(Default)]
pub(crate) struct ZombieTables {
    tables: Mutex<Vec<ZombieTable>>,
}

struct ZombieTable {
    keyspace: KeyspaceId,
    bytes: u64,
    file: Weak<TableFile>,
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
            Some(ZombieTable {
                keyspace: *keyspaces.get(&table.meta.id)?,
                bytes: table.meta.bytes,
                file: Arc::downgrade(table.file()?),
            })
        });
        let mut tables = self.tables.lock();
        tables.retain(|table| table.file.strong_count() > 0);
        tables.extend(left);
    }

    /// By keyspace, how many bytes they are.
    pub(crate) fn bytes(&self) -> BTreeMap<KeyspaceId, u64> {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.file.strong_count() > 0);
        let mut bytes = BTreeMap::new();
        for table in &*tables {
            *bytes.entry(table.keyspace).or_default() += table.bytes;
        }
        bytes
    }
}
