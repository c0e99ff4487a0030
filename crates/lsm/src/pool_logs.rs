//! Logs that lie in a pool of persistent memory.
//!
//! There the log *is* the MemTable: a segment lies in an extent of the pool, its frames are durable
//! where they are, and nothing is written twice. What a name, a file and its removal are to
//! [`crate::log_files`], an epoch, an extent and its release are here. [`PoolStorage`] shows the
//! extents as log files, so that whoever only reads logs (recovery of a read-only open, `check`,
//! `dump-log`) or removes strays need not know the difference.

use crate::log_files::{log_file_name, parse_log_file_name};
use esker_base::{Error, Hint, Result};
use esker_memtable::SegmentHeader;
use esker_pmem::{Extent, Pool};
use esker_storage::{LogFile, ReadableFile, Storage, WritableFile};
use std::sync::Arc;

/// Frames in persistent memory start at multiples of a cache line, so that each is flushed by itself.
const POOL_ALIGNMENT: u32 = 64;

/// The header of the segment `epoch` in an extent of `pool`.
pub(crate) fn header_in(pool: &Pool, epoch: u32) -> SegmentHeader {
    let capacity = pool.extent_bytes() as u64;
    SegmentHeader { epoch, capacity, alignment: POOL_ALIGNMENT, key_id: 0 }
}

/// An extent for the segment that `header` describes, both durable.
pub(crate) fn acquire(pool: &Arc<Pool>, header: &SegmentHeader) -> Result<Extent> {
    pool.acquire(header.epoch, &header.encode())?.ok_or_else(|| Error::PoolRefused {
        pool: pool.describe(),
        reason:
            "all its extents hold writes that are not in tables yet; writers wait for the flush"
                .into(),
    })
}

/// Gives `pool` to the database `identity`, unless it belongs to it already. A database that has logs
/// has had the pool that they are in.
pub(crate) fn claim(pool: &Pool, identity: u64, has_logs: bool) -> Result<()> {
    let refused = |reason: String| Error::PoolRefused { pool: pool.describe(), reason };
    match pool.owner() {
        Some(owner) if owner == identity => Ok(()),
        Some(owner) => Err(refused(format!(
            "it belongs to another database ({owner:016x}, and this one is {identity:016x}); give each \
             database a pool of its own"
        ))),
        None if has_logs => Err(refused(
            "this database has writes in a log, and they are not here; open it with the pool, or the \
             log directory, that they lie in, close it, and then give another"
                .into(),
        )),
        None if !pool.used().is_empty() => Err(refused(
            "it holds log segments, and does not say of which database; use another pool".into(),
        )),
        None => pool.claim(identity),
    }
}

/// Fails unless `pool` belongs to the database `identity`.
pub(crate) fn check_claim(pool: &Pool, identity: u64) -> Result<()> {
    let reason = match pool.owner() {
        Some(owner) if owner == identity => return Ok(()),
        Some(_) => "it belongs to another database",
        None => "it belongs to no database; if this one's logs are files, leave --pool out",
    };
    Err(Error::PoolRefused { pool: pool.describe(), reason: reason.into() })
}

/// Fails unless `pool` is free to be a new database's.
pub(crate) fn check_unclaimed(pool: &Pool) -> Result<()> {
    let reason = if pool.owner().is_some() {
        "it belongs to another database; give each database a pool of its own"
    } else if !pool.used().is_empty() {
        "it holds log segments, and does not say of which database; use another pool"
    } else {
        return Ok(());
    };
    Err(Error::PoolRefused { pool: pool.describe(), reason: reason.into() })
}

/// The extents of a pool as log files that can be read and removed.
pub(crate) struct PoolStorage(pub(crate) Arc<Pool>);

impl PoolStorage {
    fn unsupported<T>(&self, what: &str) -> Result<T> {
        let reason = format!("{what} is not for a pool: it holds log segments only");
        Err(Error::PoolRefused { pool: self.0.describe(), reason })
    }

    fn epoch_of(&self, name: &str) -> Option<u32> {
        parse_log_file_name(name).filter(|epoch| self.0.used().contains(epoch))
    }
}

impl Storage for PoolStorage {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn create(&self, _name: &str, _hint: Hint) -> Result<Box<dyn WritableFile>> {
        self.unsupported("a new file")
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let extent = self.epoch_of(name).and_then(|epoch| self.0.extent(epoch));
        match extent {
            Some(extent) => {
                let name = format!("{}, log {}", self.0.describe(), extent.epoch());
                Ok(Arc::new(ExtentFile { extent, name }))
            }
            None => self.unsupported("another file"),
        }
    }

    fn create_log(&self, _name: &str, _bytes: u64) -> Result<Arc<dyn LogFile>> {
        self.unsupported("a log file")
    }

    fn recycle_log(&self, _: &str, _: &str, _: u64) -> Result<Option<Arc<dyn LogFile>>> {
        Ok(None)
    }

    fn open_log(&self, _name: &str) -> Result<Arc<dyn LogFile>> {
        self.unsupported("a log file")
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.0.used().into_iter().map(log_file_name).collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.epoch_of(name).is_some())
    }

    fn remove(&self, name: &str) -> Result<()> {
        match parse_log_file_name(name) {
            Some(epoch) => self.0.release(epoch),
            None => Ok(()),
        }
    }

    fn rename(&self, _from: &str, _to: &str) -> Result<()> {
        self.unsupported("a new name")
    }

    fn sync_names(&self) -> Result<()> {
        // An extent's state is durable before the call that changes it returns.
        Ok(())
    }

    fn link_to(&self, _name: &str, _target: &dyn Storage) -> Result<()> {
        self.unsupported("a link")
    }

    fn lock(&self) -> Result<Box<dyn Send + Sync>> {
        // Whoever has the pool open for writing has it locked.
        Ok(Box::new(()))
    }
}

/// An extent, read as a file.
struct ExtentFile {
    extent: Extent,
    name: String,
}

impl ReadableFile for ExtentFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > self.extent.len() as u64) {
            return Err(Error::corruption(&self.name, offset, "the extent ends before"));
        }
        self.extent.read(offset as usize, out);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.extent.len() as u64)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
