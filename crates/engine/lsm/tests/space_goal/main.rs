//! The ceiling of a space goal, inspected whenever a table file grows: under every load, however
//! background work and writes interleave, table files take no more than `amp` times the live data,
//! what snapshots pin, and four segments.

mod ceiling;
mod loads;
#[cfg(target_os = "linux")]
mod shared_files;

use esker_lsm::{Db, Keyspace};
use loads::{
    Load, flush_one, table_files_after_a_drop_during, table_files_beside_a_look,
    table_files_beside_a_slow_flush, table_files_of_a_flush_of_two_keyspaces,
};

/// A goal in hundredths, and whether background work is done at every write or only when it must be.
const WAYS: [(u32, bool); 3] = [(120, true), (120, false), (150, false)];

fn check(load: impl Fn(&mut Load)) {
    for (amp, diligent) in WAYS {
        let mut under_test = Load::new(amp, diligent);
        load(&mut under_test);
        under_test.finish();
    }
}

#[test]
fn uniform_overwrites() {
    check(|load| {
        load.put_all(400);
        load.overwrite_at_random(5, 400);
    });
}

#[test]
fn a_goal_that_leaves_little_room() {
    for diligent in [true, false] {
        let mut load = Load::new(110, diligent);
        load.put_all(400);
        load.overwrite_at_random(2, 400);
        load.overwrite_by_heat(1, 400);
        load.delete_ranges(5);
        load.put_all(400);
        load.finish();
    }
}

#[test]
fn values_that_are_packed() {
    for diligent in [true, false] {
        let mut load = Load::packed(120, diligent);
        load.put_all(400);
        load.overwrite_at_random(3, 400);
        load.finish();
    }
}

#[test]
fn deleting_everything_and_inserting_it_again() {
    check(|load| {
        for _ in 0..3 {
            load.put_all(400);
            load.delete_all();
        }
        load.put_all(400);
    });
}

#[test]
fn values_that_grow() {
    check(|load| {
        for bytes in [100, 200, 400, 800, 1200] {
            load.put_all(bytes);
        }
    });
}

#[test]
fn values_that_shrink() {
    check(|load| {
        for bytes in [1200, 600, 300, 150] {
            load.put_all(bytes);
            load.overwrite_at_random(1, bytes);
        }
    });
}

#[test]
fn data_that_shrinks_to_a_tenth() {
    check(|load| {
        load.put_all(400);
        load.shrink_to_a_tenth(400);
        load.overwrite_the_first_tenth(3, 400);
    });
}

#[test]
fn data_that_shrinks_by_a_range_delete() {
    check(|load| {
        load.put_all(400);
        load.shrink_by_a_range_delete(400);
        load.overwrite_the_first_tenth(3, 400);
    });
}

#[test]
fn data_that_shrinks_to_a_few_other_keys() {
    check(|load| {
        load.put_all(400);
        load.shrink_to_a_few_other_keys(400);
    });
}

#[test]
fn in_order_and_then_at_random() {
    check(|load| {
        load.put_all(400);
        load.put_all(400);
        load.overwrite_at_random(3, 400);
    });
}

#[test]
fn one_hot_key() {
    check(|load| {
        load.put_all(400);
        load.overwrite_one(20_000, 400);
        load.overwrite_at_random(1, 400);
    });
}

#[test]
fn a_hot_tenth() {
    check(|load| {
        load.put_all(400);
        load.overwrite_the_first_tenth(30, 400);
        load.overwrite_at_random(2, 400);
    });
}

#[test]
fn range_deletes() {
    check(|load| {
        for _ in 0..4 {
            load.put_all(400);
            load.delete_ranges(10);
            load.overwrite_at_random(1, 400);
        }
    });
}

#[test]
fn a_snapshot_held_for_long() {
    check(|load| {
        load.put_all(400);
        load.hold_snapshot();
        load.overwrite_at_random(3, 400);
        load.release_snapshot();
        load.overwrite_at_random(3, 400);
    });
}

