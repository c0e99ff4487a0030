//! A database on disk with its pool on tmpfs, for tests.
#![allow(dead_code, reason = "each test uses some of it")]

use crate::killed;
use esker_lsm::{Db, Log, Settings};
use esker_pmem::{Accept, Pool};
use std::path::{Path, PathBuf};

pub const POOL_BYTES: u64 = 8 << 20;

/// A directory for tables, and one on tmpfs for the pool.
pub struct Place {
    pub tables: tempfile::TempDir,
    pub memory: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let memory = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let place = Place { tables: tempfile::tempdir().unwrap(), memory };
        Pool::create(place.pool(), POOL_BYTES, Accept::Emulated).unwrap();
        place
    }

    pub fn pool(&self) -> PathBuf {
        self.memory.path().join("pool")
    }

    pub fn dir(&self) -> &Path {
        self.tables.path()
    }

    pub fn settings(&self) -> Settings {
        let log = Log::Pmem { pool: self.pool(), emulated: true };
        Settings::default().log(log).memory_bytes(64 << 20)
    }

    /// What a process finds that comes after `db` was killed.
    pub fn after_kill(&self, db: Db) -> Place {
        killed::rest(&db);
        self.copy()
    }

    /// A copy of all files.
    pub fn copy(&self) -> Place {
        let memory = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let place = Place { tables: self.copy_dir(), memory };
        std::fs::copy(self.pool(), place.pool()).unwrap();
        place
    }

    /// A copy of the directory.
    pub fn copy_dir(&self) -> tempfile::TempDir {
        let tables = tempfile::tempdir().unwrap();
        killed::copy_files(self.dir(), tables.path());
        tables
    }

    pub fn open(&self) -> esker_base::Result<Db> {
        Db::open(self.dir(), self.settings())
    }
}

pub fn key(number: u64) -> Vec<u8> {
    format!("key-{:08}", number.wrapping_mul(0x9e37_79b9) % 1_000_000).into_bytes()
}

pub fn put_all(db: &Db, numbers: std::ops::Range<u64>) {
    let keyspace = db.default_keyspace();
    for number in numbers {
        db.put(&keyspace, key(number), number.to_le_bytes().repeat(12)).unwrap();
    }
}

pub fn assert_all(db: &Db, numbers: std::ops::Range<u64>) {
    let keyspace = db.default_keyspace();
    for number in numbers {
        let found = db.get(&keyspace, key(number)).unwrap();
        assert_eq!(found.as_deref(), Some(&number.to_le_bytes().repeat(12)[..]), "{number}");
    }
}
