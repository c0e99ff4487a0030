//! Executes one part of a plan: merges its inputs, folds their versions, and writes the outputs.
//! All I/O of compaction is here.
//!
//! Nothing is installed: the caller builds an edit from the plan and the [`CompactionResult`]. If a plan
//! fails or is cancelled, its output files are removed.
//!
//! An output table ends at the first key after it has reached its target size, or after it overlaps
//! too much of the level below. Range tombstones of the inputs are split at table boundaries, so
//! that the outputs' tombstones together cover exactly what the inputs' did:
//!
//! ```text
//! versions     a b    d   f  g h │ k l    n   p q
//! tombstones       [c────────────│──m)              table 1 ends with [c, k), table 2 starts [k, m)
//! ```

use crate::compaction::plan::{CompactionInput, CompactionPlan, SubcompactionRange};
use crate::compaction::space::garbage_estimate::estimate_plan;
use crate::fold::filtering::Filtered;
use crate::options::sizes::GRANDPARENT_TABLES;
use crate::output::job_context::JobContext;
use crate::output::output_files::{
    FinishedTable, OutputFile, OutputFiles, SplitDecision, fill, finish, share_a_file,
};
use crate::output::value_output::ValueOutput;
use crate::output::version_filter::VersionFilter;
use crate::read::level_iter::LevelIter;
use crate::read::merging_iter::MergingIter;
use crate::version::{TableHandle, TableMeta, ValueFileMeta};
use esker_base::{EntryCursor, Error, MAX_SEQNO, RangeTombstone, Result};
use esker_table::{ReadPurpose, TableOptions, TableWriter};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a compaction did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompactionResult {
    /// The tables written, in key order, for the plan's output run.
    pub outputs: Vec<TableMeta>,
    /// The tables written, in key order, for the newest input's run.
    pub held_back: Vec<TableMeta>,
    /// The value files written.
    pub value_files: Vec<ValueFileMeta>,
    /// Bytes of the input tables.
    pub read_bytes: u64,
    /// Bytes of the output tables.
    pub written_bytes: u64,
    /// Versions read.
    pub entries_in: u64,
    /// Versions written.
    pub entries_out: u64,
    /// How many bytes the inputs' samples of keys had promised to free.
    pub predicted_reclaim_bytes: u64,
    /// Whether the inputs' counters of distinct keys contradicted those samples.
    pub had_sketch_mismatch: bool,
    /// What the compaction filter did.
    pub filtered: Box<Filtered>,
}

impl CompactionResult {
    /// Bytes that were made free.
    pub fn freed_bytes(&self) -> u64 {
        self.read_bytes.saturating_sub(self.written_bytes)
    }

    /// Whether as many bytes were freed as the samples had promised, give or take a tenth of them.
    pub fn freed_what_was_expected(&self) -> bool {
        let freed = self.freed_bytes();
        freed.abs_diff(self.predicted_reclaim_bytes) <= freed / 10
    }

    /// Bytes of the value files.
    pub(super) fn separated_bytes(&self) -> u64 {
        self.value_files.iter().map(|meta| meta.bytes).sum()
    }

    /// Adds the outcome of the plan's next part.
    pub fn join(&mut self, next: CompactionResult) {
        self.outputs.extend(next.outputs);
        self.held_back.extend(next.held_back);
        self.value_files.extend(next.value_files);
        self.read_bytes += next.read_bytes;
        self.written_bytes += next.written_bytes;
        self.entries_in += next.entries_in;
        self.entries_out += next.entries_out;
        self.predicted_reclaim_bytes += next.predicted_reclaim_bytes;
        self.had_sketch_mismatch |= next.had_sketch_mismatch;
        self.filtered.join(*next.filtered);
    }
}

/// Why a part of a plan was not done.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: Error,
    /// The input table whose read failed; `None` if something else did, such as a write of the output.
    pub input: Option<Arc<TableHandle>>,
}

impl Failure {
    fn of_input(error: Error, table: &Arc<TableHandle>) -> Self {
        Failure { error, input: Some(table.clone()) }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure { error, input: None }
    }
}

