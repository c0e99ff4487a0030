//! Snapshots.

use crate::border::{bytes, given, handle_slot, keys as keys_of, quietly, slot, slots};
use crate::bytes::esker_bytes;
use crate::error::esker_error;
use crate::keyspace::{esker_keyspace, put_value, put_values};
use crate::open::esker_db;
use crate::status::esker_status;
use esker::Snapshot;

/// A consistent view of all keyspaces at one point in time. Threads may share it. Compaction keeps what
/// it sees, so free it when it is no longer needed.
pub struct esker_snapshot {
    pub(crate) snapshot: Snapshot,
}

/// Takes a snapshot. Nothing is copied. The caller frees it with `esker_snapshot_free`.
///
/// `ESKER_CLOSED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_new(
    db: Option<&esker_db>,
    snapshot_out: *mut *mut esker_snapshot,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = handle_slot(snapshot_out, "the snapshot")?;
        let db = given(db, "db")?;
        db.closed.check()?;
        out.put_handle(esker_snapshot { snapshot: db.db.snapshot() });
        Ok(())
    })
}

/// Reads the value that `key` had at the snapshot. The caller frees it with `esker_bytes_free`.
///
/// `ESKER_FOREIGN_HANDLE` if snapshot and keyspace are of two databases; otherwise as `esker_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_get(
    snapshot: Option<&esker_snapshot>,
    keyspace: Option<&esker_keyspace>,
    key: *const u8,
    key_len: usize,
    value_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let out = slot(value_out, esker_bytes::NOTHING, "the value")?;
        let (snapshot, keyspace) = (given(snapshot, "snapshot")?, given(keyspace, "keyspace")?);
        put_value(out, snapshot.snapshot.get(&keyspace.keyspace, bytes(key, key_len)?)?)
    })
}

/// Reads the values that `count` keys had at the snapshot, as `esker_multi_get` does.
///
/// `ESKER_FOREIGN_HANDLE` if snapshot and keyspace are of two databases; otherwise as `esker_multi_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn esker_snapshot_multi_get(
    snapshot: Option<&esker_snapshot>,
    keyspace: Option<&esker_keyspace>,
    keys: *const *const u8,
    key_lens: *const usize,
    count: usize,
    values_out: *mut esker_bytes,
    error: *mut *mut esker_error,
) -> esker_status {
    border!(error, {
        let places = slots(values_out, count, || esker_bytes::NOTHING, "the values")?;
        let (snapshot, keyspace) = (given(snapshot, "snapshot")?, given(keyspace, "keyspace")?);
        let keys = keys_of(keys, key_lens, count)?;
        put_values(places, snapshot.snapshot.multi_get(&keyspace.keyspace, keys)?);
        Ok(())
    })
}

/// Frees a snapshot. Cursors that read at it keep their own. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn esker_snapshot_free(snapshot: Option<Box<esker_snapshot>>) {
    quietly((), || drop(snapshot));
}
