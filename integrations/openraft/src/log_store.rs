//! The Raft log and the vote.

use crate::codec;
use crate::error::Result as Outcome;
use crate::purge::Hidden;
use crate::shared::{Shared, blocking, meta};
use esker::WriteBatch;
use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{
    Entry, LogId, OptionalSend, RaftLogReader, RaftTypeConfig, StorageError, StorageIOError, Vote,
};
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The Raft log and the vote in keyspaces of the database. Clones read the same log.
pub struct LogStore<C> {
    shared: Arc<Shared>,
    config: PhantomData<C>,
}

/// Where a reader for replication stops, in encoded bytes, so that one message stays of a size that
/// can be sent and kept in memory.
const READ_BYTES: usize = 4 << 20;

/// An append is written in batches of about so many bytes, far below what a batch may have.
const BATCH_BYTES: usize = 4 << 20;

impl<C> Clone for LogStore<C> {
    fn clone(&self) -> Self {
        LogStore::new(self.shared.clone())
    }
}

impl<C> LogStore<C> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        LogStore { shared, config: PhantomData }
    }
}

impl<C: RaftTypeConfig<Entry = Entry<C>>> LogStore<C> {
    /// Entries in `range`, the first ones of about `max_bytes`, and one at least.
    async fn read(
        &self,
        range: (Bound<u64>, Bound<u64>),
        max_bytes: usize,
    ) -> Outcome<Vec<Entry<C>>> {
        let shared = self.shared.clone();
        blocking(move || {
            let first = match range.0 {
                Bound::Included(index) => index,
                Bound::Excluded(index) => index.saturating_add(1),
                Bound::Unbounded => 0,
            };
            let first = first.max(shared.purges.first_visible());
            let keys = (Bound::Included(codec::key(first)), range.1.map(codec::key));
            let mut bytes = 0;
            let mut entries = Vec::new();
            for entry in shared.log.range(keys) {
                let (_, value) = entry?;
                bytes += value.len();
                if bytes > max_bytes && !entries.is_empty() {
                    break;
                }
                entries.push(codec::decode(&value)?);
            }
            Ok(entries)
        })
        .await
    }

    /// See [`RaftLogStorage::purge`].
    fn purge_through(shared: &Shared, through: &LogId<C::NodeId>) -> Outcome<()> {
        let index = through.index;
        let mut left = shared.purges.lock();
        let applied: Option<LogId<C::NodeId>> = shared.get(meta::APPLIED)?;
        if applied.is_some_and(|applied| applied.index >= index) {
            let mut batch = WriteBatch::new();
            shared.delete_through(&mut batch, through)?;
            shared.db.write(&batch)?;
            shared.purges.purged(&mut left, index);
            return Ok(());
        }
        let entry = shared.log.get(codec::key(index))?;
        let entry: Option<Entry<C>> = entry.map(|value| codec::decode(&value)).transpose()?;
        let leaves_gap = entry.is_none_or(|entry| entry.log_id != *through);
        left.hidden = Some(Hidden { index, log_id: codec::encode(through)?, leaves_gap });
        Ok(())
    }
}

impl<C: RaftTypeConfig<Entry = Entry<C>>> RaftLogReader<C> for LogStore<C> {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry<C>>, StorageError<C::NodeId>> {
        let range = (range.start_bound().cloned(), range.end_bound().cloned());
        self.read(range, usize::MAX).await.map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry<C>>, StorageError<C::NodeId>> {
        let range = (Bound::Included(start), Bound::Excluded(end));
        self.read(range, READ_BYTES).await.map_err(|error| StorageIOError::read_logs(&error).into())
    }
}

impl<C: RaftTypeConfig<Entry = Entry<C>>> RaftLogStorage<C> for LogStore<C> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<C>, StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let state = blocking(move || {
            let hidden = shared.purges.lock().hidden.clone();
            let last_purged_log_id: Option<LogId<C::NodeId>> = match &hidden {
                Some(hidden) => Some(codec::decode(&hidden.log_id)?),
                None => shared.get(meta::PURGED)?,
            };
            let last = shared.log.last()?;
            let last = last.map(|(_, value)| codec::decode::<Entry<C>>(&value)).transpose()?;
            let last = last.map(|entry| entry.log_id);
            let is_visible = |last: &LogId<_>| hidden.is_none_or(|it| it.index < last.index);
            let last_log_id = last.filter(is_visible).or_else(|| last_purged_log_id.clone());
            Ok(LogState { last_purged_log_id, last_log_id })
        });
        state.await.map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let (shared, vote) = (self.shared.clone(), vote.clone());
        let saved = blocking(move || shared.put(meta::VOTE, &vote, true)).await;
        saved.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<C::NodeId>>, StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let vote = blocking(move || shared.get(meta::VOTE)).await;
        vote.map_err(|error| StorageIOError::read_vote(&error).into())
    }

    async fn save_committed(
        &mut self,
        committed: Option<LogId<C::NodeId>>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        // Without a sync: only how much is applied at a start depends on it.
        let saved = blocking(move || shared.put(meta::COMMITTED, &committed, false)).await;
        saved.map_err(|error| StorageIOError::write(&error).into())
    }

    async fn read_committed(
        &mut self,
    ) -> Result<Option<LogId<C::NodeId>>, StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let committed = blocking(move || {
            let committed: Option<Option<LogId<C::NodeId>>> = shared.get(meta::COMMITTED)?;
            // What is applied is committed, also if an install has applied it.
            Ok(committed.flatten().max(shared.get(meta::APPLIED)?))
        });
        committed.await.map_err(|error| StorageIOError::read(&error).into())
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: LogFlushed<C>,
    ) -> Result<(), StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = Entry<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let shared = self.shared.clone();
        let written = blocking(move || {
            shared.purges.wait_for_no_gap()?;
            let mut batch = WriteBatch::new();
            for entry in entries {
                batch.put(&shared.log, codec::key(entry.log_id.index), codec::encode(&entry)?);
                if batch.encoded().len() > BATCH_BYTES {
                    // The last batch syncs this one, too.
                    shared.db.write(&std::mem::take(&mut batch))?;
                }
            }
            batch.set_sync(true);
            Ok(shared.db.write(&batch)?)
        })
        .await;
        let failed = written.as_ref().err().map(StorageIOError::write_logs);
        callback.log_io_completed(written.map_err(io::Error::other));
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    async fn truncate(&mut self, from: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let deleted = blocking(move || {
            let mut batch = WriteBatch::new();
            batch.delete_range(&shared.log, codec::key(from.index)..);
            Ok(shared.db.write(&batch)?)
        });
        deleted.await.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn purge(&mut self, through: LogId<C::NodeId>) -> Result<(), StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let purged = blocking(move || Self::purge_through(&shared, &through));
        purged.await.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}
