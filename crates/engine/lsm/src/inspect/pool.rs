//! Where the logs are stored, and which database owns them: with the tables, in a directory of their
//! own, or in a pool.
//!
//! A dump reads a pool concurrently with its writer. A check locks it, and a repair opens it for
//! writing. The state words of a pool may be damaged. Then the segment header in an extent says what
//! the extent is, and the manifest whether it is still in use.

use super::Inspector;
use super::inspected_pool::InspectedPool;
use crate::log::pmem_wal;
use crate::log::pmem_wal::PmemWalFs;
use crate::log::wal_files;
use crate::log::wal_reader::WalSource;
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::unlisted_files::location_check;
use crate::recovery::unlisted_files::orphan_logs;
use esker_base::{Error, Result, Threads};
use esker_memtable::{SEGMENT_HEADER_BYTES, SegmentHeader};
use esker_pmem::pool::PoolRepair;
use esker_pmem::{Accept, Domain, Pool};
use esker_storage::Storage;
use std::path::Path;
use std::sync::Arc;

impl Inspector {
    /// Returns an inspector of the database in `dir`, with its logs in the pool `pool`.
    ///
    /// `emulated` accepts DRAM instead of persistent memory. A call of the inspector opens the pool
    /// when it needs it.
    ///
    /// # Errors
    /// * [`Error::NotADatabase`] if `dir` is missing.
    /// * [`Error::PoolRefused`] if the pool is in DRAM and `emulated` is false.
    /// * [`Error::PoolDamaged`] if the header of the pool is damaged.
    pub fn open_with_pool(dir: impl AsRef<Path>, pool: &Path, emulated: bool) -> Result<Self> {
        let accept = if emulated { Accept::Emulated } else { Accept::Persistent };
        let inspector = Inspector::open(dir, None)?;
        inspector.with_pool_file(pool, accept, PoolRepair::Beside)
    }

    /// Returns an inspector of the database in `storage`, with its logs in `pool`, which no other
    /// handle uses.
    pub fn of_pool(storage: Arc<dyn Storage>, pool: Arc<Pool>) -> Self {
        let log_storage = Arc::new(PmemWalFs(pool.clone()));
        let pool = InspectedPool { pool, problems: Vec::new(), file: None };
        Inspector { storage, log_storage, pool: Some(pool) }
    }

    fn with_pool_file(&self, path: &Path, accept: Accept, how: PoolRepair) -> Result<Self> {
        let opened = Pool::inspect(path, accept, how);
        let (pool, problems) = opened
            .map_err(|error| location_check::explain_missing_pool(error, path, &self.storage))?;
        let log_storage = Arc::new(PmemWalFs(pool.clone()));
        let pool = InspectedPool { pool, problems, file: Some((path.to_owned(), accept)) };
        Ok(Inspector { storage: self.storage.clone(), log_storage, pool: Some(pool) })
    }

    /// The same with the pool, if there is one, opened as `how` says.
    pub(super) fn with_pool_opened(&self, how: PoolRepair) -> Result<Self> {
        match &self.pool {
            Some(InspectedPool { file: Some((path, accept)), .. }) => {
                self.with_pool_file(path, *accept, how)
            }
            _ => Ok(self.clone()),
        }
    }

    /// Fails if the logs have a place of their own that does not belong to the database `identity`.
    pub(super) fn check_log_directory(&self, identity: u64) -> Result<()> {
        match &self.pool {
            Some(InspectedPool { pool, .. }) if pool.presume_owner(identity) => Ok(()),
            Some(InspectedPool { pool, .. }) => pmem_wal::check_claim(pool, identity),
            None if self.is_one_storage() => Ok(()),
            None => wal_files::check_claim(&*self.log_storage, identity),
        }
    }

    /// The database that the place of the logs says it belongs to, if it has one of its own.
    pub(super) fn owner_of_logs(&self) -> Option<u64> {
        match &self.pool {
            Some(InspectedPool { pool, .. }) => pool.owner(),
            None if self.is_one_storage() => None,
            None => wal_files::owner(&*self.log_storage),
        }
    }

