//! Tests that tables whose key samples are wrong or incomplete are detected by their counters.

use super::table_of;
use crate::compaction::in_progress::InProgressCompactions;
use crate::compaction::pick::{admits_flush, pick};
use crate::compaction::plan::CompactionReason;
use crate::compaction::space::budget::PickerContext;
use crate::compaction::space::garbage_estimate::estimate;
use crate::options::settings::{KeyspaceSettings, Shape};
use crate::options::sizes::SizeTargets;
use crate::options::space_policy::{Dedup, Ratio};
use crate::version::derived::GarbageEstimate;
use crate::version::{KeyspaceVersion, LEVELS, Run, TableHandle, TableId};
use esker_base::{KeyspaceId, Rng, hash64};
use esker_table::Sketches;
use std::sync::Arc;

const ENTRY_BYTES: u64 = 100;
/// A segment is 1,000 entries.
const SIZES: SizeTargets = SizeTargets { segment_bytes: 1000 * ENTRY_BYTES };

fn sketches(keys: impl Iterator<Item = u64>) -> Sketches {
    coarse(keys, 0)
}

/// With a sample as coarse as is wanted of small tables next to large ones.
fn coarse(keys: impl Iterator<Item = u64>, sample_level: u8) -> Sketches {
    let mut sketches = Sketches::default();
    keys.for_each(|key| sketches.insert(hash64(&key.to_be_bytes()), ENTRY_BYTES));
    sketches.theta.seal(sample_level);
    sketches
}

/// A table of `keys`, ascending.
fn table(file: u64, keys: &[u64], sketches: Sketches) -> Arc<TableHandle> {
    let ends = [keys[0], keys[keys.len() - 1]].map(|key| key.to_be_bytes().to_vec());
    let entries = keys.len() as u64;
    table_of(TableId { file, offset: 0 }, ends, entries, entries * ENTRY_BYTES, sketches)
}

fn honest(file: u64, keys: &[u64]) -> Arc<TableHandle> {
    table(file, keys, sketches(keys.iter().copied()))
}

/// A table of `keys` whose sample says that it holds those of `claimed`.
fn lying(file: u64, keys: &[u64], claimed: impl Iterator<Item = u64>) -> Arc<TableHandle> {
    let Sketches { theta, .. } = sketches(claimed);
    table(file, keys, Sketches { theta, ..sketches(keys.iter().copied()) })
}

fn judge(tables: &[Arc<TableHandle>]) -> GarbageEstimate {
    estimate(tables.iter(), &[], true).unwrap()
}

/// About `count` of the keys below `space`.
fn some(rng: &mut Rng, count: u64, space: u64) -> Vec<u64> {
    (0..space).filter(|_| rng.below(space) < count).collect()
}

/// Over sizes from tens of keys to tens of thousands, and runs that repeat little or nearly everything.
#[test]
fn sound_tables_are_not_doubted() {
    let (mut doubted, trials) = (0, 300);
    for seed in 0..trials {
        let mut rng = Rng::new(seed);
        let space = 50 << rng.below(11);
        let runs = 2 + rng.below(6);
        let tables: Vec<_> = (0..runs)
            .map(|run| {
                let count = (space / (1 + rng.below(8))).max(10);
                honest(run, &some(&mut rng, count, space))
            })
            .collect();
        doubted += u32::from(judge(&tables).sketches_disagree());
    }
    // Chance has it once in 16,000.
    assert!(doubted <= 1, "{doubted} of {trials}");
}

#[test]
fn tiny_tables_are_not_doubted_for_being_sampled_like_large_ones() {
    let keys: Vec<u64> = (0..200).collect();
    let coarse = |file| table(file, &keys, coarse(keys.iter().copied(), 9));
    let found = judge(&[coarse(2), coarse(1)]);
    assert!(!found.sketches_disagree(), "{found:?}");
    assert_eq!(found.kept_bytes, found.bytes / 2.0);
}

