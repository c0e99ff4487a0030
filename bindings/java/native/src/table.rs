//! Handles: numbers for objects that Java refers to.

use crate::border::Failure;
use jni::sys::jlong;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Objects of one kind. A handle is never used again, not by another kind either.
pub struct Table<T> {
    objects: RwLock<BTreeMap<jlong, Arc<T>>>,
    kind: &'static str,
}

pub static DATABASES: Table<esker::Db> = Table::new("database");
pub static KEYSPACES: Table<esker::Keyspace> = Table::new("keyspace");
pub static SNAPSHOTS: Table<esker::Snapshot> = Table::new("snapshot");
pub static SCANS: Table<Mutex<esker::Range>> = Table::new("iterator");
/// `None` once it has ended.
pub static TRANSACTIONS: Table<Mutex<Option<esker::Transaction>>> = Table::new("transaction");
pub static RESOURCES: Table<esker::options::Resources> = Table::new("resources");

static NEXT: AtomicI64 = AtomicI64::new(1);

impl<T> Table<T> {
    const fn new(kind: &'static str) -> Self {
        Table { objects: RwLock::new(BTreeMap::new()), kind }
    }

    pub fn insert(&self, object: T) -> jlong {
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(handle, Arc::new(object));
        handle
    }

    pub fn get(&self, handle: jlong) -> Result<Arc<T>, Failure> {
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let object = objects.get(&handle).cloned();
        object.ok_or_else(|| Failure::closed(self.kind))
    }

    /// Removes an object, which ends when the calls that use it do.
    pub fn remove(&self, handle: jlong) -> Option<Arc<T>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(&handle)
    }
}
