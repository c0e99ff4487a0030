//! Two-phase commit: transactions that are durable before they are decided.

use super::Db;
use super::transaction::Transaction;
use crate::options::settings::KeyspaceSettings;
use crate::reserved::prepared_keyspace;
use esker_base::{Error, KeyspaceId, PreparedError, Result};
use esker_txn::PreparedTransaction;

impl Transaction {
    /// Prepares the transaction under `id`: from then on it is durable, but not decided.
    ///
    /// This is the first phase of a two-phase commit. When it returns, no other transaction
    /// conflicts with this one, and it survives power loss, whatever the sync mode of the log.
    /// Nothing of it is visible. It keeps its locks, over restarts too, until
    /// [`Db::commit_prepared`] or [`Db::rollback_prepared`] decides it. [`Db::prepared`] lists the
    /// transactions that are not decided.
    ///
    /// * The id has 1 to 255 bytes. It is free again once the transaction is decided.
    /// * Plain writes, such as [`Db::put`], do not wait for the locks: the later of such a write and
    ///   the commit remains.
    /// * Unique indexes are checked now, and again at the commit: until then another transaction can
    ///   take a key in them.
    /// * A serializable transaction that reads a key which a prepared serializable transaction
    ///   writes fails with [`Error::Conflict`] until that one is decided.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// # fn main() -> esker_base::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// use esker::{Db, Settings};
    ///
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// let stock = db.default_keyspace();
    /// let mut tx = db.transaction()?;
    /// tx.put(&stock, "apples", "41")?;
    /// tx.prepare("order-7")?;
    /// assert_eq!(stock.get("apples")?, None);
    /// db.close()?;
    ///
    /// // The coordinator decides, also after a restart.
    /// let db = Db::open(dir.path(), Settings::default())?;
    /// assert_eq!(db.prepared()?[0].id, b"order-7");
    /// db.commit_prepared("order-7")?;
    /// assert_eq!(db.default_keyspace().get("apples")?.as_deref(), Some(&b"41"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// * [`PreparedError::IdInUse`] if a transaction is already prepared under `id`.
    /// * [`PreparedError::BadId`] if `id` is empty or too long.
    /// * The errors of [`Transaction::commit`].
    ///
    /// After an error the transaction is rolled back, with one exception: after
    /// [`Error::LogFailed`], the next open may find it prepared.
    pub fn prepare(mut self, id: impl AsRef<[u8]>) -> Result<()> {
        self.prepare_or_keep(id)
    }

    /// Prepares the transaction as [`Transaction::prepare`] does, but keeps it after an error, with its
    /// writes and locks: it can be prepared again, committed or rolled back. Once it is prepared, it has
    /// ended.
    ///
    /// # Errors
    /// The errors of [`Transaction::prepare`]. After [`Error::Conflict`] it can only be rolled back. After
    /// [`Error::LogFailed`] the next open may find it prepared: decide it then, whatever is done with it now.
    pub fn prepare_or_keep(&mut self, id: impl AsRef<[u8]>) -> Result<()> {
        let records = self.inner.store().records_or_create()?;
        self.inner.prepare(id.as_ref(), records)
    }
}

impl Db {
    /// Lists the prepared transactions that are not decided, ordered by id.
    ///
    /// # Errors
    /// The errors of [`Db::transaction`]. Works in a read-only database.
    pub fn prepared(&self) -> Result<Vec<PreparedTransaction>> {
        Ok(self.transactions()?.prepared_transactions())
    }

    /// Commits the transaction that is prepared under `id`: makes its writes visible at once, and
    /// durable, whatever the sync mode of the log.
    ///
    /// Writes to keyspaces that were dropped in the meantime are left out.
    ///
    /// # Errors
    /// [`PreparedError::Unknown`] if there is none; [`Error::Corruption`] if a repair has lost a part of its
    /// record, and then it can only be rolled back; the errors of [`Db::write`], those of indexes
    /// included. After the latter it is still prepared; after [`Error::LogFailed`], the next open
    /// finds it prepared or committed.
    pub fn commit_prepared(&self, id: impl AsRef<[u8]>) -> Result<()> {
        let id = id.as_ref();
        self.transactions()?.commit_prepared(self, id, self.records_of(id)?)
    }

    /// Discards the transaction that is prepared under `id`, durably, and releases its locks.
    ///
    /// # Errors
    /// The errors of [`Db::commit_prepared`].
    pub fn rollback_prepared(&self, id: impl AsRef<[u8]>) -> Result<()> {
        let id = id.as_ref();
        self.transactions()?.rollback_prepared(self, id, self.records_of(id)?)
    }

