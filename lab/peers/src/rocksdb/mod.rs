//! RocksDB, as bundled with the crate that binds it.
//!
//! What to know when its figures are read: its statistics are off, because counting takes time while
//! it is measured. Bytes of tables are from its own log of events (see `events`), and the time of
//! write stalls is from its property `rocksdb.dbstats`, to a millisecond; both are
//! kept whatever the settings. Bytes of the log are counted here (see
//! [`log_bytes`](crate::log_bytes)). A batch is copied into one of RocksDB's, entry by entry; a
//! batch of one is given as the put or delete that it is.

mod cursor;
mod events;
#[expect(unsafe_code, reason = "RocksDB's files are reached through its C++ interface")]
mod file_system;
#[expect(unsafe_code, reason = "a snapshot is held beside its database")]
mod moment;
mod options;
#[expect(unsafe_code, reason = "RocksDB's files are reached through its C++ interface")]
mod storage_files;
mod transactions;

use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::log_bytes::{
    BATCH_HEADER_BYTES, LogBytes, RECORD_HEADER_BYTES, delete_bytes, put_bytes,
};
use crate::moments::Moments;
use crate::settings::PeerSettings;
use crate::single::single;
use crate::tally::Tally;
use crate::{Peer, StorageLog, Written};
use ::rocksdb::{
    DB, Error as RocksError, InfoLogger, LogLevel, Options, ReadOptions, WaitForCompactOptions,
    WriteOptions,
};
use cursor::RocksCursor;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Entry, KeyspaceId, Kind, MAX_KEY_BYTES, Result};
use esker_storage::Storage;
use events::Events;
use moment::Moment;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use transactions::open as open_transactional;

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
    /// As `Wal`, each level so many times as large as the one above.
    Leveled { ratio: u32 },
    /// As `Universal`, with so much space over the live data at most.
    UniversalWithin { percent: u32 },
}

/// The ways by their names.
const VARIANTS: [(&str, Variant); 11] = [
    ("rocksdb-wal", Variant::Wal),
    ("rocksdb-wal-sync", Variant::WalSync),
    ("rocksdb-nolog", Variant::NoLog),
    ("rocksdb-universal", Variant::Universal),
    ("rocksdb-leveled-4", Variant::Leveled { ratio: 4 }),
    ("rocksdb-leveled-10", Variant::Leveled { ratio: 10 }),
    ("rocksdb-leveled-20", Variant::Leveled { ratio: 20 }),
    ("rocksdb-universal-25", Variant::UniversalWithin { percent: 25 }),
    ("rocksdb-universal-50", Variant::UniversalWithin { percent: 50 }),
    ("rocksdb-universal-100", Variant::UniversalWithin { percent: 100 }),
    ("rocksdb-universal-200", Variant::UniversalWithin { percent: 200 }),
];

/// Before a record of a log that is written over: the log's number, too.
pub(super) const RECYCLED_HEADER_BYTES: usize = RECORD_HEADER_BYTES + 4;

struct RocksDb {
    name: &'static str,
    variant: Variant,
    dir: PathBuf,
    database: Arc<DB>,
    moments: Moments<Moment>,
    events: Arc<Events>,
    /// Made once: RocksDB's are objects on its heap.
    reads: ReadOptions,
    writes: WriteOptions,
    /// Writes that survive power loss once they are acknowledged, if there is a log.
    synced: WriteOptions,
    user_bytes: Tally,
    log_bytes: LogBytes,
    configuration: Configuration,
}

pub(crate) fn open(name: &str, dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let (name, variant) =
        *VARIANTS.iter().find(|known| known.0 == name).expect("the name was checked");
    let mut configuration = Configuration::default();
    let options = options::options(variant, settings, &mut configuration);
    open_with(name, variant, dir, options, configuration)
}

/// Opens RocksDB with all its files in `storage`.
pub(crate) fn open_in(
    storage: Arc<dyn Storage>,
    log: StorageLog,
    settings: &PeerSettings,
) -> Result<Box<dyn Peer>> {
    let (name, variant) = match log {
        StorageLog::Synced => ("rocksdb-wal-sync", Variant::WalSync),
        StorageLog::Written => ("rocksdb-wal", Variant::Wal),
        StorageLog::None => ("rocksdb-nolog", Variant::NoLog),
    };
    let mut configuration = Configuration::default();
    let mut options = options::options(variant, settings, &mut configuration);
    let is_synced = log == StorageLog::Synced;
    let log_bytes = is_synced.then(|| 3 * settings.write_buffer_bytes as u64 / 2);
    configuration.note(
        "files",
        storage.describe(),
        "through a rocksdb::FileSystem that keeps nothing: tables go straight to the device, as with O_DIRECT",
    );
    if let Some(bytes) = log_bytes {
        let why = "each made zero when it is created, and recycled: a sync writes no directory";
        configuration.note("log files", format!("{bytes} bytes"), why);
    }
    options.set_env(&storage_files::in_storage(storage, log_bytes));
    open_with(name, variant, Path::new("/esker"), options, configuration)
}

