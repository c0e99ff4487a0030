//! Flushes, compactions, checks, and the removal and repair of databases.

use crate::border::{Array, Bytes, Code, Handle, Result, Status, Text, c_api};
use crate::database::{Database, Family, Open};
use crate::knobs::Knobs;
use crate::listener::Listener;
use crate::options::Options;
use crate::stamps::STAMP_BYTES;
use esker::inspect::{Inspector, MissingLogPolicy};
use esker::stats::EventKind;
use esker::{Error, KeyRange};
use std::cell::Cell;
use std::ffi::{c_int, c_uchar, c_void};
use std::path::Path;
use std::sync::Arc;

thread_local! {
    /// Whether this thread compacts because the program asked for it: listeners get that as one job.
    static COMPACTS: Cell<bool> = const { Cell::new(false) };
}

/// The program's pointer to a database, which only the program uses.
struct Pointer(*const c_void);

// SAFETY: the library passes it on, and reads nothing there.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

impl Pointer {
    fn get(&self) -> *const c_void {
        self.0
    }
}

impl Database {
    /// The pointer that listeners get.
    fn pointer(&self) -> *const c_void {
        std::ptr::from_ref(self).cast()
    }

    /// Calls the listeners for jobs from now on. `self` is where the program will find it.
    pub fn hear(&self) {
        let listeners = self.open.options.listeners.clone();
        if listeners.is_empty() {
            return;
        }
        let db = Pointer(self.pointer());
        let all = self.open.default.name().to_owned();
        self.open.db.listen(move |event| match &event.kind {
            EventKind::Flush { .. } => {
                listeners.iter().for_each(|listener| listener.flushed(db.get(), &all));
            }
            EventKind::Compaction { keyspace, .. } if !COMPACTS.get() => {
                listeners.iter().for_each(|listener| {
                    listener.compaction_begins(db.get(), keyspace);
                    listener.compaction_ended(db.get(), keyspace, &Ok(()));
                });
            }
            _ => {}
        });
    }

    fn flush(&self) -> Result<()> {
        Ok(self.open.db.flush()?)
    }

    /// Makes the log durable, if asked to. Without that, it is in the hands of the system already.
    fn flush_wal(&self, sync: bool) -> Result<()> {
        if sync { Ok(self.open.db.sync()?) } else { Ok(()) }
    }

    /// Compacts a family, whatever range was given: Esker rewrites what has obsolete data. The functions
    /// that call it have no `errptr`, so an error goes to the log of messages.
    fn compact(&self, family: &Family, options: Option<&Knobs>) {
        if let Some(filter) = &family.filter {
            filter.begin_compaction();
        }
        let (listeners, name) = (&self.open.options.listeners, family.name());
        listeners.iter().for_each(|listener| listener.compaction_begins(self.pointer(), name));
        let compacted = self.open.trim(family, options).and_then(|()| {
            COMPACTS.set(true);
            let compacted = self.open.db.compact_keyspace(&family.keyspace);
            COMPACTS.set(false);
            compacted.map_err(Status::from)
        });
        let end = |listener: &Arc<Listener>| {
            listener.compaction_ended(self.pointer(), name, &compacted);
        };
        listeners.iter().for_each(end);
        if let Some(logger) = self.open.logger() {
            logger.log(&match compacted {
                Ok(()) => format!("compacted column family {name:?}"),
                Err(status) => status.to_string(),
            });
        }
    }
}

impl Open {
    /// Raises the lowest timestamp that may be read, if the options of a compaction say so, and deletes what
    /// no reader may see any more.
    fn trim(&self, family: &Family, options: Option<&Knobs>) -> Result<()> {
        let bytes = options.map_or(0, |it| it.number("full_history_ts_low_bytes", 0_usize));
        if bytes > 0 {
            let low = options.map_or(0, |it| it.number("full_history_ts_low", 0_u64)).to_le_bytes();
            let stamps = family.stamped()?;
            let low = match bytes {
                STAMP_BYTES => stamps.order.stamp(&low)?,
                _ => return Err(Status::invalid("ts_low size mismatch")),
            };
            stamps.raise(self, family, low)?;
        }
        family.stamps.as_ref().map_or(Ok(()), |stamps| stamps.trim(self, family))
    }

    /// Deletes the keys of a range, and frees their space.
    fn delete_files(
        &self,
        family: &Family,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        use std::ops::Bound::{Included, Unbounded};
        let bound = |key: Option<&[u8]>| key.map_or(Unbounded, |key| Included(key.to_vec()));
        let range = match &family.stamps {
            None if family.direction.is_reverse => {
                self.delete_keys_down(family, start, end)?;
                return Ok(self.db.compact_keyspace(&family.keyspace)?);
            }
            None => KeyRange { start: bound(start), end: bound(end) },
            Some(stamps) => {
                let end = end.map(|key| stamps.order.version(key, 0));
                KeyRange { end: bound(end.as_deref()), ..stamps.order.range(start, None) }
            }
        };
        self.db.delete_range(&family.keyspace, range)?;
        Ok(self.db.compact_keyspace(&family.keyspace)?)
    }

    /// Deletes the keys of a family in reverse order from `start` down to `end`, which is deleted, too. As the
    /// program would: so readers of updates can give back what it was.
    fn delete_keys_down(
        &self,
        family: &Family,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        let mut batch = self.db.batch();
        if start.is_none() || start != end {
            batch.delete_range(&family.keyspace, family.direction.range(start, end));
        }
        batch.delete(&family.keyspace, end.unwrap_or_default());
        Ok(self.db.write(&batch)?)
    }
}

