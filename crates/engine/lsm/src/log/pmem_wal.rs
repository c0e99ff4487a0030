//! Logs in a pool of persistent memory.
//!
//! There the log *is* the MemTable: a segment is an extent of the pool, its frames are durable in
//! place, and nothing is written twice. An epoch, an extent and its release correspond to the name,
//! the file and its removal in [`crate::log::wal_files`]. [`PmemWalFs`] presents the extents as
//! log files. So code that only reads logs (recovery of a read-only open, `check`, `dump-frames`)
//! or removes unlisted files need not distinguish the two.

use super::IF_LOST;
use super::wal_files::{log_file_name, parse_log_file_name};
use esker_base::{Error, Result, WriteHint};
use esker_memtable::{GROUPS, SegmentHeader};
use esker_pmem::{Extent, Pool};
use esker_storage::{LogFile, ReadableFile, Storage, WritableFile};
use std::sync::Arc;

/// Frames in persistent memory start at multiples of a cache line, so that each is flushed by itself.
pub(crate) const POOL_ALIGNMENT: u32 = 64;

/// The header of the segment `epoch`, whose salt is `salt`, in an extent of `pool`.
pub(crate) fn header_in(pool: &Pool, epoch: u32, salt: u64) -> SegmentHeader {
    let capacity = pool.extent_bytes() as u64;
    SegmentHeader { epoch, capacity, alignment: POOL_ALIGNMENT, key_id: 0, salt, flags: GROUPS }
}

/// An extent for the segment that `header` describes, both durable.
pub(crate) fn acquire(pool: &Arc<Pool>, header: &SegmentHeader) -> Result<Extent> {
    pool.acquire(header.epoch, &header.encode())?.ok_or_else(|| {
        let reason =
            "all its extents hold writes that are not in tables yet; writers wait for the flush";
        refused(pool, reason.into())
    })
}

/// Gives `pool` to the database `identity`, unless it belongs to it already. A database that has logs
/// has had the pool that they are in.
pub(crate) fn claim(pool: &Pool, identity: u64, has_logs: bool) -> Result<()> {
    if pool.belongs_to(identity)? {
        return Ok(());
    }
    check_unclaimed(pool)?;
    if has_logs {
        return Err(refused(
            pool,
            format!(
                "this database has writes in a log, and they are not here; open it with the pool, or \
                 the log directory, that they are in, close it, and then give another; {IF_LOST}"
            ),
        ));
    }
    pool.claim(identity)
}

/// Fails unless `pool` belongs to the database `identity`.
pub(crate) fn check_claim(pool: &Pool, identity: u64) -> Result<()> {
    if pool.belongs_to(identity)? {
        return Ok(());
    }
    let reason = "it belongs to no database; if this one's logs are files, leave --pool out";
    Err(refused(pool, reason.into()))
}

/// Fails unless `pool` is free to be a database's that has none.
pub(crate) fn check_unclaimed(pool: &Pool) -> Result<()> {
    let reason = if pool.owner().is_some() {
        "it belongs to another database; give each database a pool of its own. If that database was \
         deleted, remove this file and make a new pool with `esker pmem create`"
    } else if !pool.used().is_empty() {
        "it holds log segments, and does not say of which database; use another pool"
    } else {
        return Ok(());
    };
    Err(refused(pool, reason.into()))
}

fn refused(pool: &Pool, reason: String) -> Error {
    Error::PoolRefused { pool: pool.describe(), reason }
}

/// What to call the log `epoch` of a pool in messages: an extent has no path.
pub(crate) fn log_in(pool: &Pool, epoch: u32) -> String {
    format!("{}, log {epoch}", pool.describe())
}

/// The extents of a pool as log files that can be read and removed.
pub(crate) struct PmemWalFs(pub(crate) Arc<Pool>);

impl PmemWalFs {
    fn unsupported<T>(&self, what: &str) -> Result<T> {
        Err(refused(&self.0, format!("{what} is not for a pool: it holds log segments only")))
    }

    /// Now: a writer may have released it since the pool was opened to inspect.
    fn epoch_of(&self, name: &str) -> Option<u32> {
        parse_log_file_name(name).filter(|&epoch| self.0.holds(epoch))
    }
}

impl Storage for PmemWalFs {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn path_of(&self, name: &str) -> String {
        match parse_log_file_name(name) {
            Some(epoch) => log_in(&self.0, epoch),
            None => format!("{}, {name}", self.0.describe()),
        }
    }

    fn create(&self, _name: &str, _hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        self.unsupported("a new file")
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let Some(epoch) = parse_log_file_name(name) else {
            return self.unsupported("another file");
        };
        let extent = self.epoch_of(name).and_then(|epoch| self.0.extent(epoch));
        let extent = extent.ok_or_else(|| {
            let reason =
                "is not in it any more, for its writes are in tables; or it is in use already";
            refused(&self.0, format!("log {epoch} {reason}"))
        })?;
        Ok(Arc::new(ExtentFile { extent, name: log_in(&self.0, epoch) }))
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
        // Whoever has the pool open for writing, or alone, has it locked.
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
        self.extent.read(offset as usize, out)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.extent.len() as u64)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::wal_reader::WalHandle;
    use esker_pmem::Accept;

    /// A pool on tmpfs, in which one log has begun.
    fn pool_with_log_5() -> (tempfile::TempDir, Arc<Pool>) {
        let dir = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
        let pool = Pool::create(dir.path().join("POOL"), 1 << 20, Accept::Emulated).unwrap();
        drop(acquire(&pool, &header_in(&pool, 5, 1)).unwrap());
        (dir, pool)
    }

    #[test]
    fn a_log_of_a_pool_has_one_name_whether_it_is_there_or_not() {
        let (dir, pool) = pool_with_log_5();
        let name = |log: u32| format!("{}/POOL, log {log}", dir.path().display());
        let storage = PmemWalFs(pool);
        assert_eq!(WalHandle::of(&storage, 5).unwrap().path, name(5));
        assert_eq!(storage.open("00000005.log").unwrap().name(), name(5));
        let missing = WalHandle::of(&storage, 6).err().unwrap().to_string();
        assert!(missing.contains(&name(6)) && !missing.contains(".log"), "{missing}");
    }

    #[test]
    fn a_log_that_was_released_is_said_to_be_gone() {
        let (_dir, pool) = pool_with_log_5();
        pool.release(5).unwrap();
        let gone = PmemWalFs(pool).open("00000005.log").err().unwrap().to_string();
        assert!(gone.contains("log 5 is not in it any more"), "{gone}");
    }
}
