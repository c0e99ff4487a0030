//! Reads at a snapshot.

use crate::border::{array, bytes, native};
use crate::table::{KEYSPACES, SNAPSHOTS};
use jni::objects::JByteArray;
use jni::sys::{jbyteArray, jlong};

native! {
    get = Java_esker_Native_snapshotGet(
        env, snapshot: jlong, keyspace: jlong, key: JByteArray<'a>
    ) -> jbyteArray {
        let key = bytes(env, &key)?;
        let keyspace = KEYSPACES.get(keyspace)?;
        let value = SNAPSHOTS.get(snapshot)?.get(&keyspace, key)?;
        array(env, value)
    }

    free = Java_esker_Native_freeSnapshot(_env, snapshot: jlong) -> () {
        drop(SNAPSHOTS.remove(snapshot));
        Ok(())
    }
}
