//! Iterators.

use crate::batch::indexed::SharedWrites;
use crate::border::{Array, ErrorOut};
use crate::border::{Bytes, Handle, Out, Result, Status, c_api};
use crate::database::{Database, Family, Open};
use crate::direction::Step;
use crate::overlay::Overlay;
use crate::prefix::Prefix;
use crate::reads::{ReadOptions, Slice, stamp_of};
use crate::stamps::Versions;
use esker::{Cursor, DbCursor, KeyRange};
use std::ffi::{c_char, c_uchar};
use std::sync::Arc;

/// RocksDB's `rocksdb_iterator_t`.
pub struct Iter {
    open: Arc<Open>,
    family: Arc<Family>,
    options: ReadOptions,
    /// The writes on top: of a transaction, then of a batch.
    layers: Vec<SharedWrites>,
    cursor: Option<Source>,
    /// The prefix that entries have, if the iterator keeps to one.
    prefix: Option<Vec<u8>>,
    /// Whether it is at an entry that its bounds and its prefix allow.
    is_valid: bool,
    status: Option<Status>,
}

/// What an iterator reads.
enum Source {
    Database(Box<DbCursor>),
    Versions(Box<Versions>),
    WithWrites(Box<Overlay<Source>>),
}

impl Source {
    fn of(&mut self) -> &mut dyn Cursor {
        match self {
            Source::Database(cursor) => &mut **cursor,
            Source::Versions(cursor) => &mut **cursor,
            Source::WithWrites(cursor) => &mut **cursor,
        }
    }

    /// The same with `writes` on top.
    fn under(self, writes: SharedWrites, range: KeyRange, family: &Arc<Family>) -> Source {
        Source::WithWrites(Box::new(Overlay::new(self, writes, range, family.clone())))
    }
}

impl Cursor for Source {
    fn seek_first(&mut self) -> esker::Result<()> {
        self.of().seek_first()
    }

    fn seek_last(&mut self) -> esker::Result<()> {
        self.of().seek_last()
    }

    fn seek(&mut self, key: &[u8]) -> esker::Result<()> {
        self.of().seek(key)
    }

    fn seek_back(&mut self, key: &[u8]) -> esker::Result<()> {
        self.of().seek_back(key)
    }

    fn next(&mut self) -> esker::Result<()> {
        self.of().next()
    }

    fn prev(&mut self) -> esker::Result<()> {
        self.of().prev()
    }

    #[inline]
    fn current(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Source::Database(cursor) => cursor.current(),
            Source::Versions(cursor) => cursor.current(),
            Source::WithWrites(cursor) => cursor.current(),
        }
    }
}

impl Iter {
    /// Returns an iterator over a column family, with the writes on top.
    pub fn new(
        open: &Arc<Open>,
        family: &Arc<Family>,
        options: Option<&ReadOptions>,
        writes: Option<SharedWrites>,
    ) -> Iter {
        let mut iter = Iter {
            open: open.clone(),
            family: family.clone(),
            options: options.cloned().unwrap_or_default(),
            layers: writes.into_iter().collect(),
            cursor: None,
            prefix: None,
            is_valid: false,
            status: None,
        };
        iter.status = iter.begin().err();
        iter
    }

    /// Takes the writes of a batch on top. It keeps its view of the database, and has no position.
    pub fn with_writes(mut self, writes: SharedWrites) -> Iter {
        if self.family.stamps.is_some() {
            self.cursor = None;
            self.status = Some(Status::unsupported("a batch with an index at a timestamp"));
            return self;
        }
        let range = self.range();
        self.cursor = self.cursor.map(|cursor| cursor.under(writes.clone(), range, &self.family));
        self.layers.push(writes);
        self.is_valid = false;
        self
    }

    /// The keys that its bounds allow.
    fn range(&self) -> KeyRange {
        let (lower, upper) = (self.options.lower.as_deref(), self.options.upper.as_deref());
        self.family.direction.range(lower, upper)
    }

    /// The column family.
    pub fn family(&self) -> &Arc<Family> {
        &self.family
    }

