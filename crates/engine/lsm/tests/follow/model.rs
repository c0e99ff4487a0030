//! A follower that catches up now and then has what the writer has, and its snapshots stay.

use crate::support::*;
use esker_lsm::{Db, Keyspace, Snapshot};

/// What a snapshot showed when it was taken.
struct Kept {
    snapshot: Snapshot,
    keyspaces: Vec<(Keyspace, Entries)>,
}

impl Kept {
    fn of(db: &Db) -> Kept {
        let snapshot = db.snapshot();
        let names = db.keyspaces().into_iter().map(|info| info.name);
        let keyspaces = names.map(|name| db.open_keyspace(&name).unwrap());
        let keyspaces = keyspaces.map(|keyspace| {
            let entries = entries(&keyspace, &snapshot).unwrap();
            (keyspace, entries)
        });
        Kept { keyspaces: keyspaces.collect(), snapshot }
    }

    /// Whatever the writer has flushed, compacted and dropped since.
    fn check(&self) {
        for (keyspace, expected) in &self.keyspaces {
            assert_eq!(entries(keyspace, &self.snapshot).unwrap(), *expected);
        }
    }
}

fn run(seed: u64) -> (u64, u64) {
    let machine = Machine::new(seed);
    let mut changes = Changes::new(seed);
    let mut writer = write(machine.clone());
    let follower = follow(machine.clone());
    let mut kept = Vec::new();
    let mut anew = 0;
    for _ in 0..400 {
        if changes.rng.one_in(60) {
            match changes.rng.below(3) {
                0 => writer.clone().close().unwrap(),
                1 => machine.kill_writer(),
                _ => machine.lose_power(),
            }
            drop(writer);
            writer = write(machine.clone());
            // Its open files were the killed process's.
            kept.clear();
            anew += 1;
        } else {
            changes.any(&writer).unwrap();
        }
        if changes.rng.one_in(4) {
            let now = follower.catch_up().unwrap();
            assert_eq!(now.through, last_seqno(&writer));
            assert_eq!(
                Mirror::of(&follower),
                Mirror::of(&writer),
                "seed {seed} at {}",
                now.through
            );
            if changes.rng.one_in(3) {
                kept.push(Kept::of(&follower));
            }
        }
        if kept.len() > 4 {
            let at = changes.rng.below(kept.len() as u64) as usize;
            kept.swap_remove(at).check();
        }
    }
    kept.iter().for_each(Kept::check);
    let stats = follower.follower_stats().unwrap();
    assert!(stats.new_beginnings <= anew);
    assert_eq!((stats.awaited_ingest, stats.read_through), (None, stats.shown_through));
    (stats.new_beginnings, stats.log_bytes_read)
}

#[test]
fn a_follower_has_what_the_writer_has_through_flushes_compactions_ingests_and_restarts() {
    let (mut anew, mut bytes) = (0, 0);
    for seed in 0..12 {
        let (beginnings, read) = run(seed);
        anew += beginnings;
        bytes += read;
    }
    assert!(anew > 20 && bytes > 100_000, "{anew} {bytes}");
}

#[test]
fn a_follower_is_behind_until_it_catches_up() {
    let machine = Machine::new(1);
    let writer = write(machine.clone());
    let follower = follow(machine);
    let (there, here) = (writer.default_keyspace(), follower.default_keyspace());
    there.put("a", "1").unwrap();
    assert_eq!(here.get("a").unwrap(), None);
    let before = follower.snapshot();
    follower.catch_up().unwrap();
    assert_eq!(here.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(before.get(&here, "a").unwrap(), None);
    let stats = follower.follower_stats().unwrap();
    assert_eq!((stats.shown_through, stats.catch_ups, stats.new_beginnings), (1, 1, 0));
}

/// A batch that is written and not synced is shown, and it is said that it may be lost.
#[test]
fn what_is_shown_and_not_durable_is_counted() {
    use esker_lsm::{Log, SyncPolicy};
    let machine = Machine::new(1);
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    let writer = Db::open_with(env_of(machine.clone()), settings().log(log)).unwrap();
    let follower = follow(machine);
    for key in 0..10_u8 {
        writer.default_keyspace().put([key], [key]).unwrap();
    }
    follower.catch_up().unwrap();
    let stats = follower.follower_stats().unwrap();
    assert_eq!((stats.shown_through, stats.durable_through), (10, 0));
    writer.sync().unwrap();
    writer.default_keyspace().put("more", "1").unwrap();
    follower.catch_up().unwrap();
    let stats = follower.follower_stats().unwrap();
    assert_eq!((stats.shown_through, stats.durable_through), (11, 10));
    writer.flush().unwrap();
    follower.catch_up().unwrap();
    assert_eq!(follower.follower_stats().unwrap().durable_through, 11);
}

/// So that an old snapshot of a store behind a trait never reads another view.
#[test]
fn a_snapshot_reads_its_view_through_the_traits_as_well() {
    use esker_api::Ordered;
    let machine = Machine::new(1);
    let writer = write(machine.clone());
    writer.default_keyspace().put("a", "old").unwrap();
    let follower = follow(machine);
    let store = follower.store(&follower.default_keyspace());
    let before = store.snapshot().unwrap();
    for round in 0..3_u8 {
        writer.default_keyspace().put("a", [round]).unwrap();
        writer.flush().unwrap();
        writer.compact().unwrap();
        follower.catch_up().unwrap();
    }
    assert_eq!(store.get_at(b"a", &*before).unwrap().as_deref(), Some(&b"old"[..]));
}