/// Does a part of a plan. The outcomes of all parts, joined in order, are the plan's; if one part
/// fails, the caller removes the files of the others. The whole plan's reads, and the prediction,
/// are accounted with its first part.
pub fn execute_part(
    plan: &CompactionPlan,
    part: &SubcompactionRange,
    context: &JobContext<'_>,
) -> Result<CompactionResult, Failure> {
    let mut outcome = CompactionResult::default();
    if part.start.is_none() {
        outcome.read_bytes = plan.input_bytes();
        for table in plan.tables() {
            table.reader(&context.cache).map_err(|error| Failure::of_input(error, table))?;
        }
        let estimate = estimate_plan(plan, &context.snapshots);
        let estimate =
            estimate.map(|it| it.without_expired(context.expired, plan.tables(), context.now));
        let reclaimed = estimate.map_or(0.0, |estimate| estimate.reclaimed_bytes());
        outcome.predicted_reclaim_bytes = reclaimed as u64;
        outcome.had_sketch_mismatch = estimate.is_some_and(|estimate| estimate.sketches_disagree());
    }
    let files = OutputFiles::new(context);
    let (threshold, compression) =
        (context.settings.separation_threshold, context.settings.compression);
    let values =
        ValueOutput::new(threshold, compression, context.values.clone(), files.value_files())
            .collecting(context.collected.clone());
    let mut work = Subcompaction {
        values,
        plan,
        part,
        context,
        merge: merge_of(plan, part, context),
        fold: VersionFilter::new(context.snapshots.clone(), plan.bottommost && !part.held_back)
            .merging(context.merger.clone())
            .filtering(context.filter.clone())
            .at(context.now)
            .aging(context.expired),
        files,
        shared: None,
        grandparent: 0,
        cut: 0,
        outcome,
    };
    work.fold.set_tombstones(tombstones_of(plan, context)?);
    match work.write() {
        Ok(()) => Ok(work.outcome),
        Err(error) => {
            let input = work.merge.children().iter().find_map(LevelIter::failed).cloned();
            Err(Failure { error, input })
        }
    }
}

/// A merge of the plan's inputs within `part`.
fn merge_of(
    plan: &CompactionPlan,
    part: &SubcompactionRange,
    context: &JobContext<'_>,
) -> MergingIter<LevelIter> {
    let range = part.range();
    let cursor = |input: &CompactionInput| {
        let (tables, cache) = (input.tables.clone(), context.cache.clone());
        LevelIter::of_tables(tables, cache, ReadPurpose::Compaction).bounded(&range)
    };
    let children = plan.inputs.iter().map(cursor).collect();
    MergingIter::new(children).sharing(plan.span.shared_bytes())
}

/// The range tombstones of all inputs.
fn tombstones_of(
    plan: &CompactionPlan,
    context: &JobContext<'_>,
) -> Result<Vec<RangeTombstone>, Failure> {
    let mut tombstones = Vec::new();
    for table in plan.tables().filter(|table| table.meta.range_tombstones > 0) {
        let opened = table.reader(&context.cache);
        let opened = opened.map_err(|error| Failure::of_input(error, table))?;
        tombstones.extend(opened.tombstones().tombstones());
    }
    Ok(tombstones)
}

/// A part of a plan being done.
struct Subcompaction<'a> {
    plan: &'a CompactionPlan,
    part: &'a SubcompactionRange,
    context: &'a JobContext<'a>,
    merge: MergingIter<LevelIter>,
    fold: VersionFilter,
    files: OutputFiles<'a>,
    /// The file that the next table goes to as well.
    shared: Option<OutputFile<'a>>,
    values: ValueOutput<'a>,
    /// The first of the plan's grandparents that does not end before the last key.
    grandparent: usize,
    /// The first of the plan's cutting keys that was not passed.
    cut: usize,
    outcome: CompactionResult,
}

