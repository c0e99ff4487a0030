//! Environments: where files are, and how many threads RocksDB would have.

use crate::border::Status;
use crate::border::{Handle, Text, c_api};
use crate::knobs::Knobs;
use esker::env::MemoryStorage;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// RocksDB's `rocksdb_env_t`.
#[derive(Default)]
pub struct Environment {
    /// The databases in memory, by their paths. `None` is the file system.
    memory: Option<Mutex<HashMap<String, Arc<MemoryStorage>>>>,
    /// Numbers of threads, which are only read back.
    threads: Mutex<Knobs>,
}

impl Environment {
    /// The storage of the database at `path`, if the environment is in memory.
    pub fn storage(&self, path: &str) -> Option<Arc<MemoryStorage>> {
        let mut databases = self.memory.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(databases.entry(path.to_owned()).or_default().clone())
    }

    /// Forgets the database at `path`. Whether the environment is in memory.
    pub fn forget(&self, path: &str) -> bool {
        let Some(memory) = &self.memory else { return false };
        memory.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
        true
    }

    /// Whether the databases are in memory.
    pub fn is_in_memory(&self) -> bool {
        self.memory.is_some()
    }

    fn set_threads(&self, name: &'static str, count: c_int) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).set(name, count);
    }

    fn threads(&self, name: &str) -> c_int {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).number(name, 1)
    }
}

c_api! {
    fn rocksdb_create_default_env() -> Handle<Arc<Environment>> {
        Handle::new(Arc::default())
    }

    fn rocksdb_create_mem_env() -> Handle<Arc<Environment>> {
        Handle::new(Arc::new(Environment { memory: Some(Mutex::default()), ..Environment::default() }))
    }

    fn rocksdb_env_destroy(env: Handle<Arc<Environment>>) {
        drop(env.take());
    }

    fn rocksdb_env_set_background_threads(env: Handle<Arc<Environment>>, count: c_int) {
        env.get().set_threads("background", count);
    }

    fn rocksdb_env_get_background_threads(env: Handle<Arc<Environment>>) -> c_int {
        env.get().threads("background")
    }

    fn rocksdb_env_set_high_priority_background_threads(env: Handle<Arc<Environment>>, count: c_int) {
        env.get().set_threads("high", count);
    }

    fn rocksdb_env_get_high_priority_background_threads(env: Handle<Arc<Environment>>) -> c_int {
        env.get().threads("high")
    }

    fn rocksdb_env_set_low_priority_background_threads(env: Handle<Arc<Environment>>, count: c_int) {
        env.get().set_threads("low", count);
    }

    fn rocksdb_env_get_low_priority_background_threads(env: Handle<Arc<Environment>>) -> c_int {
        env.get().threads("low")
    }

    fn rocksdb_env_set_bottom_priority_background_threads(
        env: Handle<Arc<Environment>>,
        count: c_int,
    ) {
        env.get().set_threads("bottom", count);
    }

    fn rocksdb_env_get_bottom_priority_background_threads(env: Handle<Arc<Environment>>) -> c_int {
        env.get().threads("bottom")
    }

    try fn rocksdb_create_dir_if_missing(_env: Handle<Arc<Environment>>, path: Text) {
        let path = path.get()?;
        std::fs::create_dir_all(path).map_err(|error| Status::io("create", path, &error))
    }
}
