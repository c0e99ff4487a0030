//! LevelDB 1.23, as the system's package has it, over its C interface.
//!
//! | file | holds |
//! |---|---|
//! | `ffi` | the C functions |
//! | `handle` | values that own what those functions hand out |
//! | `cursor` | bounds and seeks backwards |
//! | `events` | what was written, from LevelDB's information log |
//! | `levels` | whether a compaction is due |
//!
//! What to know when its figures are read: it has one background thread and two write buffers, which
//! can't be chosen. A get through the C interface copies the value twice more than one in C++. Range
//! deletes read the range and delete each key (see [`ranges`](crate::ranges)). Its package computes
//! CRCs in software. It does not count time in which writers were throttled, nor bytes of the log;
//! the latter are counted here (see [`log_bytes`](crate::log_bytes)).

mod cursor;
mod events;
#[expect(unsafe_code, reason = "a C library is declared")]
mod ffi;
#[expect(unsafe_code, reason = "a C library is called")]
mod handle;
mod levels;

use crate::check::{self};
use crate::configuration::Configuration;
use crate::log_bytes::{LogBytes, RECORD_HEADER_BYTES, delete_bytes, put_bytes};
use crate::moments::Moments;
use crate::ranges::{self, Sink};
use crate::settings::{Compression, PeerSettings, invalid};
use crate::single::single;
use crate::tally::Tally;
use crate::{Peer, Written};
use cursor::LevelCursor;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Clock, Entry, KeyspaceId, Kind, Result, SystemClock};
use events::EventLog;
use handle::{Batch, Database, Moment, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The one being written and the one being flushed: `doc/index.md`, Options::write_buffer_size.
const WRITE_BUFFERS: usize = 2;
/// A table is 2 MB, and `options.h` says to budget one open file for each 2 MB of working set; the
/// default of 1,000 is short of that from 2 GB on. This is 20 GB. Beyond what the process may open,
/// LevelDB opens and closes files by itself.
const OPEN_FILES: i32 = 10_000;
/// How often a waiting thread looks whether LevelDB is done.
const POLL: Duration = Duration::from_millis(20);
/// So often in a row it must be found idle: between two jobs it is, for an instant.
const IDLE_POLLS: u32 = 3;
/// After so many looks, one asks whether background work failed and so will never be done.
const POLLS_A_PROBE: u32 = 50;

struct LevelDb {
    database: Arc<Database>,
    moments: Moments<Moment>,
    events: EventLog,
    clock: SystemClock,
    user_bytes: Tally,
    log_bytes: LogBytes,
    configuration: Configuration,
}

/// Refuses what LevelDB can't be set to.
pub(crate) fn check(settings: &PeerSettings) -> Result<()> {
    if settings.compression == Compression::None {
        return Ok(());
    }
    let reason = "LevelDB 1.23 knows no compression but snappy; run it without compression";
    let value = format!("{:?}", settings.compression).to_lowercase();
    Err(invalid("compression", value, reason.to_owned()))
}

pub(crate) fn open(dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let mut configuration = Configuration::default();
    let options = options(settings, &mut configuration);
    std::fs::create_dir_all(dir).map_err(|error| check::foreign("create", dir, error))?;
    let database = Arc::new(Database::open(dir, &options)?);
    let events =
        EventLog::open(dir).map_err(|error| check::foreign("read the log of", dir, error))?;
    Ok(Box::new(LevelDb {
        database,
        moments: Moments::new(),
        events,
        clock: SystemClock::new(),
        user_bytes: Tally::default(),
        log_bytes: LogBytes::new(RECORD_HEADER_BYTES),
        configuration,
    }))
}

fn options(settings: &PeerSettings, configuration: &mut Configuration) -> OpenOptions {
    let (major, minor) = handle::version();
    configuration.note("version", format!("{major}.{minor}"), "the system's package");
    let options = OpenOptions {
        write_buffer_bytes: configuration.note(
            "write_buffer_size",
            settings.write_buffer_bytes,
            "the run's; options.h: up to two are held in memory at once",
        ),
        cache_bytes: configuration.note(
            "block_cache",
            settings.cache_beside(WRITE_BUFFERS),
            "LRU of what two write buffers leave of the memory; doc/index.md, Cache",
        ),
        filter_bits: configuration.note(
            "filter_policy bits per key",
            settings.filter_bits,
            "the run's; doc/index.md, Filters: 10 are advised for random reads",
        ),
        open_files: configuration.note(
            "max_open_files",
            OPEN_FILES,
            "options.h: one for each 2 MB of working set",
        ),
    };
    configuration.note("compression", "none", "the run's, the same for all engines");
    configuration.note(
        "verify_checksums",
        "default, off",
        "doc/index.md, Checksums; the other engines verify the blocks that they read from files",
    );
    configuration.note("sync", false, "doc/index.md, Synchronous Writes");
    configuration.note("block_size", "default, 4 KiB", "doc/index.md, Performance, Block size");
    configuration.note("max_file_size", "default, 2 MiB", "options.h: leave it alone");
    options
}

/// A LevelDB batch, and what its entries will take in the log.
struct Sized {
    batch: Batch,
    log_bytes: usize,
}

impl Sink for Sized {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, value);
        self.log_bytes += put_bytes(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.batch.delete(key);
        self.log_bytes += delete_bytes(key);
    }
}

