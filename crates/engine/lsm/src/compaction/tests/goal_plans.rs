//! Tests the picker for a space-amplification limit on single trees. Tables are lists of keys with
//! real sketches.

use super::lose;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::manual::full;
use crate::compaction::pick::{admits_flush, pick};
use crate::compaction::plan::{CompactionInput, CompactionPlan, CompactionReason};
use crate::compaction::space::budget::{PickerContext, SpaceBudget};
use crate::options::settings::{KeyspaceSettings, Shape};
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::{Dedup, Ratio};
use crate::stats::write_history::WriteHistory;
use crate::version::derived::GarbageEstimate;
use crate::version::table_lifetimes::TableBirth;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableFile, TableHandle, TableId, TableMeta};
use esker_base::{KeyspaceId, Seqno, hash64};
use esker_storage::MemoryStorage;
use esker_table::{Expiring, Sketches};
use std::ops::Range;
use std::sync::Arc;

const BASE: usize = LEVELS - 1;
const ENTRY_BYTES: u64 = 100;
/// A segment is 100 entries.
const SIZES: SizeTargets = SizeTargets { segment_bytes: 100 * ENTRY_BYTES };

struct Tree {
    keyspace: KeyspaceVersion,
    next_file: u64,
}

impl Tree {
    fn new(amp: u32) -> Self {
        let settings = KeyspaceSettings::default()
            .shape(Shape::Tiered { runs: 8 })
            .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(amp) });
        let keyspace = KeyspaceVersion::new(KeyspaceId(7), "k".into(), settings);
        Tree { keyspace, next_file: 100 }
    }

    fn meta(&mut self, keys: &Range<u32>, seqnos: Range<Seqno>) -> TableMeta {
        self.next_file += 1;
        let entries = keys.len() as u64;
        let id = TableId { file: self.next_file, offset: 0 };
        let (smallest, largest) = (keys.start.to_be_bytes(), (keys.end - 1).to_be_bytes());
        TableMeta {
            bytes: entries * ENTRY_BYTES,
            entries,
            raw_bytes: entries * ENTRY_BYTES,
            min_seqno: seqnos.start,
            max_seqno: seqnos.end,
            ..TableMeta::new(id, smallest, largest)
        }
    }

    /// A table with all of `keys`.
    fn table(&mut self, keys: Range<u32>, seqnos: Range<Seqno>) -> Arc<TableHandle> {
        let meta = self.meta(&keys, seqnos);
        let mut sketches = Sketches::default();
        keys.for_each(|key| sketches.insert(hash64(&key.to_be_bytes()), ENTRY_BYTES));
        sketches.theta.seal(0);
        TableHandle::sketched(meta, sketches)
    }

    /// The same, and of ten of them four expire at a time.
    fn expiring(&mut self, keys: Range<u32>, time: u64) -> Arc<TableHandle> {
        let entries = keys.len() as u64 * 4 / 10;
        let expiring = Some(Expiring { entries, earliest: time, latest: time });
        let sketched = self.table(keys.clone(), 0..0);
        let sketches = sketched.contents().unwrap().sketches.clone();
        TableHandle::sketched(TableMeta { expiring, ..sketched.meta.clone() }, sketches)
    }

    /// A table with every so many-th of `keys`, the last included.
    fn sparse(&mut self, keys: Range<u32>, step: usize, seqnos: Range<Seqno>) -> Arc<TableHandle> {
        let (meta, last) = (self.meta(&keys, seqnos), keys.end - 1);
        let mut sketches = Sketches::default();
        let own = keys.step_by(step).chain([last]);
        let entries = own.clone().count() as u64;
        own.for_each(|key| sketches.insert(hash64(&key.to_be_bytes()), ENTRY_BYTES));
        sketches.theta.seal(0);
        let (bytes, raw_bytes) = (entries * ENTRY_BYTES, entries * ENTRY_BYTES);
        TableHandle::sketched(TableMeta { bytes, entries, raw_bytes, ..meta }, sketches)
    }

    /// A table of a range tombstone at each end of `keys` and nothing else.
    fn tombstones(&mut self, keys: Range<u32>, seqnos: Range<Seqno>) -> Arc<TableHandle> {
        let meta = self.meta(&keys, seqnos);
        TableHandle::detached(TableMeta {
            bytes: 500,
            entries: 0,
            raw_bytes: 20,
            range_tombstones: 2,
            ..meta
        })
    }

    /// A table of all of `keys`, some of them deleted, the oldest among these.
    fn deletes(&mut self, keys: Range<u32>, seqnos: Range<Seqno>) -> Arc<TableHandle> {
        let meta = self.meta(&keys, seqnos);
        TableHandle::detached(TableMeta { deletes: 10, ..meta })
    }

    /// Puts a run below those that `level` has.
    fn add(&mut self, level: usize, id: u64, tables: Vec<Arc<TableHandle>>) {
        self.keyspace.levels[level].runs.push(Arc::new(Run::new(id, tables)));
    }

    /// A base of `tables` tables of half a segment.
    fn add_base(&mut self, tables: u32) {
        let tables = (0..tables).map(|at| self.table(at * 50..(at + 1) * 50, 0..0));
        let tables = tables.collect();
        self.add(BASE, 1, tables);
    }

    /// What runs if the first tables of a level's newest run are being rewritten where they are.
    fn rewriting(&self, level: usize, tables: usize) -> InProgressCompactions {
        let run = &self.keyspace.levels[level].runs[0];
        let tables = run.tables()[..tables].to_vec();
        let input = CompactionInput { level, run: run.id, tables };
        let plan = CompactionPlan::new(
            &self.keyspace,
            vec![input],
            level,
            run.id,
            CompactionReason::Manual,
            SIZES,
        );
        let mut busy = InProgressCompactions::default();
        busy.claim(&plan.unwrap());
        busy
    }

    fn ledger(&self, busy: &InProgressCompactions, around: &PickerContext) -> SpaceBudget {
        let Dedup::SpaceGoal { amp } = self.keyspace.settings.dedup else { unreachable!() };
        SpaceBudget::of(&self.keyspace, amp, busy, SIZES, around).unwrap()
    }

    fn pick(&self, busy: &InProgressCompactions) -> Option<CompactionPlan> {
        pick(&self.keyspace, busy, SIZES, &PickerContext::default())
    }

    /// Whether a flush may start that, with a plan after it, leaves a segment of space.
    fn admits(&self, busy: &InProgressCompactions, around: &PickerContext) -> bool {
        admits_flush(&self.keyspace, 5 * SIZES.segment_bytes, busy, SIZES, around)
    }
}