fn open_with(
    name: &'static str,
    variant: Variant,
    dir: &Path,
    mut options: Options,
    configuration: Configuration,
) -> Result<Box<dyn Peer>> {
    let events = Arc::new(Events::default());
    let hear = Arc::clone(&events);
    let logger = InfoLogger::new_callback_logger(LogLevel::Info, move |_, line| hear.take_in(line));
    options.set_info_logger(logger);
    let database = DB::open(&options, dir).map_err(|error| foreign("open", dir, error))?;
    let mut writes = WriteOptions::default();
    writes.set_sync(variant == Variant::WalSync);
    writes.disable_wal(variant == Variant::NoLog);
    let mut synced = WriteOptions::default();
    synced.set_sync(variant != Variant::NoLog);
    synced.disable_wal(variant == Variant::NoLog);
    Ok(Box::new(RocksDb {
        name,
        variant,
        dir: dir.to_owned(),
        database: Arc::new(database),
        moments: Moments::new(),
        events,
        reads: ReadOptions::default(),
        writes,
        synced,
        user_bytes: Tally::default(),
        log_bytes: LogBytes::new(match variant {
            Variant::WalSync => RECYCLED_HEADER_BYTES,
            _ => RECORD_HEADER_BYTES,
        }),
        configuration,
    }))
}

impl RocksDb {
    fn done<T>(&self, action: &'static str, outcome: Result<T, RocksError>) -> Result<T> {
        outcome.map_err(|error| foreign(action, &self.dir, error))
    }

    /// Writes one entry by the call that is made for one.
    fn write_one(&self, entry: Entry<'_>, options: &WriteOptions) -> Result<()> {
        let Entry { key, value, .. } = entry;
        let (outcome, entry_bytes) = match entry.kind {
            Kind::Put => (self.database.put_opt(key, value, options), put_bytes(key, value)),
            _ => (self.database.delete_opt(key, options), delete_bytes(key)),
        };
        self.done("write to", outcome)?;
        self.count(entry.encoded_bytes(), entry_bytes);
        Ok(())
    }

    fn count(&self, user_bytes: usize, entry_bytes: usize) {
        self.user_bytes.add(user_bytes);
        if self.variant != Variant::NoLog {
            self.log_bytes.add(entry_bytes);
        }
    }
}

/// What RocksDB's batch takes at most for what is in ours, whose entries say their keyspace as well.
fn room(batch: &WriteBatch) -> usize {
    BATCH_HEADER_BYTES + batch.encoded().len()
}

/// Longer than every key that a peer takes.
static ABOVE_ALL_KEYS: [u8; MAX_KEY_BYTES + 1] = [0xff; MAX_KEY_BYTES + 1];

