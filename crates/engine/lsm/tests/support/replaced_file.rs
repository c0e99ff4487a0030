//! A file whose bytes are replaced by others.

use esker_base::{FileKind, WriteHint};
use esker_storage::Storage;

/// Replaces the bytes of the file `name`.
pub fn replace(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    storage.remove(name).unwrap();
    let mut file = storage.create(name, WriteHint::of(FileKind::Meta)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}
