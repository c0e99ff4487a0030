//! Writes entries that are larger than a log entry may be: as an ingest of their own.
//!
//! ```text
//! value ─► NNNNNNNN.ingest ─► synced ─► renamed to NNNNNNNN.values ─┐
//! entry ─► a table with the place ─► as any other ingest            ┴─► one edit, which names both
//! ```
//!
//! No frame of the log has the value or names its file. So whatever reads logs meets the mark of an
//! ingest, and a file that no manifest names is of no use: an open removes it.

use super::sorted_writer::{SortedWriter, ingest_all};
use crate::engine::Engine;
use crate::options::settings::KeyspaceSettings;
use crate::output::large_value::LargeValueFile;
use crate::version::KeyspaceVersion;
use crate::version::blocks::VALUE_BYTES_MAX;
use esker_api::WriteBatch;
use esker_base::{Entry, Error, KeyspaceId, Kind, LargeValueError, MAX_KEY_BYTES, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// The beginning of a value.
pub(crate) enum Head {
    /// All of it: it fits a log entry.
    Whole(Vec<u8>),
    /// As much as a log entry may have, and more may follow.
    Part(Vec<u8>),
    /// All of it: a log entry would take it, but for its key.
    WithLongKey(Vec<u8>),
}

/// Reads as much of the value of `key` as a log entry may have.
pub(crate) fn read_head(inner: &Engine, key: &[u8], reader: &mut dyn Read) -> Result<Head> {
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::KeyTooLong { bytes: key.len() });
    }
    if key.is_empty() && !inner.tree.keys.takes_empty_key() {
        return Err(Error::EmptyKey);
    }
    let limit = inner.tree.settings.max_entry_bytes();
    let mut head = Vec::new();
    read_up_to(reader, &mut head, limit)?;
    let entry = Entry { keyspace: KeyspaceId::DEFAULT, kind: Kind::Put, key, value: &head };
    let fits = entry.encoded_bytes() <= limit;
    // A reader that was at its end is not asked again: it may belong to a program in C, or be a terminal.
    Ok(match head.len() < limit {
        true if fits => Head::Whole(head),
        true => Head::WithLongKey(head),
        false => Head::Part(head),
    })
}

/// Puts `key` with `head` and what `reader` has up to its end, and returns how many bytes that is.
pub(crate) fn put(
    inner: &Arc<Engine>,
    keyspace: KeyspaceId,
    key: &[u8],
    head: Vec<u8>,
    reader: &mut dyn Read,
) -> Result<u64> {
    expect_takes(inner, keyspace, true)?;
    let mut writer = SortedWriter::new(inner, keyspace)?;
    let mut copy = Copy::to(inner, writer.begin_value()?, VALUE_BYTES_MAX);
    copy.append(&mut &head[..])?;
    // It is as long as a log entry may be.
    drop(head);
    copy.append(reader)?;
    let (value, bytes) = copy.end()?;
    writer.add_value(&inner.tree.keys.stored(key), value)?;
    writer.ingest()?;
    Ok(bytes)
}

/// Writes `batch`, whose keys are stored ones, and some of whose values are longer than a log entry may be.
/// All of it becomes visible at once.
pub(crate) fn write_batch(inner: &Arc<Engine>, batch: &WriteBatch) -> Result<()> {
    let limit = inner.tree.settings.max_entry_bytes();
    let is_large = |entry: &Entry<'_>| entry.encoded_bytes() > limit;
    let rest = batch.iter().filter(|entry| !is_large(entry)).map(|entry| entry.encoded_bytes());
    let (bytes, bytes_limit) = (rest.sum::<usize>(), inner.tree.settings.max_batch_bytes());
    let (entries, entries_limit) = (batch.len(), inner.tree.settings.max_batch_entries());
    if bytes > bytes_limit || entries > entries_limit {
        return Err(Error::BatchTooLarge { bytes, limit: bytes_limit, entries, entries_limit });
    }
    // The last entry of a key counts.
    let mut last: BTreeMap<(KeyspaceId, &[u8]), Entry<'_>> = BTreeMap::new();
    for entry in batch.iter() {
        match entry.kind {
            Kind::Put | Kind::Delete => expect_takes(inner, entry.keyspace, is_large(&entry))?,
            _ => return Err(LargeValueError::Mixed { limit }.into()),
        }
        last.insert((entry.keyspace, entry.key), entry);
    }
    let mut writers: Vec<SortedWriter> = Vec::new();
    let mut of = None;
    for ((keyspace, key), entry) in last {
        if of != Some(keyspace) {
            writers.push(SortedWriter::new(inner, keyspace)?);
            of = Some(keyspace);
        }
        let Some(writer) = writers.last_mut() else { continue };
        if !is_large(&entry) {
            writer.add_version(key, entry.kind, entry.value)?;
            continue;
        }
        let mut copy = Copy::to(inner, writer.begin_value()?, VALUE_BYTES_MAX);
        copy.append(&mut &entry.value[..])?;
        writer.add_value(key, copy.end()?.0)?;
    }
    ingest_all(inner, writers).map(|_| ())
}

