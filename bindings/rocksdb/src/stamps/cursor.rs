//! A cursor over the versions that a read at a timestamp sees.

use super::order::{BEHIND, Order, STAMP_BYTES, content, parts};
use esker::{Cursor, DbCursor, Result};

/// The last byte but seven of a key that RocksDB shows with its kind: the kinds of a put and of a delete.
const KINDS: [u8; 2] = [0x01, 0x14];

/// A cursor over a column family with timestamps. It shows the newest version of each key up to a
/// timestamp, unless that says deleted; or all versions since another timestamp, deletes included.
pub struct Versions {
    cursor: DbCursor,
    order: Order,
    at: u64,
    /// Whether all versions are shown, and since when.
    since: Option<u64>,
    /// What the versions of the current key begin with. Of use if there is a current entry.
    prefix: Vec<u8>,
    /// The current key as the program sees it. Of use if there is a current entry.
    key: Vec<u8>,
    stamp: [u8; STAMP_BYTES],
    is_valid: bool,
}

impl Versions {
    /// Returns a cursor over `cursor`, which has the stored keys of a range.
    pub fn new(cursor: DbCursor, order: Order, at: u64, since: Option<u64>) -> Self {
        let (prefix, key, stamp) = (Vec::new(), Vec::new(), [0; STAMP_BYTES]);
        Versions { cursor, order, at, since, prefix, key, stamp, is_valid: false }
    }

    /// The timestamp of the current entry.
    pub fn stamp(&self) -> Option<&[u8]> {
        self.is_valid.then_some(&self.stamp[..])
    }

    /// Takes the version that the cursor is at as the current entry.
    fn take(&mut self, stamp: u64, is_delete: bool) {
        self.stamp = self.order.bytes_of(stamp);
        self.key = self.order.key(&self.prefix);
        if self.since.is_some() {
            // RocksDB shows its internal key: the sequence number, which tables do not keep, and the kind.
            self.key.extend(self.stamp);
            self.key.extend([KINDS[usize::from(is_delete)], 0, 0, 0, 0, 0, 0, 0]);
        }
        self.is_valid = true;
    }

    /// Goes on until it is at a version to show, or at the end.
    fn settle(&mut self, is_forward: bool) -> Result<()> {
        self.is_valid = false;
        loop {
            let Some((stored, value)) = self.cursor.current() else { return Ok(()) };
            let Some((prefix, stamp)) = parts(stored) else { return Ok(()) };
            let is_delete = content(value).is_none();
            self.prefix.clear();
            self.prefix.extend_from_slice(prefix);
            match self.since {
                Some(since) if (since..=self.at).contains(&stamp) => {
                    self.take(stamp, is_delete);
                    return Ok(());
                }
                // All versions of the key from here on, in the direction, are out of the limits.
                Some(since) if is_forward == (stamp < since) => self.leave(is_forward)?,
                Some(_) if is_forward => self.seek_version(self.at)?,
                Some(since) => {
                    let oldest = self.stored(since);
                    self.cursor.seek_back(&oldest)?;
                }
                None => {
                    let is_visible = match is_forward {
                        true if stamp > self.at => {
                            self.seek_version(self.at)?;
                            continue;
                        }
                        true => true,
                        // It is at the oldest version of the key.
                        false => {
                            self.seek_version(self.at)?;
                            self.is_of_key()
                        }
                    };
                    let found = self.cursor.current().filter(|_| is_visible);
                    let found = found.and_then(|(stored, value)| {
                        content(value)?;
                        parts(stored).map(|(_, stamp)| stamp)
                    });
                    if let Some(stamp) = found {
                        self.take(stamp, false);
                        return Ok(());
                    }
                    self.leave(is_forward)?;
                }
            }
        }
    }

    /// The stored key of a version of the key it is at.
    fn stored(&self, stamp: u64) -> Vec<u8> {
        [&self.prefix[..], &(!stamp).to_be_bytes()].concat()
    }

    /// Goes to the newest version up to `stamp` of the key it is at, or to the next key.
    fn seek_version(&mut self, stamp: u64) -> Result<()> {
        let stored = self.stored(stamp);
        self.cursor.seek(&stored)
    }

    /// Whether the cursor is at a version of the key.
    fn is_of_key(&self) -> bool {
        let prefix = self.cursor.current().and_then(|(stored, _)| parts(stored));
        prefix.is_some_and(|(prefix, _)| prefix == self.prefix)
    }

    /// Leaves the key, for the next or the previous one.
    fn leave(&mut self, is_forward: bool) -> Result<()> {
        if !is_forward {
            return self.cursor.seek_back(&self.prefix);
        }
        if self.is_of_key() {
            // Most keys have few versions.
            self.cursor.next()?;
        }
        if self.is_of_key() {
            let behind = [&self.prefix[..], &BEHIND].concat();
            self.cursor.seek(&behind)?;
        }
        Ok(())
    }

    fn step(&mut self, is_forward: bool) -> Result<()> {
        if !self.is_valid {
            return Ok(());
        }
        match (self.since, is_forward) {
            (None, _) => self.leave(is_forward)?,
            (Some(_), true) => self.cursor.next()?,
            (Some(_), false) => self.cursor.prev()?,
        }
        self.settle(is_forward)
    }

    /// Ends at the current place if `moved` is an error.
    fn begin(&mut self, moved: Result<()>, is_forward: bool) -> Result<()> {
        self.is_valid = false;
        moved?;
        self.settle(is_forward)
    }
}

impl Cursor for Versions {
    fn seek_first(&mut self) -> Result<()> {
        let moved = self.cursor.seek_first();
        self.begin(moved, true)
    }

    fn seek_last(&mut self) -> Result<()> {
        let moved = self.cursor.seek_last();
        self.begin(moved, false)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let moved = self.cursor.seek(&self.order.version(key, self.at));
        self.begin(moved, true)
    }

    fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        let behind = [&self.order.prefix(key)[..], &BEHIND].concat();
        let moved = self.cursor.seek_back(&behind);
        self.begin(moved, false)
    }

    fn next(&mut self) -> Result<()> {
        self.step(true)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(false)
    }

    fn current(&self) -> Option<(&[u8], &[u8])> {
        let (_, value) = self.cursor.current().filter(|_| self.is_valid)?;
        Some((&self.key, content(value).unwrap_or_default()))
    }
}
