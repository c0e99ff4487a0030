//! RocksDB, as bundled with the crate that binds it.
//!
//! What to know when its figures are read: bytes are its own tickers' (`rocksdb.wal.bytes`,
//! `rocksdb.flush.write.bytes`, `rocksdb.compact.write.bytes`), and so is the time in which writers
//! were held back (`rocksdb.stall.micros`). Counting them is the only statistics that are on. A batch
//! is copied into one of RocksDB's, entry by entry; a single put or delete is not.

mod cursor;
#[expect(unsafe_code, reason = "a snapshot is held beside its database")]
mod moment;
mod options;

use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::moments::Moments;
use crate::settings::PeerSettings;
use crate::tally::Tally;
use crate::{Peer, Written};
use ::rocksdb::statistics::Ticker;
use ::rocksdb::{
    DB, Error as RocksError, Options, ReadOptions, WaitForCompactOptions, WriteOptions,
};
use cursor::RocksCursor;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Entry, KeyspaceId, Kind, Result};
use moment::Moment;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The ways in which RocksDB is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Variant {
    /// Leveled; the log is written and not synced.
    Wal,
    /// Leveled; the log is synced before a write is acknowledged.
    WalSync,
    /// Leveled; no log.
    NoLog,
    /// Universal; the log is written and not synced.
    Universal,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Wal => "rocksdb-wal",
            Variant::WalSync => "rocksdb-wal-sync",
            Variant::NoLog => "rocksdb-nolog",
            Variant::Universal => "rocksdb-universal",
        }
    }
}

struct RocksDb {
    variant: Variant,
    dir: PathBuf,
    database: Arc<DB>,
    moments: Moments<Moment>,
    /// Kept for its statistics, which it shares with the database.
    options: Options,
    /// Made once: RocksDB's are objects on its heap.
    reads: ReadOptions,
    writes: WriteOptions,
    /// Writes that survive power loss once they are acknowledged, if there is a log.
    synced: WriteOptions,
    user_bytes: Tally,
    configuration: Configuration,
}

pub(crate) fn open(variant: Variant, dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let mut configuration = Configuration::default();
    let options = options::options(variant, settings, &mut configuration);
    let database = DB::open(&options, dir).map_err(|error| foreign("open", dir, error))?;
    let mut writes = WriteOptions::default();
    writes.set_sync(variant == Variant::WalSync);
    writes.disable_wal(variant == Variant::NoLog);
    let mut synced = WriteOptions::default();
    synced.set_sync(variant != Variant::NoLog);
    synced.disable_wal(variant == Variant::NoLog);
    Ok(Box::new(RocksDb {
        variant,
        dir: dir.to_owned(),
        database: Arc::new(database),
        moments: Moments::new(),
        options,
        reads: ReadOptions::default(),
        writes,
        synced,
        user_bytes: Tally::default(),
        configuration,
    }))
}

impl RocksDb {
    fn done<T>(&self, action: &'static str, outcome: Result<T, RocksError>) -> Result<T> {
        outcome.map_err(|error| foreign(action, &self.dir, error))
    }

    fn count(&self, kind: Kind, key: &[u8], value: &[u8]) {
        let entry = Entry { keyspace: KeyspaceId::DEFAULT, kind, key, value };
        self.user_bytes.add(entry.encoded_bytes());
    }
}

impl Kv for RocksDb {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        Ok(self.done("read", self.database.get_opt(key, &self.reads))?.map(Value::from))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let values = self.database.multi_get_opt(keys, &self.reads).into_iter();
        values.map(|value| Ok(self.done("read", value)?.map(Value::from))).collect()
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::batch(self, batch)?;
        let mut native = ::rocksdb::WriteBatch::with_capacity_bytes(batch.encoded().len());
        for entry in batch.iter() {
            match entry.kind {
                Kind::Put => native.put(entry.key, entry.value),
                Kind::Delete => native.delete(entry.key),
                Kind::RangeDelete => native.delete_range(entry.key, entry.value),
            }
        }
        let options = if batch.wants_sync() { &self.synced } else { &self.writes };
        self.done("write to", self.database.write_opt(native, options))?;
        self.user_bytes.add(batch.encoded().len());
        if batch.wants_sync() && self.variant == Variant::NoLog {
            // Without a log, tables are all that survives.
            self.flush()?;
        }
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check::key(key)?;
        self.done("write to", self.database.put_opt(key, value, &self.writes))?;
        self.count(Kind::Put, key, value);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        check::key(key)?;
        self.done("write to", self.database.delete_opt(key, &self.writes))?;
        self.count(Kind::Delete, key, b"");
        Ok(())
    }
}

impl Ordered for RocksDb {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(RocksCursor::new(&self.database, &self.dir, range, None)))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        let moment = self.moments.find(snapshot)?;
        Ok(Box::new(RocksCursor::new(&self.database, &self.dir, range, Some(moment))))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        check::key(key)?;
        Ok(self.moments.find(snapshot)?.get(key, &self.dir)?.map(Value::from))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.moments.hold(Moment::now(&self.database))))
    }
}

impl Peer for RocksDb {
    fn name(&self) -> &str {
        self.variant.name()
    }

    fn flush(&self) -> Result<()> {
        // The options of a flush wait by default.
        self.done("flush", self.database.flush())
    }

    fn settle(&self) -> Result<()> {
        let options = WaitForCompactOptions::default();
        self.done("compact", self.database.wait_for_compact(&options))
    }

    fn written(&self) -> Written {
        let count = |ticker| Some(self.options.get_ticker_count(ticker));
        Written {
            user_bytes: Some(self.user_bytes.total()),
            log_bytes: count(Ticker::WalFileBytes),
            flush_bytes: count(Ticker::FlushWriteBytes),
            compaction_bytes: count(Ticker::CompactWriteBytes),
            stall_us: count(Ticker::StallMicros),
        }
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}
