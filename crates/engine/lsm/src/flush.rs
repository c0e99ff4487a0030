//! Flush: writes an immutable MemTable to tables in level 0, one per keyspace, in one file.
//!
//! Long values of a keyspace that separates them go to a value file.
//! A keyspace with a space-amplification limit may get several tables, in files without those of
//! other keyspaces: in one file if the storage can free each table's part, or one each.
//!
//! MemTables are flushed oldest first, so edits are installed in the order of the log. Each
//! MemTable has a separate edit, unless a batch begins in one and ends in another. Then one edit
//! installs all of them, because tables may not hold a part of a batch. The checksum of every frame
//! is verified before its bytes are used.

use crate::compaction::pick;
use crate::history::retention;
use crate::log::wal_files::log_file_name;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::output::filter_allocation;
use crate::output::io_throttle::IoThrottle;
use crate::output::output_files::{self, OutputFile, share_a_file};
use crate::output::value_output::{CreatedFile, ValueOutput};
use crate::output::version_filter::VersionFilter;
use crate::stats::cumulative::CumulativeStats;
use crate::tree::Tree;
use crate::version::dates::Mark;
use crate::version::key_bounds::KeyBounds;
use crate::version::readers::super_version::SuperVersion;
use crate::version::{TableMeta, ValueFileMeta, ValueFiles, table_file_name, value_file_name};
use esker_base::{EntryCursor, KeyspaceId, RangeTombstone, Result, Seqno, WriteHint};
use esker_memtable::{MemTable, MemTableCursor};
use esker_storage::WritableFile;
use esker_table::{Origin, TableOptions, TableWriter};
use std::sync::Arc;

/// The tables that a flush wrote.
#[derive(Default)]
struct FlushOutput {
    /// The run that they are.
    run: u64,
    tables: Vec<(KeyspaceId, TableMeta)>,
    bytes: u64,
    /// Bytes of keys and values that the MemTable held, as users wrote them.
    user_bytes: u64,
    /// The same by keyspace, and with the keys of range deletes.
    seen: Vec<(KeyspaceId, u64)>,
    /// The names of the files, of which some may hold nothing.
    files: Vec<String>,
    values: Vec<(KeyspaceId, ValueFileMeta)>,
}

impl FlushOutput {
    fn add_values(&mut self, keyspace: KeyspaceId, written: Vec<ValueFileMeta>) {
        self.bytes += written.iter().map(|meta| meta.bytes).sum::<u64>();
        self.values.extend(written.into_iter().map(|meta| (keyspace, meta)));
    }

    fn add(&mut self, keyspace: KeyspaceId, meta: TableMeta) {
        self.bytes += meta.bytes;
        self.tables.push((keyspace, meta));
    }
}

/// Flushes the [next MemTables](SuperVersion::next_to_flush) and takes them out of the view. Returns them.
///
/// `sync_log` makes the log durable up to a seqno. Only then can consumers rely on a log that they keep.
pub(crate) fn flush(
    tree: &Tree,
    throttle: &IoThrottle,
    sync_log: impl FnOnce(Seqno) -> Result<()>,
) -> Result<Vec<Arc<MemTable>>> {
    tree.installer.mend()?;
    let memtables = tree.view.load().next_to_flush();
    let mut written = Vec::new();
    for memtable in &memtables {
        memtable.verify(&log_file_name(memtable.epoch()))?;
    }
    for memtable in &memtables {
        let mut tables = FlushOutput { run: tree.installer.next_file(), ..FlushOutput::default() };
        let outcome = write_tables(tree, throttle, memtable, &mut tables);
        written.push(tables);
        if let Err(error) = outcome {
            written.into_iter().for_each(|tables| remove(tree, tables.files.into_iter()));
            return Err(error);
        }
    }
    for memtable in &memtables {
        crate::read::get::pass(tree, &tree.view.load(), memtable)?;
    }
    let may_keep = tree.log_files.is_some() && tree.installer.has_consumers();
    let keeps = may_keep && sync_log(last_seqno(&memtables)).is_ok();
    install(tree, &memtables, &written, keeps)?;
    let version = &tree.view.load().version;
    for (memtable, written) in memtables.iter().zip(&written) {
        tree.counters.flushes.add(1);
        tree.counters.flush_bytes.add(written.bytes);
        tree.histories.note(memtable.last_seqno(), &written.seen, written.run, version);
    }
    Ok(memtables)
}

