//! RocksDB's transactions: its TransactionDB, which locks keys.
//!
//! A keyspace is a column family. All of them share one budget of write buffers, as Esker's keyspaces
//! do, and one log. A transaction under [`Isolation::Snapshot`] sets a snapshot when it begins, reads
//! by it, and has its writes and reads for update checked against it. Deadlocks are detected.
//!
//! RocksDB has no serializable transactions with locks, and its optimistic ones are another kind of
//! store: both are refused.

#[expect(unsafe_code, reason = "handles of column families are held beside their database")]
mod families;
mod transaction;

use super::RECYCLED_HEADER_BYTES;
use super::cursor::{RocksCursor, within};
use super::events::{self, Events};
use super::{file_system, options};
use crate::Written;
use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::log_bytes::{LogBytes, RECORD_HEADER_BYTES, delete_bytes, put_bytes};
use crate::settings::PeerSettings;
use crate::tally::Tally;
use crate::transactional::{PeerLog, TransactionalPeer};
use ::rocksdb::{
    Error as RocksError, ErrorKind, InfoLogger, LogLevel, MultiThreaded, ReadOptions,
    TransactionDB, WriteBatchWithTransaction, WriteOptions,
};
use esker_api::{
    Concurrency, Cursor, Isolation, KeyRange, KeyspaceRef, Transaction, TransactionOptions,
    Transactional, Value, WriteBatch,
};
use esker_base::{Clock, Entry, Error, Kind, Result, SystemClock};
use families::Families;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use transaction::RocksTransaction;

type Database = TransactionDB<MultiThreaded>;

struct RocksTransactions {
    dir: PathBuf,
    families: Families,
    events: Arc<Events>,
    has_log: bool,
    /// Made once: RocksDB's are objects on its heap.
    reads: ReadOptions,
    writes: WriteOptions,
    user_bytes: Tally,
    log_bytes: LogBytes,
    configuration: Configuration,
}

pub(crate) fn open(
    dir: &Path,
    settings: &PeerSettings,
    log: &PeerLog,
) -> Result<Box<dyn TransactionalPeer>> {
    let has_log = !matches!(log, PeerLog::None);
    let mut configuration = Configuration::default();
    let mut options = options::transactional(has_log, settings, &mut configuration);
    if let PeerLog::Synced { dir: log_dir, device } = log {
        options.set_wal_dir(log_dir);
        options.set_env(&file_system::with_logs_on(device.clone()));
    }
    let events = Arc::new(Events::default());
    let hear = Arc::clone(&events);
    let logger = InfoLogger::new_callback_logger(LogLevel::Info, move |_, line| hear.take_in(line));
    options.set_info_logger(logger);
    let mut writes = WriteOptions::default();
    writes.set_sync(has_log);
    writes.disable_wal(!has_log);
    Ok(Box::new(RocksTransactions {
        families: Families::open(dir, options)?,
        dir: dir.to_owned(),
        events,
        has_log,
        reads: ReadOptions::default(),
        writes,
        user_bytes: Tally::default(),
        log_bytes: LogBytes::new(if has_log { RECYCLED_HEADER_BYTES } else { RECORD_HEADER_BYTES }),
        configuration,
    }))
}

/// What a batch or a transaction wrote, for the account.
#[derive(Clone, Copy, Default)]
struct Size {
    user_bytes: usize,
    entry_bytes: usize,
}

impl Size {
    fn add(&mut self, entry: Entry<'_>) {
        // An entry of a log names its column family, in a byte.
        self.entry_bytes += 1 + match entry.kind {
            Kind::Put => put_bytes(entry.key, entry.value),
            _ => delete_bytes(entry.key),
        };
        self.user_bytes += entry.encoded_bytes();
    }
}

impl RocksTransactions {
    fn done<T>(&self, action: &'static str, outcome: Result<T, RocksError>) -> Result<T> {
        outcome.map_err(|error| foreign(action, &self.dir, error))
    }

    fn count(&self, size: Size) {
        self.user_bytes.add(size.user_bytes);
        if self.has_log && size.entry_bytes > 0 {
            self.log_bytes.add(size.entry_bytes);
        }
    }

