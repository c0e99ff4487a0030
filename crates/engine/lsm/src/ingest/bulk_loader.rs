//! Sorts entries that come in any order, in bounded memory, and ingests them.
//!
//! ```text
//! entries ─► buffer ─► sorted run, as tables ─┐
//!                      sorted run, as tables ─┼─► one pass over all ─► tables ─► ingest
//!                                        …    ─┘
//! ```
//!
//! The runs are files that an open removes, as those of a sorted writer. Of several entries with one
//! key the last one counts.

use super::sort_buffer::{ENTRY_BYTES, SortBuffer};
use super::sorted_writer::{Ingested, SortedWriter, check_entry};
use crate::engine::Engine;
use crate::version::{TableMeta, ingest_file_name};
use esker_api::KeyspaceRef;
use esker_base::{EntryCursor, Error, KeyspaceId, Result};
use esker_table::{BlockCache, ReadPurpose, Table, TableIter};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// The buffer is this share of the memory budget.
const BUFFER_SHARE: usize = 4;

/// A table of a run ends at this many bytes. It is removed once it is read, so a pass over all runs needs
/// little more space than its output.
const RUN_TABLE_BYTES: u64 = 8 << 20;

/// So many runs that took equally many passes become one.
const RUNS_AT_ONCE: usize = 64;

/// The pass over all runs asks the caller whether to go on after so many entries.
const ENTRIES_A_QUESTION: u64 = 1_000;

/// Loads entries that come in any order, and makes all of them visible at once.
///
/// [`Db::bulk_loader`](crate::Db::bulk_loader) makes one. It keeps a quarter of the memory budget, and
/// sorts the rest in files of the database's directory, which are removed while the tables are written. A
/// dropped loader removes its files.
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
/// let keyspace = db.default_keyspace();
/// let mut loader = db.bulk_loader(&keyspace)?;
/// for name in ["cherry", "apple", "banana", "apple"] {
///     loader.put(name, "fruit")?;
/// }
/// assert_eq!(loader.ingest()?.entries, 3);
/// assert_eq!(keyspace.first()?.unwrap().0, "apple");
/// # Ok(())
/// # }
/// ```
pub struct BulkLoader {
    inner: Arc<Engine>,
    keyspace: KeyspaceId,
    buffer: SortBuffer,
    buffer_bytes: usize,
    run_table_bytes: u64,
    /// The oldest first.
    runs: Vec<SortedRun>,
    /// Why a run was not written: its entries are lost.
    failure: Option<Error>,
}

/// A part of the entries, in the order of their keys.
struct SortedRun {
    tables: SortedWriter,
    /// How many times its entries were written.
    passes: u32,
}

impl BulkLoader {
    pub(crate) fn new(inner: &Arc<Engine>, keyspace: impl Into<KeyspaceRef>) -> Result<Self> {
        let keyspace = inner.tree.resolve(keyspace)?;
        // Fails now if the keyspace cannot be written.
        SortedWriter::new(inner, keyspace)?;
        Ok(BulkLoader {
            keyspace,
            buffer: SortBuffer::default(),
            run_table_bytes: RUN_TABLE_BYTES,
            buffer_bytes: inner.tree.settings.memory_bytes / BUFFER_SHARE,
            runs: Vec::new(),
            failure: None,
            inner: inner.clone(),
        })
    }

