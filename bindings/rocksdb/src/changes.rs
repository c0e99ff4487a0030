//! The writes since a sequence number, as batches: `rocksdb_get_updates_since`.

use crate::batch::wire::{Record, Wire};
use crate::border::{ErrorOut, Handle, Out, Result, Status, c_api};
use crate::database::Database;
use crate::knobs::Knobs;
use esker::changes::{ChangeBatch, ChangeEvent, Changes, Operation};
use std::ffi::c_uchar;

/// RocksDB's `rocksdb_wal_iterator_t`.
pub struct WalIter {
    changes: Changes,
    current: Option<ChangeBatch>,
    status: Option<Status>,
}

impl WalIter {
    fn new(changes: Changes) -> Result<WalIter> {
        let mut iter = WalIter { changes, current: None, status: None };
        iter.advance();
        match iter.status.take() {
            Some(status) => Err(status),
            None => Ok(iter),
        }
    }

    /// Goes to the next batch. What bypassed the log has none.
    fn advance(&mut self) {
        self.current = None;
        loop {
            match self.changes.try_next() {
                Ok(Some(ChangeEvent::Batch(batch))) => self.current = Some(batch),
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(error) => self.status = Some(error.into()),
            }
            return;
        }
    }
}

/// The batch in RocksDB's form.
fn wire_of(changes: &ChangeBatch) -> Wire {
    let mut wire = Wire::default();
    wire.set_seqno(changes.first_seqno());
    for change in changes.changes() {
        let family = change.keyspace.0;
        match &change.operation {
            Operation::Put { key, value } | Operation::PutExpiring { key, value, .. } => {
                wire.push(family, Record::Put(key, value));
            }
            Operation::Delete { key } => wire.push(family, Record::Delete(key)),
            Operation::Merge { key, operand } => wire.push(family, Record::Merge(key, operand)),
            Operation::DeleteRange { start, end } => {
                let end = end.as_deref().unwrap_or_default();
                wire.push(family, Record::DeleteRange(start, end));
            }
            _ => {}
        }
    }
    wire
}

c_api! {
    /// Fails if the log with the first of the writes is gone. `WAL_ttl_seconds` and `WAL_size_limit_MB`
    /// keep logs after a flush.
    try fn rocksdb_get_updates_since(
        db: Handle<Database>,
        seqno: u64,
        _options: Handle<Knobs>,
    ) -> Handle<WalIter> {
        Ok(Handle::new(WalIter::new(db.get().open.db.changes(seqno)?)?))
    }

    fn rocksdb_wal_iter_next(iter: Handle<WalIter>) {
        iter.change(WalIter::advance);
    }

    fn rocksdb_wal_iter_valid(iter: Handle<WalIter>) -> c_uchar {
        c_uchar::from(iter.get().current.is_some())
    }

    fn rocksdb_wal_iter_status(iter: Handle<WalIter>, errptr: ErrorOut) {
        if let Some(status) = &iter.get().status {
            errptr.set(status);
        }
    }

    fn rocksdb_wal_iter_get_batch(iter: Handle<WalIter>, seqno: Out<u64>) -> Handle<Wire> {
        let current = iter.get().current.as_ref();
        seqno.set(current.map_or(0, ChangeBatch::first_seqno));
        Handle::new(current.map(wire_of).unwrap_or_default())
    }

    fn rocksdb_wal_iter_destroy(iter: Handle<WalIter>) {
        drop(iter.take());
    }
}
