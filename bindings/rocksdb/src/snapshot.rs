//! Snapshots, and sequence numbers.

use crate::border::{Handle, c_api};
use crate::database::Database;
use esker::Snapshot;

/// RocksDB's `rocksdb_snapshot_t`: memory that `rocksdb_free` frees too, because programs free the one
/// of a transaction so. Its snapshot is null if the transaction has none.
pub type SnapshotHandle = Handle<Handle<Snapshot>>;

/// The snapshot, if there is one.
pub fn snapshot_of(snapshot: SnapshotHandle) -> Option<Snapshot> {
    snapshot.optional()?.optional().cloned()
}

c_api! {
    fn rocksdb_create_snapshot | rocksdb_transactiondb_create_snapshot(
        db: Handle<Database>,
    ) -> SnapshotHandle {
        Handle::plain(Handle::new(db.get().open.db.snapshot()))
    }

    fn rocksdb_release_snapshot | rocksdb_transactiondb_release_snapshot(
        _db: Handle<Database>,
        snapshot: SnapshotHandle,
    ) {
        if let Some(own) = snapshot.optional() {
            drop(own.take());
            snapshot.free();
        }
    }

    fn rocksdb_snapshot_get_sequence_number(snapshot: SnapshotHandle) -> u64 {
        snapshot.get().optional().map_or(0, |snapshot| snapshot.seqno())
    }

    fn rocksdb_get_latest_sequence_number(db: Handle<Database>) -> u64 {
        db.get().open.last_seqno()
    }
}