#[test]
fn snapshots_that_come_and_go() {
    check(|load| {
        load.put_all(400);
        for _ in 0..8 {
            load.hold_snapshot();
            load.overwrite_at_random(1, 400);
            load.release_snapshot();
        }
    });
}

/// A flush takes long where syncs do, and merges go on concurrently: were what they free not gone before
/// the flush is done, nothing would be won by them until then.
#[test]
fn a_flush_keeps_no_files_that_merges_are_done_with() {
    assert_eq!(table_files_beside_a_slow_flush(), 2, "what was merged, and the flush's own");
}

/// Who asks for figures opens tables that are not open yet, and devices may be slow.
#[test]
fn figures_keep_no_files_that_merges_are_done_with() {
    type Look = (&'static str, fn(&Db));
    let looks: [Look; 3] = [
        ("levels", |db| drop(db.levels())),
        ("space_amp_status", |db| drop(db.space_amp_status())),
        ("estimate_live_data", |db| _ = db.estimate_live_data()),
    ];
    for (name, look) in looks {
        assert_eq!(table_files_beside_a_look(look), 2, "{name}: what was merged, and the flush's");
    }
}

#[test]
fn a_keyspace_with_a_goal_shares_no_file_with_others() {
    assert_eq!(table_files_of_a_flush_of_two_keyspaces(), 2);
}

#[test]
fn what_is_written_for_a_keyspace_that_is_dropped_meanwhile_goes_at_once() {
    assert_eq!(table_files_after_a_drop_during(flush_one), 0, "by a flush");
    let merge = |db: &Db, _: &Keyspace| while db.run_background_job() {};
    assert_eq!(table_files_after_a_drop_during(merge), 0, "by a merge");
}

#[test]
fn compactions_by_hand() {
    check(|load| {
        load.put_all(400);
        load.overwrite_at_random(3, 400);
        load.delete_at_random(0.2);
        load.compact();
        load.overwrite_at_random(1, 400);
        load.delete_ranges(10);
        load.compact();
        load.put_all(400);
    });
}

#[test]
fn closing_and_opening_again() {
    check(|load| {
        load.put_all(400);
        for _ in 0..8 {
            load.overwrite_at_random(1, 400);
            load.reopen();
        }
    });
}

#[test]
fn keys_of_unlike_heat() {
    check(|load| {
        load.put_all(400);
        load.overwrite_by_heat(5, 400);
    });
}

/// Plans of two threads, flushes and the writer overlap here, at random. Nothing is waited for but
/// what the database itself waits for.
#[test]
fn keys_of_unlike_heat_and_threads() {
    let mut load = Load::threaded(120);
    load.put_all(400);
    load.overwrite_by_heat(2, 400);
    load.finish();
}

/// The same for longer: `cargo test -p esker-lsm --test
/// space_goal threads -- --ignored --nocapture`.
#[test]
#[ignore = "takes as long as the machine's other work lets it"]
fn threads() {
    for amp in [120, 150] {
        let mut load = Load::threaded(amp);
        load.put_all(400);
        load.overwrite_at_random(12, 400);
        load.finish();
    }
}

#[test]
fn deletes_are_gone_before_long() {
    check(|load| {
        load.put_all(400);
        load.delete_at_random(0.3);
        // As many writes as there are live keys, and as many again for what is under way.
        load.overwrite_at_random(2, 400);
        load.expect_no_old_deletes();
    });
}

#[test]
fn range_deletes_are_gone_before_long() {
    check(|load| {
        load.put_all(400);
        load.delete_ranges(10);
        load.overwrite_at_random(2, 400);
        load.expect_no_old_deletes();
    });
}

/// Obsolete data gathers in a hot tenth and has to be made space for again and again; nothing but their age is a
/// reason to merge the deletes.
#[test]
fn deletes_where_nothing_else_is_written_are_gone_before_long() {
    check(|load| {
        load.put_all(400);
        load.delete_a_few_of_the_second_half();
        for _ in 0..30 {
            load.overwrite_the_first_tenth(1, 400);
            load.expect_no_old_deletes_now();
        }
    });
}
