//! Backups: RocksDB's `BackupEngine` over a repository of Esker.

use crate::border::callback::start;
use crate::border::{Bytes, Code, Handle, Out, Result, Status, Text, c_api};
use crate::database::Database;
use crate::destroy::{check_removable, destroy, move_files};
use crate::knobs::{HasKnobs, Knobs};
use crate::options::Options;
use esker::backup::{Backup, Repository};
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::path::Path;

/// RocksDB's `rocksdb_backup_engine_t`.
pub struct Engine {
    repository: Repository,
}

/// RocksDB's `rocksdb_backup_engine_options_t`.
pub struct BackupOptions {
    knobs: Knobs,
    /// With a zero at its end.
    dir: Vec<u8>,
}

impl HasKnobs for BackupOptions {
    fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    fn knobs_mut(&mut self) -> &mut Knobs {
        &mut self.knobs
    }
}

impl BackupOptions {
    fn set_dir(&mut self, dir: Text) {
        let dir = dir.optional().ok().flatten().unwrap_or_default();
        self.dir = dir.bytes().chain([0]).collect();
    }

    fn dir(&self) -> &str {
        std::str::from_utf8(&self.dir[..self.dir.len() - 1]).unwrap_or_default()
    }
}

impl Engine {
    fn open(dir: &str) -> Result<Handle<Engine>> {
        if Path::new(dir).join("private").exists() && Path::new(dir).join("meta").exists() {
            let what = format!("{dir} holds backups of RocksDB, which Esker does not read");
            return Err(Status::invalid(what));
        }
        Ok(Handle::new(Engine { repository: Repository::create(dir)? }))
    }

    fn back_up(&self, db: &Database, flush: bool) -> Result<u32> {
        if flush {
            db.open.db.flush()?;
        }
        let report = self.repository.back_up(&db.open.db)?;
        Ok(u32::try_from(report.number).unwrap_or(u32::MAX))
    }

    /// Restores a backup over the database in `dir`, as RocksDB does. Other files there stay.
    ///
    /// The backup is complete next to `dir` before the old database is removed.
    fn restore(&self, number: Option<u32>, dir: &str) -> Result<()> {
        let known = self.repository.backups()?;
        let number = number.map(u64::from);
        let found = known.iter().any(|backup| number.is_none_or(|it| it == backup.number));
        if !found {
            return Err(Status::new(Code::NotFound, "Backup not found"));
        }
        let target = Path::new(dir);
        let mut names = target.read_dir().into_iter().flatten();
        if target.join("RESTORING").exists() || names.next().is_none() {
            self.repository.restore(number, dir)?;
            return Ok(());
        }
        let plain = Options::default();
        check_removable(dir, &plain)?;
        let beside = format!("{}.restored", dir.trim_end_matches('/'));
        // One that was interrupted may have left it.
        destroy(&beside, &plain)?;
        self.repository.restore(number, &beside)?;
        destroy(dir, &plain)?;
        move_files(Path::new(&beside), target)
    }
}

