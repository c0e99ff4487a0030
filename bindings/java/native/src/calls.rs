//! What the calls do that programs make most often. Java reaches them by the native methods of
//! `esker.Native` and, from Java 22 on, by the functions of [`crate::foreign`].

use crate::border::Failure;
use crate::table::{DATABASES, KEYSPACES, SCANS, SNAPSHOTS};
use esker::{KeyRange, Value, WriteBatch};
use jni::sys::{jint, jlong};
use std::sync::{Mutex, PoisonError};

pub fn get(keyspace: jlong, key: &[u8]) -> Result<Option<Value>, Failure> {
    Ok(KEYSPACES.get(keyspace)?.get(key)?)
}

pub fn contains(keyspace: jlong, key: &[u8]) -> Result<bool, Failure> {
    Ok(KEYSPACES.get(keyspace)?.contains_key(key)?)
}

pub fn put(keyspace: jlong, key: &[u8], value: &[u8]) -> Result<(), Failure> {
    Ok(KEYSPACES.get(keyspace)?.put(key, value)?)
}

pub fn delete(keyspace: jlong, key: &[u8]) -> Result<(), Failure> {
    Ok(KEYSPACES.get(keyspace)?.delete(key)?)
}

pub fn snapshot_get(
    snapshot: jlong,
    keyspace: jlong,
    key: &[u8],
) -> Result<Option<Value>, Failure> {
    let keyspace = KEYSPACES.get(keyspace)?;
    Ok(SNAPSHOTS.get(snapshot)?.get(&keyspace, key)?)
}

/// Applies a batch.
pub fn write(db: jlong, batch: Result<WriteBatch, Failure>, sync: bool) -> Result<(), Failure> {
    let db = DATABASES.get(db)?;
    let mut batch = batch?;
    batch.set_sync(sync);
    Ok(db.write(&batch)?)
}

/// The start of a scan.
pub struct Started {
    /// 0 if `bytes` has all entries: most ranges are short, and need no handle then.
    pub handle: jlong,
    /// The handle, big-endian, then the first chunk.
    pub bytes: Vec<u8>,
}

/// Starts a scan at a snapshot, or at present if that is 0. `None` if there is no entry.
pub fn scan(
    keyspace: jlong,
    snapshot: jlong,
    range: KeyRange,
    backward: bool,
    max_bytes: jint,
) -> Result<Option<Started>, Failure> {
    const HANDLE: usize = size_of::<jlong>();
    let keyspace = KEYSPACES.get(keyspace)?;
    let mut entries = match snapshot {
        0 => keyspace.range(range),
        snapshot => SNAPSHOTS.get(snapshot)?.range(&keyspace, range),
    };
    let mut bytes = vec![0; HANDLE];
    let is_all = match backward {
        false => fill(&mut bytes, &mut entries, max_bytes)?,
        true => fill(&mut bytes, entries.by_ref().rev(), max_bytes)?,
    };
    if bytes.len() == HANDLE {
        return Ok(None);
    }
    let handle = if is_all { 0 } else { SCANS.insert(Mutex::new(entries)) };
    bytes[..HANDLE].copy_from_slice(&handle.to_be_bytes());
    Ok(Some(Started { handle, bytes }))
}

/// Returns the next chunk of a scan; `None` if there is no further entry.
pub fn fetch(scan: jlong, backward: bool, max_bytes: jint) -> Result<Option<Vec<u8>>, Failure> {
    let scan = SCANS.get(scan)?;
    let mut entries = scan.lock().unwrap_or_else(PoisonError::into_inner);
    match backward {
        false => chunk(&mut *entries, max_bytes),
        true => chunk((*entries).by_ref().rev(), max_bytes),
    }
}

/// Entries up to about `max_bytes`, and one at least. `None` if there is none.
pub fn chunk(
    entries: impl Iterator<Item = esker::Result<(Value, Value)>>,
    max_bytes: jint,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut out = Vec::new();
    fill(&mut out, entries, max_bytes)?;
    Ok((!out.is_empty()).then_some(out))
}

/// Appends entries until `out` has about `max_bytes`: two lengths, big-endian, key and value. Returns
/// whether these are the last ones.
fn fill(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = esker::Result<(Value, Value)>>,
    max_bytes: jint,
) -> Result<bool, Failure> {
    for entry in entries {
        let (key, value) = entry?;
        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(&key);
        out.extend_from_slice(&value);
        if out.len() >= max_bytes.max(0) as usize {
            return Ok(false);
        }
    }
    Ok(true)
}
