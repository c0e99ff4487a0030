//! Copying a file from one storage to another, where its bytes can't be shared.

use crate::{ReadableFile, Storage, WritableFile};
use esker_base::{FileKind, Result, WriteHint};

/// The bytes read and written at a time: enough to keep a device busy.
const CHUNK_BYTES: u64 = 1 << 20;

/// Copies `name` and syncs the copy's bytes. A copy that fails is removed again.
pub fn copy_durably(source: &dyn Storage, name: &str, target: &dyn Storage) -> Result<()> {
    let reader = source.open(name)?;
    let mut writer = target.create(name, WriteHint::of(FileKind::Table))?;
    let copied = copy_bytes(&*reader, &mut *writer);
    drop(writer);
    if copied.is_err() {
        // The copy's own failure says more than that of the clean-up.
        let _ = target.remove(name);
    }
    copied
}

fn copy_bytes(reader: &dyn ReadableFile, writer: &mut dyn WritableFile) -> Result<()> {
    let bytes = reader.len()?;
    let mut chunk = vec![0; bytes.min(CHUNK_BYTES) as usize];
    let mut offset = 0;
    while offset < bytes {
        let part = &mut chunk[..(bytes - offset).min(CHUNK_BYTES) as usize];
        reader.read_ahead(offset + part.len() as u64, CHUNK_BYTES);
        reader.read_exact_at(offset, part)?;
        writer.append(part)?;
        offset += part.len() as u64;
    }
    writer.sync()
}
