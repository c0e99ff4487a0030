//! Encrypted files, and databases of them.

mod backups;
mod files;
mod followers;
mod golden;
mod keys;
mod logs;
mod nonces;
mod power_loss;
mod readable;
mod spy;

use esker_base::{Entropy, Result, Rng};
use esker_encryption::{EncryptedStorage, Key, Keys};
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use esker_storage::Storage;
use parking_lot::Mutex;
use std::sync::Arc;

/// Salts that follow from a seed.
struct Seeded(Mutex<Rng>);

impl Entropy for Seeded {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        self.0.lock().fill(out);
        Ok(())
    }
}

/// Keys of these numbers, the current one first.
fn keys(numbers: &[u8]) -> Keys {
    Keys::new(numbers.iter().map(|&number| Key::new([number; 32]))).unwrap()
}

fn over(storage: impl Storage) -> EncryptedStorage {
    EncryptedStorage::new(Arc::new(storage), keys(&[1]))
}

fn small() -> Settings {
    let log = Log::File { dir: None, sync: SyncPolicy::Always };
    Settings::default().log(log).segment_bytes(64 << 10).memory_bytes(8 << 20)
}

/// Writes entries that differ by `round` into the keyspace `rows`.
fn write(db: &Db, round: u64) {
    let rows = db.keyspace("rows", Default::default()).unwrap();
    for number in 0..300 {
        rows.put(format!("{number:05}"), format!("{round} {number} {}", "x".repeat(100))).unwrap();
    }
}

/// Checks that the database has what [`write`] wrote last.
#[track_caller]
fn expect(db: &Db, round: u64) {
    let rows = db.open_keyspace("rows").unwrap();
    for number in 0..300 {
        let found = rows.get(format!("{number:05}")).unwrap().unwrap();
        assert_eq!(found, format!("{round} {number} {}", "x".repeat(100)).as_bytes());
    }
}