    /// Decides what the extents are whose state words are corrupt. One whose segment the manifest lists
    /// holds that segment; and so does one whose segment is younger than the manifest, or, if the manifest
    /// is not `whole`, may have been in an edit that is lost. Any other is free.
    ///
    /// Fails if one holds a segment of a newer format: this program does not know whether that counts.
    pub(super) fn presume_states(&self, state: &ManifestState, whole: bool) -> Result<()> {
        let Some(InspectedPool { pool, .. }) = &self.pool else { return Ok(()) };
        for index in pool.unknown() {
            let counts = |epoch: &u32| {
                let listed = state.logs.contains_key(epoch);
                let used = pool.used().contains(epoch);
                !used && (listed || !whole || u64::from(*epoch) >= state.next_file)
            };
            pool.presume(index, segment_in(pool, index)?.filter(counts));
        }
        Ok(())
    }

    /// Returns the persistence domain of the pool, or `None` if the logs are not in a pool.
    pub fn pool_domain(&self) -> Option<Domain> {
        self.pool.as_ref().map(|inspected| inspected.pool.domain())
    }

    /// What the pool says of itself that is corrupt, for people.
    pub(super) fn pool_problems(&self) -> Vec<String> {
        let problems = self.pool.iter().flat_map(|inspected| &inspected.problems);
        let text = |problem: &Error| match problem {
            Error::PoolDamaged { offset, what, .. } => format!("at offset {offset}: {what}"),
            other => other.to_string(),
        };
        problems.map(text).collect()
    }

    /// Has the pool say what was presumed of it, if anything of it is corrupt.
    pub(super) fn mend_pool(&self) -> Result<()> {
        match &self.pool {
            Some(InspectedPool { pool, problems, .. }) if !problems.is_empty() => {
                pool.write_presumed()
            }
            _ => Ok(()),
        }
    }

    /// Fails if a log is younger than the manifest, no edit of which is lost.
    pub(super) fn check_age(&self, state: &ManifestState) -> Result<()> {
        let dir = self.storage.describe();
        if self.is_one_storage() {
            // Such a log shows that the manifest has lost edits: see `unlisted_files`.
            return Ok(());
        }
        orphan_logs::check_age(&self.log_source(), self.pool.is_some(), state, &dir)?;
        orphan_logs::check_age(&self.tables_source(), false, state, &dir)
    }

    /// Fails if a log is next to the tables while another place was named. If the manifest is not
    /// `whole`, that may be one that it does not list.
    pub(super) fn check_logs_place(&self, state: &ManifestState, whole: bool) -> Result<()> {
        if self.is_one_storage() {
            return Ok(());
        }
        let (logs, is_pool) = (&*self.log_storage, self.pool.is_some());
        location_check::check(&*self.storage, logs, is_pool, state)?;
        if !whole {
            location_check::check_unlisted(&self.tables_source(), logs, is_pool, state)?;
        }
        Ok(())
    }

    /// The lock of the log directory, if it is another.
    pub(super) fn lock_logs(&self) -> Result<Option<Box<dyn Send + Sync>>> {
        if self.is_one_storage() { Ok(None) } else { self.log_storage.lock().map(Some) }
    }

    /// Logs in a pool are copied, too: nothing here goes on with them.
    pub(super) fn log_source(&self) -> WalSource<'_> {
        WalSource { storage: &*self.log_storage, pool: None, background: &Threads }
    }

    /// Logs next to the tables.
    pub(super) fn tables_source(&self) -> WalSource<'_> {
        WalSource { storage: &*self.storage, ..self.log_source() }
    }

    /// The logs where they are, to be made durable.
    pub(super) fn log_places(&self) -> WalSource<'_> {
        let pool = self.pool.as_ref().map(|inspected| &inspected.pool);
        WalSource { pool, ..self.log_source() }
    }

    pub(super) fn is_one_storage(&self) -> bool {
        Arc::ptr_eq(&self.storage, &self.log_storage)
    }
}

/// The segment whose header an extent starts with, if it starts with one. Fails if the segment is of a
/// newer format: it is no less in use for that.
fn segment_in(pool: &Arc<Pool>, index: u32) -> Result<Option<u32>> {
    let extent = pool.look_into(index);
    let mut header = [0; SEGMENT_HEADER_BYTES];
    extent.read(0, &mut header)?;
    let name = format!("{}, extent {index}", pool.describe());
    match SegmentHeader::decode(&header, &name) {
        Ok(header) => Ok((header.capacity == extent.len() as u64).then_some(header.epoch)),
        Err(error) if error.is_corruption() => Ok(None),
        Err(error) => Err(error),
    }
}
