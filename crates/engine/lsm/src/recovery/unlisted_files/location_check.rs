//! Detects logs that are stored next to the tables although a pool or another directory was named.
//!
//! A database may have kept its logs in a pool once and next to its tables later; it still owns the
//! pool. An open that names the pool finds none of the logs there. They are not lost. A repair must
//! not drop them, and an open must not remove them as unlisted files: their writes were
//! acknowledged.

use super::orphan_logs;
use crate::log::wal_files::log_file_name;
use crate::log::wal_reader::WalSource;
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::replay::{self, DirectoryState};
use esker_base::{Error, Result};
use esker_storage::Storage;
use std::path::Path;
use std::sync::Arc;

/// Fails if a log of `state` is not on the storage `logs`, which may be a pool, but is a file on `tables`.
pub(crate) fn check(
    tables: &dyn Storage,
    logs: &dyn Storage,
    is_pool: bool,
    state: &ManifestState,
) -> Result<()> {
    for &epoch in state.logs.keys() {
        let name = log_file_name(epoch);
        if !logs.exists(&name)? && tables.exists(&name)? {
            return Err(refuse(tables, logs, is_pool, epoch));
        }
    }
    Ok(())
}

/// Fails if a file next to the tables, which `tables` reads, is a log with writes that no table has. For a
/// `state` that does not say of all logs that they count: an edit that listed this one may be lost.
pub(crate) fn check_unlisted(
    tables: &WalSource<'_>,
    logs: &dyn Storage,
    is_pool: bool,
    state: &ManifestState,
) -> Result<()> {
    for epoch in orphan_logs::epochs(tables.storage, state)? {
        if orphan_logs::last_seqno_of(tables, epoch)? > state.version.flushed_through {
            return Err(refuse(tables.storage, logs, is_pool, epoch));
        }
    }
    Ok(())
}

fn refuse(tables: &dyn Storage, logs: &dyn Storage, is_pool: bool, epoch: u32) -> Error {
    let found = tables.path_of(&log_file_name(epoch));
    let (place, option) = match is_pool {
        true => ("pool", "--pool"),
        false => ("directory", "--log-dir"),
    };
    let reason = format!(
        "the logs of this database are next to its tables: {found} is one, and may hold writes that are \
         nowhere else; leave {option} out. To keep logs in this {place}, open the database without \
         {option} and close it, and then give it again"
    );
    let place = logs.describe();
    if is_pool {
        Error::PoolRefused { pool: place, reason }
    } else {
        Error::InvalidSetting { setting: "log directory", value: place, reason }
    }
}

/// The error of opening a pool, and if the pool is not there, what that means for the database in
/// `storage`.
pub(crate) fn explain_missing_pool(error: Error, pool: &Path, storage: &Arc<dyn Storage>) -> Error {
    let state = match replay::look(&**storage) {
        Ok(DirectoryState::Database(manifest)) if !pool.exists() => {
            replay::load_state(storage, &manifest)
        }
        _ => return error,
    };
    let Ok((_, state)) = state else { return error };
    let dir = storage.describe();
    let reason = if state.logs.is_empty() {
        format!(
            "there is no such file; all writes of {dir} are in its tables, so a new pool will do: \
             `esker pmem create` makes one"
        )
    } else {
        format!(
            "there is no such file; the tables of {dir} hold its writes up to {}, and any later ones \
             are in the pool alone: mount it, or restore it from a copy. If it is lost, `esker repair \
             {dir} --give-up-logs`, without `--pool`, goes on with what is in tables; then give a new \
             pool, which `esker pmem create` makes",
            state.version.flushed_through
        )
    };
    Error::PoolRefused { pool: pool.display().to_string(), reason }
}
