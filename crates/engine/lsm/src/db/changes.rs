//! The change feed of a database, and its named consumers.

use super::Db;
use crate::feed::changes::Changes;
use crate::feed::consumer::{self, ChangeConsumer, ChangeConsumerInfo};
use crate::feed::oldest;
use crate::feed::shipping::{LogPieces, keyspace_events};
use esker_base::{Result, Seqno};

impl Db {
    /// Returns the committed changes from the sequence number `from` on: first those that the logs have,
    /// then those that are written from now on.
    ///
    /// A batch that starts before `from` and ends at or after it is yielded whole. Logs are kept for named
    /// consumers only ([`Db::change_consumer`]): otherwise changes that were flushed are gone. A feed that
    /// is slower than the flushes fails then, with the oldest sequence number that is still there.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{ChangeEvent, Db, Operation, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let mut changes = db.changes(1)?;
    /// db.default_keyspace().put("ada", "1815")?;
    /// let Some(ChangeEvent::Batch(batch)) = changes.try_next()? else { panic!("a batch") };
    /// let change = batch.changes().next().expect("a put");
    /// assert_eq!(change.keyspace_name, Some("default"));
    /// assert!(matches!(change.operation, Operation::Put { value: b"1815", .. }));
    /// assert!(changes.try_next()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Changes`](esker_base::Error::Changes) if there was no such write yet, or the database has
    /// no log; [`Error::Closed`](esker_base::Error::Closed) and
    /// [`Error::Forked`](esker_base::Error::Forked) as for every call. That changes are gone shows at the
    /// first [`Changes::try_next`].
    pub fn changes(&self, from: Seqno) -> Result<Changes> {
        consumer::changes(&self.handle.inner, from)
    }

    /// Returns the oldest sequence number that [`Db::changes`] can read now. If there is no write left to
    /// read, it is that of the next write.
    ///
    /// # Errors
    /// [`Error::Closed`](esker_base::Error::Closed) and [`Error::Forked`](esker_base::Error::Forked) as for
    /// every call.
    pub fn oldest_change(&self) -> Result<Seqno> {
        self.usable().map(oldest)
    }

    /// Returns the consumer of changes called `name`, and registers it if there is none.
    ///
    /// A new one starts with the next write. From then on the logs that it needs are kept, also while the
    /// database is closed, up to `bound_bytes` of flushed logs. If more wait for it, the oldest are
    /// let go, and its next read fails with [`ChangesError::Gone`](esker_base::ChangesError::Gone). The
    /// registration is durable when this returns. For an existing consumer it changes the bound.
    ///
    /// The bound counts the bytes written to logs. A log that was not full may use more on disk: up to a
    /// segment.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{ChangeEvent, Db, Settings};
    /// use std::time::Duration;
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let mut mirror = db.change_consumer("mirror", 1 << 30)?;
    /// db.default_keyspace().put("ada", "1815")?;
    /// while let Some(event) = mirror.next(Duration::ZERO)? {
    ///     // ... apply it elsewhere, and then:
    ///     mirror.acknowledge(event.seqno())?;
    /// }
    /// assert_eq!(db.change_consumers()[0].acknowledged, 1);
    /// db.drop_change_consumer("mirror")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`Error::Changes`](esker_base::Error::Changes) if the name is not valid, or the log is in a pool or
    ///   the database has none.
    /// * [`Error::InvalidSetting`](esker_base::Error::InvalidSetting) if the bound is less than a segment.
    /// * [`Error::ReadOnly`](esker_base::Error::ReadOnly) if there is no such consumer and the database is
    ///   read-only; [`Error::Io`](esker_base::Error::Io) if the manifest cannot be written.
    pub fn change_consumer(&self, name: &str, bound_bytes: u64) -> Result<ChangeConsumer> {
        self.usable()?;
        consumer::register(&self.handle.inner, name, bound_bytes)
    }

    /// Returns the consumer of changes called `name`, as [`Db::change_consumer`] does. If it has acknowledged writes that
    /// the database lost since, such as in a repair, it is registered anew after the last write.
    ///
    /// This is for copies that compare histories by other means.
    ///
    /// # Errors
    /// The errors of [`Db::change_consumer`].
    pub fn change_consumer_or_anew(&self, name: &str, bound_bytes: u64) -> Result<ChangeConsumer> {
        self.usable()?;
        consumer::register_or_anew(&self.handle.inner, name, bound_bytes)
    }

    /// Returns the consumer of changes called `name`, which is registered.
    ///
    /// # Errors
    /// [`ChangesError::UnknownConsumer`](esker_base::ChangesError::UnknownConsumer) if there is none.
    pub fn open_change_consumer(&self, name: &str) -> Result<ChangeConsumer> {
        consumer::open(&self.handle.inner, name)
    }

    /// Drops the consumer of changes called `name`, and lets go of the logs that only it needed.
    ///
    /// # Errors
    /// [`ChangesError::UnknownConsumer`](esker_base::ChangesError::UnknownConsumer) if there is none;
    /// [`Error::ReadOnly`](esker_base::Error::ReadOnly) and [`Error::Io`](esker_base::Error::Io) if the
    /// manifest cannot be written.
    pub fn drop_change_consumer(&self, name: &str) -> Result<()> {
        consumer::unregister(&self.handle.inner, name)
    }

    /// Returns the named consumers of changes, by name. Empty once the database is closed, and in a forked
    /// child.
    pub fn change_consumers(&self) -> Vec<ChangeConsumerInfo> {
        self.usable().map(consumer::list).unwrap_or_default()
    }

    /// Returns the pieces of the log from the sequence number `from` on, with which a batch starts, that
    /// survive a power loss.
    ///
    /// This is for copies that are kept elsewhere, such as backups: [`Db::changes`] yields batches.
    ///
    /// # Errors
    /// The errors of [`Db::changes`].
    pub fn log_pieces(&self, from: Seqno) -> Result<LogPieces> {
        LogPieces::new(self.handle.inner.clone(), from)
    }

    /// Returns the keyspaces that were created and dropped after the writes up to `after`, encoded for
    /// [`LogSegments::add_events`](crate::LogSegments::add_events); and the sequence number from where on all of them are known.
    ///
    /// # Errors
    /// [`Error::Closed`](esker_base::Error::Closed) and [`Error::Forked`](esker_base::Error::Forked) as for
    /// every call.
    pub fn keyspace_events(&self, after: Seqno) -> Result<(Vec<u8>, Seqno)> {
        Ok(keyspace_events(self.usable()?, after))
    }

    /// Returns the identity of the database: a random number that it got when it was created.
    pub fn identity(&self) -> u64 {
        self.inner().tree.installer.identity()
    }
}
