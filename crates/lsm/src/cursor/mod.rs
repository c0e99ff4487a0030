//! Cursors over a keyspace's pairs, in either direction, as of a snapshot.
//!
//! ```text
//! DbCursor ── snapshot, and a copy of the pair it stands on
//!    └─ Lease ── Walk: a merge over the MemTables and tables of one view
//!         ▲ recalled when a MemTable or a table leaves the view
//! ```
//!
//! A cursor reads the MemTables and tables of one view, but it does not own them. When a flush or a
//! compaction has taken something out of the view, every cursor's walk is recalled; a cursor whose
//! walk is gone makes another in the view in force, seeks the pair that it stands on, and goes on.
//! The snapshot sees to it that the pair is still there. So a cursor that nobody moves keeps versions
//! from being compacted away, and nothing else: no segment, no table file.

mod lease;
mod walk;

pub(crate) use lease::Leases;
pub(crate) use walk::Walk;

use crate::inner::Inner;
use crate::snapshot::Snapshot;
use esker_api::{Cursor, KeyRange};
use esker_base::{Error, KeyspaceId, Result};
use lease::Lease;
use std::sync::{Arc, Weak};

/// A position in a keyspace's pairs. See [`Cursor`] for what the moves do.
///
/// The cursor holds a snapshot, so what it sees never changes, and compaction keeps the versions that
/// it may see: drop it when done. It holds neither memory nor files back. If its keyspace is dropped,
/// its next move may fail with [`Error::UnknownKeyspace`]; if the database is closed, with
/// [`Error::Closed`].
pub struct DbCursor {
    /// Weak, so that a forgotten cursor does not keep the directory locked.
    inner: Weak<Inner>,
    keyspace: KeyspaceId,
    range: KeyRange,
    snapshot: Snapshot,
    walk: Arc<Lease<Walk>>,
    /// The pair that the cursor stands on, if it does.
    pair: Pair,
}

#[derive(Default)]
struct Pair {
    there: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Pair {
    #[inline]
    fn set(&mut self, pair: Option<(&[u8], &[u8])>) {
        self.there = pair.is_some();
        if let Some((key, value)) = pair {
            self.key.clear();
            self.key.extend_from_slice(key);
            self.value.clear();
            self.value.extend_from_slice(value);
        }
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
        let mut cursor = DbCursor {
            inner: Arc::downgrade(inner),
            keyspace,
            range,
            snapshot,
            walk: inner.leases.grant(),
            pair: Pair::default(),
        };
        cursor.go(From::Anywhere, |_| Ok(()))?;
        Ok(cursor)
    }

    #[inline]
    fn go(&mut self, from: From, step: impl FnOnce(&mut Walk) -> Result<()>) -> Result<()> {
        let DbCursor { walk, pair, .. } = self;
        let moved = walk.with(|walk| {
            let walk = match walk {
                Some(walk) => walk,
                none => none.insert(Self::walk_anew(
                    &self.inner,
                    self.keyspace,
                    &self.range,
                    &self.snapshot,
                    (from == From::Here).then_some(&*pair),
                )?),
            };
            let stepped = step(walk);
            pair.set(walk.current());
            stepped
        });
        if moved.is_err() {
            self.pair.there = false;
        }
        moved
    }

    #[cold]
    fn walk_anew(
        inner: &Weak<Inner>,
        keyspace: KeyspaceId,
        range: &KeyRange,
        snapshot: &Snapshot,
        here: Option<&Pair>,
    ) -> Result<Walk> {
        let inner = inner.upgrade().ok_or(Error::Closed)?;
        let mut walk = Walk::new(&inner, keyspace, range.clone(), snapshot.seqno())?;
        if let Some(pair) = here.filter(|pair| pair.there) {
            walk.seek(&pair.key)?;
            debug_assert_eq!(walk.current(), Some((&pair.key[..], &pair.value[..])));
        }
        Ok(walk)
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
        self.go(From::Anywhere, |walk| walk.seek(key))
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.go(From::Anywhere, |walk| walk.seek_back(key))
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
        let Pair { there, key, value } = &self.pair;
        there.then_some((&key[..], &value[..]))
    }
}
