//! Iterators, which cross to Java in chunks of many entries.

use crate::border::{Failure, native, range};
use crate::table::{KEYSPACES, SCANS, SNAPSHOTS};
use esker::Value;
use jni::JNIEnv;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jbyteArray, jint, jlong};
use std::sync::{Mutex, PoisonError};

native! {
    scan = Java_esker_Native_scan(
        env, keyspace: jlong, snapshot: jlong,
        start: JByteArray<'a>, start_inclusive: jboolean,
        end: JByteArray<'a>, end_inclusive: jboolean
    ) -> jlong {
        let range = range(env, &start, start_inclusive, &end, end_inclusive)?;
        let keyspace = KEYSPACES.get(keyspace)?;
        let entries = match snapshot {
            0 => keyspace.range(range),
            snapshot => SNAPSHOTS.get(snapshot)?.range(&keyspace, range),
        };
        Ok(SCANS.insert(Mutex::new(entries)))
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

/// Entries up to about `max_bytes`, and one at least: two lengths, big-endian, key and value. `null`
/// if there is none.
pub fn chunk(
    env: &JNIEnv<'_>,
    entries: impl Iterator<Item = esker::Result<(Value, Value)>>,
    max_bytes: jint,
) -> Result<jbyteArray, Failure> {
    let mut out = Vec::new();
    for entry in entries {
        let (key, value) = entry?;
        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
        out.extend_from_slice(&key);
        out.extend_from_slice(&value);
        if out.len() >= max_bytes.max(0) as usize {
            break;
        }
    }
    match out.is_empty() {
        true => Ok(std::ptr::null_mut()),
        false => Ok(env.byte_array_from_slice(&out)?.into_raw()),
    }
}
