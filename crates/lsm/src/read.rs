//! Point reads: MemTables newest first, then each level's runs newest first.
//!
//! The versions of a key are folded from the newest on: the highest range tombstone met so far is
//! carried along, and a version counts only if it is not older. Each place on the way holds newer
//! versions of the key than the next, so the first version found decides.

use crate::version::KeyspaceVersion;
use crate::view::View;
use esker_api::Value;
use esker_base::{Error, KeyspaceId, Kind, Result, Seqno, hash64};
use esker_table::BlockCache;
use std::sync::Arc;

/// Whether a read may wait for the device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    MayBlock,
    MemoryOnly,
}

/// The value of `key` at `snapshot`.
#[inline]
pub(crate) fn get(
    view: &View,
    cache: &Arc<BlockCache>,
    keyspace: KeyspaceId,
    key: &[u8],
    snapshot: Seqno,
    patience: Patience,
) -> Result<Option<Value>> {
    let tables = view.version.keyspaces.get(&keyspace).ok_or_else(|| unknown(keyspace))?;
    let key_hash = hash64(key);
    let mut deleted_below = 0;
    for memtable in &view.memtables {
        if let Some(tombstones) = memtable.range_tombstones(keyspace) {
            deleted_below = deleted_below.max(tombstones.covering(key, snapshot));
        }
        if let Some(found) = memtable.get(keyspace, key, key_hash, snapshot) {
            let lives = found.kind == Kind::Put && found.seqno >= deleted_below;
            return Ok(lives.then(|| Value::from(found.value)));
        }
    }
    get_from_tables(tables, cache, key, key_hash, snapshot, deleted_below, patience)
}

fn get_from_tables(
    keyspace: &KeyspaceVersion,
    cache: &Arc<BlockCache>,
    key: &[u8],
    key_hash: u64,
    snapshot: Seqno,
    mut deleted_below: Seqno,
    patience: Patience,
) -> Result<Option<Value>> {
    for run in keyspace.levels.iter().flat_map(|level| &level.runs) {
        let Some(handle) = run.table_for(key) else { continue };
        let table = match (handle.opened(), patience) {
            (Some(table), _) => table,
            (None, Patience::MayBlock) => handle.reader(cache)?,
            (None, Patience::MemoryOnly) => return Err(Error::WouldBlock),
        };
        if handle.meta.range_tombstones > 0 {
            deleted_below = deleted_below.max(table.tombstones().covering(key, snapshot));
        }
        let found = match patience {
            Patience::MayBlock => table.get(key, key_hash, snapshot)?,
            Patience::MemoryOnly => table.try_get(key, key_hash, snapshot)?,
        };
        if let Some(found) = found {
            let lives = found.kind == Kind::Put && found.seqno >= deleted_below;
            return Ok(lives.then(|| Value::from(found.value)));
        }
    }
    Ok(None)
}

/// The error for an id that no keyspace has: it was dropped.
pub(crate) fn unknown(keyspace: KeyspaceId) -> Error {
    Error::UnknownKeyspace { name: format!("with id {keyspace}") }
}