impl Subcompaction<'_> {
    /// Writes all tables of the part.
    fn write(&mut self) -> Result<()> {
        let mut start = self.part.start.clone();
        match &start {
            None => self.merge.seek_first()?,
            Some(start) => self.merge.seek(start, MAX_SEQNO)?,
        }
        while let Some(end) = self.write_table(start.as_deref())? {
            start = Some(end);
        }
        if let Some(output) = self.shared.take() {
            self.end_file(output)?;
        }
        *self.outcome.filtered = self.fold.take_filtered();
        self.outcome.value_files = self.values.finish()?;
        self.files.keep()
    }

    /// Writes the table that starts at `start`, and says where the next one does.
    fn write_table(&mut self, start: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let held_level = self.plan.newest_place().level as u8;
        let options = TableOptions {
            keyspace: self.plan.keyspace,
            compression: self.context.settings.compression,
            fingerprint_bits: self.context.fingerprint_bits,
            level: if self.part.held_back { held_level } else { self.plan.output_level as u8 },
            file_id: 0,
            sample_level: self.context.sample_level,
            parts: self.context.part_limits,
        };
        let mut output = match self.shared.take() {
            Some(output) => output,
            None => self.files.create(options.level)?,
        };
        let options = TableOptions { file_id: output.id, ..options };
        let mut writer =
            TableWriter::new(&mut *output.file, options).with_origin(self.context.origin.clone());
        let filled = self.fill(&mut writer)?;
        if self.context.cancelled.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        let part_end = self.part.end.as_deref();
        let next = self.merge.valid().then(|| self.merge.key());
        let cut = next.filter(|key| part_end.is_none_or(|end| *key < end)).map(<[u8]>::to_vec);
        let end = cut.as_deref().or(part_end);
        if let Some(meta) = finish(writer, &self.fold, filled.versions_out, start, end)? {
            self.outcome.written_bytes += meta.bytes;
            match self.part.held_back {
                true => self.outcome.held_back.push(meta),
                false => self.outcome.outputs.push(meta),
            }
        }
        match self.is_shared(&output) {
            true => self.shared = Some(output),
            false => self.end_file(output)?,
        }
        self.outcome.entries_in += filled.versions_in;
        self.outcome.entries_out += filled.versions_out;
        Ok(cut)
    }

    /// Makes a file durable, or removes it if there is no table in it.
    fn end_file(&mut self, mut output: OutputFile<'_>) -> Result<()> {
        if !output.file.is_empty() {
            return output.file.sync();
        }
        let id = output.id;
        drop(output);
        self.files.discard(id)
    }

    /// Whether the next table goes to the same file.
    fn is_shared(&self, output: &OutputFile<'_>) -> bool {
        let bytes = output.file.len();
        let has_room = bytes > 0 && bytes < 2 * self.context.table_bytes;
        let cutting = self.plan.cutting.as_ref().filter(|_| has_room);
        cutting.is_some_and(|it| share_a_file(&*self.context.storage, it.least_bytes))
    }

    /// Fills a table up to its end or the part's.
    fn fill(&mut self, writer: &mut TableWriter<'_>) -> Result<FinishedTable> {
        /// Keys between checks of whether to go on when nothing is written meanwhile.
        const PATIENCE: u32 = 4096;
        let table_bytes = self.context.table_bytes;
        let part_end = self.part.end.as_deref();
        let cancelled = self.context.cancelled;
        let grandparents = &self.plan.grandparents[..];
        let grandparent = &mut self.grandparent;
        let (cutting, cut) = (self.plan.cutting.as_ref(), &mut self.cut);
        let (mut overlapped, mut keys) = (0, 0u32);
        let values = &mut self.values;
        fill(writer, &mut self.merge, &mut self.fold, values, |writer, key| {
            keys += 1;
            if part_end.is_some_and(|end| key >= end)
                || (keys.is_multiple_of(PATIENCE) && cancelled.load(Ordering::Relaxed))
            {
                return SplitDecision::Cut;
            }
            if let Some(cutting) = cutting {
                let from = *cut;
                *cut += cutting.keys[from..].iter().take_while(|at| &at[..] <= key).count();
                let bytes = writer.estimated_bytes();
                let is_full =
                    bytes >= cutting.most_bytes || (*cut > from && bytes >= cutting.least_bytes);
                return if is_full && !writer.is_empty() {
                    SplitDecision::Cut
                } else {
                    SplitDecision::Add
                };
            }
            while let Some(table) = grandparents.get(*grandparent)
                && table.meta.ends_before(key)
            {
                overlapped += if writer.is_empty() { 0 } else { table.meta.bytes };
                *grandparent += 1;
            }
            let is_full = writer.estimated_bytes() >= table_bytes
                || overlapped > GRANDPARENT_TABLES * table_bytes;
            if is_full && !writer.is_empty() { SplitDecision::Cut } else { SplitDecision::Add }
        })
    }
}
