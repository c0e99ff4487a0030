//! Another process has opened the database for writing, perhaps after a power loss.

use crate::support::*;
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use std::sync::Arc;

fn seldom_synced() -> Settings {
    settings().log(Log::File { dir: None, sync: SyncPolicy::Os })
}

fn write_unsynced(machine: &Arc<Machine>) -> Db {
    Db::open_with(env_of(machine.clone()), seldom_synced()).unwrap()
}

/// The writes that a follower has shown and that a power loss took are gone there, too, and those that
/// get their numbers are shown.
#[test]
fn what_a_power_loss_took_back_is_not_shown_any_more() {
    let mut taken = 0;
    for seed in 0..40 {
        let machine = Machine::new(seed);
        let writer = write_unsynced(&machine);
        let follower = follow(machine.clone());
        let mut changes = Changes::new(seed);
        for _ in 0..12 {
            changes.any(&writer).unwrap();
        }
        let shown = follower.catch_up().unwrap();
        assert!(!shown.began_anew);
        assert_eq!(Mirror::of(&follower), Mirror::of(&writer));
        machine.lose_power();
        drop(writer);
        let writer = write_unsynced(&machine);
        taken += u64::from(last_seqno(&writer) < shown.through);
        for _ in 0..changes.rng.below(20) {
            changes.any(&writer).unwrap();
        }
        let caught_up = follower.catch_up().unwrap();
        assert!(caught_up.began_anew);
        assert_eq!(caught_up.through, last_seqno(&writer));
        assert_eq!(Mirror::of(&follower), Mirror::of(&writer), "seed {seed}");
        assert_eq!(follower.follower_stats().unwrap().new_beginnings, 1);
        assert!(!follower.catch_up().unwrap().began_anew);
    }
    assert!(taken > 5, "{taken}");
}

#[test]
fn a_power_loss_in_any_call_leaves_a_follower_of_what_recovery_keeps() {
    let run = |machine: &Arc<Machine>, follower: Option<&Db>| {
        let writer = match Db::open_with(env_of(machine.clone()), seldom_synced()) {
            Ok(writer) => writer,
            Err(error) => return assert!(machine.disk().has_lost_power(), "{error}"),
        };
        let mut changes = Changes::new(3);
        for _ in 0..25 {
            if changes.any(&writer).is_err() {
                break;
            }
            if let Some(follower) = follower {
                // After the loss its files are gone.
                let _ = follower.catch_up();
            }
        }
    };
    let calls = {
        let machine = Machine::new(3);
        drop(write_unsynced(&machine));
        let before = machine.disk().operations();
        run(&machine, None);
        machine.disk().operations() - before
    };
    assert!(calls > 60, "{calls}");
    for call in (0..calls).step_by(3) {
        let machine = Machine::new(call);
        drop(write_unsynced(&machine));
        let follower = follow(machine.clone());
        machine.disk().crash_after(call);
        run(&machine, Some(&follower));
        machine.lose_power();
        let writer = write_unsynced(&machine);
        follower.catch_up().unwrap_or_else(|error| panic!("call {call}: {error}"));
        assert_eq!(Mirror::of(&follower), Mirror::of(&writer), "call {call}");
        writer.default_keyspace().put("more", "1").unwrap();
        follower.catch_up().unwrap();
        assert_eq!(Mirror::of(&follower), Mirror::of(&writer), "call {call}");
    }
}

/// A snapshot keeps reading what it has read.
#[test]
fn snapshots_from_before_a_new_beginning_stay_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Db::open(dir.path(), settings()).unwrap();
    writer.default_keyspace().put("a", "before").unwrap();
    writer.flush().unwrap();
    let follower = Db::open_follower(dir.path(), settings(), None).unwrap();
    let keyspace = follower.default_keyspace();
    let before = follower.snapshot();
    writer.close().unwrap();
    let writer = Db::open(dir.path(), settings()).unwrap();
    writer.default_keyspace().put("a", "after").unwrap();
    writer.compact().unwrap();
    assert!(follower.catch_up().unwrap().began_anew);
    assert_eq!(before.get(&keyspace, "a").unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(keyspace.get("a").unwrap().as_deref(), Some(&b"after"[..]));
}
