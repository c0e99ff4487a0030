//! fjall.
//!
//! What to know when its figures are read: it reports neither how many bytes it wrote nor how long
//! writers were throttled, so those are unknown. Range deletes read the range and delete each key
//! (see [`ranges`](crate::ranges)). A key has at most 65,535 bytes, one less than elsewhere. A seek of
//! a cursor begins a new iterator, because its iterators can't seek.

mod cursor;
mod options;

use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::moments::Moments;
use crate::ranges::{self, Sink};
use crate::settings::PeerSettings;
use crate::single::single;
use crate::tally::Tally;
use crate::{Peer, Written};
use ::fjall::{Database, Error as FjallError, Keyspace, OwnedWriteBatch, PersistMode, Readable};
use cursor::FjallCursor;
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Clock, Entry, Error, KeyspaceId, Kind, Result, SystemClock};
use options::Chosen;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The one keyspace.
const KEYSPACE: &str = "default";
/// fjall keeps a key's length in 16 bits.
const LONGEST_KEY: usize = u16::MAX as usize;
/// How often a waiting thread looks whether fjall is done.
const POLL: Duration = Duration::from_millis(20);
/// So often in a row it must be found idle: between two jobs it is, for an instant.
const IDLE_POLLS: u32 = 5;

struct Fjall {
    dir: PathBuf,
    // Before the database, which closes its files when it is dropped.
    keyspace: Keyspace,
    moments: Moments<::fjall::Snapshot>,
    database: Database,
    clock: SystemClock,
    user_bytes: Tally,
    configuration: Configuration,
}

/// Refuses what fjall can't be set to.
pub(crate) fn check(settings: &PeerSettings) -> Result<()> {
    options::compression(settings).map(drop)
}

pub(crate) fn open(dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let mut configuration = Configuration::default();
    let chosen = Chosen::new(settings, &mut configuration)?;
    let opened = Database::builder(dir)
        .cache_size(chosen.cache_bytes)
        .max_journaling_size(chosen.journal_bytes)
        .journal_compression(chosen.compression)
        .worker_threads(chosen.worker_threads)
        .open()
        .and_then(|database| Ok((database.keyspace(KEYSPACE, || chosen.keyspace())?, database)));
    let (keyspace, database) = opened.map_err(|error| foreign("open", dir, error))?;
    Ok(Box::new(Fjall {
        dir: dir.to_owned(),
        keyspace,
        moments: Moments::new(),
        database,
        clock: SystemClock::new(),
        user_bytes: Tally::default(),
        configuration,
    }))
}

/// A batch of fjall's.
struct Batch<'a> {
    batch: OwnedWriteBatch,
    keyspace: &'a Keyspace,
}

impl Sink for Batch<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.insert(self.keyspace, key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.batch.remove(self.keyspace, key);
    }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > LONGEST_KEY {
        return Err(Error::KeyTooLong { bytes: key.len() });
    }
    check::key(key)
}

impl Fjall {
    fn done<T>(&self, action: &'static str, outcome: Result<T, FjallError>) -> Result<T> {
        outcome.map_err(|error| foreign(action, &self.dir, error))
    }

    fn count(&self, kind: Kind, key: &[u8], value: &[u8]) {
        let entry = Entry { keyspace: KeyspaceId::DEFAULT, kind, key, value };
        self.user_bytes.add(entry.encoded_bytes());
    }

    /// Whether full write buffers wait for their flush.
    fn is_flushing(&self) -> bool {
        self.database.outstanding_flushes() > 0 || self.keyspace.sealed_memtable_count() > 0
    }

    /// Fails if background work failed, and so will never be done.
    fn probe(&self) -> Result<()> {
        self.done("write to", self.database.persist(PersistMode::Buffer))
    }
}

impl Kv for Fjall {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        Ok(self.done("read", self.keyspace.get(key))?.map(|value| Value::from(&value[..])))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let moment = self.database.snapshot();
        let get = |key: &&[u8]| {
            let value = self.done("read", moment.get(&self.keyspace, key))?;
            Ok(value.map(|value| Value::from(&value[..])))
        };
        keys.iter().map(get).collect()
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::batch(self, batch)?;
        if batch.longest_key() > LONGEST_KEY {
            return Err(Error::KeyTooLong { bytes: batch.longest_key() });
        }
        if let Some(entry) = single(batch).filter(|_| !batch.wants_sync()) {
            let done = match entry.kind {
                Kind::Put => self.keyspace.insert(entry.key, entry.value),
                _ => self.keyspace.remove(entry.key),
            };
            self.done("write to", done)?;
            self.user_bytes.add(batch.encoded().len());
            return Ok(());
        }
        let mut native = Batch { batch: self.database.batch(), keyspace: &self.keyspace };
        ranges::spell_out(batch, self, &mut native)?;
        let native = match batch.wants_sync() {
            true => native.batch.durability(Some(PersistMode::SyncData)),
            false => native.batch,
        };
        self.done("write to", native.commit())?;
        self.user_bytes.add(batch.encoded().len());
        Ok(())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        self.done("write to", self.keyspace.insert(key, value))?;
        self.count(Kind::Put, key, value);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        self.done("write to", self.keyspace.remove(key))?;
        self.count(Kind::Delete, key, b"");
        Ok(())
    }
}

impl Ordered for Fjall {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let moment = self.database.snapshot();
        Ok(Box::new(FjallCursor::new(&self.keyspace, &self.dir, moment, range)))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        let moment = self.moments.find(snapshot)?;
        Ok(Box::new(FjallCursor::new(&self.keyspace, &self.dir, (*moment).clone(), range)))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        check::key(key)?;
        let moment = self.moments.find(snapshot)?;
        let value = self.done("read", moment.get(&self.keyspace, key))?;
        Ok(value.map(|value| Value::from(&value[..])))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.moments.hold(self.database.snapshot())))
    }
}

impl Peer for Fjall {
    fn name(&self) -> &str {
        "fjall"
    }

    fn flush(&self) -> Result<()> {
        self.done("flush", self.keyspace.rotate_memtable())?;
        while self.is_flushing() {
            self.probe()?;
            self.clock.sleep(POLL);
        }
        Ok(())
    }

    /// fjall starts compactions after a flush and when it opens, one a worker; it does not say whether
    /// another is due, so what is waited for is that none runs and none ends for a while.
    fn settle(&self) -> Result<()> {
        let (mut idle, mut completed) = (0, self.database.compactions_completed());
        while idle < IDLE_POLLS {
            self.probe()?;
            self.clock.sleep(POLL);
            let is_busy = self.is_flushing() || self.database.active_compactions() > 0;
            let now_completed = self.database.compactions_completed();
            idle = if is_busy || now_completed != completed { 0 } else { idle + 1 };
            completed = now_completed;
        }
        Ok(())
    }

    fn written(&self) -> Written {
        Written { user_bytes: Some(self.user_bytes.total()), ..Written::default() }
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}
