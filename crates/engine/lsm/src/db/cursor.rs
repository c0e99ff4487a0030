//! Cursors over a keyspace's entries, in either direction, at a snapshot.
//!
//! ```text
//! DbCursor ── snapshot, and the current entry
//!    └─ RevocablePin ── DbIter: a merging iterator over the MemTables and tables of one view
//!         ▲ recalled when a MemTable or a table leaves the view
//! ```
//!
//! A cursor reads the MemTables and tables of one view, but does not own them. When a flush or a
//! compaction removes one from the view, every cursor's walk is recalled. A cursor without a walk
//! creates one in the current view, seeks its current entry, and continues. The snapshot ensures
//! that the entry still exists. An idle cursor therefore keeps versions from being dropped by
//! compaction, but pins no segment and no table file.
//!
//! A cursor that is dropped leaves its walk to the next one, which renews it: most of it is still
//! right if the view, the keyspace and the range are the same. It is recalled as others are.
//!
//! Forward, the walk lends one block for each run, and a copy of the next entries of each MemTable.
//! The cursor combines them without the lease, and notices a recall at the end of a block.

use crate::engine::Engine;
use crate::read::block_merge::{BlockMerge, Moved, Refill};
use crate::read::db_iter::{DbIter, IterValue, KEPT_BYTES};
use crate::read::expiring::keep_expiries;
use crate::read::get::ReadTier;
use crate::stats::events::CallKind;
use crate::user_keys::KeyFormat;
use crate::version::readers::pin_registry::RevocablePin;
use crate::version::readers::snapshot_tracker::Snapshot;
use esker_api::{Cursor, KeyRange, Value};
use esker_base::operation_cost::is_watching;
use esker_base::{Error, KeyspaceId, Result};
use esker_pmem::OwnerProcess;
use esker_table::PinnedValue;
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// A position in the entries of a keyspace, movable in both directions by the methods of
/// [`Cursor`].
///
/// A cursor holds a snapshot: what it sees never changes, and compaction keeps the versions that it
/// may see. Drop it when it is no longer needed. It keeps its current entry in memory, as a copy or
/// as one block of a table, and keeps no log segment and no table file from being removed.
///
/// After the database is closed, moves fail with [`Error::Closed`], and may fail with
/// [`Error::UnknownKeyspace`] after the keyspace is dropped. Forward moves within the block in memory
/// still succeed.
///
/// # Examples
///
/// ```
/// # mod esker { pub use esker_api::Cursor; pub use esker_lsm::{Db, Settings}; }
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Cursor, Db, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let keyspace = db.default_keyspace();
/// keyspace.put("b", "2")?;
/// let mut cursor = db.cursor(&keyspace, ..)?;
/// cursor.seek(b"a")?;
/// assert_eq!(cursor.current(), Some((&b"b"[..], &b"2"[..])));
/// cursor.next()?;
/// assert_eq!(cursor.current(), None);
/// # Ok(())
/// # }
/// ```
pub struct DbCursor {
    /// Weak, so that a forgotten cursor does not keep the directory locked.
    inner: Weak<Engine>,
    owner: OwnerProcess,
    keyspace: KeyspaceId,
    /// Of stored keys.
    range: KeyRange,
    keys: KeyFormat,
    snapshot: Snapshot,
    walk: Arc<RevocablePin<DbIter>>,
    /// Whether the current entry is that of `blocks`. The walk is then anywhere.
    is_in_blocks: bool,
    blocks: BlockMerge,
    /// The current entry, if there is one that is not in `blocks`.
    pair: Pair,
}

impl std::fmt::Debug for DbCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (keyspace, range) = (&self.keyspace, &self.range);
        f.debug_struct("DbCursor")
            .field("keyspace", keyspace)
            .field("range", range)
            .finish_non_exhaustive()
    }
}

/// The entry that a cursor is on. It stays readable when the walk has been recalled: a value in a
/// table keeps its block in memory, one in a segment is copied.
#[derive(Default)]
struct Pair {
    there: bool,
    /// As the user knows it.
    key: Vec<u8>,
    /// The value, unless it is held.
    value: Vec<u8>,
    is_held: bool,
    held: PinnedValue,
    /// Whether it will expire, by its own time.
    expires: bool,
}

impl Pair {
    #[inline]
    fn set(&mut self, walk: &DbIter, keys: KeyFormat) {
        let key = walk.key();
        self.there = key.is_some();
        let Some(key) = key else {
            self.held.release();
            return;
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        keys.restore(&mut self.key);
        self.expires = walk.expires();
        let value = walk.value(&mut self.held);
        self.is_held = matches!(value, IterValue::Held);
        if let IterValue::Borrowed(value) = value {
            self.held.release();
            self.value.clear();
            self.value.shrink_to(value.len().max(KEPT_BYTES));
            self.value.extend_from_slice(value);
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        if self.is_held { self.held.bytes() } else { &self.value }
    }
}

/// Where a move starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Anywhere,
    /// At the current entry, going forward.
    Here,
    /// The same, going back.
    HereBack,
}

/// A move of a cursor, as [`Engine::watched`] reports it.
struct Scan<'a> {
    inner: &'a Weak<Engine>,
    keyspace: KeyspaceId,
    range: &'a KeyRange,
}

