//! What compaction carries, and what becomes of value files.

use crate::support::{World, key, long};

#[test]
fn compaction_carries_places_and_leaves_values_where_they_are() {
    let world = World::new();
    world.fill(1);
    let files = world.value_files();
    assert!(world.table_bytes() < 50 * 200);
    // A trivial move would not rewrite anything at all.
    world.db.put(&world.keyspace, key(7), b"short").unwrap();
    world.flush();
    world.compact();
    assert_eq!(world.value_files(), files);
    assert_eq!(world.values().live_values, 49);
}

#[test]
fn a_value_file_is_removed_with_its_last_value() {
    let world = World::new();
    world.fill(1);
    let first = world.value_files();
    world.fill(2);
    assert_eq!(world.value_files().len(), 2);
    world.compact();
    let left = world.value_files();
    assert!(left.len() == 1 && left != first, "{left:?}");
    let space = world.values();
    assert_eq!((space.files, space.live_values), (1, 50));
    world.expect(2);
}

#[test]
fn a_reader_keeps_the_files_of_its_view() {
    let world = World::new();
    world.fill(1);
    let snapshot = world.db.snapshot();
    let mut cursor = snapshot.cursor(&world.keyspace, ..).unwrap();
    esker_api::Cursor::seek_first(&mut cursor).unwrap();
    world.db.delete_range(&world.keyspace, "a".."z").unwrap();
    world.compact();
    let (mut keys, mut more) = (0, true);
    while more {
        keys += 1;
        esker_api::Cursor::next(&mut cursor).unwrap();
        more = esker_api::Cursor::current(&cursor).is_some();
    }
    assert_eq!(keys, 50);
    drop((cursor, snapshot));
    world.put("last", 1);
    world.compact();
    assert_eq!(world.values().live_values, 1);
    assert_eq!(world.value_files().len(), 1);
}

#[test]
fn dropping_a_keyspace_removes_its_value_files() {
    let world = World::new();
    world.fill(1);
    assert_eq!(world.value_files().len(), 1);
    world.db.drop_keyspace(&world.keyspace).unwrap();
    assert_eq!(world.value_files(), [""; 0]);
}

#[test]
fn garbage_beyond_a_third_is_collected_as_compactions_meet_its_file() {
    let world = World::new();
    world.fill(1);
    let first = world.value_files();
    // Three fifths of the first file become garbage.
    (0..30).for_each(|n| world.put(&key(n), 2));
    world.compact();
    let space = world.values();
    assert_eq!(space.live_values, 50);
    assert!(world.value_files().contains(&first[0]), "when it began there was no garbage");
    world.put("another", 1);
    world.put(&key(49), 2);
    world.compact();
    assert!(
        !world.value_files().contains(&first[0]),
        "{:?} {:?}",
        world.value_files(),
        world.values()
    );
    let space = world.values();
    assert_eq!(space.live_values, 51);
}

#[test]
fn values_that_are_overwritten_again_and_again_take_two_thirds_as_much_again_at_most() {
    let world = World::new();
    world.fill(0);
    let (mut most, mut number) = (0.0_f64, 1_u32);
    for version in 1..40 {
        for _ in 0..25 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            world.put(&key((number >> 8) % 50), version);
        }
        world.compact();
        // A compaction knows of no obsolete data that it makes itself.
        while world.db.run_background_job() {}
        let space = world.values();
        most = most.max(space.bytes as f64 / space.live_bytes as f64);
    }
    // Two fifths are obsolete at most, and heads take 2%.
    assert!(most < 1.72, "{most}");
}

#[test]
fn space_amplification_counts_live_values() {
    let world = World::new();
    for version in 0..4 {
        world.fill(version);
        world.compact();
    }
    let live = world.db.estimate_live_data().unwrap();
    assert!((20_000.0..30_000.0).contains(&live.bytes), "{live:?}");
    let space = world.db.stats().account.space;
    let (mean, peak) = (space.amp_mean().unwrap(), space.amp_peak().unwrap());
    // Each compaction has both versions of all values for a while.
    assert!((1.0..3.0).contains(&mean) && peak < 4.0, "{mean} {peak}");
    let stats = world.db.stats();
    let used = (stats.table_bytes + stats.value_file_bytes) as f64;
    assert!((1.0..1.5).contains(&(used / live.bytes)), "{used} for {live:?}");
}

#[test]
fn small_value_files_are_joined_by_a_compaction_that_meets_all_of_their_values() {
    let world = World::new();
    for n in 0..12 {
        // Tables that overlap are compacted, and not moved.
        world.db.put(&world.keyspace, "a", b"short").unwrap();
        world.put(&key(n), 1);
        world.flush();
    }
    assert!(world.value_files().len() >= 9, "{:?}", world.value_files());
    world.compact();
    let space = world.values();
    assert_eq!((space.files, space.live_values), (1, 12));
    // One that has been joined is not written again for little.
    let joined = world.value_files();
    world.put("z", 1);
    world.compact();
    assert!(world.value_files().contains(&joined[0]));
    (0..12).for_each(|n| {
        let found = world.db.get(&world.keyspace, key(n)).unwrap().unwrap();
        assert_eq!(found, &long(&key(n), 1)[..]);
    });
}

#[test]
fn a_value_file_that_no_edit_names_is_removed_by_the_next_open() {
    use esker_base::WriteHint;
    use esker_storage::Storage;
    let world = World::new();
    world.fill(1);
    let files = world.value_files();
    let mut stray = world.storage.create("00000900.values", WriteHint::table(0)).unwrap();
    stray.append(b"half a value").unwrap();
    stray.sync().unwrap();
    drop(stray);
    let world = world.reopened();
    assert_eq!(world.value_files(), files);
    world.expect(1);
}

#[test]
fn a_table_is_rewritten_for_its_value_file_if_two_fifths_are_obsolete_and_nothing_else_is_due() {
    for (overwritten, is_collected) in [(32, false), (40, true)] {
        let world = World::new();
        world.fill(1);
        let first = world.value_files();
        (0..overwritten).for_each(|n| world.put(&key(n), 2));
        world.compact();
        while world.db.run_background_job() {}
        let left = world.value_files();
        assert_eq!(!left.contains(&first[0]), is_collected, "{overwritten}: {:?}", world.values());
        assert_eq!(world.values().live_values, 50);
        for n in 0..50 {
            let version = if n < overwritten { 2 } else { 1 };
            let found = world.db.get(&world.keyspace, key(n)).unwrap().unwrap();
            assert_eq!(found, &long(&key(n), version)[..]);
        }
    }
}
