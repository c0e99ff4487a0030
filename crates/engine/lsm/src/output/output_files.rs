//! Writes the kept versions of a flush or a compaction to tables.

use super::job_context::JobContext;
use super::operand_output;
use super::rate_limited_file::RateLimitedFile;
use super::value_output::{CreatedFile, Stored, ValueOutput};
use super::version_filter::{Asked, Decision, VersionFilter};
use crate::fold::values::Values;
use crate::version::{LEVELS, TableId, TableMeta, table_file_name, value_file_name};
use esker_base::{EntryCursor, Error, Kind, RangeTombstone, Result, Seqno, WriteHint};
use esker_storage::{Storage, WritableFile};
use esker_table::{Origin, TableInfo, TableOptions, TableWriter};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Writes one table: what `fold` keeps of the versions from the position of `cursor` on and of
/// `tombstones`. `None`, and nothing appended to the file, if nothing stays.
pub fn write_table(
    mut writer: TableWriter<'_>,
    cursor: &mut dyn EntryCursor,
    tombstones: Vec<RangeTombstone>,
    fold: &mut VersionFilter,
    values: &mut ValueOutput<'_>,
) -> Result<Option<TableMeta>> {
    fold.set_tombstones(tombstones);
    let filled = fill(&mut writer, cursor, fold, values, |_, _| SplitDecision::Add)?;
    finish(writer, fold, filled.versions_out, None, None)
}

/// Writes tables, cut before each of `cuts`, ascending: all to the first file that `create` makes if
/// that `is_shared`, each to a file of its own otherwise. Gives what was written, in key order. Files
/// are synced when all are written: the first sync then does much of the others' work.
pub(crate) fn write_cut_tables<'f>(
    cursor: &mut dyn EntryCursor,
    tombstones: Vec<RangeTombstone>,
    (fold, values): (&mut VersionFilter, &mut ValueOutput<'_>),
    cuts: &[Vec<u8>],
    (options, origin): (TableOptions, &Arc<Origin>),
    is_shared: bool,
    mut create: impl FnMut() -> Result<OutputFile<'f>>,
) -> Result<Vec<TableMeta>> {
    fold.set_tombstones(tombstones);
    let (mut tables, mut files) = (Vec::new(), Vec::<OutputFile<'f>>::new());
    let starts = std::iter::once(None).chain(cuts.iter().map(|cut| Some(&cut[..])));
    let ends = cuts.iter().map(|cut| Some(&cut[..])).chain(std::iter::once(None));
    for (start, end) in starts.zip(ends) {
        let is_after = |key: &[u8]| end.is_some_and(|end| key >= end);
        let has_versions = cursor.valid() && !is_after(cursor.key());
        if !has_versions && fold.tombstones_within(start, end).next().is_none() {
            continue;
        }
        if files.is_empty() || !is_shared {
            files.push(create()?);
        }
        let output = files.last_mut().expect("it was just created");
        let options = TableOptions { file_id: output.id, ..options };
        let mut writer =
            TableWriter::new(&mut *output.file, options).with_origin(Some(origin.clone()));
        let filled = fill(&mut writer, cursor, fold, values, |_, key| match is_after(key) {
            true => SplitDecision::Cut,
            false => SplitDecision::Add,
        })?;
        if let Some(meta) = finish(writer, fold, filled.versions_out, start, end)? {
            output.file.start_writeback()?;
            tables.push(meta);
        }
    }
    files.iter_mut().try_for_each(|output| output.file.sync())?;
    Ok(tables)
}

/// What to do at a key that was not seen before.
pub(crate) enum SplitDecision {
    /// Add it to the table.
    Add,
    /// End the table before it.
    Cut,
}

/// What [`fill`] did.
#[derive(Clone, Copy, Default)]
pub(crate) struct FinishedTable {
    pub versions_in: u64,
    pub versions_out: u64,
}

/// Adds what the fold keeps to `writer`, until `next` says cut or the cursor ends. A table never
/// ends between two versions of a key, so `next` is asked at new keys only.
pub(crate) fn fill<C: EntryCursor + ?Sized>(
    writer: &mut TableWriter<'_>,
    cursor: &mut C,
    fold: &mut VersionFilter,
    values: &mut ValueOutput<'_>,
    mut next: impl FnMut(&TableWriter<'_>, &[u8]) -> SplitDecision,
) -> Result<FinishedTable> {
    let mut filled = FinishedTable::default();
    while cursor.valid() {
        let key = cursor.key();
        if fold.is_new(key) {
            if let SplitDecision::Cut = next(writer, key) {
                break;
            }
            fold.enter(key);
        }
        filled.versions_in += 1;
        fold.see((key.len() + cursor.value().len()) as u64);
        let kind = cursor.kind();
        match fold.judge(cursor.seqno(), kind, cursor.value()) {
            Decision::Drop => {}
            Decision::Keep(seqno) => {
                add(writer, values, key, (seqno, kind, cursor.value()))?;
                filled.versions_out += 1;
            }
            Decision::Delete(seqno) => {
                writer.add(key, seqno, Kind::Delete, b"")?;
                filled.versions_out += 1;
            }
            Decision::Ask(seqno) => {
                let (asked_kind, asked) =
                    ask(fold, values, key, (cursor.seqno(), kind, cursor.value()));
                match asked {
                    Asked::Keep => add(writer, values, key, (seqno, kind, cursor.value()))?,
                    Asked::Replace(stored) => {
                        add(writer, values, key, (seqno, asked_kind, &stored))?;
                    }
                    Asked::Delete => writer.add(key, cursor.seqno(), Kind::Delete, b"")?,
                    Asked::Drop => {
                        cursor.next()?;
                        continue;
                    }
                }
                filled.versions_out += 1;
            }
            Decision::Operand => {
                let FinishedTable { versions_in, versions_out } = &mut filled;
                operand_output::write_key(
                    writer,
                    cursor,
                    (fold, values),
                    (versions_in, versions_out),
                )?;
                continue;
            }
        }
        cursor.next()?;
    }
    Ok(filled)
}

/// What the compaction filter makes of a version, and of which kind another value is stored.
#[cold]
fn ask(
    fold: &mut VersionFilter,
    values: &ValueOutput<'_>,
    key: &[u8],
    (seqno, kind, value): (Seqno, Kind, &[u8]),
) -> (Kind, Asked) {
    if kind != Kind::Separated {
        return (kind, fold.ask(key, (seqno, kind, value)));
    }
    match values.read(value) {
        Ok(value) => (Kind::Put, fold.ask(key, (seqno, Kind::Put, &value))),
        // The version stays, and readers get the error.
        Err(_) => (kind, Asked::Keep),
    }
}

/// Adds a version to a table, with its value or the value's place.
#[inline]
pub(super) fn add(
    writer: &mut TableWriter<'_>,
    values: &mut ValueOutput<'_>,
    key: &[u8],
    (seqno, kind, value): (Seqno, Kind, &[u8]),
) -> Result<()> {
    match values.stored(kind, value)? {
        Stored::AsItIs => writer.add(key, seqno, kind, value),
        Stored::Other(kind, value) => writer.add(key, seqno, kind, &value),
    }
}

/// Ends a table of `versions` versions with the range tombstones that the fold keeps in
/// `[from, to)`. `None` if there is nothing in it.
pub(crate) fn finish(
    mut writer: TableWriter<'_>,
    fold: &VersionFilter,
    versions: u64,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Result<Option<TableMeta>> {
    for tombstone in fold.tombstones_within(from, to) {
        writer.add_range_tombstone(tombstone);
    }
    if writer.is_empty() {
        return Ok(None);
    }
    writer.set_range(from, to);
    let info = writer.finish()?;
    let last_key = if versions == 0 { &[][..] } else { fold.last_kept() };
    Ok(Some(table_meta(info, last_key)))
}

/// What the manifest keeps of a table whose last version is of `last_key`.
pub(crate) fn table_meta(info: TableInfo, last_key: &[u8]) -> TableMeta {
    let id = TableId { file: info.properties.file_id, offset: info.offset };
    TableMeta::of(id, info.bytes, info.properties, last_key)
}

/// The output files of a compaction. Those that were not kept when this is dropped are removed.
pub(crate) struct OutputFiles<'a> {
    context: &'a JobContext<'a>,
    names: Names,
}

/// Whether tables of about `table_bytes` share a file under a space-amplification limit: one file and one sync for all,
/// if `storage` can free each table's part. A table leaves up to two blocks at its ends, which should be few.
pub(crate) fn share_a_file(storage: &dyn Storage, table_bytes: u64) -> bool {
    const BLOCKS_MIN: u64 = 8;
    storage.freed_block_bytes().is_some_and(|block| table_bytes >= BLOCKS_MIN * block)
}

/// A file for tables.
pub(crate) struct OutputFile<'a> {
    pub id: u64,
    pub file: Box<dyn WritableFile + 'a>,
}

/// The names of output files.
type Names = Arc<Mutex<Vec<String>>>;

/// The hint for a value file: it lives longer than the tables of the last level.
pub(crate) fn value_file_hint() -> WriteHint {
    WriteHint::table(LEVELS as u8 - 1)
}

fn create_limited<'a>(
    context: &'a JobContext<'a>,
    names: &Names,
    name: String,
    hint: WriteHint,
) -> Result<impl WritableFile + use<'a>> {
    let file = context.storage.create(&name, hint)?;
    names.lock().push(name);
    let grant = move |bytes| match context.cancelled.load(Ordering::Relaxed) {
        true => Err(Error::Closed),
        false => Ok((context.throttle)(bytes)),
    };
    Ok(RateLimitedFile { file, grant })
}