fn last_seqno(memtables: &[Arc<MemTable>]) -> Seqno {
    memtables.last().map_or(0, |last| last.last_seqno())
}

/// Writes one file with a table for each keyspace; and, of each keyspace with a space-amplification limit, the parts to
/// files of their own, so that each can be freed by itself.
fn write_tables(
    tree: &Tree,
    throttle: &IoThrottle,
    memtable: &Arc<MemTable>,
    written: &mut FlushOutput,
) -> Result<()> {
    memtable.sort_through(memtable.last_seqno());
    memtable.sound()?;
    let mut shared = None;
    for keyspace_id in memtable.keyspaces() {
        let Some(mut content) = KeyspaceSlice::of(tree, memtable, keyspace_id)? else { continue };
        if let Some(cuts) = content.cuts.take() {
            let part_bytes = memtable.bytes_used() / (cuts.at.len() as u64 + 1);
            let is_shared = share_a_file(&*tree.storage, part_bytes);
            write_parts(tree, throttle, content, (cuts, is_shared), written)?;
            continue;
        }
        let file_id = written.run;
        let file = match &mut shared {
            Some(file) => file,
            none => {
                let lifetime = shared_lifetime(tree, memtable);
                none.insert(create(tree, throttle, file_id, lifetime, &mut written.files)?)
            }
        };
        let options = TableOptions { file_id, ..content.options };
        let range_bytes = content.range_bytes();
        let KeyspaceSlice { mut cursor, tombstones, mut fold, origin, threshold, .. } = content;
        let writer = TableWriter::new(&mut **file, options).with_origin(Some(origin));
        let create_values = || create_values(tree, throttle, &mut written.files);
        let files = ValueFiles::default();
        let mut values = ValueOutput::new(threshold, options.compression, files, create_values);
        let table =
            output_files::write_table(writer, &mut cursor, tombstones, &mut fold, &mut values)?;
        let separated = values.finish()?;
        drop(values);
        written.add_values(keyspace_id, separated);
        written.seen.push((keyspace_id, fold.bytes_seen() + range_bytes));
        table.into_iter().for_each(|meta| written.add(keyspace_id, meta));
        written.user_bytes += fold.bytes_seen();
    }
    if let Some(mut file) = shared {
        file.sync()?;
    }
    if !written.files.is_empty() {
        tree.storage.sync_names()?;
    }
    Ok(())
}

fn write_parts(
    tree: &Tree,
    throttle: &IoThrottle,
    content: KeyspaceSlice,
    (OutputSplit { at, expected_lifetime }, is_shared): (OutputSplit, bool),
    written: &mut FlushOutput,
) -> Result<()> {
    let range_bytes = content.range_bytes();
    let KeyspaceSlice { mut cursor, tombstones, mut fold, options, origin, .. } = content;
    let next_file = || {
        let id = tree.installer.next_file();
        let file = create(tree, throttle, id, expected_lifetime, &mut written.files)?;
        Ok(OutputFile { id, file })
    };
    let tables = output_files::write_cut_tables(
        &mut cursor,
        tombstones,
        // Where there is a space-amplification limit, no value is separated.
        (&mut fold, &mut ValueOutput::none()),
        &at,
        (options, &origin),
        is_shared,
        next_file,
    )?;
    tables.into_iter().for_each(|meta| written.add(options.keyspace, meta));
    written.seen.push((options.keyspace, fold.bytes_seen() + range_bytes));
    written.user_bytes += fold.bytes_seen();
    Ok(())
}