impl Scan<'_> {
    #[inline]
    fn run<T>(&self, step: impl FnOnce() -> T) -> T {
        if is_watching() { self.run_watched(step) } else { step() }
    }

    #[cold]
    fn run_watched<T>(&self, step: impl FnOnce() -> T) -> T {
        let engine = self.inner.upgrade().filter(|engine| engine.calls.is_on());
        let Some(engine) = engine else { return step() };
        let start = match &self.range.start {
            Bound::Included(start) | Bound::Excluded(start) => &start[..],
            Bound::Unbounded => b"",
        };
        let start = engine.tree.keys.user(start);
        engine.watched(CallKind::Scan, self.keyspace, &start, step)
    }
}

impl DbCursor {
    pub(crate) fn new(
        inner: &Arc<Engine>,
        keyspace: KeyspaceId,
        range: KeyRange,
        snapshot: Snapshot,
    ) -> Result<DbCursor> {
        inner.tree.check_usable()?;
        inner.tree.resolve_snapshot(&snapshot)?;
        let mut cursor = DbCursor {
            inner: Arc::downgrade(inner),
            owner: inner.tree.owner,
            keyspace,
            range: inner.tree.keys.range(range),
            keys: inner.tree.keys,
            snapshot,
            walk: inner.tree.leases.grant(),
            is_in_blocks: false,
            blocks: BlockMerge::default(),
            pair: Pair::default(),
        };
        cursor.begin(inner)?;
        Ok(cursor)
    }

    /// Takes a walk in the current view: a new one, or that of a cursor that is gone.
    fn begin(&mut self, inner: &Engine) -> Result<()> {
        let DbCursor { walk, keyspace, range, snapshot, blocks, .. } = self;
        let (tree, snapshot) = (&inner.tree, &*snapshot);
        walk.with(|walk| {
            let Some(left) = walk else {
                *walk = Some(Box::new(DbIter::new(tree, *keyspace, range.clone(), snapshot)?));
                return Ok(());
            };
            *blocks = left.take_buffers();
            let renewed = left.renew(tree, *keyspace, range, snapshot);
            if renewed.is_err() {
                *walk = None;
            }
            renewed
        })?;
        inner.charge_transient();
        Ok(())
    }

    fn go(&mut self, from: From, step: impl FnOnce(&mut DbIter) -> Result<()>) -> Result<()> {
        let (was_in_blocks, keys) = (self.is_in_blocks, self.keys);
        self.with_walk(|walk, blocks, pair| {
            let here = match from {
                From::Anywhere => return step(walk),
                _ if was_in_blocks => blocks.key().into(),
                _ if pair.there && walk.is_new() => keys.stored(&pair.key),
                _ => return step(walk),
            };
            // An entry that has expired is passed already.
            match (walk.seek_pair(&here)?, from) {
                (true, _) => step(walk),
                (false, From::HereBack) => walk.seek_back(&here),
                (false, _) => Ok(()),
            }
        })
    }

    /// Goes on from an entry of `blocks`, with the walk if a block ends.
    #[inline(never)]
    fn next_in_blocks(&mut self) -> Result<()> {
        let DbCursor { walk, blocks, inner, keyspace, range, .. } = self;
        let watch = Scan { inner, keyspace: *keyspace, range };
        let moved = blocks.advance(|source, scan, end| {
            watch.run(|| {
                walk.with(|walk| match walk {
                    Some(walk) => walk.refill(source, scan, end),
                    None => Ok(Refill::Lost),
                })
            })
        });
        match moved {
            Ok(Moved::Entry) => return Ok(()),
            Ok(Moved::Lost) => {
                return self
                    .with_walk(|walk, blocks, _| walk.seek_on(blocks.key(), blocks.is_decided()));
            }
            Ok(Moved::End) | Err(_) => {}
        }
        walk.with(|walk| walk.iter_mut().for_each(|walk| walk.leave()));
        blocks.release();
        (self.is_in_blocks, self.pair.there) = (false, false);
        moved.map(|_| ())
    }

