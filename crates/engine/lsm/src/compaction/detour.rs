//! Plans compactions around unreadable tables.
//!
//! A run cannot move past a table below it that compaction leaves out: newer versions would end up
//! below older ones. But only keys within that table's bounds are blocked. The runs are compacted,
//! and their data within these bounds is **retained**: it stays on the level, as a run in the
//! place of the newest of them.
//!
//! ```text
//!   level 0   ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒                  ▒▒▒▒  held back
//!             ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     ──►
//!   base      ▒▒▒▒▒ xxxx ▒▒▒▒           ▒▒▒▒▒ xxxx ▒▒▒▒
//! ```
//!
//! An unreadable run of the same level blocks newer runs within the key bounds of its tables, and
//! of the tables below that overlap them. These tables below are not moved. Retained runs of
//! similar size are compacted with each other (`alike`), so their size stays proportional to the
//! live bytes within the bounds.
//!
//! Retained data stays while the rest of its run and newer runs move on. A later plan may therefore
//! find a run below that is not older than its own. It joins the newest such run, and takes that
//! run's overlapping tables as inputs.

use super::inputs::{CompactionInput, SubcompactionRange};
use crate::version::key_bounds::KeyBounds;
use crate::version::{Run, TableHandle, TableMeta};
use std::sync::Arc;

/// Runs of a level that may go on together, and what of them may not.
#[derive(Clone, Debug)]
pub(super) struct Detour<'a> {
    /// Where in the level the runs begin, newest first.
    pub from: usize,
    /// The runs, all of them readable. Never empty.
    pub runs: &'a [Arc<Run>],
    /// The ranges in which their keys are retained, ascending and disjoint.
    pub held_back: Vec<SubcompactionRange>,
}

impl<'a> Detour<'a> {
    /// The oldest runs in a row of a level's `runs` of which something can go on to the next level.
    /// All of them if every table can be read. `None` if nothing can go on. `below` returns the
    /// tables of the run that runs join there, by the id of the newest of them.
    pub fn of<'b>(
        runs: &'a [Arc<Run>],
        below: impl Fn(u64) -> &'b [Arc<TableHandle>],
    ) -> Option<Self> {
        let mut held_back: Vec<SubcompactionRange> = Vec::new();
        let mut end = runs.len();
        while end > 0 {
            let is_obstacle = |run: &Arc<Run>| run.has_unreadable();
            let from = runs[..end].iter().rposition(is_obstacle).map_or(0, |at| at + 1);
            if from < end {
                let below = below(runs[from].id);
                let unreadable = below.iter().filter(|table| table.is_unreadable());
                held_back.extend(unreadable.map(|table| bounds(&table.meta)));
                held_back = united(held_back);
                // Older than the obstacle: what comes of these tables must not lie above it.
                let under = below.iter().filter(|table| overlaps(&table.meta, &held_back));
                let under: Vec<_> = under.map(|table| bounds(&table.meta)).collect();
                held_back.extend(under);
                held_back = united(held_back);
                // Older ones have nothing that could go on.
                let goes_on = |run: &Arc<Run>| reaches_beyond(run, &held_back);
                if let Some(last) = runs[from..end].iter().rposition(goes_on) {
                    return Some(Detour { from, runs: &runs[from..=from + last], held_back });
                }
            }
            end = from.saturating_sub(1);
            let obstacle = runs[end..from].iter().flat_map(|run| run.tables());
            held_back.extend(obstacle.map(|table| bounds(&table.meta)));
        }
        None
    }

    /// The tables of `run`, of the level below, that the runs are merged with.
    pub fn joined(&self, level: usize, run: &Run) -> Option<CompactionInput> {
        let tables: Vec<_> = self.joined_tables(run).cloned().collect();
        Some(CompactionInput { level, run: run.id, tables })
    }

    /// The tables of `run`, of the level below, that the detour's runs are merged with.
    pub fn joined_tables<'r>(&self, run: &'r Run) -> impl Iterator<Item = &'r Arc<TableHandle>> {
        let span = KeyBounds::of(self.runs.iter().flat_map(|run| run.tables()));
        let tables = span.map_or(&[][..], |span| span.tables_of(run));
        tables.iter().filter(|table| !self.leaves(&table.meta))
    }

    /// Whether a table of the level below stays as it is, because all its keys are retained.
    fn leaves(&self, table: &TableMeta) -> bool {
        lies_within(table, &self.held_back)
    }

    /// The runs newer than those of the detour: once enough of them wait, the detour's runs make
    /// way, however few they are.
    pub fn waiting<'r>(detour: Option<&Self>, runs: &'r [Arc<Run>]) -> &'r [Arc<Run>] {
        detour.map_or(&[], |detour| &runs[..detour.from])
    }

    /// The runs of the level that can't go on.
    pub fn stuck<'r>(detour: Option<&Self>, runs: &'r [Arc<Run>]) -> &'r [Arc<Run>] {
        detour.map_or(runs, |detour| &runs[detour.from + detour.runs.len()..])
    }
}

/// The keys within a table's bounds.
fn bounds(meta: &TableMeta) -> SubcompactionRange {
    SubcompactionRange {
        start: Some(meta.smallest.clone()),
        end: Some(first_after(meta)),
        held_back: true,
    }
}

/// The first key behind a table's bounds.
fn first_after(meta: &TableMeta) -> Vec<u8> {
    let mut end = meta.largest.clone();
    if !meta.largest_is_exclusive {
        end.push(0);
    }
    end
}