impl<'a> OutputFiles<'a> {
    pub fn new(context: &'a JobContext<'a>) -> Self {
        OutputFiles { context, names: Names::default() }
    }

    /// Creates the next file, for tables of `level`.
    pub fn create(&mut self, level: u8) -> Result<OutputFile<'a>> {
        let id = (self.context.next_file_id)();
        let hint = WriteHint::table(level).living(self.context.expected_lifetime);
        let file = create_limited(self.context, &self.names, table_file_name(id), hint)?;
        Ok(OutputFile { id, file: Box::new(file) })
    }

    /// Creates value files, which are of these files, too.
    pub fn value_files(&self) -> impl FnMut() -> Result<CreatedFile<'a>> + use<'a> {
        let (context, names) = (self.context, self.names.clone());
        move || {
            let id = (context.next_file_id)();
            let hint = value_file_hint();
            let file = create_limited(context, &names, value_file_name(id), hint)?;
            Ok((id, Box::new(file)))
        }
    }

    /// Removes the table file with this ID, into which nothing was written.
    pub fn discard(&mut self, file: u64) -> Result<()> {
        let name = table_file_name(file);
        self.context.storage.remove(&name)?;
        self.names.lock().retain(|other| *other != name);
        Ok(())
    }

    /// Makes the files' names survive power loss, and leaves the files alone from then on.
    pub fn keep(&mut self) -> Result<()> {
        let mut names = self.names.lock();
        if !names.is_empty() {
            self.context.storage.sync_names()?;
        }
        names.clear();
        Ok(())
    }
}

impl Drop for OutputFiles<'_> {
    fn drop(&mut self) {
        for name in &*self.names.lock() {
            // A file that cannot be removed now is found unused, and removed, at the next open.
            let _ = self.context.storage.remove(name);
        }
    }
}