    /// Moves the walk by `step`, and takes over its current entry.
    fn with_walk(
        &mut self,
        step: impl FnOnce(&mut DbIter, &BlockMerge, &Pair) -> Result<()>,
    ) -> Result<()> {
        if !self.owner.is_current() {
            return self.refuse();
        }
        let DbCursor { walk, blocks, pair, keys, is_in_blocks, .. } = self;
        let (mut passed, mut has_expired, mut is_anew) = (None, false, false);
        let scan = Scan { inner: &self.inner, keyspace: self.keyspace, range: &self.range };
        let moved = scan.run(|| {
            walk.with(|walk| {
                is_anew = walk.is_none();
                let walk = match walk {
                    Some(walk) => walk,
                    none => none.insert(Box::new(Self::walk_anew(
                        &self.inner,
                        self.keyspace,
                        &self.range,
                        &self.snapshot,
                    )?)),
                };
                step(walk, blocks, pair)?;
                let is_lent = walk.lend(blocks)?;
                (passed, has_expired) = (walk.take_passed(), walk.take_expired());
                match is_lent {
                    true => pair.held.release(),
                    false => pair.set(walk, *keys),
                }
                Ok(is_lent)
            })
        });
        let was_in_blocks = std::mem::replace(is_in_blocks, matches!(moved, Ok(true)));
        if was_in_blocks && !*is_in_blocks {
            blocks.release();
        }
        if moved.is_err() {
            pair.there = false;
        }
        if is_anew && let Some(inner) = self.inner.upgrade() {
            inner.charge_transient();
        }
        // Not while the walk is held: a thread that installs an edit may recall it.
        if has_expired && let Some(inner) = self.inner.upgrade() {
            keep_expiries(&inner.tree, ReadTier::MayBlock)?;
        }
        if let Some(passed) = passed
            && let Some(inner) = self.inner.upgrade()
            && inner.tree.follows.is_none()
        {
            inner.commit.add_known_empty(passed);
        }
        moved.map(|_| ())
    }

    /// In a forked child.
    #[cold]
    fn refuse(&mut self) -> Result<()> {
        (self.pair.there, self.is_in_blocks) = (false, false);
        self.inner.upgrade().ok_or(Error::Closed)?.tree.check_usable()
    }

    #[cold]
    fn walk_anew(
        inner: &Weak<Engine>,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &Snapshot,
    ) -> Result<DbIter> {
        // Not held while the walk reads: the database may be closed and opened again meanwhile.
        let inner = inner.upgrade().ok_or(Error::Closed)?;
        inner.tree.check_usable()?;
        DbIter::new(&inner.tree, keyspace, range.clone(), snapshot)
    }
}

impl DbCursor {
    /// Whether the current entry will expire, by its own time.
    pub(crate) fn expires(&self) -> bool {
        !self.is_in_blocks && self.pair.expires
    }

    /// The value of the current entry. It stays valid when the cursor moves.
    #[inline]
    pub(crate) fn shared_value(&self) -> Value {
        if self.is_in_blocks {
            return self.blocks.shared_value();
        }
        match self.pair.held.shared() {
            Some((block, range)) if self.pair.is_held => Value::shared(block, range),
            _ => Value::copy_of(&self.pair.value),
        }
    }
}

impl Drop for DbCursor {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // Dropping a walk may take a lock that a thread of the parent held at the fork.
            std::mem::forget(self.walk.clone());
            return;
        }
        let Some(inner) = self.inner.upgrade() else { return };
        let blocks = std::mem::take(&mut self.blocks);
        self.walk.with(|walk| {
            if let Some(walk) = walk {
                walk.rest(blocks);
            }
        });
        inner.tree.leases.leave(self.walk.clone());
        inner.charge_transient();
    }
}

