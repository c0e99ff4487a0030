//! The removal of versions: those that no reader may see any more, and those after a point in time.

use super::{Stamps, content, parts};
use crate::border::{Code, Result, Status};
use crate::database::{Family, Open};
use esker::{Cursor, KeyRange, Keyspace, WriteBatch};
use std::ops::Bound;

/// The stored key of the lowest timestamp that may be read. No version has it.
const LOW: &[u8] = b"";

/// So many bytes of keys are deleted in one batch.
const BATCH_BYTES: usize = 1 << 20;

/// So many versions are inspected while writes wait, and those of one key.
const VERSIONS: usize = 4096;

/// The lowest timestamp of a keyspace that may be read.
pub(super) fn stored_low(keyspace: &Keyspace) -> Result<Option<u64>> {
    let Some(low) = keyspace.get(LOW)? else { return Ok(None) };
    let damaged = |_| Status::new(Code::Corruption, "full_history_ts_low is damaged");
    low[..].try_into().map(u64::from_be_bytes).map(Some).map_err(damaged)
}

/// Deletes in batches. What one batch has is deleted before what a later one has.
struct Deletes<'a> {
    open: &'a Open,
    family: &'a Family,
    batch: WriteBatch,
    bytes: usize,
}

impl<'a> Deletes<'a> {
    fn new(open: &'a Open, family: &'a Family) -> Self {
        Deletes { open, family, batch: WriteBatch::new(), bytes: 0 }
    }

    fn add(&mut self, stored: &[u8]) -> Result<()> {
        self.batch.delete(&self.family.keyspace, stored);
        self.bytes += stored.len();
        if self.bytes >= BATCH_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.open.db.write(&self.batch)?;
        (self.batch, self.bytes) = (WriteBatch::new(), 0);
        Ok(())
    }
}

impl Stamps {
    /// The lowest timestamp that may be read, if there is one.
    pub fn lowest(&self) -> Option<u64> {
        *self.low()
    }

    /// Reads the lowest timestamp anew, after the database has caught up with a writer.
    ///
    /// # Errors
    /// Those of Esker's reads.
    pub fn reload(&self, family: &Family) -> Result<()> {
        *self.low() = stored_low(&family.keyspace)?;
        Ok(())
    }

    /// Raises the lowest timestamp that may be read.
    ///
    /// # Errors
    /// If it is higher already, and those of Esker's writes.
    pub fn raise(&self, open: &Open, family: &Family, to: u64) -> Result<()> {
        let mut low = self.low();
        if let Some(low) = *low
            && to < low
        {
            return Err(Status::invalid(format!(
                "Current full_history_ts_low: {low} is higher than provided ts: {to}"
            )));
        }
        let mut batch = WriteBatch::new();
        batch.put(&family.keyspace, LOW, to.to_be_bytes());
        batch.set_sync(true);
        open.db.write(&batch)?;
        *low = Some(to);
        Ok(())
    }

    /// Deletes the versions that no read at or above the lowest timestamp sees.
    ///
    /// # Errors
    /// Those of Esker's reads and writes.
    pub fn trim(&self, open: &Open, family: &Family) -> Result<()> {
        let Some(low) = self.lowest() else { return Ok(()) };
        let mut rest = self.order.range(None, None);
        while let Some(next) = self.trim_some(open, family, low, rest.clone())? {
            rest.start = Bound::Included(next);
        }
        Ok(())
    }

    /// Does so for the first keys of `range`. Returns what the versions of the next key begin with, if there
    /// is one.
    ///
    /// No write is in progress meanwhile: one to a version that is to be deleted would be lost.
    fn trim_some(
        &self,
        open: &Open,
        family: &Family,
        low: u64,
        range: KeyRange,
    ) -> Result<Option<Vec<u8>>> {
        let _alone = open.without_writes();
        let mut cursor = family.keyspace.cursor(range)?;
        let mut deletes = Deletes::new(open, family);
        let mut versions = 0;
        let mut last: Vec<u8> = Vec::new();
        let mut has_base = false;
        // A version that says deleted goes after the older ones that it hides.
        let mut hiding: Option<Vec<u8>> = None;
        cursor.seek_first()?;
        while let Some((stored, value)) = cursor.current() {
            if let Some((prefix, stamp)) = parts(stored) {
                versions += 1;
                if prefix != last {
                    last = prefix.to_vec();
                    has_base = false;
                    hiding.take().map_or(Ok(()), |stored| deletes.add(&stored))?;
                    if versions > VERSIONS {
                        deletes.write()?;
                        return Ok(Some(last));
                    }
                }
                if has_base {
                    deletes.add(stored)?;
                } else if stamp <= low {
                    has_base = true;
                    // An iterator over all versions since the lowest timestamp shows one that has it.
                    let is_hidden = content(value).is_none() && stamp < low;
                    hiding = is_hidden.then(|| stored.to_vec());
                }
            }
            cursor.next()?;
        }
        hiding.map_or(Ok(()), |stored| deletes.add(&stored))?;
        deletes.write()?;
        Ok(None)
    }
}

/// Deletes the versions after `stamp`, which is one that the program of `family` writes.
///
/// # Errors
/// If the timestamp has another length, and those of Esker's reads and writes.
pub fn trim_newer(open: &Open, family: &Family, stamp: &[u8]) -> Result<()> {
    let Some(stamps) = &family.stamps else { return Ok(()) };
    let last = stamps.order.stamp(stamp)?;
    let mut cursor = family.keyspace.cursor(stamps.order.range(None, None))?;
    let mut deletes = Deletes::new(open, family);
    cursor.seek_first()?;
    while let Some((stored, _)) = cursor.current() {
        if parts(stored).is_some_and(|(_, stamp)| stamp > last) {
            deletes.add(stored)?;
        }
        cursor.next()?;
    }
    deletes.write()
}
