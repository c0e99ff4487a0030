//! The memory map: how it is opened, its snapshots, and iterators over them.

use super::Tree;
use crate::check::foreign;
use crate::configuration::Configuration;
use crate::range_cursor::{Bounds, Pair, Ranges};
use esker_api::Value;
use esker_base::Result;
use heed::types::Bytes;
use heed::{CommitOrAbort, Env, EnvFlags, EnvOpenOptions, RoRange, RoRevRange, RoTxn, WithoutTls};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// More than any store here. `lmdb.h`, mdb_env_set_mapsize: a store cannot grow beyond its map, and
/// address space costs nothing.
const MAP_BYTES: usize = 256 << 30;
const READERS: u32 = 510;

/// Opens the environment in `dir` and its unnamed tree.
pub(super) fn open(
    dir: &Path,
    configuration: &mut Configuration,
) -> heed::Result<(Env<WithoutTls>, Tree)> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    let map_bytes = configuration.note(
        "map_size",
        MAP_BYTES,
        "lmdb.h, mdb_env_set_mapsize: as large as the store may ever become",
    );
    options.map_size(map_bytes).max_readers(configuration.note(
        "max_readers",
        READERS,
        "one for each snapshot and cursor that is held at once",
    ));
    configuration.note(
        "MDB_NOSYNC",
        "on",
        "commits are not synced, as the other engines' logs are not",
    );
    configuration.note("MDB_NOTLS", "on", "lmdb.h: for threads that hold several snapshots");
    configuration.note(
        "MDB_WRITEMAP",
        "off",
        "lmdb.h: faster writes, and a stray write of the program can corrupt the store",
    );
    configuration.note("MDB_NORDAHEAD", "default, off", "lmdb.h: for stores larger than memory");
    configuration.note(
        "memory",
        "unlimited",
        "pages are the page cache's, which has no budget here",
    );
    // SAFETY: no other process opens the files, and none changes them while they are mapped.
    let env = unsafe { options.flags(EnvFlags::NO_SYNC).open(dir)? };
    let txn = env.write_txn()?;
    let tree = env.create_databases_and_commit(txn, |opener, txn| {
        opener.create_database::<Bytes, Bytes>(txn, None).map(CommitOrAbort::<_, ()>::Commit)
    })?;
    let tree = tree.unwrap_commit();
    Ok((env, tree))
}

/// A snapshot. Several threads may share one; they use it one after the other.
pub(super) struct Moment {
    txn: RoTxn<'static, WithoutTls>,
    turn: Mutex<()>,
}

// SAFETY: a transaction opened with MDB_NOTLS may be used by any thread, one at a time. Where several
// could have it, each takes its `turn` first.
unsafe impl Sync for Moment {}

impl Moment {
    pub(super) fn now(env: &Env<WithoutTls>) -> heed::Result<Moment> {
        Ok(Moment { txn: env.clone().static_read_txn()?, turn: Mutex::new(()) })
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, tree: Tree, key: &[u8]) -> heed::Result<Option<Value>> {
        let _turn = self.turn();
        Ok(tree.get(&self.txn, key)?.map(Value::from))
    }
}

/// Ranges of one snapshot.
pub(super) struct MapRanges {
    tree: Tree,
    moment: Arc<Moment>,
    /// Whether other cursors may use the snapshot, too.
    is_shared: bool,
    dir: PathBuf,
}

impl MapRanges {
    pub(super) fn own(tree: Tree, moment: Moment, dir: &Path) -> Self {
        MapRanges { tree, moment: Arc::new(moment), is_shared: false, dir: dir.to_owned() }
    }

    pub(super) fn shared(tree: Tree, moment: Arc<Moment>, dir: &Path) -> Self {
        MapRanges { tree, moment, is_shared: true, dir: dir.to_owned() }
    }

    fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.is_shared.then(|| self.moment.turn())
    }

    fn txn(&self) -> &'static RoTxn<'static, WithoutTls> {
        // SAFETY: the transaction is behind an `Arc` that this value holds, so it neither moves nor
        // ends before this value does, and `RangeCursor` drops iterators and pairs before it.
        unsafe { &*std::ptr::from_ref(&self.moment.txn) }
    }

    fn done<T>(&self, outcome: heed::Result<T>) -> Result<T> {
        outcome.map_err(|error| foreign("read", &self.dir, error))
    }
}

fn borrowed((start, end): &Bounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]))
}

/// Key and value, in the map.
type Found = (&'static [u8], &'static [u8]);

impl Pair for Found {
    fn key(&self) -> &[u8] {
        self.0
    }

    fn value(&self) -> &[u8] {
        self.1
    }
}

impl Ranges for MapRanges {
    type Pair = Found;
    type Up = RoRange<'static, Bytes, Bytes>;
    type Down = RoRevRange<'static, Bytes, Bytes>;

    fn up(&self, bounds: &Bounds) -> Result<Self::Up> {
        let _turn = self.turn();
        self.done(self.tree.range(self.txn(), &borrowed(bounds)))
    }

    fn down(&self, bounds: &Bounds) -> Result<Self::Down> {
        let _turn = self.turn();
        self.done(self.tree.rev_range(self.txn(), &borrowed(bounds)))
    }

    fn next(&self, up: &mut Self::Up) -> Result<Option<Found>> {
        let _turn = self.turn();
        self.done(up.next().transpose())
    }

    fn prev(&self, down: &mut Self::Down) -> Result<Option<Found>> {
        let _turn = self.turn();
        self.done(down.next().transpose())
    }
}