impl Cursor for DbCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.go(From::Anywhere, DbIter::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(From::Anywhere, DbIter::seek_last)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = self.keys.stored(key);
        self.go(From::Anywhere, |walk| walk.seek(&key))
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        let key = self.keys.stored(key);
        self.go(From::Anywhere, |walk| walk.seek_back(&key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if !self.is_in_blocks {
            return self.go(From::Here, DbIter::next);
        }
        if !self.owner.is_current() {
            return self.refuse();
        }
        if self.blocks.advance_alone() { Ok(()) } else { self.next_in_blocks() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.go(From::HereBack, DbIter::prev)
    }

    #[inline]
    fn current(&self) -> Option<(&[u8], &[u8])> {
        if self.is_in_blocks {
            return Some((self.blocks.key(), self.blocks.value()));
        }
        let pair = &self.pair;
        pair.there.then(|| (&pair.key[..], pair.value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Keyspace, KeyspaceSettings, Settings};
    use esker_base::Rng;
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;
    use std::collections::BTreeMap;

    fn small() -> Settings {
        Settings::default().segment_bytes(256 << 10).memory_bytes(8 << 20)
    }

    #[test]
    fn a_cursor_that_rests_lets_a_flushed_memtable_go() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), small()).unwrap();
        let keyspace = db.default_keyspace();
        db.put(&keyspace, b"a", b"1").unwrap();
        db.put(&keyspace, b"b", b"2").unwrap();
        let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
        cursor.seek_first().unwrap();
        let memtable = Arc::downgrade(&db.inner().tree.view.load().memtables[0]);
        db.flush().unwrap();
        // The log goes on to the next segment with the next write.
        db.put(&keyspace, b"c", b"3").unwrap();
        // One holder may be left: the flush keeps the memory for the next segment.
        while memtable.strong_count() > 1 {
            std::thread::yield_now();
        }
        cursor.next().unwrap();
        assert_eq!(cursor.current(), Some((&b"b"[..], &b"2"[..])));
    }

    #[test]
    fn a_cursor_that_is_gone_keeps_no_flushed_memtable() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), small()).unwrap();
        let keyspace = db.default_keyspace();
        db.put(&keyspace, b"a", b"1").unwrap();
        assert_eq!(db.range(&keyspace, ..).count(), 1);
        let memtable = Arc::downgrade(&db.inner().tree.view.load().memtables[0]);
        db.flush().unwrap();
        db.put(&keyspace, b"b", b"2").unwrap();
        while memtable.strong_count() > 1 {
            std::thread::yield_now();
        }
        assert_eq!(db.range(&keyspace, ..).count(), 2);
    }

    /// What the model has of `range`, read forward and backward.
    fn check(keyspace: &Keyspace, range: &KeyRange, at: &Snapshot, model: &Model) {
        let inside = model.iter().filter(|(key, _)| range.contains(&[**key]));
        let expected: Vec<_> = inside.map(|(key, value)| ([*key], value.to_be_bytes())).collect();
        let mut cursor = at.cursor(keyspace, range.clone()).unwrap();
        for is_forward in [true, false] {
            if is_forward { cursor.seek_first() } else { cursor.seek_last() }.unwrap();
            let mut found = Vec::new();
            while let Some((key, value)) = cursor.current() {
                found.push((key.try_into().unwrap(), value.try_into().unwrap()));
                if is_forward { cursor.next() } else { cursor.prev() }.unwrap();
            }
            if !is_forward {
                found.reverse();
            }
            assert_eq!(found, expected, "{range:?}");
        }
    }

    type Model = BTreeMap<u8, u32>;

    /// Whatever keyspace, range and snapshot the cursor before read at.
    #[test]
    fn a_cursor_that_takes_over_a_walk_reads_at_its_own_snapshot_and_range() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
            let db = Db::open_with(env, small()).unwrap();
            let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
            let keyspaces = [db.default_keyspace(), other];
            let mut models = [Model::new(), Model::new()];
            let mut snapshots = vec![(db.snapshot(), models.clone())];
            for step in 0..150u32 {
                let which = rng.below(2) as usize;
                let (keyspace, model) = (&keyspaces[which], &mut models[which]);
                let key = rng.below(40) as u8;
                match rng.below(12) {
                    0..4 => {
                        db.put(keyspace, [key], step.to_be_bytes()).unwrap();
                        model.insert(key, step);
                    }
                    4 => {
                        db.delete(keyspace, [key]).unwrap();
                        model.remove(&key);
                    }
                    5 => {
                        let end = key + 1 + rng.below(8) as u8;
                        db.delete_range(keyspace, [key]..[end]).unwrap();
                        model.retain(|other, _| !(key..end).contains(other));
                    }
                    6 => {
                        db.flush().unwrap();
                        while rng.one_in(2) && db.run_background_job() {}
                    }
                    7 if rng.one_in(2) => snapshots.push((db.snapshot(), models.clone())),
                    _ => {
                        let present = (db.snapshot(), models.clone());
                        let old = rng.below(snapshots.len() as u64) as usize;
                        let (at, models) = if rng.one_in(3) { &snapshots[old] } else { &present };
                        let range = match rng.below(3) {
                            0 => KeyRange::all(),
                            1 => KeyRange::from([key]..),
                            _ => KeyRange::from([key]..[key + 9]),
                        };
                        check(keyspace, &range, at, &models[which]);
                    }
                }
            }
        }
    }

    #[test]
    fn a_cursor_of_a_closed_database_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), small()).unwrap();
        let keyspace = db.default_keyspace();
        db.put(&keyspace, b"a", b"1").unwrap();
        let mut cursor = db.cursor(&keyspace, KeyRange::all()).unwrap();
        cursor.seek_first().unwrap();
        db.close().unwrap();
        assert!(matches!(cursor.next(), Err(Error::Closed)));
        assert_eq!(cursor.current(), None);
    }

    #[test]
    fn an_iterator_keeps_its_database_open() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), small()).unwrap();
        let keyspace = db.default_keyspace();
        db.put(&keyspace, b"a", b"1").unwrap();
        let mut pairs = db.range(&keyspace, ..);
        drop(db);
        assert_eq!(pairs.next().unwrap().unwrap().1, b"1");
    }
}