/// The same ranges, ascending and disjoint.
fn united(mut parts: Vec<SubcompactionRange>) -> Vec<SubcompactionRange> {
    parts.sort_by(|a, b| a.start.cmp(&b.start));
    let mut united: Vec<SubcompactionRange> = Vec::with_capacity(parts.len());
    for part in parts {
        match united.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.take().max(part.end),
            _ => united.push(part),
        }
    }
    united
}

/// Whether the run has a table that is not in one of `ranges`.
fn reaches_beyond(run: &Run, ranges: &[SubcompactionRange]) -> bool {
    run.tables().iter().any(|table| !lies_within(&table.meta, ranges))
}

/// Whether the table shares a key with one of `ranges`, which are ascending and disjoint.
fn overlaps(meta: &TableMeta, ranges: &[SubcompactionRange]) -> bool {
    let at = ranges.partition_point(|range| range.end.as_ref() <= Some(&meta.smallest));
    ranges.get(at).is_some_and(|range| range.start < Some(first_after(meta)))
}

fn lies_within(meta: &TableMeta, ranges: &[SubcompactionRange]) -> bool {
    let after = ranges.partition_point(|range| range.start.as_ref() <= Some(&meta.smallest));
    let range = ranges[..after].last();
    range.is_some_and(|range| range.end >= Some(first_after(meta)))
}

/// Whether `span` is in one of `ranges`, which are ascending and disjoint.
pub(super) fn span_lies_within(span: &KeyBounds, ranges: &[SubcompactionRange]) -> bool {
    let after = ranges.partition_point(|range| range.start.as_ref() <= Some(&span.smallest));
    let Some(end) = ranges[..after].last().and_then(|range| range.end.as_ref()) else {
        return false;
    };
    if span.largest_is_exclusive { span.largest <= *end } else { span.largest < *end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compaction::tests::lose;
    use crate::manifest::version_edit::tests::sample_table;

    fn table(smallest: &str, largest: &str) -> Arc<TableHandle> {
        let (smallest, largest) = (smallest.into(), largest.into());
        let meta = TableMeta { smallest, largest, largest_is_exclusive: false, ..sample_table(1) };
        TableHandle::detached(meta)
    }

    fn unreadable(smallest: &str, largest: &str) -> Arc<TableHandle> {
        let table = table(smallest, largest);
        lose(&table);
        table
    }

    fn runs(tables: Vec<Vec<Arc<TableHandle>>>) -> Vec<Arc<Run>> {
        let ids = (1..=tables.len() as u64).rev();
        ids.zip(tables).map(|(id, tables)| Arc::new(Run::new(id, tables))).collect()
    }

    /// The ids of the runs that go on, and what is retained of them.
    fn detour(runs: &[Arc<Run>], below: &[Arc<TableHandle>]) -> Option<(Vec<u64>, Vec<String>)> {
        let detour = Detour::of(runs, |_| below)?;
        let text = |key: &Option<Vec<u8>>| key.as_ref().unwrap().escape_ascii().to_string();
        let held = detour.held_back.iter().map(|it| text(&it.start) + ".." + &text(&it.end));
        Some((detour.runs.iter().map(|run| run.id).collect(), held.collect()))
    }

    #[test]
    fn where_all_can_be_read_all_runs_go_on_whole() {
        let runs = runs(vec![vec![table("a", "z")], vec![table("c", "d")]]);
        assert_eq!(detour(&runs, &[table("a", "k")]), Some((vec![2, 1], vec![])));
    }

    #[test]
    fn what_lies_over_an_unreadable_table_below_is_held_back() {
        let below = [table("a", "k"), unreadable("m", "p"), unreadable("s", "t")];
        let runs = runs(vec![vec![table("a", "z")], vec![table("b", "y")], vec![table("n", "o")]]);
        let held = vec!["m..p\\x00".to_owned(), "s..t\\x00".to_owned()];
        assert_eq!(detour(&runs, &below), Some((vec![3, 2], held)), "the oldest stays");
        assert_eq!(detour(&runs[2..], &below), None);
    }

    #[test]
    fn runs_below_an_unreadable_one_go_on_first_and_then_those_above_beside_it() {
        let obstacle = vec![table("a", "b"), unreadable("m", "p")];
        let newer = vec![table("a", "z")];
        let runs = runs(vec![newer, obstacle, vec![table("c", "q")]]);
        assert_eq!(detour(&runs, &[]), Some((vec![1], vec![])));
        let held = vec!["a..b\\x00".to_owned(), "m..p\\x00".to_owned()];
        assert_eq!(
            detour(&runs[..2], &[]),
            Some((vec![3], held)),
            "all of its tables are in the way"
        );
    }

    #[test]
    fn tables_below_an_unreadable_run_of_the_level_stay_below_it() {
        let runs = runs(vec![vec![table("a", "z")], vec![unreadable("m", "p")]]);
        let below = [table("a", "k"), table("n", "r"), table("s", "t")];
        let found = Detour::of(&runs, |_| &below).unwrap();
        let leaves: Vec<_> = below.iter().map(|table| found.leaves(&table.meta)).collect();
        assert_eq!(leaves, [false, true, false]);
        assert_eq!(detour(&runs, &below), Some((vec![2], vec!["m..r\\x00".to_owned()])));
    }

    #[test]
    fn newer_runs_wholly_over_an_unreadable_one_stay() {
        let runs = runs(vec![vec![table("c", "d")], vec![unreadable("a", "z")]]);
        assert_eq!(detour(&runs, &[]), None);
        assert_eq!(Detour::stuck(None, &runs).len(), 2);
    }
}
