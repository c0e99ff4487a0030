//! Databases and the resources that they share.

use crate::batch;
use crate::border::{Failure, native, settings, string, text};
use crate::calls;
use crate::table::{DATABASES, KEYSPACES, RESOURCES, SNAPSHOTS};
use esker::options::Resources;
use esker::pmem::{Accept, Pool};
use esker::stats::prometheus;
use esker::{Db, KeyspaceSettings, Settings};
use jni::objects::{JByteArray, JObjectArray, JString};
use jni::sys::{jboolean, jint, jlong, jobjectArray, jstring};

native! {
    open = Java_esker_Native_open(
        env, dir: JString<'a>, given: JObjectArray<'a>, resources: jlong, mode: jint
    ) -> jlong {
        let dir = text(env, &dir)?;
        let mut options = Settings::default();
        settings(env, &given, |name, value| options.set_by_name(name, value))?;
        if resources != 0 {
            options = options.resources((*RESOURCES.get(resources)?).clone());
        }
        let db = match mode {
            0 => Db::open(dir, options)?,
            1 => Db::open_existing(dir, options)?,
            _ => Db::open_read_only(dir, options)?,
        };
        Ok(DATABASES.insert(db))
    }

    close = Java_esker_Native_close(_env, db: jlong) -> () {
        match DATABASES.remove(db) {
            Some(db) => Ok((*db).clone().close()?),
            None => Ok(()),
        }
    }

    keyspace = Java_esker_Native_keyspace(
        env, db: jlong, name: JString<'a>, given: JObjectArray<'a>, create: jboolean
    ) -> jlong {
        let db = DATABASES.get(db)?;
        let name = text(env, &name)?;
        if create == 0 {
            return Ok(KEYSPACES.insert(db.open_keyspace(&name)?));
        }
        let mut options = KeyspaceSettings::default();
        settings(env, &given, |name, value| options.set_by_name(name, value))?;
        Ok(KEYSPACES.insert(db.keyspace(&name, options)?))
    }

    default_keyspace = Java_esker_Native_defaultKeyspace(_env, db: jlong) -> jlong {
        Ok(KEYSPACES.insert(DATABASES.get(db)?.default_keyspace()))
    }

    keyspaces = Java_esker_Native_keyspaces(env, db: jlong) -> jobjectArray {
        let names = DATABASES.get(db)?.keyspaces();
        let empty = env.new_string("")?;
        let array = env.new_object_array(names.len() as jint, "java/lang/String", empty)?;
        for (at, info) in names.into_iter().enumerate() {
            let name = env.new_string(info.name)?;
            env.set_object_array_element(&array, at as jint, &name)?;
            env.delete_local_ref(name)?;
        }
        Ok(array.into_raw())
    }

    drop_keyspace = Java_esker_Native_dropKeyspace(_env, db: jlong, keyspace: jlong) -> () {
        Ok(DATABASES.get(db)?.drop_keyspace(&*KEYSPACES.get(keyspace)?)?)
    }

    write = Java_esker_Native_write(
        env, db: jlong, operations: JByteArray<'a>, length: jint, sync: jboolean
    ) -> () {
        let length = usize::try_from(length).map_err(|_| Failure::invalid("negative length"))?;
        let mut bytes = vec![0; length];
        env.get_byte_array_region(&operations, 0, &mut bytes)?;
        let operations = bytes.into_iter().map(|b| b as u8).collect::<Vec<_>>();
        calls::write(db, batch::decode(&operations), sync != 0)
    }

    snapshot = Java_esker_Native_snapshot(_env, db: jlong) -> jlong {
        Ok(SNAPSHOTS.insert(DATABASES.get(db)?.snapshot()))
    }

    flush = Java_esker_Native_flush(_env, db: jlong) -> () {
        Ok(DATABASES.get(db)?.flush()?)
    }

    sync = Java_esker_Native_sync(_env, db: jlong) -> () {
        Ok(DATABASES.get(db)?.sync()?)
    }

    checkpoint = Java_esker_Native_checkpoint(env, db: jlong, dir: JString<'a>) -> () {
        let dir = text(env, &dir)?;
        Ok(DATABASES.get(db)?.checkpoint(dir)?)
    }

    stats = Java_esker_Native_stats(env, db: jlong) -> jstring {
        let stats = DATABASES.get(db)?.stats().to_string();
        string(env, stats)
    }

    prometheus = Java_esker_Native_prometheus(env, db: jlong, name: JString<'a>) -> jstring {
        let (db, name) = (DATABASES.get(db)?, text(env, &name)?);
        string(env, prometheus::page([(&name[..], &db.watched_stats())]))
    }

    used_bytes = Java_esker_Native_usedBytes(_env, db: jlong) -> jlong {
        Ok(DATABASES.get(db)?.used_bytes() as jlong)
    }

    create_pool = Java_esker_Native_createPool(
        env, file: JString<'a>, bytes: jlong, emulated: jboolean
    ) -> () {
        let file = text(env, &file)?;
        let bytes = u64::try_from(bytes).map_err(|_| Failure::invalid("negative size"))?;
        let accept = if emulated == 0 { Accept::Persistent } else { Accept::Emulated };
        drop(Pool::create(file, bytes, accept)?);
        Ok(())
    }

    resources = Java_esker_Native_resources(_env, memory: jlong, threads: jint) -> jlong {
        let memory = usize::try_from(memory).map_err(|_| Failure::invalid("negative memory"))?;
        let threads = usize::try_from(threads).map_err(|_| Failure::invalid("negative threads"))?;
        Ok(RESOURCES.insert(Resources::new(memory, threads)?))
    }

    charged_bytes = Java_esker_Native_chargedBytes(_env, resources: jlong) -> jlong {
        Ok(RESOURCES.get(resources)?.charged_bytes() as jlong)
    }

    free_resources = Java_esker_Native_freeResources(_env, resources: jlong) -> () {
        drop(RESOURCES.remove(resources));
        Ok(())
    }
}
