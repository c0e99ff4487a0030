//! TidesDB 10, over its own crate, which compiles the C library with cmake.
//!
//! What to know when its figures are read: every write is a transaction of its own, and so is every
//! read; an iterator copies each key and value into new vectors, because its interface does. Range
//! deletes read the range and delete each key (see [`ranges`](crate::ranges)).

mod cursor;
#[expect(unsafe_code, reason = "handles are kept beside the database that they borrow from")]
mod handle;

use crate::adapter;
use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::moments::Moments;
use crate::ranges::{self, Sink};
use crate::settings::{PeerSettings, uncompressed};
use crate::tally::Tally;
use crate::{Peer, Written};
use ::tidesdb::{ColumnFamilyConfig, Config, Error as TidesError, LogLevel, SyncMode, Transaction};
use cursor::TidesCursor;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Clock, Kind, Result, SystemClock};
use handle::{Family, Moment};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a waiting thread checks whether TidesDB is idle.
const POLL: Duration = Duration::from_millis(20);
/// The number of checks in a row that must find it idle: between two jobs it is, briefly.
const IDLE_POLLS: u32 = 5;

struct TidesDb {
    dir: PathBuf,
    // Before the family, which closes the database when it is dropped.
    moments: Moments<Moment>,
    family: Family,
    clock: SystemClock,
    user_bytes: Tally,
    configuration: Configuration,
}

/// Refuses what TidesDB can't be set to.
pub(crate) fn check(settings: &PeerSettings) -> Result<()> {
    uncompressed("TidesDB", settings)
}

pub(crate) fn open(dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let mut configuration = Configuration::default();
    let config = database(dir, settings, &mut configuration);
    let family = column_family(settings, &mut configuration);
    adapter::create(dir)?;
    let family = Family::open(config, family).map_err(|error| foreign("open", dir, error))?;
    Ok(Box::new(TidesDb {
        dir: dir.to_owned(),
        moments: Moments::new(),
        family,
        clock: SystemClock::new(),
        user_bytes: Tally::default(),
        configuration,
    }))
}

fn database(dir: &Path, settings: &PeerSettings, configuration: &mut Configuration) -> Config {
    let buffers = settings.write_buffers_of(settings.write_buffers);
    let threads = settings.background_threads as i32;
    let sync = "the others' logs are not synced either; a commit reaches the file at once";
    configuration.note("memtable_sync_mode", "Interval, one second", sync);
    configuration.note(
        "value_separation_threshold",
        "default",
        "config.rs: do not exceed a quarter of a node",
    );
    configuration.note("default_isolation_level", "default, read committed", "config.rs");
    Config::new(dir)
        .num_flush_threads(configuration.note("num_flush_threads", threads, "the run's"))
        .num_compaction_threads(configuration.note("num_compaction_threads", threads, "the run's"))
        .memtable_write_buffer_size(configuration.note(
            "memtable_write_buffer_size",
            settings.write_buffer_bytes,
            "the run's, the same for all engines",
        ))
        .memtable_l0_queue_stall_threshold(configuration.note(
            "memtable_l0_queue_stall_threshold",
            buffers as i32 - 1,
            "writers wait at as many full write buffers as with the other engines",
        ))
        .block_cache_size(configuration.note(
            "block_cache_size",
            settings.cache_beside(buffers),
            "what the write buffers leave of the memory",
        ))
        .memtable_sync_mode(SyncMode::Interval)
        .log_level(LogLevel::None)
}

fn column_family(settings: &PeerSettings, configuration: &mut Configuration) -> ColumnFamilyConfig {
    // A Bloom filter with the best number of probes: ln 2 squared, a bit.
    let rate = (-0.480_45 * f64::from(settings.filter_bits)).exp();
    let rate = configuration.note("bloom_fpr", rate, "the run's filter bits a key as a rate");
    let family = ColumnFamilyConfig::new().enable_bloom_filter(settings.filter_bits > 0);
    if settings.filter_bits > 0 { family.bloom_fpr(rate) } else { family }
}

/// The writes of a batch, in a transaction. Keeps the first error.
struct Batch<'a> {
    txn: &'a Transaction<'a>,
    family: &'a Family,
    outcome: Result<(), TidesError>,
}

