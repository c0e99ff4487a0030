//! The writes since a sequence number, as batches: `rocksdb_get_updates_since`.

use crate::batch::wire::{Record, Wire};
use crate::border::{ErrorOut, Handle, Out, Result, Status, c_api};
use crate::database::{Database, Open};
use crate::knobs::Knobs;
use crate::stamps::{Order, content, parts};
use esker::changes::{ChangeBatch, ChangeEvent, Changes, Operation};
use std::ffi::c_uchar;
use std::sync::Arc;

/// RocksDB's `rocksdb_wal_iterator_t`.
pub struct WalIter {
    open: Arc<Open>,
    changes: Changes,
    current: Option<ChangeBatch>,
    status: Option<Status>,
}

impl WalIter {
    fn new(open: &Arc<Open>, changes: Changes) -> Result<WalIter> {
        let mut iter = WalIter { open: open.clone(), changes, current: None, status: None };
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
fn wire_of(open: &Open, changes: &ChangeBatch) -> Wire {
    let mut wire = Wire::default();
    wire.set_seqno(changes.first_seqno());
    for change in changes.changes() {
        let family = change.keyspace.0;
        let opened = open.family(family).ok();
        if let Some(stamps) = opened.as_ref().and_then(|family| family.stamps.as_ref()) {
            push_version(&mut wire, family, stamps.order, &change.operation);
            continue;
        }
        match &change.operation {
            Operation::Put { key, value } | Operation::PutExpiring { key, value, .. } => {
                wire.push(family, Record::Put(key, value));
            }
            Operation::Delete { key } => wire.push(family, Record::Delete(key)),
            Operation::Merge { key, operand } => wire.push(family, Record::Merge(key, operand)),
            Operation::DeleteRange { start, end } => {
                let direction = opened.map(|family| family.direction).unwrap_or_default();
                let deleted = direction.deleted(start, end.as_deref());
                wire.push(family, Record::DeleteRange(&deleted.start, &deleted.end));
                if let Some(last) = &deleted.last {
                    wire.push(family, Record::Delete(last));
                }
            }
            _ => {}
        }
    }
    wire
}

/// Adds a write of a family with timestamps. What trims its history is no write of the program.
fn push_version(wire: &mut Wire, family: u32, order: Order, operation: &Operation) {
    let Operation::Put { key, value } = operation else { return };
    let Some((prefix, stamp)) = parts(key) else { return };
    let key = order.with_stamp(&order.key(prefix), stamp);
    let record = content(value).map_or(Record::Delete(&key), |value| Record::Put(&key, value));
    wire.push_stamped(family, record);
}

c_api! {
    /// Fails if the log with the first of the writes is gone. `WAL_ttl_seconds` and `WAL_size_limit_MB`
    /// keep logs after a flush.
    try fn rocksdb_get_updates_since(
        db: Handle<Database>,
        seqno: u64,
        _options: Handle<Knobs>,
    ) -> Handle<WalIter> {
        let open = &db.get().open;
        Ok(Handle::new(WalIter::new(open, open.db.changes(seqno)?)?))
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
        let iter = iter.get();
        let current = iter.current.as_ref();
        seqno.set(current.map_or(0, ChangeBatch::first_seqno));
        Handle::new(current.map(|batch| wire_of(&iter.open, batch)).unwrap_or_default())
    }

    fn rocksdb_wal_iter_destroy(iter: Handle<WalIter>) {
        drop(iter.take());
    }
}
