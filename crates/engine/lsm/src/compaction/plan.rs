//! A compaction that is planned but not executed.
//!
//! A table's **place** is its level and, within the level, its run, newest first. A plan takes
//! tables from a contiguous range of places and writes its output into one run of that range:
//!
//! ```text
//!   place       a ──── span ──── z          a ──── span ──── z
//!   0, run 19   ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒
//!   0, run 17   ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     ──►
//!   1, run 9    ▒▒▒▒▒▒▒ ▒▒▒▒▒▒▒▒▒           ▒▒▒▒▒ ▒▒▒▒▒ ▒▒▒▒▒
//! ```
//!
//! Invariant: no other table is between an input and the output, so newer versions stay above older
//! ones. Two plans with disjoint spans or disjoint ranges of places never conflict and may run
//! concurrently. [`InProgressCompactions`](crate::compaction::in_progress::InProgressCompactions) checks exactly this.

pub use super::inputs::{CompactionInput, RunPosition, SubcompactionRange};
pub use crate::stats::compaction_counts::CompactionReason;

use super::detour::span_lies_within;
use crate::options::sizes::SizeTargets;
use crate::stats::compaction_counts::CompactionEvent;
use crate::version::key_bounds::KeyBounds;
use crate::version::{KeyspaceVersion, TableHandle, TableId, TableMeta};
use esker_base::KeyspaceId;
use esker_table::{COMPACTION_READ_BYTES, PartLimits, WRITER_BYTES_AN_ENTRY};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Where output tables end, in addition to where they must.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cutting {
    /// A table ends before each of these keys, ascending, if it has `least_bytes`.
    pub keys: Vec<Vec<u8>>,
    /// See `keys`.
    pub least_bytes: u64,
    /// A table ends when it has so many.
    pub most_bytes: u64,
}

impl Cutting {
    /// About how many tables come of `bytes` that are alike between all keys.
    pub fn expected_tables(&self, bytes: f64) -> f64 {
        let pieces = (self.keys.len() + 1) as f64;
        let piece = bytes / pieces;
        // A table ends at the first key at which it is large enough.
        let joined = (self.least_bytes as f64 / piece.max(1.0)).ceil().clamp(1.0, pieces);
        let tables = pieces / joined;
        let table = piece * joined;
        (tables * (table / self.most_bytes.max(1) as f64).ceil().max(1.0)).max(1.0)
    }
}

/// A compaction decided, not yet done.
#[derive(Clone, Debug)]
pub struct CompactionPlan {
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// What is merged, newest first. Never empty, nor is any of them.
    pub inputs: Vec<CompactionInput>,
    /// Where the output goes.
    pub output_level: usize,
    /// The run of that level that the output joins or makes.
    pub output_run: u64,
    /// Whether nothing in the span is older than the inputs, so that deletes can go.
    pub bottommost: bool,
    /// Why.
    pub reason: CompactionReason,
    /// The keys that the inputs span.
    pub span: KeyBounds,
    /// The tables below the output within the span, in key order, for cutting outputs.
    pub grandparents: Vec<Arc<TableHandle>>,
    /// Where outputs are cut, if not by size and grandparents.
    pub cutting: Option<Cutting>,
    /// Where outputs go to the newest input's place: ranges of keys, ascending and disjoint. See
    /// `detour`.
    pub held_back: Vec<SubcompactionRange>,
    /// About how many bytes it writes: not less than that, if that is in doubt.
    pub expected_bytes: u64,
    /// About how many bytes it makes free: not more than that, if that is in doubt.
    pub expected_freed: u64,
    /// Value files whose live values it writes anew, whatever they hold.
    pub collects: Arc<BTreeSet<u64>>,
    moves: bool,
    drops: bool,
}