impl Batch<'_> {
    fn and(&mut self, write: impl FnOnce(&Self) -> Result<(), TidesError>) {
        if self.outcome.is_ok() {
            self.outcome = write(self);
        }
    }
}

impl Sink for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.and(|batch| batch.txn.put(batch.family.family(), key, value));
    }

    fn delete(&mut self, key: &[u8]) {
        self.and(|batch| batch.txn.delete(batch.family.family(), key));
    }
}

impl TidesDb {
    fn done<T>(&self, action: &'static str, outcome: Result<T, TidesError>) -> Result<T> {
        outcome.map_err(|error| foreign(action, &self.dir, error))
    }

    fn begin(&self) -> Result<Transaction<'_>> {
        self.done("use", self.family.database().begin_transaction())
    }

    fn get_in(&self, txn: &Transaction<'_>, key: &[u8]) -> Result<Option<Value>> {
        match txn.get_notrack(self.family.family(), key) {
            Err(error) if error.is_not_found() => Ok(None),
            found => Ok(Some(Value::from(self.done("read", found)?))),
        }
    }

    fn write_one(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        check::key(key)?;
        let mut txn = self.begin()?;
        let written = match kind {
            Kind::Put => txn.put(self.family.family(), key, value),
            _ => txn.delete(self.family.family(), key),
        };
        self.done("write to", written.and_then(|()| txn.commit()))?;
        let entry = adapter::entry(kind, key, value);
        self.user_bytes.add(entry.encoded_bytes());
        Ok(())
    }

    fn is_busy(&self) -> Result<bool> {
        let stats = self.done("inspect", self.family.database().get_db_stats())?;
        Ok(stats.is_flushing
            || stats.immutable_memtable_count > 0
            || stats.compaction_pending_count > 0
            || self.family.family().is_compacting())
    }
}

impl Kv for TidesDb {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        self.get_in(&self.begin()?, key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let moment = self.done("read", self.family.moment())?;
        let txn = self.done("read", self.family.begin_at(&moment))?;
        keys.iter().map(|key| self.get_in(&txn, key)).collect()
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::batch(self, batch)?;
        let mut txn = self.begin()?;
        let mut native = Batch { txn: &txn, family: &self.family, outcome: Ok(()) };
        ranges::spell_out(batch, self, &mut native)?;
        self.done("write to", native.outcome)?;
        self.done("write to", txn.commit())?;
        if batch.wants_sync() {
            self.done("sync", self.family.database().sync_wal())?;
        }
        self.user_bytes.add(batch.encoded().len());
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write_one(Kind::Put, key, value)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.write_one(Kind::Delete, key, b"")
    }
}

impl Ordered for TidesDb {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let moment = self.done("read", self.family.moment())?;
        let scan = self.done("read", self.family.scan(&moment))?;
        Ok(Box::new(TidesCursor::new(scan, &self.dir, range)))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        let moment = self.moments.find(snapshot)?;
        let scan = self.done("read", self.family.scan(&moment))?;
        Ok(Box::new(TidesCursor::new(scan, &self.dir, range)))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        check::key(key)?;
        let moment = self.moments.find(snapshot)?;
        let txn = self.done("read", self.family.begin_at(&moment))?;
        self.get_in(&txn, key)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        let moment = self.done("read", self.family.moment())?;
        Ok(Box::new(self.moments.hold(moment)))
    }
}

impl Peer for TidesDb {
    fn name(&self) -> &str {
        "tidesdb"
    }

    fn flush(&self) -> Result<()> {
        self.done("flush", self.family.database().flush_memtable())
    }

    /// It does not report whether a compaction is due: what is waited for is that none runs for a
    /// while.
    fn settle(&self) -> Result<()> {
        let mut idle = 0;
        while idle < IDLE_POLLS {
            self.clock.sleep(POLL);
            idle = if self.is_busy()? { 0 } else { idle + 1 };
        }
        Ok(())
    }

    fn written(&self) -> Written {
        let stats = self.family.database().get_db_stats().ok();
        Written {
            user_bytes: Some(self.user_bytes.total()),
            log_bytes: stats.as_ref().map(|stats| stats.wal_bytes_written),
            flush_bytes: stats.as_ref().map(|stats| stats.flush_bytes_written),
            compaction_bytes: stats.as_ref().map(|stats| stats.compaction_bytes_written),
            stall_us: stats.as_ref().map(|stats| stats.write_stall_us),
        }
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}
