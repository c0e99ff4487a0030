//! Cursors over a keyspace's entries, in either direction, at a snapshot.
//!
//! ```text
//! DbCursor ── snapshot, and the current entry
//!    └─ Lease ── Walk: a merging iterator over the MemTables and tables of one view
//!         ▲ recalled when a MemTable or a table leaves the view
//! ```
//!
//! A cursor reads the MemTables and tables of one view, but does not own them. When a flush or a
//! compaction removes one from the view, every cursor's walk is recalled. A cursor without a walk
//! creates one in the current view, seeks its current entry, and continues. The snapshot ensures
//! that the entry still exists. An idle cursor therefore keeps versions from being dropped by
//! compaction, but pins no segment and no table file.

pub(crate) use super::db_iter::Walk;

use super::db_iter::WalkValue;
use crate::engine::Inner;
use crate::user_keys::KeyFormat;
use crate::version::pin_registry::Lease;
use crate::version::snapshot_tracker::Snapshot;
use esker_api::{Cursor, KeyRange};
use esker_base::{Error, KeyspaceId, Result};
use esker_pmem::OwnerProcess;
use esker_table::HeldValue;
use std::borrow::Cow;
use std::sync::{Arc, Weak};

/// A position in the entries of a keyspace, movable in both directions by the methods of
/// [`Cursor`].
///
/// A cursor holds a snapshot: what it sees never changes, and compaction keeps the versions that it
/// may see. Drop it when it is no longer needed. It keeps its current entry in memory, as a copy or
/// as one block of a table, and holds back no log segment and no table file.
///
/// Its moves fail with [`Error::Closed`] once the database is closed. They may fail with
/// [`Error::UnknownKeyspace`] once the keyspace is dropped.
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
    inner: Weak<Inner>,
    owner: OwnerProcess,
    keyspace: KeyspaceId,
    /// Of stored keys.
    range: KeyRange,
    keys: KeyFormat,
    snapshot: Snapshot,
    walk: Arc<Lease<Walk>>,
    /// The pair that the cursor stands on, if it does.
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

/// A buffer of this size is kept for the next value; one that a larger value left is not.
const KEPT_BYTES: usize = 64 << 10;

/// The pair that a cursor stands on. It stays readable when the walk has been recalled: a value in a
/// table keeps its block in memory, one in a segment is copied.
#[derive(Default)]
struct Pair {
    there: bool,
    /// As the user knows it.
    key: Vec<u8>,
    /// The value, unless it is held.
    value: Vec<u8>,
    is_held: bool,
    held: HeldValue,
}

impl Pair {
    #[inline]
    fn set(&mut self, walk: &Walk, keys: KeyFormat) {
        let key = walk.key();
        self.there = key.is_some();
        let Some(key) = key else {
            self.held.release();
            return;
        };
        self.key.clear();
        self.key.extend_from_slice(key);
        keys.restore(&mut self.key);
        let value = walk.value(&mut self.held);
        self.is_held = matches!(value, WalkValue::Held);
        if let WalkValue::Borrowed(value) = value {
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

/// How a walk that was made anew is brought to where the cursor stands, if the move goes on from
/// there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Anywhere,
    Here,
}

impl DbCursor {
    pub(crate) fn new(
        inner: &Arc<Inner>,
        keyspace: KeyspaceId,
        range: KeyRange,
        snapshot: Snapshot,
    ) -> Result<DbCursor> {
        inner.check_usable()?;
        inner.resolve_snapshot(&snapshot)?;
        let mut cursor = DbCursor {
            inner: Arc::downgrade(inner),
            owner: inner.owner,
            keyspace,
            range: inner.keys.range(range),
            keys: inner.keys,
            snapshot,
            walk: inner.leases.grant(),
            pair: Pair::default(),
        };
        cursor.go(From::Anywhere, |_| Ok(()))?;
        Ok(cursor)
    }

    #[inline]
    fn go(&mut self, from: From, step: impl FnOnce(&mut Walk) -> Result<()>) -> Result<()> {
        if !self.owner.is_current() {
            return self.refuse();
        }
        let DbCursor { walk, pair, keys, .. } = self;
        let keys = *keys;
        let moved = walk.with(|walk| {
            let walk = match walk {
                Some(walk) => walk,
                none => none.insert(Box::new(Self::walk_anew(
                    &self.inner,
                    self.keyspace,
                    &self.range,
                    &self.snapshot,
                    (from == From::Here && pair.there).then(|| keys.stored(&pair.key)),
                )?)),
            };
            let stepped = step(walk);
            pair.set(walk, keys);
            stepped
        });
        if moved.is_err() {
            self.pair.there = false;
        }
        moved
    }

    /// In a forked child.
    #[cold]
    fn refuse(&mut self) -> Result<()> {
        self.pair.there = false;
        self.inner.upgrade().ok_or(Error::Closed)?.check_usable()
    }

    #[cold]
    fn walk_anew(
        inner: &Weak<Inner>,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &Snapshot,
        here: Option<Cow<'_, [u8]>>,
    ) -> Result<Walk> {
        let mut walk = {
            // Not held while the walk reads: the database may be closed and opened again meanwhile.
            let inner = inner.upgrade().ok_or(Error::Closed)?;
            inner.check_usable()?;
            Walk::new(&inner, keyspace, range.clone(), snapshot.seqno())?
        };
        if let Some(here) = here {
            walk.seek(&here)?;
            if walk.key().is_none_or(|key| key != &here[..]) {
                let what = "a pair that an open snapshot sees is gone; run `check`";
                return Err(Error::corruption("the view of a cursor", 0, what));
            }
        }
        Ok(walk)
    }
}

impl Drop for DbCursor {
    fn drop(&mut self) {
        if !self.owner.is_current() {
            // Dropping a walk may take a lock that a thread of the parent held at the fork.
            std::mem::forget(self.walk.clone());
        }
    }
}

impl Cursor for DbCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.go(From::Anywhere, Walk::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(From::Anywhere, Walk::seek_last)
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
        self.go(From::Here, Walk::next)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.go(From::Here, Walk::prev)
    }

    #[inline]
    fn current(&self) -> Option<(&[u8], &[u8])> {
        let pair = &self.pair;
        pair.there.then(|| (&pair.key[..], pair.value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Settings};

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
        let memtable = Arc::downgrade(&db.inner().view.load().memtables[0]);
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
