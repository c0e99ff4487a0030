//! Takes entries in key order, and writes tables of them next to those of the database.

use super::files::{Content, IngestFiles};
use super::install;
use super::install::IngestPart;
use super::write_behind::WriteBehind;
use crate::engine::Engine;
use crate::output::filter_allocation;
use crate::output::large_value::LargeValueFile;
use crate::output::output_files::table_meta;
use crate::version::{TableMeta, ValueFileMeta};
use esker_api::{KeyspaceRef, WriteBatch};
use esker_base::stored_key::EDGE_BYTES;
use esker_base::{Entry, Error, KeyspaceId, Kind, MAX_KEY_BYTES, Result, Seqno};
use esker_storage::WritableFile;
use esker_table::{Origin, TableOptions, TableWriter};
use std::collections::VecDeque;
use std::sync::Arc;

/// Files that are written and not synced yet. Syncing one does much of the work of the next.
const UNSYNCED_FILES: usize = 4;

/// A table ends at this many bytes at the latest, however large segments are.
const TABLE_BYTES_MAX: u64 = 64 << 20;

/// What an ingest added.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Ingested {
    /// Entries.
    pub entries: u64,
    /// Bytes of their keys, as they are stored, and values.
    pub bytes: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// The deepest level that received tables. `None` if there were no entries.
    pub level: Option<usize>,
    /// The sequence number of all entries. `None` if there were none.
    pub seqno: Option<Seqno>,
}

/// Writes entries in key order into tables of a keyspace, for an ingest.
///
/// [`Db::sorted_writer`](crate::Db::sorted_writer) makes one. Nothing is visible before
/// [`SortedWriter::ingest`] or [`Db::ingest_writers`](crate::Db::ingest_writers) returns. A dropped
/// writer removes its files.
///
/// # Examples
///
/// Two threads write two ranges of keys, and both become visible at once:
///
/// ```
/// # extern crate esker_lsm as esker;
/// # fn main() -> esker_base::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use esker::{Db, Settings};
///
/// let db = Db::open(dir.path(), Settings::default())?;
/// let keyspace = db.default_keyspace();
/// let writers = std::thread::scope(|scope| {
///     let threads = [0..500_u32, 500..1_000].map(|numbers| {
///         scope.spawn(|| {
///             let mut writer = db.sorted_writer(&keyspace)?;
///             for number in numbers {
///                 writer.put(number.to_be_bytes(), "value")?;
///             }
///             Ok(writer)
///         })
///     });
///     threads.into_iter().map(|thread| thread.join().unwrap()).collect::<esker_base::Result<Vec<_>>>()
/// })?;
/// assert_eq!(keyspace.count(..)?, 0);
/// db.ingest_writers(writers)?;
/// assert_eq!(keyspace.count(..)?, 1_000);
/// # Ok(())
/// # }
/// ```
pub struct SortedWriter {
    inner: Arc<Engine>,
    keyspace: KeyspaceId,
    origin: Arc<Origin>,
    /// The last seqno given out when the writer was made.
    after: Seqno,
    options: TableOptions,
    table_bytes: u64,
    open: Option<TableWriter<'static>>,
    tables: Vec<TableMeta>,
    /// The files of the large values, which are durable.
    values: Vec<ValueFileMeta>,
    unsynced: VecDeque<Box<dyn WritableFile>>,
    /// The files are read once and removed, so that nothing has to reach the device.
    is_scratch: bool,
    files: IngestFiles,
    /// From the second file on, if there is a thread for it. Dropped after its files.
    behind: Option<WriteBehind>,
    /// The last key, as it is stored.
    last: Vec<u8>,
    entries: u64,
    bytes: u64,
    /// Why no further entry is taken.
    failure: Option<Error>,
}

impl SortedWriter {
    pub(crate) fn new(inner: &Arc<Engine>, keyspace: impl Into<KeyspaceRef>) -> Result<Self> {
        inner.check_writable()?;
        let id = inner.tree.resolve(keyspace)?;
        install::refuse_indexed(inner, id)?;
        let view = inner.tree.view.load();
        let keyspace = view.version.keyspaces.get(&id).ok_or_else(|| inner.tree.unknown(id))?;
        let (settings, sizes) = (keyspace.settings, inner.tree.sizes);
        let table_bytes =
            if settings.has_space_goal() { sizes.goal_table_bytes() } else { sizes.table_bytes() };
        Ok(SortedWriter {
            keyspace: id,
            origin: inner.tree.installer.origin(keyspace),
            after: inner.commit.lock_active().last_seqno(),
            options: TableOptions {
                keyspace: id,
                compression: settings.compression,
                fingerprint_bits: filter_allocation::of_run_alone(settings.filter_bits),
                level: 0,
                file_id: 0,
                sample_level: keyspace.sample_level(),
                parts: inner.tree.part_limits(),
            },
            table_bytes: table_bytes.min(TABLE_BYTES_MAX),
            open: None,
            tables: Vec::new(),
            values: Vec::new(),
            unsynced: VecDeque::new(),
            is_scratch: false,
            files: IngestFiles::new(inner.clone()),
            behind: None,
            last: Vec::new(),
            entries: 0,
            bytes: 0,
            failure: None,
            inner: inner.clone(),
        })
    }

