//! Column families of an open database.

use crate::border::{Array, ErrorOut, Handle, Out, Result, Status, Text, c_api, memory};
use crate::database::{Database, Family, Open};
use crate::info_log;
use crate::open::{create, exists};
use crate::options::Options;
use crate::settings::settings;
use esker::Db;
use esker::env::Env;
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::time::Duration;

/// Creates a column family, and opens it.
fn create_family(
    open: &Open,
    name: &str,
    options: &Options,
    ttl: Option<Duration>,
) -> Result<Handle<Arc<Family>>> {
    let _alone = open.creation();
    create(&open.db, name, options)?;
    let keyspace = open.db.open_keyspace(name)?;
    let family = Arc::new(Family::new(keyspace, options, ttl, &open.slots)?);
    open.add(family.clone());
    info_log::add(&open.path, &open.options, name, options);
    Ok(Handle::new(family))
}

/// The names of the column families of the database at `path`.
fn names(path: &str, options: &Options) -> Result<Vec<String>> {
    if !exists(path, options) {
        let what = format!("No such file or directory: {path}/CURRENT");
        return Err(Status::new(crate::border::Code::IoError, what));
    }
    let in_memory = options.environment.as_ref().and_then(|env| env.storage(path));
    let db = match in_memory {
        Some(storage) => Db::open_read_only_with(Env::over(storage), settings(options, path)?),
        None => Db::open_read_only(path, settings(options, path)?),
    }?;
    Ok(db.keyspaces().into_iter().map(|keyspace| keyspace.name).collect())
}

/// Gives C an array of texts.
pub fn give_texts<'a>(texts: impl Iterator<Item = &'a str>) -> *mut *mut c_char {
    let texts: Vec<_> = texts.map(memory::copy_text).collect();
    memory::copy(&texts)
}

/// Frees an array that [`give_texts`] gave.
pub fn free_texts(texts: Array<*mut c_char>, count: usize) {
    texts.of(count).iter().for_each(|&text| memory::release(text));
    texts.free();
}

c_api! {
    try fn rocksdb_list_column_families(
        options: Handle<Options>,
        path: Text,
        count: Out<usize>,
    ) -> *mut *mut c_char {
        count.set(0);
        let names = names(path.get()?, options.get())?;
        count.set(names.len());
        Ok(give_texts(names.iter().map(String::as_str)))
    }

    fn rocksdb_list_column_families_destroy(list: Array<*mut c_char>, count: usize) {
        free_texts(list, count);
    }

    try fn rocksdb_create_column_family | rocksdb_transactiondb_create_column_family(
        db: Handle<Database>,
        options: Handle<Options>,
        name: Text,
    ) -> Handle<Arc<Family>> {
        create_family(&db.get().open, name.get()?, options.get(), None)
    }

    try fn rocksdb_create_column_family_with_ttl(
        db: Handle<Database>,
        options: Handle<Options>,
        name: Text,
        ttl: c_int,
    ) -> Handle<Arc<Family>> {
        let ttl = u64::try_from(ttl).ok().filter(|&ttl| ttl > 0).map(Duration::from_secs);
        create_family(&db.get().open, name.get()?, options.get(), ttl)
    }

    /// Creates them one after the other, up to the first that cannot be. The program gets what was created
    /// with the error.
    fn rocksdb_create_column_families(
        db: Handle<Database>,
        options: Handle<Options>,
        count: c_int,
        names: Array<Text>,
        created: Out<usize>,
        errptr: ErrorOut,
    ) -> *mut Handle<Arc<Family>> {
        let names = names.of(usize::try_from(count).unwrap_or(0));
        let create = |name: &Text| create_family(&db.get().open, name.get()?, options.get(), None);
        let mut families = Vec::new();
        let failed = names.iter().map(create).find_map(|made| match made {
            Ok(family) => {
                families.push(family);
                None
            }
            Err(status) => Some(status),
        });
        created.set(families.len());
        if let Some(status) = failed {
            errptr.set(&status);
        }
        memory::copy(&families)
    }

    fn rocksdb_create_column_families_destroy(list: *mut Handle<Arc<Family>>) {
        memory::release(list);
    }

    try fn rocksdb_drop_column_family(db: Handle<Database>, family: Handle<Arc<Family>>) {
        Ok(db.get().open.db.drop_keyspace(&family.get().keyspace)?)
    }

    fn rocksdb_get_default_column_family_handle(db: Handle<Database>) -> Handle<Arc<Family>> {
        Handle::new(db.get().open.default.clone())
    }

    fn rocksdb_column_family_handle_destroy(family: Handle<Arc<Family>>) {
        drop(family.take());
    }

    fn rocksdb_column_family_handle_get_id(family: Handle<Arc<Family>>) -> u32 {
        family.get().id()
    }

    fn rocksdb_column_family_handle_get_name(
        family: Handle<Arc<Family>>,
        length: Out<usize>,
    ) -> *mut c_char {
        let name = family.get().name();
        length.set(name.len());
        memory::copy_text(name)
    }
}