impl CompactionPlan {
    /// A plan to merge `inputs` into run `output_run` of `output_level`. Empty inputs are left out;
    /// `None` if that leaves none.
    pub fn new(
        keyspace: &KeyspaceVersion,
        inputs: Vec<CompactionInput>,
        output_level: usize,
        output_run: u64,
        reason: CompactionReason,
        sizes: SizeTargets,
    ) -> Option<CompactionPlan> {
        Self::holding_back(keyspace, inputs, (output_level, output_run), Vec::new(), reason, sizes)
    }

    /// The same, and what is in the ranges `held_back` goes to the newest input's place.
    pub(super) fn holding_back(
        keyspace: &KeyspaceVersion,
        mut inputs: Vec<CompactionInput>,
        (output_level, output_run): (usize, u64),
        held_back: Vec<SubcompactionRange>,
        reason: CompactionReason,
        sizes: SizeTargets,
    ) -> Option<CompactionPlan> {
        inputs.retain(|input| !input.tables.is_empty());
        inputs.sort_by_key(CompactionInput::place);
        let span = KeyBounds::of(inputs.iter().flat_map(|input| &input.tables))?;
        let mut plan = CompactionPlan {
            keyspace: keyspace.id,
            inputs,
            output_level,
            output_run,
            bottommost: false,
            reason,
            grandparents: grandparents(keyspace, output_level, &span),
            span,
            cutting: None,
            held_back,
            expected_bytes: 0,
            expected_freed: 0,
            collects: Arc::default(),
            moves: false,
            drops: false,
        };
        let oldest = plan.oldest_place();
        plan.bottommost = !plan.outsiders(keyspace, &plan.span).any(|(place, _)| place > oldest);
        let is_filtered = keyspace.settings.compaction_filter.is_some();
        plan.moves = plan.could_move(sizes) && !(is_filtered && plan.newest_place().level == 0);
        plan.expected_bytes = if plan.moves { 0 } else { plan.input_bytes() };
        plan.expected_freed = plan.input_bytes() - plan.expected_bytes;
        debug_assert!(plan.keeps_order(keyspace), "a plan must not put older data above newer");
        Some(plan)
    }

    /// A plan to drop `tables`, in order of their ids, which no reader needs. `None` if there is none of them.
    pub(super) fn dropping(
        keyspace: &KeyspaceVersion,
        tables: &[TableId],
    ) -> Option<CompactionPlan> {
        let mut inputs: Vec<CompactionInput> = Vec::new();
        let is_asked = |id: &TableId| tables.binary_search(id).is_ok();
        for (level, run, table) in keyspace.tables().filter(|(_, _, it)| is_asked(&it.meta.id)) {
            match inputs.last_mut() {
                Some(last) if last.place() == RunPosition::new(level, run) => {
                    last.tables.push(table.clone());
                }
                _ => inputs.push(CompactionInput { level, run, tables: vec![table.clone()] }),
            }
        }
        let span = KeyBounds::of(inputs.iter().flat_map(|input| &input.tables))?;
        let (output_level, output_run) = inputs.first().map(|input| (input.level, input.run))?;
        let mut plan = CompactionPlan {
            keyspace: keyspace.id,
            inputs,
            output_level,
            output_run,
            bottommost: false,
            reason: CompactionReason::Deleted,
            grandparents: Vec::new(),
            span,
            cutting: None,
            held_back: Vec::new(),
            expected_bytes: 0,
            expected_freed: 0,
            collects: Arc::default(),
            moves: false,
            drops: true,
        };
        plan.expected_freed = plan.input_bytes();
        Some(plan)
    }

    /// The same plan, which writes the live values of these files anew.
    pub(crate) fn collecting(mut self, files: Arc<BTreeSet<u64>>) -> CompactionPlan {
        self.collects = files;
        self
    }

    /// Whether the inputs are dropped and nothing comes in their place. Then only the manifest changes.
    pub fn is_drop(&self) -> bool {
        self.drops
    }

    /// What it counts as once it is installed.
    pub(crate) fn event(&self) -> CompactionEvent {
        match self.output_level > self.newest_place().level {
            _ if self.is_drop() => CompactionEvent::dropped(self.reason),
            _ if self.is_trivial_move() => CompactionEvent::moved(self.reason),
            true => CompactionEvent::down(self.reason),
            false => CompactionEvent::in_place(self.reason),
        }
    }

