//! Reads at a snapshot.

use crate::border::{array, bytes, native};
use crate::calls;
use crate::table::SNAPSHOTS;
use jni::objects::JByteArray;
use jni::sys::{jbyteArray, jlong};

native! {
    get = Java_esker_Native_snapshotGet(
        env, snapshot: jlong, keyspace: jlong, key: JByteArray<'a>
    ) -> jbyteArray {
        array(env, calls::snapshot_get(snapshot, keyspace, &bytes(env, &key)?)?)
    }

    free = Java_esker_Native_freeSnapshot(_env, snapshot: jlong) -> () {
        drop(SNAPSHOTS.remove(snapshot));
        Ok(())
    }
}