/// Cuts are made at keys. A table of tombstones that is rewritten where it is stays as old as it was.
#[test]
fn old_range_tombstones_go_into_the_base_however_wide_they_are() {
    let mut tree = Tree::new(300);
    let newest = tree.table(2000..2010, 90_000..90_009);
    tree.add(0, 60, vec![newest]);
    let old = tree.tombstones(0..1000, 1..2);
    tree.add(0, 50, vec![old]);
    tree.add_base(20);
    let plan = tree.pick(&InProgressCompactions::default()).unwrap();
    assert_eq!((plan.reason, plan.output_level), (CompactionReason::OldDeletes, BASE));
}

#[test]
fn merges_that_make_the_base_at_the_same_time_make_one_run() {
    let mut tree = Tree::new(120);
    let (upper, lower) = (tree.table(300..600, 301..600), tree.table(0..300, 1..300));
    tree.add(0, 60, vec![upper]);
    tree.add(0, 50, vec![lower]);
    let mut busy = InProgressCompactions::default();
    let plans = [(); 2].map(|()| {
        let plan = tree.pick(&busy).unwrap();
        busy.claim(&plan);
        plan
    });
    let [first, second] = plans.map(|plan| (plan.output_level, plan.output_run));
    assert_eq!((first.0, first), (BASE, second));
}