    /// The newest input's place.
    pub fn newest_place(&self) -> RunPosition {
        self.inputs[0].place()
    }

    /// The oldest place that the plan takes from or puts to.
    pub fn oldest_place(&self) -> RunPosition {
        let oldest_input = self.inputs[self.inputs.len() - 1].place();
        oldest_input.max(self.output_place())
    }

    /// The output's place.
    pub fn output_place(&self) -> RunPosition {
        RunPosition::new(self.output_level, self.output_run)
    }

    /// All input tables, newest run first.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableHandle>> {
        self.inputs.iter().flat_map(|input| &input.tables)
    }

    /// Whether an input table is known to be unreadable.
    pub fn takes_unreadable(&self) -> bool {
        self.tables().any(|table| table.is_unreadable())
    }

    /// The bytes of all input tables.
    pub fn input_bytes(&self) -> u64 {
        self.tables().map(|table| table.meta.bytes).sum()
    }

    /// Whether no byte needs to be read or written: the inputs are disjoint and have nothing to
    /// lose at the output, and are not to pass a compaction filter, as level 0 is. Then only the manifest changes: each input table is taken from its run
    /// and added, as it is, to the output run.
    pub fn is_trivial_move(&self) -> bool {
        self.moves
    }

    /// Whether newer versions stay above older ones: nothing of others is where an input passes
    /// on its way to the output. What is retained passes only what is between its run and the
    /// newest input.
    pub fn keeps_order(&self, keyspace: &KeyspaceVersion) -> bool {
        let (output, newest) = (self.output_place(), self.newest_place());
        self.inputs.iter().all(|input| {
            let place = input.place();
            let (from, to) = (place.min(output), place.max(output));
            let span = KeyBounds::of(&input.tables).expect("inputs are not empty");
            !self.outsiders(keyspace, &span).any(|(at, table)| {
                let other = KeyBounds::of_table(&table.meta);
                match span_lies_within(&other, &self.held_back) {
                    false => (from..=to).contains(&at),
                    true => {
                        let overlaps = |own: &Arc<TableHandle>| other.overlaps_table(&own.meta);
                        (newest..=place).contains(&at) && input.tables.iter().any(overlaps)
                    }
                }
            })
        })
    }

    /// The tables within `span` that are no inputs, with their places.
    fn outsiders<'a>(
        &self,
        keyspace: &'a KeyspaceVersion,
        span: &'a KeyBounds,
    ) -> impl Iterator<Item = (RunPosition, &'a Arc<TableHandle>)> + 'a {
        let inputs: HashSet<TableId> = self.tables().map(|table| table.meta.id).collect();
        let levels = keyspace.levels.iter().enumerate();
        let runs = levels.flat_map(|(level, runs)| runs.runs.iter().map(move |run| (level, run)));
        let tables = runs.flat_map(move |(level, run)| {
            let place = RunPosition::new(level, run.id);
            span.tables_of(run).iter().map(move |table| (place, table))
        });
        tables.filter(move |(_, table)| !inputs.contains(&table.meta.id))
    }

    fn could_move(&self, sizes: SizeTargets) -> bool {
        let mut tables: Vec<_> = self.tables().map(|table| &table.meta).collect();
        tables.sort_by(|a, b| a.smallest.cmp(&b.smallest));
        let disjoint = tables.windows(2).all(|pair| pair[0].ends_before(&pair[1].smallest));
        let leaving = self.inputs.iter().filter(|input| input.place() != self.output_place());
        let mut leaving = leaving.flat_map(|input| &input.tables).peekable();
        // A plan that only stays where it is was made to rewrite.
        disjoint
            && self.held_back.is_empty()
            && leaving.peek().is_some()
            && leaving.all(|table| self.may_move(&table.meta, sizes))
    }

    /// About how many bytes of memory a thread holds that executes the plan or a part of it: what it reads
    /// ahead of each input, and what it collects for the filter of the table that it writes, or of a part of
    /// that.
    pub(crate) fn memory_bytes(&self, sizes: SizeTargets, parts: PartLimits) -> usize {
        if self.is_trivial_move() || self.is_drop() {
            return 0;
        }
        let entries: u64 = self.tables().map(|table| table.meta.entries).sum();
        let share = sizes.table_bytes() as f64 / self.input_bytes().max(1) as f64;
        // The filter of a whole table has a byte for each entry or more.
        let written = (entries as f64 * share.min(1.0)).min(parts.whole_bytes_max as f64);
        let read = self.inputs.iter().map(|input| {
            let bytes: u64 = input.tables.iter().map(|table| table.meta.bytes).sum();
            (bytes as usize).min(COMPACTION_READ_BYTES)
        });
        read.sum::<usize>() + written as usize * WRITER_BYTES_AN_ENTRY
    }

    fn may_move(&self, meta: &TableMeta, sizes: SizeTargets) -> bool {
        let has_garbage = meta.deletes > 0 || meta.range_tombstones > 0;
        let span = KeyBounds::of_table(meta);
        let below = self.grandparents.iter().filter(|table| span.overlaps_table(&table.meta));
        let below: u64 = below.map(|table| table.meta.bytes).sum();
        meta.bytes >= sizes.small_table_bytes()
            && !(self.bottommost && has_garbage)
            && below <= sizes.grandparent_bytes()
    }

    /// Cuts the plan into at most `most` ranges of about the same work, for as many threads, and
    /// where what is retained begins and ends. Their outcomes joined are the plan's. There may be
    /// fewer: cuts are made at tables' first keys.
    pub fn parts(&self, most: usize) -> Vec<SubcompactionRange> {
        let finest = self.inputs.iter().max_by_key(|input| input.tables.len());
        let tables = &finest.expect("a plan has inputs").tables;
        let total: u64 = tables.iter().map(|table| table.meta.bytes).sum();
        let share = (total / most.max(1) as u64).max(1);
        let mut cuts: Vec<Vec<u8>> = Vec::new();
        let mut before = 0;
        for table in tables {
            let due = before >= share * (cuts.len() as u64 + 1);
            if due && cuts.len() + 1 < most && table.meta.smallest > self.span.smallest {
                cuts.push(table.meta.smallest.clone());
            }
            before += table.meta.bytes;
        }
        let ends = self.held_back.iter().flat_map(|range| [&range.start, &range.end]).flatten();
        let within = |key: &&Vec<u8>| self.span.smallest < **key && !self.span.ends_before(key);
        cuts.extend(ends.filter(within).cloned());
        cuts.sort_unstable();
        cuts.dedup();
        let starts = std::iter::once(None).chain(cuts.iter().cloned().map(Some));
        let ends = cuts.iter().cloned().map(Some).chain(std::iter::once(None));
        let part = |(start, end): (Option<Vec<u8>>, Option<Vec<u8>>)| {
            let held_back = self.is_held_back(start.as_ref().unwrap_or(&self.span.smallest));
            SubcompactionRange { start, end, held_back }
        };
        starts.zip(ends).map(part).collect()
    }

    fn is_held_back(&self, key: &[u8]) -> bool {
        let is_in = |range: &SubcompactionRange| range.range().contains(key);
        self.held_back.iter().any(is_in)
    }
}

/// The tables of the nearest level below `output_level` that has any, within `span`. Levels of
/// several runs give none: their tables are never merged one by one.
fn grandparents(
    keyspace: &KeyspaceVersion,
    output_level: usize,
    span: &KeyBounds,
) -> Vec<Arc<TableHandle>> {
    let mut below = keyspace.levels[output_level + 1..].iter();
    match below.find(|level| !level.is_empty()).map(|level| &level.runs[..]) {
        Some([run]) => span.tables_of(run).to_vec(),
        _ => Vec::new(),
    }
}
