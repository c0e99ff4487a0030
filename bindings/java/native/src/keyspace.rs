//! Reads and writes of one key or range.

use crate::border::{array, bytes, native, range};
use crate::calls;
use crate::table::KEYSPACES;
use jni::objects::JByteArray;
use jni::sys::{jboolean, jbyteArray, jlong};
use std::time::Duration;

native! {
    get = Java_esker_Native_get(env, keyspace: jlong, key: JByteArray<'a>) -> jbyteArray {
        array(env, calls::get(keyspace, &bytes(env, &key)?)?)
    }

    contains = Java_esker_Native_contains(
        env, keyspace: jlong, key: JByteArray<'a>
    ) -> jboolean {
        Ok(calls::contains(keyspace, &bytes(env, &key)?)?.into())
    }

    put = Java_esker_Native_put(
        env, keyspace: jlong, key: JByteArray<'a>, value: JByteArray<'a>
    ) -> () {
        calls::put(keyspace, &bytes(env, &key)?, &bytes(env, &value)?)
    }

    put_with_ttl = Java_esker_Native_putWithTtl(
        env, keyspace: jlong, key: JByteArray<'a>, value: JByteArray<'a>, millis: jlong
    ) -> () {
        let (key, value) = (bytes(env, &key)?, bytes(env, &value)?);
        let ttl = Duration::from_millis(millis.unsigned_abs());
        Ok(KEYSPACES.get(keyspace)?.put_with_ttl(key, value, ttl)?)
    }

    merge = Java_esker_Native_merge(
        env, keyspace: jlong, key: JByteArray<'a>, operand: JByteArray<'a>
    ) -> () {
        let (key, operand) = (bytes(env, &key)?, bytes(env, &operand)?);
        Ok(KEYSPACES.get(keyspace)?.merge(key, operand)?)
    }

    delete = Java_esker_Native_delete(env, keyspace: jlong, key: JByteArray<'a>) -> () {
        calls::delete(keyspace, &bytes(env, &key)?)
    }

    delete_range = Java_esker_Native_deleteRange(
        env, keyspace: jlong, start: JByteArray<'a>, end: JByteArray<'a>
    ) -> () {
        let range = range(env, &start, 1, &end, 0)?;
        Ok(KEYSPACES.get(keyspace)?.delete_range(range)?)
    }

    approximate_len = Java_esker_Native_approximateLen(_env, keyspace: jlong) -> jlong {
        Ok(KEYSPACES.get(keyspace)?.approximate_len()? as jlong)
    }

    free_keyspace = Java_esker_Native_freeKeyspace(_env, keyspace: jlong) -> () {
        drop(KEYSPACES.remove(keyspace));
        Ok(())
    }
}