#[test]
fn old_deletes_that_do_not_fit_wait_for_what_runs() {
    let mut tree = Tree::new(120);
    let newest = tree.table(2000..2010, 90_000..90_009);
    tree.add(0, 60, vec![newest]);
    let old = tree.tombstones(0..1000, 1..2);
    tree.add(0, 50, vec![old]);
    tree.add_base(20);
    assert!(tree.pick(&tree.rewriting(0, 1)).is_none());
    assert_eq!(
        tree.pick(&InProgressCompactions::default()).unwrap().reason,
        CompactionReason::OldDeletes
    );
}

#[test]
fn deletes_that_the_oldest_snapshot_sees_are_due_though_their_table_has_newer_ones() {
    let mut tree = Tree::new(300);
    let newest = tree.table(2000..2010, 90_000..90_009);
    tree.add(0, 60, vec![newest]);
    let old = tree.deletes(0..50, 100..600);
    tree.add(0, 50, vec![old]);
    tree.add_base(20);
    let next = |snapshots: &[Seqno]| {
        let around = PickerContext { snapshots: snapshots.to_vec(), ..PickerContext::default() };
        pick(&tree.keyspace, &InProgressCompactions::default(), SIZES, &around)
            .map(|plan| plan.reason)
    };
    assert_eq!(next(&[100, 700]), Some(CompactionReason::OldDeletes));
    assert_eq!(next(&[99, 700]), None, "a merge would drop nothing");
}

/// The next snapshot lets a few more deletes go, and the next after that: each for the price of a table.
#[test]
fn a_table_of_the_base_that_a_snapshot_stands_in_is_not_rewritten_for_deletes_again_and_again() {
    let mut tree = Tree::new(300);
    let newest = tree.table(2000..2010, 90_000..90_009);
    tree.add(0, 60, vec![newest]);
    let table = tree.deletes(0..50, 100..600);
    let file = table.meta.id.file;
    let others = (1..20).map(|at| tree.table(at * 50..(at + 1) * 50, 0..0));
    let tables = std::iter::once(table).chain(others.collect::<Vec<_>>()).collect();
    tree.add(BASE, 1, tables);
    let next = |bytes_since_it_was_made| {
        let mut history = WriteHistory::after(0);
        history.note(50_000, 300_000, file);
        history.note(90_000, bytes_since_it_was_made, file + 1000);
        let around = PickerContext {
            snapshots: vec![300],
            histories: [(KeyspaceId(7), Arc::new(history))].into(),
            ..PickerContext::default()
        };
        pick(&tree.keyspace, &InProgressCompactions::default(), SIZES, &around)
            .map(|plan| plan.reason)
    };
    let live_bytes = 1010 * ENTRY_BYTES;
    assert_eq!(next(live_bytes / 2), None);
    assert_eq!(next(2 * live_bytes), Some(CompactionReason::OldDeletes));
}

/// While a keyspace has so many bytes in the MemTable that is being flushed.
fn flushing(keyspace: u32, bytes: u64) -> PickerContext {
    PickerContext {
        flushing_bytes: [(KeyspaceId(keyspace), bytes)].into(),
        ..PickerContext::default()
    }
}

/// Of 10 segments, and a goal of 18: a flush of five and a plan of two leave one.
fn with_a_segment_left() -> Tree {
    let mut tree = Tree::new(150);
    tree.add_base(20);
    tree
}

#[test]
fn what_a_keyspace_s_plans_may_write_counts_toward_its_goal_and_not_toward_others() {
    let (tree, mut other) = (with_a_segment_left(), with_a_segment_left());
    other.keyspace.id = KeyspaceId(8);
    let around = PickerContext::default();
    assert!(tree.admits(&InProgressCompactions::default(), &around));
    assert!(!tree.admits(&tree.rewriting(BASE, 6), &around), "three segments are being written");
    assert!(tree.admits(&other.rewriting(BASE, 6), &around), "elsewhere");
}