/// Checks all checksums.
fn verify(open: &Open) -> Result<()> {
    if open.options.environment.as_ref().is_some_and(|env| env.is_in_memory()) {
        return Err(Status::unsupported("a database in memory has no files to check"));
    }
    if !open.is_read_only {
        open.db.flush()?;
    }
    let mut first = None;
    let logs = open.options.log_dir(&open.path);
    Inspector::open(&open.path, logs.as_deref())?.check(&mut |error| {
        first.get_or_insert(error);
    })?;
    first.map_or(Ok(()), |error: Error| Err(error.into()))
}

c_api! {
    try fn rocksdb_flush | rocksdb_transactiondb_flush(
        db: Handle<Database>,
        _options: Handle<Knobs>,
    ) {
        db.get().flush()
    }

    /// Flushes all families: they share their MemTables.
    try fn rocksdb_flush_cf | rocksdb_transactiondb_flush_cf(
        db: Handle<Database>,
        _options: Handle<Knobs>,
        _family: Handle<Arc<Family>>,
    ) {
        db.get().flush()
    }

    try fn rocksdb_flush_cfs | rocksdb_transactiondb_flush_cfs(
        db: Handle<Database>,
        _options: Handle<Knobs>,
        _families: Array<Handle<Arc<Family>>>,
        _count: c_int,
    ) {
        db.get().flush()
    }

    try fn rocksdb_flush_wal | rocksdb_transactiondb_flush_wal(
        db: Handle<Database>,
        sync: c_uchar,
    ) {
        db.get().flush_wal(sync != 0)
    }

    try fn rocksdb_flush_wal_with_options | rocksdb_transactiondb_flush_wal_with_options(
        db: Handle<Database>,
        options: Handle<Knobs>,
    ) {
        db.get().flush_wal(options.get().is_on("sync"))
    }

    fn rocksdb_compact_range(
        db: Handle<Database>,
        _start: Bytes,
        _start_length: usize,
        _end: Bytes,
        _end_length: usize,
    ) {
        db.get().compact(&db.get().open.default, None);
    }

    fn rocksdb_compact_range_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        _start: Bytes,
        _start_length: usize,
        _end: Bytes,
        _end_length: usize,
    ) {
        db.get().compact(family.get(), None);
    }

    fn rocksdb_compact_range_opt(
        db: Handle<Database>,
        options: Handle<Knobs>,
        _start: Bytes,
        _start_length: usize,
        _end: Bytes,
        _end_length: usize,
    ) {
        db.get().compact(&db.get().open.default, options.optional());
    }

    fn rocksdb_compact_range_cf_opt(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        options: Handle<Knobs>,
        _start: Bytes,
        _start_length: usize,
        _end: Bytes,
        _end_length: usize,
    ) {
        db.get().compact(family.get(), options.optional());
    }

    try fn rocksdb_wait_for_compact(db: Handle<Database>, options: Handle<Knobs>) {
        let open = &db.get().open;
        if options.optional().is_some_and(|options| options.is_on("flush")) {
            db.get().flush()?;
        }
        open.db.wait_for_compactions()?;
        if options.optional().is_some_and(|options| options.is_on("close_db")) {
            open.db.clone().close()?;
        }
        Ok(())
    }

    /// Deletes the keys from `start` to `end`, and compacts. RocksDB keeps the keys of files that are
    /// partly outside.
    try fn rocksdb_delete_file_in_range(
        db: Handle<Database>,
        start: Bytes,
        start_length: usize,
        end: Bytes,
        end_length: usize,
    ) {
        let open = &db.get().open;
        let (start, end) = (start.optional(start_length), end.optional(end_length));
        open.delete_files(&open.default, start, end)
    }

    try fn rocksdb_delete_file_in_range_cf(
        db: Handle<Database>,
        family: Handle<Arc<Family>>,
        start: Bytes,
        start_length: usize,
        end: Bytes,
        end_length: usize,
    ) {
        let (start, end) = (start.optional(start_length), end.optional(end_length));
        db.get().open.delete_files(family.get(), start, end)
    }

    /// Files that are there now stay until deletions are enabled.
    try fn rocksdb_disable_file_deletions(db: Handle<Database>) {
        let open = &db.get().open;
        let files = open.db.live_files()?;
        *open.kept_files() = Some(files);
        Ok(())
    }

    try fn rocksdb_enable_file_deletions(db: Handle<Database>) {
        *db.get().open.kept_files() = None;
        Ok(())
    }

    try fn rocksdb_verify_checksum | rocksdb_verify_file_checksums(db: Handle<Database>) {
        verify(&db.get().open)
    }

    try fn rocksdb_destroy_db(options: Handle<Options>, path: Text) {
        crate::destroy::destroy(path.get()?, options.get())
    }

    /// Keeps what is intact. Fails if a log is missing.
    try fn rocksdb_repair_db(options: Handle<Options>, path: Text) {
        let path = path.get()?;
        crate::open::refuse_rocksdb(path)?;
        if !Path::new(path).join("CURRENT").exists() {
            let what = format!("No such file or directory: {path}/CURRENT");
            return Err(Status::new(Code::IoError, what));
        }
        let logs = options.optional().and_then(|options| options.log_dir(path));
        Inspector::open(path, logs.as_deref())?.repair(MissingLogPolicy::Refuse)?;
        Ok(())
    }
}