    /// RocksDB's refusal of a lock or a commit in our words; `key` is what was asked for, if it is
    /// known.
    fn conflict(
        &self,
        action: &'static str,
        key: &[u8],
        waited: Duration,
        error: RocksError,
    ) -> Error {
        let key = key.escape_ascii().to_string();
        match error.kind() {
            // RocksDB does not say how many there were.
            ErrorKind::Busy if error.as_ref().contains("Deadlock") => {
                Error::Deadlock { key, waits: [].into() }
            }
            ErrorKind::Busy | ErrorKind::TryAgain => Error::Conflict { key },
            ErrorKind::TimedOut => {
                let holder = "another transaction".to_owned();
                Error::LockTimeout { key, holder, waited }
            }
            _ => foreign(action, &self.dir, error),
        }
    }
}

/// How long a batch waits for locks: what a transaction does by default.
fn lock_timeout() -> Duration {
    TransactionOptions::default().lock_timeout
}

impl Transactional for RocksTransactions {
    fn keyspace(&self, name: &str) -> Result<KeyspaceRef> {
        self.families.named(name)
    }

    fn get(&self, keyspace: KeyspaceRef, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        let family = self.families.of(keyspace)?;
        let found = self.families.database().get_cf_opt(family, key, &self.reads);
        Ok(self.done("read", found)?.map(Value::from))
    }

    fn cursor(&self, keyspace: KeyspaceRef, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let family = self.families.of(keyspace)?;
        let reads = within(range, ReadOptions::default());
        let iterator = self.families.database().raw_iterator_cf_opt(family, reads);
        Ok(Box::new(RocksCursor::over(iterator, &self.dir)))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::entries(batch)?;
        let mut native = WriteBatchWithTransaction::<true>::default();
        let mut size = Size::default();
        for entry in batch.iter() {
            let family = self.families.of(entry.keyspace)?;
            match entry.kind {
                Kind::Put => native.put_cf(family, entry.key, entry.value),
                Kind::Delete => native.delete_cf(family, entry.key),
                _ => return Err(unsupported("remove a range from", &self.dir)),
            }
            size.add(entry);
        }
        let written = self.families.database().write_opt(native, &self.writes);
        written.map_err(|error| self.conflict("write to", b"", lock_timeout(), error))?;
        self.count(size);
        Ok(())
    }

    fn begin(&self, options: &TransactionOptions) -> Result<Box<dyn Transaction + '_>> {
        if options.isolation > Isolation::Snapshot {
            return Err(refused("isolation", options.isolation.name()));
        }
        if options.concurrency == Concurrency::Optimistic {
            return Err(refused("concurrency", "optimistic"));
        }
        Ok(Box::new(RocksTransaction::begin(self, options)))
    }
}

fn refused(setting: &'static str, value: &str) -> Error {
    let reason = "RocksDB's TransactionDB has pessimistic transactions up to snapshot isolation";
    Error::InvalidSetting { setting, value: value.to_owned(), reason: reason.to_owned() }
}

fn unsupported(action: &'static str, dir: &Path) -> Error {
    let why = "RocksDB's TransactionDB does not offer it";
    Error::io(action, dir.display().to_string(), std::io::Error::other(why))
}

/// How long RocksDB must have been idle to count as fully compacted.
const REST: Duration = Duration::from_millis(100);

impl TransactionalPeer for RocksTransactions {
    fn transactional(&self) -> &dyn Transactional {
        self
    }

    fn flush(&self) -> Result<()> {
        self.done("flush", self.families.flush())
    }

    /// A TransactionDB has no call that waits, so this looks until nothing runs for a while.
    fn settle(&self) -> Result<()> {
        let clock = SystemClock::new();
        let running = || -> Result<u64> {
            let mut all = 0;
            for name in [c"rocksdb.num-running-flushes", c"rocksdb.num-running-compactions"] {
                let found = self.families.database().property_int_value(name);
                all += self.done("ask", found)?.unwrap_or(0);
            }
            Ok(all)
        };
        let mut at_rest_since = None;
        loop {
            let now = clock.now();
            match (running()?, at_rest_since) {
                (0, None) => at_rest_since = Some(now),
                (0, Some(since)) if now - since >= REST => return Ok(()),
                (0, Some(_)) => {}
                _ => at_rest_since = None,
            }
            clock.sleep(REST / 10);
        }
    }

    fn written(&self) -> Written {
        let tables = self.events.written();
        let stats = self.families.database().property_value("rocksdb.dbstats").ok().flatten();
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