/// Ten segments in the base, and a table of half a segment over all of them.
fn with_a_wide_table(amp: u32) -> Tree {
    let mut tree = Tree::new(amp);
    let wide = tree.sparse(0..1000, 20, 1..51);
    tree.add(0, 50, vec![wide]);
    tree.add_base(20);
    tree
}

#[test]
fn a_full_compaction_cuts_a_table_that_lies_over_more_of_the_base_than_there_is_room_for() {
    let next = |tree: &Tree| {
        let around = PickerContext::default();
        full(&tree.keyspace, u64::MAX, &InProgressCompactions::default(), SIZES, &around).unwrap()
    };
    // 12 segments and three beside are the limit, four and a half of them free.
    let plan = next(&with_a_wide_table(120));
    assert_eq!(
        (plan.reason, plan.output_level, plan.tables().count()),
        (CompactionReason::Manual, 0, 1)
    );
    assert!(plan.cutting.unwrap().keys.len() >= 4);
    // Where there is room for all, it goes into the base as it is.
    let plan = next(&with_a_wide_table(300));
    assert_eq!(
        (plan.reason, plan.output_level, plan.tables().count()),
        (CompactionReason::Manual, BASE, 21)
    );
}

#[test]
fn files_that_readers_hold_count_toward_the_goal_of_the_keyspace_that_they_were_in() {
    let tree = with_a_segment_left();
    let left = |keyspace| PickerContext {
        zombie_bytes: [(KeyspaceId(keyspace), 3 * SIZES.segment_bytes)].into(),
        ..PickerContext::default()
    };
    assert!(!tree.admits(&InProgressCompactions::default(), &left(7)));
    assert!(tree.admits(&InProgressCompactions::default(), &left(8)), "another keyspace's");
}

#[test]
fn room_for_the_next_flush_is_kept_unless_one_runs_which_has_its_own() {
    let tree = with_a_segment_left();
    let at_rest = tree.ledger(&InProgressCompactions::default(), &PickerContext::default());
    let around = flushing(7, SIZES.segment_bytes);
    let flushing = tree.ledger(&InProgressCompactions::default(), &around);
    assert_eq!(at_rest.flush, SIZES.segment_bytes as f64);
    assert_eq!(flushing.flush, 0.0);
    assert_eq!(at_rest.room_beside_flush(), flushing.room_beside_flush());
}

#[test]
fn a_merge_that_frees_little_is_not_begun_beyond_the_room_for_files_that_readers_hold() {
    // New versions of a tenth of the keys.
    let mut tree = Tree::new(110);
    let newer = (0..8).map(|at| tree.sparse(at * 50..(at + 1) * 50, 10, 1..51)).collect();
    tree.add(0, 50, newer);
    tree.add_base(30);
    let bytes = 6 * SIZES.segment_bytes;
    let full = flushing(7, bytes);
    let held =
        PickerContext { zombie_bytes: [(KeyspaceId(7), bytes)].into(), ..Default::default() };
    let next = |around| pick(&tree.keyspace, &InProgressCompactions::default(), SIZES, around);
    assert_eq!(
        next(&full).map(|plan| plan.reason),
        Some(CompactionReason::ObsoleteData),
        "it has to begin"
    );
    assert!(next(&held).is_none(), "its room is about to come");
}

#[test]
fn a_merge_that_would_not_fit_without_held_files_either_does_not_wait_for_their_readers() {
    // New versions of a tenth of the keys: all that a goal of 1.1 allows.
    let mut tree = Tree::new(110);
    let newer = (0..8).map(|at| tree.sparse(at * 50..(at + 1) * 50, 10, 1..51)).collect();
    tree.add(0, 50, newer);
    tree.add_base(30);
    let next = |used: u64, left| {
        let zombie_bytes = [(KeyspaceId(7), left)].into();
        let around = PickerContext { zombie_bytes, ..flushing(7, used - left) };
        assert!(tree.ledger(&InProgressCompactions::default(), &around).room() < 0.0);
        pick(&tree.keyspace, &InProgressCompactions::default(), SIZES, &around)
    };
    let (used, little) = (6 * SIZES.segment_bytes, SIZES.segment_bytes / 10);
    assert!(next(used, used).is_none(), "there is room without them");
    assert_eq!(next(used, little).map(|plan| plan.reason), Some(CompactionReason::ObsoleteData));
}