impl LevelDb {
    /// Writes one entry by the call that is made for one.
    fn write_one(&self, entry: Entry<'_>, sync: bool) -> Result<()> {
        let Entry { key, value, .. } = entry;
        let entry_bytes = match entry.kind {
            Kind::Put => {
                self.database.put(key, value, sync)?;
                put_bytes(key, value)
            }
            _ => {
                self.database.delete(key, sync)?;
                delete_bytes(key)
            }
        };
        self.user_bytes.add(entry.encoded_bytes());
        self.log_bytes.add(entry_bytes);
        Ok(())
    }

    fn is_idle(&self) -> bool {
        let sstables = self.database.property(c"leveldb.sstables").unwrap_or_default();
        self.events.read().running == 0 && !levels::compaction_is_due(&sstables)
    }
}

impl Kv for LevelDb {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        Ok(self.database.get(key)?.map(Value::from))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let moment = Moment::now(&self.database);
        keys.iter().map(|key| Ok(moment.get(key)?.map(Value::from))).collect()
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::batch(self, batch)?;
        if let Some(entry) = single(batch) {
            return self.write_one(entry, batch.wants_sync());
        }
        let mut sized = Sized { batch: Batch::new(), log_bytes: 0 };
        ranges::spell_out(batch, self, &mut sized)?;
        self.database.write(&mut sized.batch, batch.wants_sync())?;
        self.user_bytes.add(batch.encoded().len());
        self.log_bytes.add(sized.log_bytes);
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check::key(key)?;
        let keyspace = KeyspaceId::DEFAULT;
        self.write_one(Entry { keyspace, kind: Kind::Put, key, value }, false)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        check::key(key)?;
        let keyspace = KeyspaceId::DEFAULT;
        self.write_one(Entry { keyspace, kind: Kind::Delete, key, value: b"" }, false)
    }
}

impl Ordered for LevelDb {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(LevelCursor::new(self.database.iterator(), range)))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        let iterator = self.moments.find(snapshot)?.iterator(&self.database);
        Ok(Box::new(LevelCursor::new(iterator, range)))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        check::key(key)?;
        Ok(self.moments.find(snapshot)?.get(key)?.map(Value::from))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.moments.hold(Moment::now(&self.database))))
    }
}

impl Peer for LevelDb {
    fn name(&self) -> &str {
        "leveldb"
    }

    fn flush(&self) -> Result<()> {
        self.database.flush()
    }

    fn settle(&self) -> Result<()> {
        let (mut idle, mut polls) = (0, 0);
        loop {
            idle = if self.is_idle() { idle + 1 } else { 0 };
            polls += 1;
            if idle == IDLE_POLLS {
                return self.database.probe();
            }
            if polls % POLLS_A_PROBE == 0 {
                self.database.probe()?;
            }
            self.clock.sleep(POLL);
        }
    }

    fn written(&self) -> Written {
        let events = self.events.read();
        Written {
            user_bytes: Some(self.user_bytes.total()),
            log_bytes: Some(self.log_bytes.total()),
            flush_bytes: Some(events.flush_bytes),
            compaction_bytes: Some(events.compaction_bytes),
            stall_us: None,
        }
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}
