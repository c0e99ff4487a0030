//! Files of version 1, which are read permanently.

use crate::{Seeded, keys};
use esker_base::{FileKind, Rng, WriteHint};
use esker_encryption::EncryptedStorage;
use esker_storage::{MemoryStorage, ReadableFile, Storage};
use std::path::Path;
use std::sync::Arc;

fn over(memory: &MemoryStorage) -> EncryptedStorage {
    let salts = Arc::new(Seeded(parking_lot::Mutex::new(Rng::new(7))));
    EncryptedStorage::new(Arc::new(memory.clone()), keys(&[1]).entropy(salts))
}

fn bytes(file: &dyn ReadableFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

/// What the files hold.
fn content() -> Vec<u8> {
    (0..5000u32).map(|at| (at % 251) as u8).collect()
}

fn write(storage: &dyn Storage) {
    for (name, kind) in [("table", FileKind::Table), ("manifest", FileKind::Manifest)] {
        let mut file = storage.create(name, WriteHint::of(kind)).unwrap();
        for part in content().chunks(2100) {
            file.append(part).unwrap();
            if kind == FileKind::Manifest {
                file.sync().unwrap();
            }
        }
        file.sync().unwrap();
    }
    let log = storage.create_log("log", 5400).unwrap();
    for (at, part) in (0..).zip(content().chunks(1000)) {
        log.write_at(at * 1000, part).unwrap();
    }
}

/// `ESKER_REWRITE=1` writes files that are missing. It never changes one.
#[test]
fn files_of_version_1_are_read_permanently() {
    let memory = MemoryStorage::new();
    write(&over(&memory));
    for name in ["table", "manifest", "log"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let golden = dir.join(format!("version_1.{name}"));
        let written = bytes(&*memory.open(name).unwrap());
        if std::env::var_os("ESKER_REWRITE").is_some() && !golden.exists() {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(&golden, &written).unwrap();
        }
        let kept = std::fs::read(&golden).unwrap();
        assert!(kept == written, "{name}: other bytes are written");
        let old = MemoryStorage::new();
        old.create(name, WriteHint::of(FileKind::Meta)).unwrap().append(&kept).unwrap();
        let read = bytes(&*over(&old).open(name).unwrap());
        assert!(read[..5000] == content() && read[5000..].iter().all(|&byte| byte == 0), "{name}");
        assert_eq!(read.len(), if name == "log" { 5400 } else { 5000 });
    }
}
