//! Iterators, which cross to Java in chunks of many entries.

use crate::border::{array, native, range};
use crate::calls;
use crate::table::SCANS;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jbyteArray, jint, jlong};

native! {
    scan = Java_esker_Native_scan(
        env, keyspace: jlong, snapshot: jlong,
        start: JByteArray<'a>, start_inclusive: jboolean,
        end: JByteArray<'a>, end_inclusive: jboolean,
        backward: jboolean, max_bytes: jint
    ) -> jbyteArray {
        let range = range(env, &start, start_inclusive, &end, end_inclusive)?;
        let Some(started) = calls::scan(keyspace, snapshot, range, backward != 0, max_bytes)? else {
            return Ok(std::ptr::null_mut());
        };
        // Without an array Java does not learn of the handle.
        array(env, Some(started.bytes)).inspect_err(|_| drop(SCANS.remove(started.handle)))
    }

    fetch = Java_esker_Native_fetch(
        env, scan: jlong, backward: jboolean, max_bytes: jint
    ) -> jbyteArray {
        array(env, calls::fetch(scan, backward != 0, max_bytes)?)
    }

    free = Java_esker_Native_freeScan(_env, scan: jlong) -> () {
        drop(SCANS.remove(scan));
        Ok(())
    }
}