c_api! {
    try fn rocksdb_backup_engine_open(_options: Handle<Options>, dir: Text) -> Handle<Engine> {
        Engine::open(dir.get()?)
    }

    try fn rocksdb_backup_engine_open_opts(
        options: Handle<BackupOptions>,
        _env: *mut c_void,
    ) -> Handle<Engine> {
        if options.get().knobs.is_on("destroy_old_data") {
            let what = "destroy_old_data: Esker keeps old backups; turn it off, and purge them";
            return Err(Status::unsupported(what));
        }
        Engine::open(options.get().dir())
    }

    fn rocksdb_backup_engine_close(engine: Handle<Engine>) {
        drop(engine.take());
    }

    /// A backup in progress is not interrupted.
    fn rocksdb_backup_engine_stop_backup(_engine: Handle<Engine>) {}

    fn rocksdb_backup_engine_options_create(dir: Text) -> Handle<BackupOptions> {
        let mut options = BackupOptions { knobs: Knobs::default(), dir: Vec::new() };
        options.set_dir(dir);
        Handle::new(options)
    }

    fn rocksdb_backup_engine_options_destroy(options: Handle<BackupOptions>) {
        drop(options.take());
    }

    fn rocksdb_backup_engine_options_set_backup_dir(options: Handle<BackupOptions>, dir: Text) {
        options.change(|options| options.set_dir(dir));
    }

    fn rocksdb_backup_engine_options_get_backup_dir(
        options: Handle<BackupOptions>,
        length: Out<usize>,
    ) -> *const c_char {
        let dir = &options.get().dir;
        length.set(dir.len() - 1);
        start(dir)
    }

    try fn rocksdb_backup_engine_create_new_backup(engine: Handle<Engine>, db: Handle<Database>) {
        engine.get().back_up(db.get(), false).map(|_| ())
    }

    try fn rocksdb_backup_engine_create_new_backup_flush(
        engine: Handle<Engine>,
        db: Handle<Database>,
        flush: c_uchar,
    ) {
        engine.get().back_up(db.get(), flush != 0).map(|_| ())
    }

    try fn rocksdb_backup_engine_create_new_backup_with_options(
        engine: Handle<Engine>,
        db: Handle<Database>,
        options: Handle<Knobs>,
        number: Out<u32>,
    ) {
        let flush = options.optional().is_some_and(|it| it.is_on("flush_before_backup"));
        engine.get().back_up(db.get(), flush).map(|made| number.set(made))
    }

    /// The metadata of the program are not stored: `app_metadata` of the backup is empty.
    try fn rocksdb_backup_engine_create_new_backup_with_metadata(
        engine: Handle<Engine>,
        db: Handle<Database>,
        options: Handle<Knobs>,
        metadata: Bytes,
        length: usize,
        number: Out<u32>,
    ) {
        if !metadata.of(length).is_empty() {
            return Err(Status::unsupported("a backup has no metadata of the program"));
        }
        let flush = options.optional().is_some_and(|it| it.is_on("flush_before_backup"));
        engine.get().back_up(db.get(), flush).map(|made| number.set(made))
    }

    try fn rocksdb_backup_engine_purge_old_backups(engine: Handle<Engine>, keep: u32) {
        let repository = &engine.get().repository;
        if !repository.backups()?.is_empty() {
            if keep == 0 {
                return Err(Status::unsupported("the last backup cannot be purged; keep one, or delete the directory"));
            }
            repository.prune(keep as usize)?;
        }
        Ok(())
    }

    /// Reads all files of the repository.
    try fn rocksdb_backup_engine_verify_backup(engine: Handle<Engine>, number: u32) {
        let repository = &engine.get().repository;
        let is_known = repository.backups()?.iter().any(|it| it.number == u64::from(number));
        if !is_known {
            return Err(Status::new(Code::NotFound, "Backup not found"));
        }
        let verified = repository.verify(&mut |_| {}, &mut |_| true)?;
        match verified.damaged.contains(&u64::from(number)) {
            true => Err(Status::new(Code::Corruption, format!("backup {number} is damaged"))),
            false => Ok(()),
        }
    }

    try fn rocksdb_backup_engine_restore_db_from_latest_backup(
        engine: Handle<Engine>,
        dir: Text,
        _wal_dir: Text,
        _options: Handle<Knobs>,
    ) {
        engine.get().restore(None, dir.get()?)
    }

    try fn rocksdb_backup_engine_restore_db_from_backup(
        engine: Handle<Engine>,
        dir: Text,
        _wal_dir: Text,
        _options: Handle<Knobs>,
        number: u32,
    ) {
        engine.get().restore(Some(number), dir.get()?)
    }

    fn rocksdb_backup_engine_get_backup_info(engine: Handle<Engine>) -> Handle<Vec<Backup>> {
        Handle::new(engine.get().repository.backups().unwrap_or_default())
    }

    fn rocksdb_backup_engine_info_destroy(info: Handle<Vec<Backup>>) {
        drop(info.take());
    }

    fn rocksdb_backup_engine_info_count(info: Handle<Vec<Backup>>) -> c_int {
        info.get().len() as c_int
    }

    fn rocksdb_backup_engine_info_timestamp(info: Handle<Vec<Backup>>, at: c_int) -> i64 {
        info.get().get(at as usize).map_or(0, |backup| (backup.made / 1000) as i64)
    }

    fn rocksdb_backup_engine_info_backup_id(info: Handle<Vec<Backup>>, at: c_int) -> u32 {
        info.get().get(at as usize).map_or(0, |backup| backup.number as u32)
    }

    fn rocksdb_backup_engine_info_size(info: Handle<Vec<Backup>>, at: c_int) -> u64 {
        info.get().get(at as usize).map_or(0, Backup::bytes)
    }

    fn rocksdb_backup_engine_info_number_files(info: Handle<Vec<Backup>>, at: c_int) -> u32 {
        info.get().get(at as usize).map_or(0, |backup| backup.files.len() as u32)
    }

    fn rocksdb_backup_engine_info_app_metadata(
        _info: Handle<Vec<Backup>>,
        _at: c_int,
        length: Out<usize>,
    ) -> *const c_char {
        length.set(0);
        start(b"\0")
    }

    fn rocksdb_create_backup_options_set_progress_callback(
        _options: Handle<Knobs>,
        _state: *mut c_void,
        _callback: *mut c_void,
    ) {}
}