    /// A writer whose tables, of up to `table_bytes`, are read in order and removed, and never ingested.
    pub(super) fn scratch(
        inner: &Arc<Engine>,
        keyspace: KeyspaceId,
        table_bytes: u64,
    ) -> Result<Self> {
        let mut writer = SortedWriter::new(inner, keyspace)?;
        writer.is_scratch = true;
        writer.options.fingerprint_bits = 0;
        writer.table_bytes = writer.table_bytes.min(table_bytes);
        Ok(writer)
    }

    /// Adds an entry. Its key must be above all keys added before.
    ///
    /// # Errors
    /// * [`Error::NotSorted`] if it is not. The entry is not added, and others may be.
    /// * [`Error::KeyTooLong`], [`Error::ValueTooLarge`] and [`Error::EmptyKey`] as for a put. The entry
    ///   is not added, and others may be.
    /// * [`Error::Io`] if a file cannot be written. Then each later call fails with the same error.
    /// * [`Error::Closed`] once the database is closed, [`Error::Forked`] in a forked child.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), value.as_ref())
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        check_entry(&self.inner, self.keyspace, key, value)?;
        let keys = self.inner.tree.keys;
        let stored = keys.stored(key);
        if self.entries > 0 && *stored <= self.last[..] {
            let shown = |key: &[u8]| key.escape_ascii().to_string();
            let (key, before) = (shown(key), shown(&keys.user(&self.last)));
            return Err(Error::NotSorted { position: self.entries + 1, key, before });
        }
        self.add_stored(&stored, value)
    }

    /// Adds an entry that was checked, and whose stored key is above all others.
    pub(super) fn add_stored(&mut self, stored: &[u8], value: &[u8]) -> Result<()> {
        self.add_version(stored, Kind::Put, value)
    }

    /// The same, for an entry of another kind.
    pub(super) fn add_version(&mut self, stored: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        let added = self.append(stored, kind, value);
        self.failure = added.as_ref().err().cloned();
        added?;
        self.last.clear();
        self.last.extend_from_slice(stored);
        self.entries += 1;
        self.bytes += (stored.len() + value.len()) as u64;
        Ok(())
    }

    /// Begins the file of a large value.
    pub(super) fn begin_value(&mut self) -> Result<LargeValueFile<'static>> {
        let (id, file) = self.files.create(Content::Value)?;
        if self.behind.is_none() {
            self.behind = WriteBehind::start(&*self.inner.indexes.background, &self.inner);
        }
        let file = match &self.behind {
            Some(behind) => behind.file(file),
            None => file,
        };
        LargeValueFile::begin(id, file)
    }

    /// Adds an entry with a large value, whose file is written. Its stored key is above all others.
    pub(super) fn add_value(&mut self, stored: &[u8], value: LargeValueFile<'_>) -> Result<()> {
        let (place, meta) = value.finish()?;
        if self.entries == 0 {
            self.renew_start()?;
        }
        self.values.push(meta);
        self.add_version(stored, Kind::Separated, &place.encode())?;
        self.bytes += place.value_bytes;
        Ok(())
    }

    /// Says that the writer begins now. The value may have taken hours, and what was written meanwhile is older:
    /// a repair that knows only tables has to see that, too.
    fn renew_start(&mut self) -> Result<()> {
        let inner = &self.inner;
        let view = inner.tree.view.load();
        let keyspace = view.version.keyspaces.get(&self.keyspace);
        let keyspace = keyspace.ok_or_else(|| inner.tree.unknown(self.keyspace))?;
        self.origin = inner.tree.installer.origin(keyspace);
        self.after = inner.commit.lock_active().last_seqno();
        Ok(())
    }

    /// How many entries were added.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The tables that are finished.
    pub(super) fn tables(&self) -> &[TableMeta] {
        &self.tables
    }

    fn append(&mut self, stored: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        if self.open.as_ref().is_some_and(|open| open.estimated_bytes() >= self.table_bytes) {
            self.end_table()?;
        }
        let writer = match &mut self.open {
            Some(writer) => writer,
            none => {
                let content = if self.is_scratch { Content::Scratch } else { Content::Tables };
                let (file_id, file) = self.files.create(content)?;
                // A short ingest needs no thread. Bulk loads have several writers.
                if self.behind.is_none() && !self.tables.is_empty() && !self.is_scratch {
                    self.behind = WriteBehind::start(&*self.inner.indexes.background, &self.inner);
                }
                let file = match &self.behind {
                    Some(behind) => behind.file(file),
                    None => file,
                };
                let writer = TableWriter::owning(file, TableOptions { file_id, ..self.options });
                let writer = writer.with_origin(Some(self.origin.clone()));
                none.insert(writer.with_ingested_after(self.after))
            }
        };
        writer.add(stored, 0, kind, value)
    }

    /// Ends the table whose last key is `last`.
    fn end_table(&mut self) -> Result<()> {
        let Some(writer) = self.open.take() else { return Ok(()) };
        let (info, mut file) = writer.finish_owned()?;
        self.tables.push(table_meta(info, &self.last));
        if self.is_scratch {
            return file.publish();
        }
        file.start_writeback()?;
        self.unsynced.push_back(file);
        while self.unsynced.len() > UNSYNCED_FILES {
            self.sync_oldest()?;
        }
        Ok(())
    }

    fn sync_oldest(&mut self) -> Result<()> {
        match self.unsynced.pop_front() {
            Some(mut file) => file.sync(),
            None => Ok(()),
        }
    }

    /// Ends the last table, and makes all of them durable.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        self.end_table()?;
        while !self.unsynced.is_empty() {
            self.sync_oldest()?;
        }
        Ok(())
    }

    /// Makes the entries visible, all at once. [`Db::ingest`](crate::Db::ingest) describes how.
    ///
    /// # Errors
    /// The errors of [`Db::ingest_writers`](crate::Db::ingest_writers).
    pub fn ingest(self) -> Result<Ingested> {
        let inner = self.inner.clone();
        ingest_all(&inner, vec![self])
    }

    /// The keyspace's name, and the first and last key, for an error.
    fn described(&self) -> String {
        let keys = self.inner.tree.keys;
        let shown = |key: &[u8]| keys.user(key).escape_ascii().to_string();
        let first = self.tables.first().map(|table| shown(&table.smallest));
        format!("keys {} to {}", first.unwrap_or_default(), shown(&self.last))
    }
}

