//! Listeners: callbacks for flushes and compactions.
//!
//! The thread of a job in the background calls both, the begin and the end, when the job has ended. A callback
//! gets a job without numbers: the functions that read these return zero.

use crate::border::callback::{Destructor, State};
use crate::border::{Handle, Out, Result, c_api};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// The job that a callback gets.
pub struct Job {
    /// The name of the column family.
    pub family: String,
    /// How it ended. One that only begins has not failed.
    pub outcome: Result<()>,
}

type Told = Option<unsafe extern "C" fn(*mut c_void, *const c_void, *const Job)>;

/// RocksDB's `rocksdb_eventlistener_t`.
pub struct Listener {
    state: State,
    flush_begin: Told,
    flush_completed: Told,
    compaction_begin: Told,
    compaction_completed: Told,
}

impl Listener {
    /// Calls a callback with the database, and with the job.
    fn call(&self, told: Told, db: *const c_void, family: &str, outcome: Result<()>) {
        let job = Job { family: family.to_owned(), outcome };
        if let Some(told) = told {
            // SAFETY: the arguments are those of `c.h`, and live during the call.
            unsafe { told(self.state.get(), db, &job) };
        }
    }

    /// A flush has ended. `db` is the program's pointer to the database.
    pub fn flushed(&self, db: *const c_void, family: &str) {
        self.call(self.flush_begin, db, family, Ok(()));
        self.call(self.flush_completed, db, family, Ok(()));
    }

    /// A compaction begins.
    pub fn compaction_begins(&self, db: *const c_void, family: &str) {
        self.call(self.compaction_begin, db, family, Ok(()));
    }

    /// A compaction has ended.
    pub fn compaction_ended(&self, db: *const c_void, family: &str, outcome: &Result<()>) {
        self.call(self.compaction_completed, db, family, outcome.clone());
    }
}

c_api! {
    /// Flushes and compactions call the first four callbacks.
    fn rocksdb_eventlistener_create(
        state: *mut c_void,
        destructor: Destructor,
        flush_begin: Told,
        flush_completed: Told,
        compaction_begin: Told,
        compaction_completed: Told,
        _subcompaction_begin: *mut c_void,
        _subcompaction_completed: *mut c_void,
        _external_file_ingested: *mut c_void,
        _background_error: *mut c_void,
        _stall_conditions_changed: *mut c_void,
        _memtable_sealed: *mut c_void,
    ) -> Handle<Arc<Listener>> {
        let state = State::new(state, destructor);
        Handle::new(Arc::new(Listener {
            state,
            flush_begin,
            flush_completed,
            compaction_begin,
            compaction_completed,
        }))
    }

    /// The name of the column family of a job.
    fn rocksdb_flushjobinfo_cf_name | rocksdb_compactionjobinfo_cf_name(
        job: Handle<Job>,
        length: Out<usize>,
    ) -> *const c_char {
        let family = &job.get().family;
        length.set(family.len());
        family.as_ptr().cast()
    }

    try fn rocksdb_compactionjobinfo_status(job: Handle<Job>) {
        job.get().outcome.clone()
    }

    fn rocksdb_eventlistener_destroy(listener: Handle<Arc<Listener>>) {
        drop(listener.take());
    }
}