    /// Begins at the snapshot of the options, or at the present.
    fn begin(&mut self) -> Result<()> {
        let stamp = stamp_of(&self.family, Some(&self.options))?;
        if stamp.is_some() && !self.layers.is_empty() {
            return Err(Status::unsupported(
                "transactions and batches with an index at a timestamp",
            ));
        }
        let range = match stamp {
            Some((stamps, _)) => {
                let (lower, upper) = (&self.options.lower, &self.options.upper);
                stamps.order.range(lower.as_deref(), upper.as_deref())
            }
            None => self.range(),
        };
        let keyspace = &self.family.keyspace;
        let cursor = match &self.options.snapshot {
            Some(snapshot) => snapshot.cursor(keyspace, range.clone()),
            None => self.open.db.cursor(keyspace, range.clone()),
        }?;
        if let Some((stamps, at)) = stamp {
            stamps.check(at)?;
            let since = self.options.since.as_deref().map(|since| stamps.order.stamp(since));
            let versions = Versions::new(cursor, stamps.order, at, since.transpose()?);
            self.cursor = Some(Source::Versions(Box::new(versions)));
            return Ok(());
        }
        let layers = self.layers.iter().cloned();
        self.cursor = Some(layers.fold(Source::Database(Box::new(cursor)), |below, writes| {
            below.under(writes, range.clone(), &self.family)
        }));
        Ok(())
    }

    /// Which prefixes it keeps to, if it does.
    fn kept_prefix(&self) -> Option<&Prefix> {
        // RocksDB keeps to the prefix with `total_order_seek` as well.
        let keeps = self.options.knobs.is_on("prefix_same_as_start");
        self.family.prefix.as_deref().filter(|_| keeps)
    }

    /// Moves, and notes where it is.
    fn go(&mut self, step: impl FnOnce(&mut dyn Cursor) -> esker::Result<()>) {
        let Some(cursor) = &mut self.cursor else {
            self.is_valid = false;
            return;
        };
        let moved = step(cursor.of());
        self.status = moved.err().map(Status::from);
        self.is_valid = self.status.is_none() && cursor.current().is_some();
        if self.prefix.is_some()
            && let Some(key) = self.key()
        {
            let prefix = self.kept_prefix().and_then(|kept| kept.of(key));
            self.is_valid = prefix == self.prefix.as_deref();
        }
    }

    /// Moves to a neighbour.
    fn step(&mut self, step: Step<'_>) {
        let direction = self.family.direction;
        self.go(|cursor| direction.step(cursor, step));
    }

    /// Moves to a place that does not depend on where it is. `target` is the key that it looks for.
    fn seek(&mut self, target: Option<&[u8]>, step: Step<'_>) {
        if self.is_tailing() {
            // It sees what was written since it was created.
            if let Err(status) = self.begin() {
                (self.status, self.is_valid) = (Some(status), false);
                return;
            }
        }
        if let Some(statistics) = self.open.statistics() {
            statistics.count_seek();
        }
        let prefix = self.kept_prefix().zip(target);
        self.prefix = prefix.and_then(|(kept, key)| kept.of(key)).map(<[u8]>::to_vec);
        self.step(step);
        if target.is_none() && self.is_valid {
            // The prefix of the first entry.
            let key = self.key().unwrap_or_default().to_vec();
            self.prefix = self.kept_prefix().and_then(|kept| kept.of(&key)).map(<[u8]>::to_vec);
        }
    }

    /// Whether it sees what is written after it was created.
    fn is_tailing(&self) -> bool {
        self.options.knobs.is_on("tailing") && self.options.snapshot.is_none()
    }

    /// Moves to the next entry. At the end, it looks for entries that were written since.
    fn next_of_tail(&mut self) {
        let Some(last) = self.key().map(<[u8]>::to_vec) else { return };
        self.step(Step::Next);
        if self.is_valid || self.status.is_some() {
            return;
        }
        if let Err(status) = self.begin() {
            self.status = Some(status);
            return;
        }
        let direction = self.family.direction;
        self.go(|cursor| {
            direction.step(cursor, Step::From(&last))?;
            match cursor.current() {
                Some((key, _)) if key == last => direction.step(cursor, Step::Next),
                _ => Ok(()),
            }
        });
    }

    /// The timestamp of the current entry. No bytes if there is none.
    pub fn stamp(&self) -> &[u8] {
        match &self.cursor {
            Some(Source::Versions(cursor)) if self.is_valid => cursor.stamp().unwrap_or_default(),
            _ => b"",
        }
    }

    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|(key, _)| key)
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.cursor.as_ref().filter(|_| self.is_valid)?.current()
    }
}