impl std::fmt::Debug for SortedWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SortedWriter")
            .field("keyspace", &self.keyspace)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

/// Fails if the database is closed, or a put would refuse the entry: no later compaction or copy of it
/// may fail.
pub(super) fn check_entry(
    inner: &Engine,
    keyspace: KeyspaceId,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    inner.check_writable()?;
    let entry = Entry { keyspace, kind: Kind::Put, key, value };
    let may_be_refused = key.len() > MAX_KEY_BYTES
        || entry.encoded_bytes() + EDGE_BYTES > inner.tree.settings.max_entry_bytes()
        || (key.is_empty() && !inner.tree.keys.takes_empty_key());
    if may_be_refused {
        let mut batch = WriteBatch::new();
        batch.put(keyspace, key, value);
        inner.accept(&batch)?;
    }
    Ok(())
}

/// Installs what `writers` wrote, all at once.
pub(crate) fn ingest_all(inner: &Arc<Engine>, writers: Vec<SortedWriter>) -> Result<Ingested> {
    let inner = inner.begin_upkeep()?;
    // Dropped before the guard: a close waits until files of an ingest that failed are removed.
    let mut writers = writers;
    for writer in &mut writers {
        inner
            .tree
            .resolve(KeyspaceRef { id: writer.keyspace, store: writer.inner.tree.store_id })?;
        writer.finish()?;
    }
    writers.retain(|writer| writer.entries > 0);
    writers.sort_by(|a, b| {
        (a.keyspace, &a.tables[0].smallest).cmp(&(b.keyspace, &b.tables[0].smallest))
    });
    for pair in writers.windows(2) {
        if pair[0].keyspace == pair[1].keyspace && pair[0].last >= pair[1].tables[0].smallest {
            let (first, second) = (pair[0].described(), pair[1].described());
            return Err(Error::OverlappingWriters { first, second });
        }
    }
    let mut parts: Vec<IngestPart> = Vec::new();
    let mut ingested = Ingested::default();
    for writer in &writers {
        ingested.entries += writer.entries;
        ingested.bytes += writer.bytes;
        ingested.tables += writer.tables.len() as u64;
        ingested.table_bytes += writer.tables.iter().map(|table| table.bytes).sum::<u64>();
        match parts.last_mut() {
            Some(part) if part.keyspace == writer.keyspace => {
                part.tables.extend_from_slice(&writer.tables);
                part.values.extend_from_slice(&writer.values);
            }
            _ => parts.push(IngestPart {
                keyspace: writer.keyspace,
                tables: writer.tables.clone(),
                values: writer.values.clone(),
            }),
        }
    }
    if parts.is_empty() {
        return Ok(ingested);
    }
    let has_values = writers.iter().any(|writer| writer.files.has_values());
    writers.iter_mut().try_for_each(|writer| writer.files.rename(has_values))?;
    let installed = install::install(&inner, &parts);
    let are_removed = installed.as_ref().is_err_and(|failed| !failed.is_undecided);
    if !are_removed {
        writers.iter_mut().for_each(|writer| writer.files.keep(installed.is_err()));
    }
    let installed = installed.map_err(|failed| failed.error)?;
    ingested.seqno = Some(installed.seqno);
    ingested.level = installed.levels.into_iter().max();
    Ok(ingested)
}