    /// Adds an entry. It replaces an earlier one with the same key.
    ///
    /// # Errors
    /// * [`Error::KeyTooLong`], [`Error::ValueTooLarge`] and [`Error::EmptyKey`] as for a put. The entry
    ///   is not added, and others may be.
    /// * [`Error::Io`] if a file cannot be written; [`Error::Closed`] once the database is closed,
    ///   [`Error::Forked`] in a forked child. After such an error, each later call fails with it: entries
    ///   that were accepted are lost. Begin with a new loader.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.check_sound()?;
        let (key, value) = (key.as_ref(), value.as_ref());
        check_entry(&self.inner, self.keyspace, key, value)?;
        let added = key.len() + value.len() + ENTRY_BYTES;
        if self.buffer.used() + added > self.buffer_bytes && self.buffer.used() > 0 {
            self.end_run()?;
        }
        self.buffer.push(&self.inner.tree.keys.stored(key), value);
        Ok(())
    }

    fn check_sound(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Writes the buffer as a run. If that fails, so does the loader.
    fn end_run(&mut self) -> Result<()> {
        let ended = self.write_run();
        self.failure = ended.as_ref().err().cloned();
        ended
    }

    fn write_run(&mut self) -> Result<()> {
        let mut run = self.scratch()?;
        self.buffer.write(&mut run)?;
        run.finish()?;
        self.runs.push(SortedRun { tables: run, passes: 1 });
        self.merge_runs()
    }

    fn scratch(&self) -> Result<SortedWriter> {
        SortedWriter::scratch(&self.inner, self.keyspace, self.run_table_bytes)
    }

    /// Makes one run of the last ones as long as so many took equally many passes.
    fn merge_runs(&mut self) -> Result<()> {
        loop {
            let Some(from) = self.runs.len().checked_sub(RUNS_AT_ONCE) else { return Ok(()) };
            let last = &self.runs[from..];
            let passes = last[0].passes;
            if last.iter().any(|run| run.passes != passes) {
                return Ok(());
            }
            let mut merged = self.scratch()?;
            self.write_runs(last, &mut merged, &mut |_| true)?;
            merged.finish()?;
            self.runs.truncate(from);
            self.runs.push(SortedRun { tables: merged, passes: passes + 1 });
        }
    }

    /// Makes the entries visible, all at once.
    ///
    /// # Errors
    /// The errors of [`Db::ingest_writers`](crate::Db::ingest_writers), and that of a put that failed
    /// because a file could not be written.
    pub fn ingest(self) -> Result<Ingested> {
        self.ingest_while(&mut |_| true)
    }

    /// Makes the entries visible as [`BulkLoader::ingest`] does, as long as `goes_on` returns true.
    ///
    /// `goes_on` gets the number of entries that are in tables, now and then.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if `goes_on` returns false; then nothing is visible. Otherwise the errors of
    /// [`BulkLoader::ingest`].
    pub fn ingest_while(mut self, goes_on: &mut dyn FnMut(u64) -> bool) -> Result<Ingested> {
        self.check_sound()?;
        let mut sorted = SortedWriter::new(&self.inner, self.keyspace)?;
        if self.runs.is_empty() {
            self.buffer.write(&mut sorted)?;
        } else {
            if self.buffer.used() > 0 {
                self.end_run()?;
            }
            // The pass has no use for its memory.
            self.buffer = SortBuffer::default();
            self.write_runs(&self.runs, &mut sorted, goes_on)?;
        }
        if !goes_on(sorted.entries()) {
            return Err(Error::Cancelled { what: "bulk load" });
        }
        // They free space before the tables need it twice.
        self.runs.clear();
        sorted.ingest()
    }

    /// Writes the newest entry of each key in some runs, in order of keys.
    fn write_runs(
        &self,
        of: &[SortedRun],
        sorted: &mut SortedWriter,
        goes_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let mut runs = Vec::new();
        let mut next = BinaryHeap::new();
        for (number, run) in of.iter().enumerate() {
            let run = RunReader::new(&self.inner, run.tables.tables())?;
            next.extend(run.key().map(|key| Reverse((key.to_vec(), Reverse(number)))));
            runs.push(run);
        }
        let mut last: Vec<u8> = Vec::new();
        while let Some(Reverse((mut key, Reverse(number)))) = next.pop() {
            let run = &mut runs[number];
            // Of equal keys, that of the newest run comes first. No stored key is empty.
            if key != last {
                sorted.add_stored(&key, run.value())?;
                last.clone_from(&key);
                let entries = sorted.entries();
                if entries.is_multiple_of(ENTRIES_A_QUESTION) && !goes_on(entries) {
                    return Err(Error::Cancelled { what: "bulk load" });
                }
            }
            run.advance()?;
            if let Some(following) = run.key() {
                key.clear();
                key.extend_from_slice(following);
                next.push(Reverse((key, Reverse(number))));
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for BulkLoader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkLoader")
            .field("keyspace", &self.keyspace)
            .field("runs", &self.runs.len())
            .finish_non_exhaustive()
    }
}

/// Reads the tables of a run one after the other, and removes each that was read.
struct RunReader<'a> {
    inner: &'a Engine,
    tables: VecDeque<&'a TableMeta>,
    /// The file that is being read.
    open: Option<String>,
    cursor: Option<TableIter>,
}

impl<'a> RunReader<'a> {
    fn new(inner: &'a Engine, tables: &'a [TableMeta]) -> Result<Self> {
        let tables = tables.iter().collect();
        let mut reader = RunReader { inner, tables, open: None, cursor: None };
        reader.next_table()?;
        Ok(reader)
    }

    fn next_table(&mut self) -> Result<()> {
        self.cursor = None;
        let storage = &self.inner.tree.storage;
        if let Some(name) = self.open.take() {
            // The end of the load tries it again.
            let _ = storage.remove(&name);
        }
        let Some(TableMeta { id, bytes, .. }) = self.tables.pop_front() else { return Ok(()) };
        let name = ingest_file_name(id.file);
        let file = storage.open(&name)?;
        self.open = Some(name);
        // Each block is read once.
        let cache = Arc::new(BlockCache::new(0));
        let table = Arc::new(Table::open(file, id.file, id.offset, *bytes, cache)?);
        let mut cursor = table.cursor(ReadPurpose::Compaction);
        cursor.seek_first()?;
        self.cursor = Some(cursor);
        Ok(())
    }

    /// The key of the present entry. `None` behind the last.
    fn key(&self) -> Option<&[u8]> {
        self.cursor.as_ref().map(EntryCursor::key)
    }

    fn value(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], EntryCursor::value)
    }

    fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if cursor.valid() { Ok(()) } else { self.next_table() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Settings};
    use esker_base::Rng;
    use esker_base::background::Stepped;
    use esker_storage::{MemoryStorage, Storage};
    use std::collections::BTreeMap;

    #[test]
    fn runs_are_removed_while_the_tables_are_written() {
        let storage = Arc::new(MemoryStorage::new());
        let env = Env::over(storage.clone()).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let mut loader = db.bulk_loader(&db.default_keyspace()).unwrap();
        (loader.buffer_bytes, loader.run_table_bytes) = (64 << 10, 8 << 10);
        let mut rng = Rng::new(5);
        let value: Vec<u8> = (0..125).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        for _ in 0..2_000 {
            loader.put(rng.next_u64().to_be_bytes(), &value).unwrap();
        }
        let used = || -> u64 {
            let names = storage.list().unwrap();
            names
                .iter()
                .filter(|name| name.ends_with(".ingest"))
                .map(|name| storage.open(name).unwrap().len().unwrap())
                .sum()
        };
        let (mut most, runs) = (0, used());
        let mut ask = |_| {
            most = most.max(used());
            true
        };
        loader.ingest_while(&mut ask).unwrap();
        assert!(runs > 500_000 && most < runs + runs / 4, "{most} for {runs}");
    }

    #[test]
    fn many_runs_become_few_and_the_last_entry_of_a_key_counts() {
        let storage = Arc::new(MemoryStorage::new());
        let env = Env::over(storage).background(Arc::new(Stepped));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let (keyspace, mut rng, mut model) = (db.default_keyspace(), Rng::new(3), BTreeMap::new());
        let mut loader = db.bulk_loader(&keyspace).unwrap();
        // Two entries.
        loader.buffer_bytes = 2 * (ENTRY_BYTES + 8);
        let (mut most, mut passes) = (0, 0);
        for number in 0..1_000_u32 {
            let key = (rng.below(300) as u32).to_be_bytes();
            loader.put(key, number.to_be_bytes()).unwrap();
            model.insert(key.to_vec(), number.to_be_bytes().to_vec());
            most = most.max(loader.runs.len());
            passes = passes.max(loader.runs.first().map_or(0, |run| run.passes));
        }
        assert!(most < RUNS_AT_ONCE + 10 && passes == 2, "{most} runs, {passes} passes");
        assert_eq!(loader.ingest().unwrap().entries, model.len() as u64);
        let found = keyspace.iter().map(|entry| entry.unwrap());
        let found: BTreeMap<_, _> = found.map(|(k, v)| (k.into_vec(), v.into_vec())).collect();
        assert!(found == model);
    }
}
