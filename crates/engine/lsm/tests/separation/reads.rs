//! What readers see.

use crate::support::{THRESHOLD, World, key, long, open, separating};
use esker_api::{CompactionFilter, FilterDecision, FilterError};
use esker_lsm::{Dedup, KeyspaceSettings, Ratio, Settings, Shape};

#[test]
fn long_values_are_read_in_every_way_wherever_they_are() {
    let world = World::new();
    (0..50).for_each(|n| world.put(&key(n), 1));
    world.expect(1);
    world.flush();
    assert_eq!(world.values().live_values, 50);
    world.expect(1);
    world.fill(2);
    world.expect(2);
    world.compact();
    world.expect(2);
    let world = world.reopened();
    world.expect(2);
    assert_eq!(world.values().live_values, 50);
}

#[test]
fn only_values_of_the_threshold_and_more_are_separated() {
    let world = World::new();
    for (key, bytes) in [("shorter", THRESHOLD - 1), ("as long", THRESHOLD)] {
        world.db.put(&world.keyspace, key, vec![7; bytes as usize]).unwrap();
    }
    world.flush();
    let values = world.values();
    assert_eq!((values.live_values, values.live_bytes), (1, u64::from(THRESHOLD)));
}

#[test]
fn a_snapshot_keeps_the_value_that_it_sees() {
    let world = World::new();
    world.fill(1);
    let before = world.db.snapshot();
    world.fill(2);
    world.compact();
    assert_eq!(world.values().live_values, 100);
    let old = before.get(&world.keyspace, key(7)).unwrap().unwrap();
    assert_eq!(old, &long(&key(7), 1)[..]);
    world.expect(2);
    drop(before);
    world.compact();
    world.fill(3);
    world.compact();
    assert_eq!(world.values().live_values, 50);
}

#[test]
fn a_read_that_may_not_wait_says_so() {
    let world = World::new();
    world.fill(1);
    let world = world.reopened();
    let error = world.db.try_get(&world.keyspace, key(3)).unwrap_err();
    assert!(matches!(error, esker_base::Error::WouldBlock), "{error}");
}

#[test]
fn operands_are_folded_over_a_value_in_a_value_file() {
    let world = World::with(separating().merge("append"), Settings::default());
    world.fill(1);
    let expected = [&long(&key(4), 1)[..], b"tail"].concat();
    world.db.merge(&world.keyspace, key(4), b"tail").unwrap();
    let read = || world.db.get(&world.keyspace, key(4)).unwrap().unwrap();
    assert_eq!(read(), &expected[..]);
    world.flush();
    assert_eq!(read(), &expected[..]);
    world.compact();
    assert_eq!(read(), &expected[..]);
    let scanned = world.db.range(&world.keyspace, key(4)..key(5)).next().unwrap().unwrap().1;
    assert_eq!(scanned, &expected[..]);
    assert_eq!(world.values().live_values, 50, "what was folded is as long");
}

/// Drops what begins with the key of 3, and replaces what begins with that of 4.
struct Rules;

impl CompactionFilter for Rules {
    fn name(&self) -> &str {
        "rules"
    }
    fn filter(&self, _: &[u8], value: &[u8]) -> Result<FilterDecision, FilterError> {
        Ok(match value {
            it if it.starts_with(b"key003") => FilterDecision::Drop,
            it if it.starts_with(b"key004") => FilterDecision::Replace(b"short".to_vec()),
            _ => FilterDecision::Keep,
        })
    }
}

#[test]
fn a_compaction_filter_gets_the_value_itself() {
    let settings = Settings::default().compaction_filter(Rules);
    let world = World::with(separating().compaction_filter("rules"), settings);
    world.fill(1);
    world.compact();
    let read = |n| world.db.get(&world.keyspace, key(n)).unwrap().map(|value| value.to_vec());
    assert_eq!([read(3), read(4)], [None, Some(b"short".to_vec())]);
    assert_eq!(read(5), Some(long(&key(5), 1)));
    assert_eq!(world.values().live_values, 48);
}

#[test]
fn the_setting_may_be_changed_at_any_time() {
    let world = World::with(KeyspaceSettings::default(), Settings::default());
    world.fill(1);
    assert_eq!(world.values().files, 0);
    world.set("k.separation_threshold=100");
    world.compact();
    world.put("another", 1);
    world.db.delete(&world.keyspace, "another").unwrap();
    world.compact();
    world.fill(2);
    assert!(world.values().live_values >= 50);
    world.expect(2);
    let world = world.reopened();
    world.fill(3);
    assert!(world.values().live_values > 50, "the setting is stored");
    world.set("k.separation_threshold=none");
    world.fill(4);
    world.compact();
    world.expect(4);
    assert_eq!(world.values().files, 0);
    let world = world.reopened();
    world.expect(4);
}

#[test]
fn a_space_amplification_limit_and_a_threshold_exclude_each_other() {
    let limited = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) });
    let world = World::new();
    for refused in
        [limited.separation_threshold(4096), KeyspaceSettings::default().separation_threshold(0)]
    {
        let error = world.db.keyspace("other", refused).unwrap_err().to_string();
        assert!(error.contains("separation_threshold"), "{error}");
    }
    world.db.keyspace("other", limited).unwrap();
    let change = "other.separation_threshold=4KiB".parse().unwrap();
    let error = world.db.set(&change).unwrap_err().to_string();
    assert!(error.contains("space-amplification limit"), "{error}");
}

#[test]
fn values_are_compressed_as_tables_are() {
    let lz4 = KeyspaceSettings::default().separation_threshold(THRESHOLD);
    let world = World::with(lz4, Settings::default());
    world.fill(1);
    let values = world.values();
    assert!(values.live_values == 50 && values.live_bytes < 50 * 200, "{values:?}");
    world.expect(1);
    drop(world.db);
    let db = open(&world.storage, Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    assert_eq!(db.get(&keyspace, key(9)).unwrap().unwrap(), &long(&key(9), 1)[..]);
}