/// What a keyspace has in a MemTable, and how it is to be written. Holds no version: for as long as a
/// flush takes, the files that compactions are done with would stay.
struct KeyspaceSlice {
    cursor: MemTableCursor,
    tombstones: Vec<RangeTombstone>,
    fold: VersionFilter,
    /// If its tables are to be in files without others.
    cuts: Option<OutputSplit>,
    /// Without the file, which is not known yet.
    options: TableOptions,
    origin: Arc<Origin>,
    /// The length from which on values are separated.
    threshold: Option<u32>,
}

/// Tables in files without those of other keyspaces.
struct OutputSplit {
    /// Where they are cut.
    at: Vec<Vec<u8>>,
    /// How long they live. Of tables that share a file this is the file's ([`shared_lifetime`]).
    expected_lifetime: Option<u64>,
}

impl KeyspaceSlice {
    /// `None` if the keyspace was dropped meanwhile: no reader can reach its entries.
    fn of(tree: &Tree, memtable: &Arc<MemTable>, id: KeyspaceId) -> Result<Option<Self>> {
        let view = tree.view.load();
        let Some(keyspace) = view.version.keyspaces.get(&id) else { return Ok(None) };
        let mut cursor = memtable.cursor(id, memtable.last_seqno()).for_sequential_scan();
        let versions = cursor.versions() as u64;
        let span = span_of(&mut cursor)?;
        let bits = span.map(|span| filter_allocation::of_flush(keyspace, versions, &span));
        cursor.seek_first()?;
        Ok(Some(KeyspaceSlice {
            cursor,
            tombstones: memtable.range_deletes_in(id),
            fold: VersionFilter::new(tree.snapshots.list(), false)
                .merging(keyspace.settings.merge.map(|_| tree.merger(keyspace)))
                .at(tree.time.now())
                .aging(keyspace.expired()),
            origin: tree.installer.origin(keyspace),
            threshold: keyspace.settings.separation_threshold,
            cuts: pick::flush_cuts(keyspace, tree.sizes).map(|at| {
                let now = tree.installer.account().table_bytes();
                OutputSplit { at, expected_lifetime: keyspace.expected_lifetime(0, now) }
            }),
            options: TableOptions {
                keyspace: id,
                compression: keyspace.settings.compression,
                fingerprint_bits: bits.unwrap_or(0),
                level: 0,
                file_id: 0,
                sample_level: keyspace.sample_level(),
                parts: tree.part_limits(),
            },
        }))
    }

    /// The bytes of the keys of range deletes.
    fn range_bytes(&self) -> u64 {
        self.tombstones.iter().map(|it| (it.start.len() + it.end.len()) as u64).sum()
    }
}

/// From the cursor's first key to its last.
fn span_of(cursor: &mut MemTableCursor) -> Result<Option<KeyBounds>> {
    cursor.seek_last()?;
    if !cursor.valid() {
        return Ok(None);
    }
    let largest = cursor.key().to_vec();
    cursor.seek_first()?;
    Ok(Some(KeyBounds { smallest: cursor.key().to_vec(), largest, largest_is_exclusive: false }))
}

/// How long a file is expected to live that tables of all keyspaces share: as long as the one that lives longest.
fn shared_lifetime(tree: &Tree, memtable: &MemTable) -> Option<u64> {
    let (view, now) = (tree.view.load(), tree.installer.account().table_bytes());
    let all = memtable.keyspaces().into_iter();
    let all = all.filter_map(|id| view.version.keyspaces.get(&id));
    let shared = all.filter(|keyspace| !keyspace.settings.has_space_goal());
    let lifetimes = shared.map(|keyspace| keyspace.expected_lifetime(0, now));
    lifetimes.reduce(|one, other| Some(one?.max(other?))).flatten()
}

