//! The duplicate rate of a level: the keys counted in each table, divided by the distinct keys of
//! the level. Also estimates the live fraction of a whole keyspace.
//!
//! PlexDB keeps one distinct-key counter per level: writes to the level update it, and a compaction
//! of the level resets it. Here a level's counter is the union of its tables' counters, which the
//! manifest and the table properties always provide. The two are equal as long as whole levels are
//! compacted. The union needs no rebuild at an open, and includes data that arrived during a
//! compaction or that the compaction left.

use super::garbage_estimate::{estimate, proportion};
use crate::options::space_policy::Dedup;
use crate::version::derived::GarbageEstimate;
use crate::version::{KeyspaceVersion, LEVELS, Level, TableHandle};
use esker_base::Seqno;
use esker_table::Hll;

impl KeyspaceVersion {
    /// Those of `snapshots` that do not see all writes in tables: with the others, compactions are as
    /// without a snapshot.
    pub(in crate::compaction) fn splitting<'a>(&self, snapshots: &'a [Seqno]) -> &'a [Seqno] {
        let newest = self.newest_seqno();
        &snapshots[..snapshots.partition_point(|&snapshot| snapshot < newest)]
    }

    /// Whether all tables are open and none is marked as unreadable.
    pub(in crate::compaction) fn is_readable(&self) -> bool {
        !self.has_unreadable() && self.tables().all(|(_, _, table)| table.contents().is_some())
    }

    /// How many keys `level` holds, counted in each of its tables, for each distinct one: 1 if it
    /// repeats nothing. `None` if it is not known, because a table could not be opened yet.
    pub fn duplicate_rate(&self, level: usize) -> Option<f64> {
        if let Some(rate) = self.derived.rates[level].get() {
            return Some(*rate);
        }
        let rate = duplicate_rate(&self.levels[level])?;
        Some(*self.derived.rates[level].get_or_init(|| rate))
    }
}

impl KeyspaceVersion {
    /// What would stay of the keyspace's tables if all were merged that can be: one that is unreadable stays whole,
    /// whatever is in it, and so counts as live. `None` if it is not known, because a table could not be opened yet.
    pub fn estimate(&self, snapshots: &[Seqno]) -> Option<GarbageEstimate> {
        let mut whole = self.derived.whole.lock();
        if let Some((of, known)) = &*whole
            && of == snapshots
        {
            return Some(*known);
        }
        let tables = self.tables().map(|(_, _, table)| table);
        let (unreadable, tables): (Vec<_>, Vec<_>) =
            tables.partition(|table| table.is_unreadable());
        let found = estimate(tables.into_iter(), snapshots, true)?;
        let base = self.levels[LEVELS - 1].runs.iter().flat_map(|run| run.tables());
        let zombie_bytes: u64 = unreadable.iter().map(|table| table.meta.bytes).sum();
        let found = found.at_most(proportion(base)).beside(zombie_bytes as f64);
        *whole = Some((snapshots.to_vec(), found));
        Some(found)
    }
}

impl KeyspaceVersion {
    /// The same at `now`, in milliseconds since 1970-01-01: what has expired does not stay.
    pub fn estimate_at(&self, snapshots: &[Seqno], now: u64) -> Option<GarbageEstimate> {
        let tables = self.tables().map(|(_, _, table)| table).filter(|it| !it.is_unreadable());
        Some(self.estimate(snapshots)?.without_expired(self.expired(), tables, now))
    }

    /// The level of samples at which merges into the last level are judged, if there is a space-amplification limit:
    /// what tables above have below it would only take space, and they are small. The median's, as some of the
    /// last level's tables are small, too. Of those that are open: another says nothing.
    pub fn sample_level(&self) -> u8 {
        let judged = matches!(self.settings.dedup, Dedup::SpaceGoal { .. });
        let base = self.levels[LEVELS - 1].runs.iter().filter(|_| judged);
        let level = |table: &TableHandle| Some(table.contents()?.sketches.theta.level());
        let levels = base.flat_map(|run| run.tables()).filter_map(|table| level(table));
        let mut levels: Vec<u8> = levels.collect();
        levels.sort_unstable();
        levels.get(levels.len() / 2).copied().unwrap_or(0)
    }
}

fn duplicate_rate(level: &Level) -> Option<f64> {
    // The tables of a run are disjoint: one run repeats nothing, whatever its counters err by.
    if level.runs.len() < 2 {
        return Some(1.0);
    }
    let mut distinct = Hll::new();
    let mut keys = 0;
    for table in level.runs.iter().flat_map(|run| run.tables()) {
        let contents = table.contents()?;
        keys += contents.keys;
        distinct.merge(&contents.sketches.hll);
    }
    // Tables of range tombstones alone have no keys.
    Some(if keys == 0 { 1.0 } else { (keys as f64 / distinct.estimate()).max(1.0) })
}