/// `batch` as RocksDB's own, made in one piece: it need not grow, and copy what it has.
fn native(batch: &WriteBatch) -> ::rocksdb::WriteBatch {
    let mut native = ::rocksdb::WriteBatch::with_capacity_bytes(room(batch));
    for entry in batch.iter() {
        match entry.kind {
            Kind::Put => native.put(entry.key, entry.value),
            Kind::Delete => native.delete(entry.key),
            Kind::Merge | Kind::Combined | Kind::Separated | Kind::ExpiringPut => {
                unreachable!("`check::entries` refuses them")
            }
            Kind::RangeDelete => {
                let end = if entry.value.is_empty() { &ABOVE_ALL_KEYS } else { entry.value };
                native.delete_range(entry.key, end);
            }
        }
    }
    native
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
        let options = if batch.wants_sync() { &self.synced } else { &self.writes };
        if let Some(entry) = single(batch) {
            self.write_one(entry, options)?;
        } else {
            let native = native(batch);
            let entry_bytes = native.size_in_bytes() - BATCH_HEADER_BYTES;
            self.done("write to", self.database.write_opt(native, options))?;
            self.count(batch.encoded().len(), entry_bytes);
        }
        if batch.wants_sync() && self.variant == Variant::NoLog {
            // Without a log, tables are all that survives.
            self.flush()?;
        }
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check::key(key)?;
        let keyspace = KeyspaceId::DEFAULT;
        self.write_one(Entry { keyspace, kind: Kind::Put, key, value }, &self.writes)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        check::key(key)?;
        let keyspace = KeyspaceId::DEFAULT;
        self.write_one(Entry { keyspace, kind: Kind::Delete, key, value: b"" }, &self.writes)
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
        self.name
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
        let tables = self.events.written();
        let stats = self.database.property_value("rocksdb.dbstats").ok().flatten();
        Written {
            user_bytes: Some(self.user_bytes.total()),
            log_bytes: Some(self.log_bytes.total()),
            flush_bytes: Some(tables.flush),
            compaction_bytes: Some(tables.compaction),
            stall_us: stats.as_deref().and_then(events::stall_us),
        }
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_storage::MemoryStorage;

    #[test]
    fn bytes_of_tables_are_those_of_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let peer = open("rocksdb-wal", dir.path(), &PeerSettings::default()).unwrap();
        for number in 0..1_000u32 {
            peer.put(&number.to_be_bytes(), &[7; 500]).unwrap();
        }
        peer.flush().unwrap();
        let files = || dir.path().read_dir().unwrap().map(|file| file.unwrap());
        let tables = files().filter(|file| file.path().extension().is_some_and(|end| end == "sst"));
        let bytes: u64 = tables.map(|table| table.metadata().unwrap().len()).sum();
        let written = peer.written();
        assert!(bytes > 500_000);
        assert_eq!((written.flush_bytes, written.compaction_bytes), (Some(bytes), Some(0)));
        let logs =
            || files().filter(|file| file.path().extension().is_some_and(|end| end == "log"));
        assert_eq!(logs().count(), 1, "a log goes with its write buffer");
        for number in 0..1_000u32 {
            peer.put(&number.to_be_bytes(), &[8; 500]).unwrap();
        }
        let since = peer.written().log_bytes.unwrap() - written.log_bytes.unwrap();
        let log = logs().next().unwrap().metadata().unwrap().len();
        // A block may begin, and take a header, in one of the two and not in the other.
        assert!(since.abs_diff(log) < 200, "{since} counted, {log} in the file");
    }

    #[test]
    fn a_batch_has_room_for_all_that_is_put_into_it() {
        let mut batch = WriteBatch::new();
        for number in 0..300usize {
            batch.put(KeyspaceId::DEFAULT, &vec![b'k'; 1 + number], &vec![b'v'; number * 7]);
            batch.delete(KeyspaceId::DEFAULT, b"key");
            batch.delete_range(KeyspaceId::DEFAULT, b"a"..b"b");
        }
        assert!(native(&batch).size_in_bytes() <= room(&batch));
    }

    /// A RocksDB with all its files in memory.
    fn in_memory(storage: &MemoryStorage, log: StorageLog) -> Box<dyn Peer> {
        let settings = PeerSettings {
            write_buffer_bytes: 1 << 20,
            memory_bytes: 8 << 20,
            ..PeerSettings::default()
        };
        open_in(Arc::new(storage.clone()), log, &settings).unwrap()
    }

    #[test]
    fn in_a_storage_everything_is_found_again() {
        for log in [StorageLog::Written, StorageLog::Synced, StorageLog::None] {
            let storage = MemoryStorage::new();
            for round in 0..3u32 {
                let peer = in_memory(&storage, log);
                for number in 0..round * 2_000 {
                    let value = peer.get(&number.to_be_bytes()).unwrap();
                    assert_eq!(value.as_deref(), Some(&[number as u8; 2_000][..]), "{number}");
                }
                for number in round * 2_000..(round + 1) * 2_000 {
                    peer.put(&number.to_be_bytes(), &[number as u8; 2_000]).unwrap();
                }
                peer.flush().unwrap();
            }
            let names = storage.list().unwrap();
            assert!(names.iter().any(|name| name.ends_with(".sst")), "{names:?}");
            assert!(names.iter().any(|name| name == "CURRENT"), "{names:?}");
        }
    }

    #[test]
    fn in_a_storage_the_lock_is_held_and_given_back() {
        let storage = MemoryStorage::new();
        let peer = in_memory(&storage, StorageLog::Written);
        assert!(storage.lock().is_err());
        drop(peer);
        drop(storage.lock().unwrap());
    }
}