#[test]
fn while_one_merge_makes_room_another_is_not_begun_for_less() {
    // 15 segments, a goal of 18 and three, and four segments of new versions.
    let mut tree = Tree::new(120);
    let newer = (0..8).map(|at| tree.table(at * 50..(at + 1) * 50, 1..51)).collect();
    tree.add(0, 50, newer);
    tree.add_base(30);
    let mut busy = InProgressCompactions::default();
    let first = tree.pick(&busy).unwrap();
    assert_eq!(first.reason, CompactionReason::ObsoleteData);
    busy.claim(&first);
    let next = tree.pick(&busy);
    assert!(next.is_none_or(|plan| plan.reason != CompactionReason::ObsoleteData));
}

#[test]
fn while_a_table_is_narrowed_no_merge_is_begun_for_what_it_makes_room_for() {
    // As above; and a table over the other end of the base is being cut.
    let mut tree = Tree::new(120);
    let wide = tree.sparse(1000..1500, 20, 60..90);
    tree.add(0, 60, vec![wide]);
    let newer = (0..8).map(|at| tree.table(at * 50..(at + 1) * 50, 1..51)).collect();
    tree.add(0, 50, newer);
    tree.add_base(30);
    assert_eq!(
        tree.pick(&InProgressCompactions::default()).map(|plan| plan.reason),
        Some(CompactionReason::ObsoleteData)
    );
    let run = &tree.keyspace.levels[0].runs[0];
    let input = CompactionInput::whole(0, run);
    let narrowing = CompactionPlan::new(
        &tree.keyspace,
        vec![input],
        0,
        run.id,
        CompactionReason::Narrowing,
        SIZES,
    )
    .unwrap();
    let mut busy = InProgressCompactions::default();
    busy.claim(&narrowing);
    let next = tree.pick(&busy);
    assert!(next.is_none_or(|plan| plan.reason != CompactionReason::ObsoleteData));
}

#[test]
fn a_small_keyspace_frees_garbage_by_one_merge_at_a_time_and_a_large_one_by_several() {
    let ledger = |segments: f64| SpaceBudget {
        whole: GarbageEstimate { live_bytes: 0.0, ..GarbageEstimate::default() },
        limit: segments * SIZES.segment_bytes as f64,
        ..with_a_segment_left().ledger(&InProgressCompactions::default(), &PickerContext::default())
    };
    let most = |segments| ledger(segments).merges_most(SIZES.segment_bytes);
    assert_eq!([0.5, 15.9, 16.1, 80.0].map(most), [1, 1, 2, 10]);
}

#[test]
fn the_memtable_that_is_being_flushed_counts_toward_the_goal() {
    let tree = with_a_segment_left();
    assert!(!tree.admits(&InProgressCompactions::default(), &flushing(7, 3 * SIZES.segment_bytes)));
    assert!(
        tree.admits(&InProgressCompactions::default(), &flushing(8, 3 * SIZES.segment_bytes)),
        "another's part"
    );
}

#[test]
fn a_keyspace_with_little_in_a_flush_keeps_room_for_one_of_its_own() {
    let tree = with_a_segment_left();
    let around = flushing(7, SIZES.segment_bytes / 10);
    let found = tree.ledger(&InProgressCompactions::default(), &around);
    let at_rest = tree.ledger(&InProgressCompactions::default(), &PickerContext::default());
    assert_eq!(found.flush, 0.9 * SIZES.segment_bytes as f64);
    assert_eq!(found.room_beside_flush(), at_rest.room_beside_flush());
}

