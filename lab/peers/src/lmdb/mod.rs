//! LMDB, over the crate `heed`: a B+tree in a memory map, copied on write.
//!
//! What to know when its figures are read: every write is a transaction of its own, and so is every
//! read. A commit does not sync (`MDB_NOSYNC`). It has no cache of its own, so the run's memory does
//! not bound it: its pages are the page cache's. A key has at most 511 bytes. A seek of a cursor
//! opens a new LMDB cursor in the same transaction, because heed's iterators cannot seek.

#[expect(
    unsafe_code,
    reason = "a memory map is opened, and iterators are kept beside their snapshot"
)]
mod map;

use crate::adapter;
use crate::check::{self, foreign};
use crate::configuration::Configuration;
use crate::moments::Moments;
use crate::range_cursor::RangeCursor;
use crate::settings::{PeerSettings, uncompressed};
use crate::tally::Tally;
use crate::{Peer, Written};
use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Entry, Error, Kind, Result};
use heed::types::Bytes;
use heed::{Database, Env, RwTxn, WithoutTls};
use map::{MapRanges, Moment};
use std::ops::Bound;
use std::path::{Path, PathBuf};

type Tree = Database<'static, Bytes, Bytes>;

struct Lmdb {
    dir: PathBuf,
    // Before the environment: they are views of its map.
    moments: Moments<Moment>,
    tree: Tree,
    env: Env<WithoutTls>,
    user_bytes: Tally,
    configuration: Configuration,
}

/// Refuses what LMDB can't be set to.
pub(crate) fn check(settings: &PeerSettings) -> Result<()> {
    uncompressed("LMDB", settings)
}

pub(crate) fn open(dir: &Path, _settings: &PeerSettings) -> Result<Box<dyn Peer>> {
    let mut configuration = Configuration::default();
    adapter::create(dir)?;
    let (env, tree) =
        map::open(dir, &mut configuration).map_err(|error| foreign("open", dir, error))?;
    Ok(Box::new(Lmdb {
        dir: dir.to_owned(),
        moments: Moments::new(),
        tree,
        env,
        user_bytes: Tally::default(),
        configuration,
    }))
}

impl Lmdb {
    fn done<T>(&self, action: &'static str, outcome: heed::Result<T>) -> Result<T> {
        outcome.map_err(|error| foreign(action, &self.dir, error))
    }

    fn check_length(&self, bytes: usize) -> Result<()> {
        if bytes > self.env.max_key_size() {
            return Err(Error::KeyTooLong { bytes });
        }
        Ok(())
    }

    fn check_key(&self, key: &[u8]) -> Result<()> {
        check::key(key)?;
        self.check_length(key.len())
    }

    /// Runs `change` in a transaction and commits it.
    fn commit(&self, change: impl FnOnce(&mut RwTxn<'_>) -> heed::Result<()>) -> Result<()> {
        let committed = self.env.write_txn().and_then(|mut txn| {
            change(&mut txn)?;
            txn.commit()
        });
        self.done("write to", committed)
    }

    fn apply(&self, txn: &mut RwTxn<'_>, entry: Entry<'_>) -> heed::Result<()> {
        match entry.kind {
            Kind::Put => self.tree.put(txn, entry.key, entry.value),
            Kind::Delete => self.tree.delete(txn, entry.key).map(drop),
            Kind::Merge | Kind::Combined | Kind::Separated | Kind::ExpiringPut => {
                unreachable!("`check::entries` refuses them")
            }
            Kind::RangeDelete => {
                let range = KeyRange::deleted(entry.key, entry.value);
                let end = match &range.end {
                    Bound::Excluded(end) => Bound::Excluded(&end[..]),
                    _ => Bound::Unbounded,
                };
                self.tree.delete_range(txn, &(Bound::Included(entry.key), end)).map(drop)
            }
        }
    }

    fn moment(&self) -> Result<Moment> {
        self.done("read", Moment::now(&self.env))
    }

    fn write_one(&self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_key(key)?;
        let entry = adapter::entry(kind, key, value);
        self.commit(|txn| self.apply(txn, entry))?;
        self.user_bytes.add(entry.encoded_bytes());
        Ok(())
    }
}

impl Kv for Lmdb {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        check::key(key)?;
        let found =
            self.env.read_txn().and_then(|txn| Ok(self.tree.get(&txn, key)?.map(Value::from)));
        self.done("read", found)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let found = self.env.read_txn().and_then(|txn| {
            let get = |key: &&[u8]| Ok(self.tree.get(&txn, key)?.map(Value::from));
            keys.iter().map(get).collect()
        });
        self.done("read", found)
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        check::batch(self, batch)?;
        self.check_length(batch.longest_key())?;
        self.commit(|txn| batch.iter().try_for_each(|entry| self.apply(txn, entry)))?;
        if batch.wants_sync() {
            self.done("sync", self.env.force_sync())?;
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

impl Ordered for Lmdb {
    fn cursor(&self, range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        let ranges = MapRanges::own(self.tree, self.moment()?, &self.dir);
        Ok(Box::new(RangeCursor::new(ranges, range)))
    }

    fn cursor_at<'a>(
        &'a self,
        range: KeyRange,
        snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        let ranges = MapRanges::shared(self.tree, self.moments.find(snapshot)?, &self.dir);
        Ok(Box::new(RangeCursor::new(ranges, range)))
    }

    fn get_at(&self, key: &[u8], snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        check::key(key)?;
        let moment = self.moments.find(snapshot)?;
        self.done("read", moment.get(self.tree, key))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(self.moments.hold(self.moment()?)))
    }
}

impl Peer for Lmdb {
    fn name(&self) -> &str {
        "lmdb"
    }

    fn flush(&self) -> Result<()> {
        self.done("sync", self.env.force_sync())
    }

    fn written(&self) -> Written {
        adapter::written_by_users(&self.user_bytes)
    }

    fn configuration(&self) -> Vec<(String, String)> {
        self.configuration.options()
    }
}