/// Gives bytes that stay where they are until the iterator moves.
fn lend(bytes: Option<&[u8]>, length: Out<usize>) -> *const c_char {
    length.set(bytes.map_or(0, <[u8]>::len));
    bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast())
}

impl crate::border::Fallback for Slice {
    fn fallback() -> Self {
        Slice::of(None)
    }
}

c_api! {
    fn rocksdb_create_iterator | rocksdb_transactiondb_create_iterator(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
    ) -> Handle<Iter> {
        let open = &db.get().open;
        Handle::new(Iter::new(open, &open.default, options.optional(), None))
    }

    fn rocksdb_create_iterator_cf | rocksdb_transactiondb_create_iterator_cf(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        family: Handle<Arc<Family>>,
    ) -> Handle<Iter> {
        Handle::new(Iter::new(&db.get().open, family.get(), options.optional(), None))
    }

    /// All iterators read at one snapshot.
    try fn rocksdb_create_iterators(
        db: Handle<Database>,
        options: Handle<ReadOptions>,
        families: Array<Handle<Arc<Family>>>,
        iterators: Out<Handle<Iter>>,
        count: usize,
    ) {
        let open = &db.get().open;
        let mut options = options.optional().cloned().unwrap_or_default();
        options.snapshot.get_or_insert_with(|| open.db.snapshot());
        for (at, family) in families.of(count).iter().enumerate() {
            let iter = Iter::new(open, family.get(), Some(&options), None);
            iterators.set_at(at, Handle::new(iter));
        }
        Ok(())
    }

    fn rocksdb_iter_destroy(iter: Handle<Iter>) {
        drop(iter.take());
    }

    fn rocksdb_iter_valid(iter: Handle<Iter>) -> c_uchar {
        c_uchar::from(iter.get().is_valid)
    }

    fn rocksdb_iter_seek_to_first(iter: Handle<Iter>) {
        iter.change(|iter| {
            // To its lower bound, of whose prefix the entry has to be.
            let bound = iter.options.lower.clone();
            iter.seek(bound.as_deref(), Step::First);
        });
    }

    fn rocksdb_iter_seek_to_last(iter: Handle<Iter>) {
        iter.change(|iter| {
            let bound = iter.options.upper.clone();
            iter.seek(bound.as_deref(), Step::Last);
        });
    }

    fn rocksdb_iter_seek(iter: Handle<Iter>, key: Bytes, length: usize) {
        let key = key.of(length);
        iter.change(|iter| iter.seek(Some(key), Step::From(key)));
    }

    fn rocksdb_iter_seek_for_prev(iter: Handle<Iter>, key: Bytes, length: usize) {
        let key = key.of(length);
        iter.change(|iter| iter.seek(Some(key), Step::To(key)));
    }

    fn rocksdb_iter_next(iter: Handle<Iter>) {
        iter.change(|iter| match iter.is_tailing() {
            true => iter.next_of_tail(),
            false => iter.step(Step::Next),
        });
    }

    fn rocksdb_iter_prev(iter: Handle<Iter>) {
        iter.change(|iter| iter.step(Step::Prev));
    }

    fn rocksdb_iter_key(iter: Handle<Iter>, length: Out<usize>) -> *const c_char {
        lend(iter.get().entry().map(|(key, _)| key), length)
    }

    fn rocksdb_iter_value(iter: Handle<Iter>, length: Out<usize>) -> *const c_char {
        lend(iter.get().entry().map(|(_, value)| value), length)
    }

    fn rocksdb_iter_key_slice(iter: Handle<Iter>) -> Slice {
        Slice::of(iter.get().entry().map(|(key, _)| key))
    }

    fn rocksdb_iter_value_slice(iter: Handle<Iter>) -> Slice {
        Slice::of(iter.get().entry().map(|(_, value)| value))
    }

    /// No bytes if the column family has no timestamps.
    fn rocksdb_iter_timestamp(iter: Handle<Iter>, length: Out<usize>) -> *const c_char {
        lend(Some(iter.get().stamp()), length)
    }

    fn rocksdb_iter_get_error(iter: Handle<Iter>, errptr: ErrorOut) {
        if let Some(status) = &iter.get().status {
            errptr.set(status);
        }
    }

    /// Reads at the present from now on.
    try fn rocksdb_iter_refresh(iter: Handle<Iter>) {
        iter.change(|iter| {
            iter.options.snapshot = None;
            (iter.is_valid, iter.status) = (false, None);
            iter.begin()
        })
    }
}