    /// The keyspace with the records of prepared transactions. `None` if there was never one.
    pub(super) fn records(&self) -> Option<KeyspaceId> {
        let view = self.inner().tree.view.pin();
        view.version.keyspace_named(&prepared_keyspace()).map(|found| found.id)
    }

    fn records_of(&self, id: &[u8]) -> Result<KeyspaceId> {
        let unknown = || PreparedError::Unknown { id: id.escape_ascii().to_string() };
        self.records().ok_or_else(|| Error::Prepared(unknown()))
    }

    fn records_or_create(&self) -> Result<KeyspaceId> {
        self.usable()?;
        if let Some(found) = self.records() {
            return Ok(found);
        }
        self.create_keyspace(&prepared_keyspace(), KeyspaceSettings::default())?;
        Ok(self.records().expect("no user can drop the keyspace"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Env, Settings};
    use esker_api::{Keyspaces, WriteBatch};
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;
    use std::sync::Arc;

    fn open(storage: &Arc<MemoryStorage>) -> Db {
        let env = Env::over(storage.clone()).background(Arc::new(Stepped));
        let settings = Settings::default().segment_bytes(64 << 10).memory_bytes(4 << 20);
        Db::open_with(env, settings).unwrap()
    }

    fn prepare(db: &Db, id: &str, keys: u32) {
        let mut tx = db.transaction().unwrap();
        for key in 0..keys {
            tx.put(&db.default_keyspace(), key.to_be_bytes(), [7; 1000]).unwrap();
        }
        tx.prepare(id).unwrap();
    }

    /// The key of a part of a record.
    fn part(id: &str, part: u32) -> Vec<u8> {
        [&[id.len() as u8], id.as_bytes(), &part.to_be_bytes()].concat()
    }

    fn listed(db: &Db) -> Vec<(Vec<u8>, bool)> {
        db.prepared().unwrap().into_iter().map(|one| (one.id, one.is_damaged)).collect()
    }

    /// A repair may drop a block with a part of a record.
    #[test]
    fn a_transaction_without_a_part_of_its_record_can_only_be_rolled_back() {
        for lost in [0, 1] {
            let storage = Arc::new(MemoryStorage::new());
            let db = open(&storage);
            prepare(&db, "big", 100);
            let records = db.records().unwrap();
            let mut batch = WriteBatch::new();
            batch.delete(records, part("big", lost));
            db.inner().write_own(&batch).unwrap();
            db.close().unwrap();
            let db = open(&storage);
            assert_eq!(listed(&db), [(b"big".to_vec(), true)]);
            let error = db.commit_prepared("big").unwrap_err();
            assert!(error.is_corruption() && error.to_string().contains("big"), "{error}");
            prepare(&db, "other", 1);
            db.commit_prepared("other").unwrap();
            assert_eq!(db.default_keyspace().count(..).unwrap(), 1);
            db.rollback_prepared("big").unwrap();
            db.close().unwrap();
            let db = open(&storage);
            assert!(listed(&db).is_empty());
            let found = Keyspaces::get(&db, records, &part("big", 1 - lost)).unwrap();
            assert!(found.is_none(), "the other part is deleted, too");
        }
    }

    /// A repair may lose the end of a decision, and so bring a transaction back.
    #[test]
    fn of_two_transactions_with_one_key_the_second_waits_for_the_next_open() {
        let storage = Arc::new(MemoryStorage::new());
        let db = open(&storage);
        prepare(&db, "a", 1);
        let records = db.records().unwrap();
        let record = Keyspaces::get(&db, records, &part("a", 0)).unwrap().unwrap();
        db.commit_prepared("a").unwrap();
        prepare(&db, "b", 1);
        let mut batch = WriteBatch::new();
        batch.put(records, part("a", 0), record);
        db.inner().write_own(&batch).unwrap();
        db.close().unwrap();
        let db = open(&storage);
        assert_eq!(listed(&db), [(b"a".to_vec(), false), (b"b".to_vec(), true)]);
        assert!(db.commit_prepared("b").unwrap_err().is_corruption());
        db.rollback_prepared("a").unwrap();
        db.close().unwrap();
        let db = open(&storage);
        assert_eq!(listed(&db), [(b"b".to_vec(), false)]);
        db.commit_prepared("b").unwrap();
    }
}