/// In place of a table that is known, one of as many bytes of which a part is lost, and which was never opened.
fn lost(table: &TableHandle) -> Arc<TableHandle> {
    let file = TableFile::new(Arc::new(MemoryStorage::new()), table.meta.id.file);
    let table = TableHandle::new(table.meta.clone(), TableBirth::default(), file);
    lose(&table);
    table
}

#[test]
fn a_lost_table_counts_as_live_and_merges_go_on_beside_it() {
    // 15 segments, a goal of 18 and three, and five segments of new versions.
    let tree = |loses: bool| {
        let mut tree = Tree::new(120);
        let newer = (0..10).map(|at| tree.table(at * 50..(at + 1) * 50, 1..51)).collect();
        tree.add(0, 50, newer);
        tree.add_base(30);
        let base = Arc::make_mut(&mut tree.keyspace.levels[BASE].runs[0]);
        if loses {
            let first = &mut base.tables_mut()[0];
            *first = lost(first);
        }
        tree
    };
    let (sound, losing) = (tree(false), tree(true));
    let whole = |tree: &Tree| {
        tree.ledger(&InProgressCompactions::default(), &PickerContext::default()).whole.live_bytes
    };
    // Its older versions stay, too.
    let more = whole(&losing) - whole(&sound);
    assert!((more / (50 * ENTRY_BYTES) as f64 - 1.0).abs() < 0.1, "{more}");
    let mut busy = InProgressCompactions::default();
    let mut merged = 0;
    while let Some(plan) = losing.pick(&busy) {
        assert!(!plan.takes_unreadable());
        busy.claim(&plan);
        merged += plan.tables().count();
    }
    assert!(merged > 0, "there is more above the base than the goal leaves room for");
}

#[test]
fn what_lost_tables_would_tell_of_samples_the_others_do() {
    let mut tree = Tree::new(120);
    let tables = (0..3).map(|at| tree.table(at * 20_000..(at + 1) * 20_000, 0..0));
    let tables: Vec<_> = tables.collect();
    let known = tables[0].contents().unwrap().sketches.theta.level();
    assert!(known > 0);
    let tables = vec![tables[0].clone(), lost(&tables[1]), lost(&tables[2])];
    tree.add(BASE, 1, tables);
    assert_eq!(tree.keyspace.sample_level(), known);
}

#[test]
fn a_full_compaction_goes_on_beside_a_lost_table_of_the_base() {
    let mut tree = Tree::new(300);
    let newer = (0..4).map(|at| tree.table(at * 50..(at + 1) * 50, 1..51)).collect();
    tree.add(0, 50, newer);
    tree.add_base(4);
    lose(&tree.keyspace.levels[BASE].runs[0].tables()[1]);
    let around = PickerContext::default();
    let plan =
        full(&tree.keyspace, u64::MAX, &InProgressCompactions::default(), SIZES, &around).unwrap();
    assert!(!plan.takes_unreadable() && plan.output_level == BASE, "{plan:?}");
}

/// Otherwise writers would wait because time has passed.
#[test]
fn what_has_expired_is_obsolete_to_compactions_and_live_to_flushes() {
    let mut tree = Tree::new(110);
    let tables = (0..40).map(|at| tree.expiring(at * 50..(at + 1) * 50, 100)).collect();
    tree.add(BASE, 1, tables);
    let busy = InProgressCompactions::default();
    let at = |now| PickerContext { now, ..PickerContext::default() };
    let picked = |now| pick(&tree.keyspace, &busy, SIZES, &at(now)).map(|plan| plan.reason);
    assert_eq!((picked(99), picked(100)), (None, Some(CompactionReason::ObsoleteData)));
    assert!(tree.ledger(&busy, &at(100)).room() < 0.0);
    for now in [99, 100] {
        assert!(admits_flush(&tree.keyspace, SIZES.segment_bytes, &busy, SIZES, &at(now)));
    }
}