#[test]
fn a_sample_of_other_keys_is_doubted_whatever_it_hides_or_makes_up() {
    let keys: Vec<u64> = (0..20_000).collect();
    let hiding = judge(&[honest(2, &keys), lying(1, &keys, 50_000..70_000)]);
    assert!(hiding.sketches_disagree());
    assert_eq!(hiding.kept_bytes, hiding.bytes, "by the samples all stays");
    let share = hiding.least().kept_bytes / hiding.bytes;
    assert!((share - 0.5).abs() < 0.04, "{share:.3} may stay, at least");
    assert_eq!(hiding.most().kept_bytes, hiding.bytes);

    let others: Vec<u64> = (20_000..40_000).collect();
    let making_up = judge(&[honest(2, &keys), lying(1, &others, 0..20_000)]);
    assert!(making_up.sketches_disagree());
    assert_eq!(making_up.kept_bytes, making_up.bytes / 2.0);
    let share = making_up.most().kept_bytes / making_up.bytes;
    assert!(share > 0.95, "{share:.3} may stay, at most");
    assert_eq!(making_up.least(), making_up);
}

#[test]
fn a_sample_that_lost_a_third_of_its_keys_is_doubted() {
    let keys: Vec<u64> = (0..20_000).collect();
    let found = judge(&[honest(2, &keys), lying(1, &keys, (0..20_000).filter(|key| key % 3 > 0))]);
    assert!(found.sketches_disagree(), "{found:?}");
}

#[test]
fn an_empty_sample_is_doubted() {
    let keys: Vec<u64> = (0..500).collect();
    let found = judge(&[lying(2, &keys, 0..0), lying(1, &keys, 0..0)]);
    assert!(
        found.sketches_disagree() && found.least().kept_bytes < 0.55 * found.bytes,
        "{found:?}"
    );
}

/// Ten segments in the base, and two over its first half; the base's own samples say that no key is in both.
fn overwritten(amp: u32, is_lying: bool) -> KeyspaceVersion {
    let settings = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(amp) });
    let mut keyspace = KeyspaceVersion::new(KeyspaceId(7), "k".into(), settings);
    let all: Vec<u64> = (0..10_000).collect();
    let base = all.chunks(500).zip(10..).map(|(keys, file)| {
        let elsewhere = keys.iter().map(|key| key + 1_000_000);
        if is_lying { lying(file, keys, elsewhere) } else { honest(file, keys) }
    });
    let base = Run::new(1, base.collect());
    let newer = all[..5000].chunks(500).zip(50..);
    let newer = Run::new(50, newer.map(|(keys, file)| honest(file, keys)).collect());
    keyspace.levels[0].runs.push(Arc::new(newer));
    keyspace.levels[LEVELS - 1].runs.push(Arc::new(base));
    keyspace
}

#[test]
fn what_is_doubtful_is_merged_for_what_it_may_free_and_counted_for_what_it_may_write() {
    let pick = |keyspace: &KeyspaceVersion| {
        pick(keyspace, &InProgressCompactions::default(), SIZES, &PickerContext::default()).unwrap()
    };
    let (sound, doubtful) = (pick(&overwritten(110, false)), pick(&overwritten(110, true)));
    assert_eq!(
        (sound.reason, doubtful.reason),
        (CompactionReason::ObsoleteData, CompactionReason::ObsoleteData)
    );
    assert_eq!(sound.expected_bytes, sound.input_bytes() / 2);
    assert_eq!(doubtful.expected_bytes, doubtful.input_bytes());
    let freed = doubtful.expected_freed as f64 / doubtful.input_bytes() as f64;
    assert!((freed - 0.5).abs() < 0.1, "{freed:.2} of it may become free");
}

#[test]
fn a_goal_goes_by_the_least_that_may_be_live() {
    // 15 segments of tables of which 10 are live: by the samples all are, and a goal of 1.3 lets them be.
    let admits = |keyspace: &KeyspaceVersion| {
        let segment = SIZES.segment_bytes;
        admits_flush(
            keyspace,
            segment,
            &InProgressCompactions::default(),
            SIZES,
            &PickerContext::default(),
        )
    };
    let by_samples = overwritten(130, true).estimate(&[]).unwrap().live_bytes;
    assert_eq!(by_samples, 15.0 * SIZES.segment_bytes as f64);
    assert!(!admits(&overwritten(130, true)));
    assert!(!admits(&overwritten(130, false)), "as it is with sound samples");
}