/// Copies a value to its file.
struct Copy<'a> {
    inner: &'a Engine,
    value: LargeValueFile<'static>,
    /// The block that is not full yet.
    block: Vec<u8>,
    /// So many bytes came, the block included.
    bytes: u64,
    /// The most bytes of a value.
    limit: u64,
}

impl<'a> Copy<'a> {
    fn to(inner: &'a Engine, value: LargeValueFile<'static>, limit: u64) -> Self {
        Copy { inner, value, block: Vec::new(), bytes: 0, limit }
    }

    /// Adds what `from` has up to its end.
    fn append(&mut self, from: &mut dyn Read) -> Result<()> {
        loop {
            self.inner.check_writable()?;
            let before = self.block.len();
            read_up_to(from, &mut self.block, LargeValueFile::BLOCK_BYTES)?;
            self.bytes += (self.block.len() - before) as u64;
            if self.bytes > self.limit {
                return Err(LargeValueError::TooLong { limit: self.limit }.into());
            }
            if self.block.len() < LargeValueFile::BLOCK_BYTES {
                return Ok(());
            }
            self.value.add(&self.block)?;
            self.block.clear();
        }
    }

    /// The file, and the length of the value.
    fn end(mut self) -> Result<(LargeValueFile<'static>, u64)> {
        if !self.block.is_empty() {
            self.value.add(&self.block)?;
        }
        Ok((self.value, self.bytes))
    }
}

/// Appends what `reader` has to `bytes`, up to `limit` bytes in all.
fn read_up_to(reader: &mut dyn Read, bytes: &mut Vec<u8>, limit: usize) -> Result<()> {
    let missing = (limit - bytes.len()) as u64;
    let read = reader.take(missing).read_to_end(bytes);
    read.map(|_| ()).map_err(|error| Error::io("read from", "the reader of a value", error))
}

/// Fails if no entry of a batch with large values can be put to `keyspace`, or no such value.
fn expect_takes(inner: &Engine, keyspace: KeyspaceId, is_large: bool) -> Result<()> {
    let view = inner.tree.view.load();
    let version =
        view.version.keyspaces.get(&keyspace).ok_or_else(|| inner.tree.unknown(keyspace))?;
    let has_indexes = !inner.indexes.of(keyspace).is_empty();
    let reason = match is_large {
        _ if has_indexes => Some("its indexes need all values in the log"),
        true => refused_by(&version.settings),
        false => None,
    };
    reason.map_or(Ok(()), |reason| Err(refused(inner, version, reason)))
}

/// Why no large value can be put to a keyspace with these settings.
pub(super) fn refused_by(settings: &KeyspaceSettings) -> Option<&'static str> {
    if settings.merge.is_some() {
        Some("its merge operator would hold the value in memory")
    } else if settings.compaction_filter.is_some() {
        Some("its compaction filter would hold the value in memory")
    } else if settings.has_space_goal() {
        Some("its space-amplification limit counts tables only")
    } else {
        None
    }
}

pub(super) fn refused(inner: &Engine, keyspace: &KeyspaceVersion, reason: &'static str) -> Error {
    let limit = inner.tree.settings.max_entry_bytes();
    LargeValueError::Refused { keyspace: keyspace.name.clone(), reason, limit }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Settings};
    use esker_base::background::Stepped;
    use esker_storage::MemoryStorage;

    #[test]
    fn a_value_has_at_most_so_many_bytes() {
        let env = Env::over(Arc::new(MemoryStorage::new())).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let copy = |bytes: u64, limit| {
            let mut writer = SortedWriter::new(db.inner(), KeyspaceId::DEFAULT).unwrap();
            let mut copy = Copy::to(db.inner(), writer.begin_value().unwrap(), limit);
            copy.append(&mut std::io::repeat(7).take(bytes))?;
            copy.end().map(|(_, bytes)| bytes)
        };
        let limit = 2 * LargeValueFile::BLOCK_BYTES as u64 + 1000;
        assert_eq!(copy(limit, limit).unwrap(), limit);
        for bytes in [limit + 1, u64::MAX] {
            let Error::LargeValue(error) = copy(bytes, limit).unwrap_err() else { panic!() };
            assert_eq!(*error, LargeValueError::TooLong { limit });
        }
    }
}
