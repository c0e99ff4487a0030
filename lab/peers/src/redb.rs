//! redb: a B+tree in a file, copied on write, with a cache of its own.
//!
//! What to know when its figures are read: every write is a transaction of its own, and so is every
//! read. Commits have `Durability::None`; a flush commits once with `Durability::Immediate`, and so
//! does closing the store. A seek of a cursor begins a new range, because its ranges cannot seek.

use crate::adapter;
use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::moments::Moments;
use crate::range_cursor::{Bounds, Pair, RangeCursor, Ranges};
use crate::settings::{PeerSettings, uncompressed};
use crate::tally::Tally;
use crate::{Peer, Written};
use ::redb::{
    AccessGuard, Builder, Database, Durability, Range, ReadOnlyTable, ReadableDatabase, Table,
    TableDefinition,
};
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Entry, Kind, Result};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Bytes = &'static [u8];
type Moment = ReadOnlyTable<Bytes, Bytes>;

/// The one table.
const TABLE: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("default");
const FILE_NAME: &str = "data.redb";

struct Redb {
    dir: PathBuf,
    // Before the database: they hold its pages.
    moments: Moments<Moment>,
    database: Database,
    user_bytes: Tally,
    configuration: Configuration,
}

/// Refuses what redb can't be set to.
pub(crate) fn check(settings: &PeerSettings) -> Result<()> {
    uncompressed("redb", settings)
}

pub(crate) fn open(dir: &Path, settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let mut configuration = Configuration::default();
    let cache_bytes = configuration.note(
        "cache_size",
        settings.cache_bytes.unwrap_or(settings.memory_bytes),
        "all of the run's memory: pages read, and pages written until a durable commit",
    );
    configuration.note(
        "durability",
        "None",
        "Durability: commits are not synced, as the other engines' logs are not",
    );
    configuration.note("two_phase_commit", "default, off", "for values chosen by an attacker");
    configuration.note(
        "quick_repair",
        "default, off",
        "it makes commits slower and recovery faster",
    );
    adapter::create(dir)?;
    let database = Builder::new()
        .set_cache_size(cache_bytes)
        .create(dir.join(FILE_NAME))
        .map_err(|error| foreign("open", dir, error))?;
    let store = Redb {
        dir: dir.to_owned(),
        moments: Moments::new(),
        database,
        user_bytes: Tally::default(),
        configuration,
    };
    // A table that was never opened for writing cannot be read.
    store.commit(Durability::Immediate, |_| Ok(()))?;
    Ok(Box::new(store))
}

impl Redb {
    fn failed<E: ToString>(&self, action: &'static str) -> impl Fn(E) -> esker_base::Error + '_ {
        move |error| foreign(action, &self.dir, error)
    }

    /// Runs `change` in a transaction and commits it.
    fn commit(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Table<'_, Bytes, Bytes>) -> Result<()>,
    ) -> Result<()> {
        let mut txn = self.database.begin_write().map_err(self.failed("write to"))?;
        txn.set_durability(durability).map_err(self.failed("write to"))?;
        let mut table = txn.open_table(TABLE).map_err(self.failed("write to"))?;
        change(&mut table)?;
        drop(table);
        txn.commit().map_err(self.failed("write to"))
    }

    fn apply(&self, table: &mut Table<'_, Bytes, Bytes>, entry: Entry<'_>) -> Result<()> {
        let done = match entry.kind {
            Kind::Put => table.insert(entry.key, entry.value).map(drop),
            Kind::Delete => table.remove(entry.key).map(drop),
            Kind::Merge | Kind::Combined | Kind::Separated | Kind::ExpiringPut => {
                unreachable!("`check::entries` refuses them")
            }
            Kind::RangeDelete => {
                let range = KeyRange::deleted(entry.key, entry.value);
                table.retain_in::<&[u8], _>(borrowed(&(range.start, range.end)), |_, _| false)
            }
        };
        done.map_err(self.failed("write to"))
    }

    fn moment(&self) -> Result<Moment> {
        let txn = self.database.begin_read().map_err(self.failed("read"))?;
        txn.open_table(TABLE).map_err(self.failed("read"))
    }

    fn get_in(&self, moment: &Moment, key: &[u8]) -> Result<Option<Value>> {
        let found = moment.get(key).map_err(self.failed("read"))?;
        Ok(found.map(|value| Value::from(value.value())))
    }

    fn write_one(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        check::key(key)?;
        let entry = adapter::entry(kind, key, value);
        self.commit(Durability::None, |table| self.apply(table, entry))?;
        self.user_bytes.add(entry.encoded_bytes());
        Ok(())
    }
}

fn borrowed((start, end): &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]))
}

impl Kv for Redb {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        self.get_in(&self.moment()?, key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let moment = self.moment()?;
        keys.iter().map(|key| self.get_in(&moment, key)).collect()
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::batch(self, batch)?;
        let durability = if batch.wants_sync() { Durability::Immediate } else { Durability::None };
        self.commit(durability, |table| {
            batch.iter().try_for_each(|entry| self.apply(table, entry))
        })?;
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

/// Ranges of one snapshot.
struct TableRanges<'a> {
    dir: &'a Path,
    moment: Arc<Moment>,
}

/// Key and value, in a page that is kept.
type Found = (AccessGuard<'static, Bytes>, AccessGuard<'static, Bytes>);

impl Pair for Found {
    fn key(&self) -> &[u8] {
        self.0.value()
    }

    fn value(&self) -> &[u8] {
        self.1.value()
    }
}

impl TableRanges<'_> {
    fn begin(&self, bounds: &Bounds) -> Result<Range<'static, Bytes, Bytes>> {
        let range = self.moment.range::<&[u8]>(borrowed(bounds));
        range.map_err(|error| foreign("read", self.dir, error))
    }

    fn take(&self, found: Option<Result<Found, ::redb::StorageError>>) -> Result<Option<Found>> {
        found.transpose().map_err(|error| foreign("read", self.dir, error))
    }
}

impl Ranges for TableRanges<'_> {
    type Pair = Found;
    type Up = Range<'static, Bytes, Bytes>;
    type Down = Range<'static, Bytes, Bytes>;

    fn up(&self, bounds: &Bounds) -> Result<Self::Up> {
        self.begin(bounds)
    }

    fn down(&self, bounds: &Bounds) -> Result<Self::Down> {
        self.begin(bounds)
    }

    fn next(&self, up: &mut Self::Up) -> Result<Option<Found>> {
        self.take(up.next())
    }

    fn prev(&self, down: &mut Self::Down) -> Result<Option<Found>> {
        self.take(down.next_back())
    }
}

impl Ordered for Redb {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let ranges = TableRanges { dir: &self.dir, moment: Arc::new(self.moment()?) };
        Ok(Box::new(RangeCursor::new(ranges, range)))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        let ranges = TableRanges { dir: &self.dir, moment: self.moments.find(snapshot)? };
        Ok(Box::new(RangeCursor::new(ranges, range)))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        check::key(key)?;
        let moment = self.moments.find(snapshot)?;
        self.get_in(&moment, key)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.moments.hold(self.moment()?)))
    }
}

impl Peer for Redb {
    fn name(&self) -> &str {
        "redb"
    }

    /// A durable commit makes all earlier ones durable.
    fn flush(&self) -> Result<()> {
        self.commit(Durability::Immediate, |_| Ok(()))
    }

    fn written(&self) -> Written {
        adapter::written_by_users(&self.user_bytes)
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}
