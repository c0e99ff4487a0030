//! Comparators. Esker sorts keys by their bytes; a database with another order is not opened.

use crate::border::callback::{Destructor, State};
use crate::border::{Handle, Status, c_api};
use crate::merge::{Name, name_of};
use std::ffi::c_void;
use std::sync::Arc;

/// The name of RocksDB's order of bytes.
const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// RocksDB's `rocksdb_comparator_t`: a name. Its functions are never called.
pub struct Comparator {
    state: State,
    name: Name,
    has_timestamps: bool,
}

impl Comparator {
    /// Fails unless the order is that of bytes.
    ///
    /// # Errors
    /// Names the comparator.
    pub fn check(&self) -> Result<(), Status> {
        let name = name_of(&self.state, self.name);
        if name == BYTEWISE && !self.has_timestamps {
            return Ok(());
        }
        Err(Status::unsupported(format!(
            "comparator {name:?}: Esker sorts keys by their bytes only, and has no timestamps of users; \
             encode keys so that their bytes have the order"
        )))
    }
}

c_api! {
    fn rocksdb_comparator_create(
        state: *mut c_void,
        destructor: Destructor,
        _compare: *mut c_void,
        name: Name,
    ) -> Handle<Arc<Comparator>> {
        let state = State::new(state, destructor);
        Handle::new(Arc::new(Comparator { state, name, has_timestamps: false }))
    }

    fn rocksdb_comparator_with_ts_create(
        state: *mut c_void,
        destructor: Destructor,
        _compare: *mut c_void,
        _compare_ts: *mut c_void,
        _compare_without_ts: *mut c_void,
        name: Name,
        _timestamp_bytes: usize,
    ) -> Handle<Arc<Comparator>> {
        let state = State::new(state, destructor);
        Handle::new(Arc::new(Comparator { state, name, has_timestamps: true }))
    }

    fn rocksdb_comparator_destroy(comparator: Handle<Arc<Comparator>>) {
        drop(comparator.take());
    }
}