fn create<'a>(
    tree: &'a Tree,
    throttle: &'a IoThrottle,
    file_id: u64,
    expected_lifetime: Option<u64>,
    created: &mut Vec<String>,
) -> Result<Box<dyn WritableFile + 'a>> {
    throttle.throttle_flush(&*tree.clock, || tree.storage.is_busy());
    let (name, hint) = (table_file_name(file_id), WriteHint::table(0).living(expected_lifetime));
    let file = tree.storage.create(&name, hint)?;
    created.push(name);
    Ok(throttle.limit_flush(file, &*tree.clock))
}

fn create_values<'a>(
    tree: &'a Tree,
    throttle: &'a IoThrottle,
    created: &mut Vec<String>,
) -> Result<CreatedFile<'a>> {
    let file_id = tree.installer.next_file();
    let name = value_file_name(file_id);
    let file = tree.storage.create(&name, output_files::value_file_hint())?;
    created.push(name);
    Ok((file_id, throttle.limit_flush(file, &*tree.clock)))
}

/// Removes files that no edit has added and none will. One that cannot be removed now is found unused,
/// and removed, at the next open.
fn remove(tree: &Tree, files: impl Iterator<Item = String>) {
    for file in files {
        let _ = tree.storage.remove(&file);
    }
}

/// Installs the tables. `keeps`: the logs of the MemTables are durable, and may be kept for consumers.
fn install(
    tree: &Tree,
    memtables: &[Arc<MemTable>],
    written: &[FlushOutput],
    keeps: bool,
) -> Result<()> {
    let mut retired = Vec::new();
    let mut unused: Vec<String> =
        written.iter().flat_map(|tables| &tables.files).cloned().collect();
    let log_bytes = memtables.iter().map(|memtable| memtable.bytes_used()).sum();
    let cost = CumulativeStats {
        user_bytes: written.iter().map(|tables| tables.user_bytes).sum(),
        log_bytes: if tree.logs.is_kept() { log_bytes } else { 0 },
        flushes: memtables.len() as u64,
        flush_bytes: written.iter().map(|tables| tables.bytes).sum(),
        ..CumulativeStats::default()
    };
    tree.install(
        cost,
        |state| {
            let through = last_seqno(memtables);
            let at = tree.clock.calendar().as_secs();
            let mut changes = vec![
                VersionChange::FlushedThrough(through),
                VersionChange::Dates(Mark { through, at }.into()),
            ];
            let logs = retention::after_flush(state, memtables, keeps);
            changes.extend(logs.kept.into_iter().map(VersionChange::Feed));
            changes.extend(logs.removed.iter().map(|&epoch| VersionChange::RemoveLog(epoch)));
            retired = logs.removed;
            for FlushOutput { run, tables, values, .. } in written {
                for (keyspace, meta) in values {
                    if state.version.keyspaces.contains_key(keyspace) {
                        let name = value_file_name(meta.file);
                        unused.retain(|file| *file != name);
                        let (keyspace, meta) = (*keyspace, *meta);
                        changes.push(VersionChange::AddValueFile { keyspace, meta });
                    }
                }
                for (keyspace, meta) in tables {
                    // It may have been dropped meanwhile.
                    if state.version.keyspaces.contains_key(keyspace) {
                        let name = table_file_name(meta.id.file);
                        unused.retain(|file| *file != name);
                        let (keyspace, run, meta) = (*keyspace, *run, meta.clone());
                        changes.push(VersionChange::AddTable { keyspace, level: 0, run, meta });
                    }
                }
            }
            Ok(VersionEdit { changes })
        },
        |view: &mut SuperVersion| {
            view.memtables.retain(|one| !memtables.iter().any(|other| Arc::ptr_eq(one, other)));
        },
    )?;
    remove(tree, unused.into_iter());
    retired.into_iter().for_each(|epoch| tree.logs.retire(epoch));
    Ok(())
}
