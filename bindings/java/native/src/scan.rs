//! Iterators, which cross to Java in chunks of many entries.

use crate::border::{Failure, array, native, range};
use crate::table::{KEYSPACES, SCANS, SNAPSHOTS};
use esker::Value;
use jni::JNIEnv;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jbyteArray, jint, jlong};
use std::sync::{Mutex, PoisonError};

native! {
    // The handle, big-endian, then the first chunk. `null` if there is no entry. The handle is 0 if the
    // chunk has all entries: most ranges are short, and need no handle then.
    scan = Java_esker_Native_scan(
        env, keyspace: jlong, snapshot: jlong,
        start: JByteArray<'a>, start_inclusive: jboolean,
        end: JByteArray<'a>, end_inclusive: jboolean,
        backward: jboolean, max_bytes: jint
    ) -> jbyteArray {
        let range = range(env, &start, start_inclusive, &end, end_inclusive)?;
        let keyspace = KEYSPACES.get(keyspace)?;
        let mut entries = match snapshot {
            0 => keyspace.range(range),
            snapshot => SNAPSHOTS.get(snapshot)?.range(&keyspace, range),
        };
        let mut out = vec![0; HANDLE];
        let is_all = match backward {
            0 => fill(&mut out, &mut entries, max_bytes)?,
            _ => fill(&mut out, entries.by_ref().rev(), max_bytes)?,
        };
        if out.len() == HANDLE {
            return Ok(std::ptr::null_mut());
        }
        if is_all {
            return array(env, Some(out));
        }
        let handle = SCANS.insert(Mutex::new(entries));
        out[..HANDLE].copy_from_slice(&handle.to_be_bytes());
        // Without an array Java does not learn of the handle.
        array(env, Some(out)).inspect_err(|_| drop(SCANS.remove(handle)))
    }

    fetch = Java_esker_Native_fetch(
        env, scan: jlong, backward: jboolean, max_bytes: jint
    ) -> jbyteArray {
        let scan = SCANS.get(scan)?;
        let mut entries = scan.lock().unwrap_or_else(PoisonError::into_inner);
        match backward {
            0 => chunk(env, &mut *entries, max_bytes),
            _ => chunk(env, (*entries).by_ref().rev(), max_bytes),
        }
    }

    free = Java_esker_Native_freeScan(_env, scan: jlong) -> () {
        drop(SCANS.remove(scan));
        Ok(())
    }
}

const HANDLE: usize = size_of::<jlong>();

/// Entries up to about `max_bytes`, and one at least. `null` if there is none.
pub fn chunk(
    env: &JNIEnv<'_>,
    entries: impl Iterator<Item = esker::Result<(Value, Value)>>,
    max_bytes: jint,
) -> Result<jbyteArray, Failure> {
    let mut out = Vec::new();
    fill(&mut out, entries, max_bytes)?;
    array(env, (!out.is_empty()).then_some(out))
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
