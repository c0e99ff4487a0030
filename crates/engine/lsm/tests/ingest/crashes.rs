//! A power loss, or the death of the process, in every call of an ingest: a prefix of the steps is
//! there, the ingest whole or not at all, and no file is left that nothing needs.

use crate::support::*;
use esker_base::{Result, Rng};
use esker_lsm::inspect::Inspector;
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use esker_storage::FaultStorage;
use std::sync::Arc;

/// One thing that a program does, and waits for.
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Flush,
    Ingest(Vec<(Vec<u8>, Vec<u8>)>),
}

/// Puts into tables and MemTables, ingests over both, and puts behind them.
fn steps() -> Vec<Step> {
    let puts = |numbers, from| {
        entries(numbers, from).into_iter().map(|(key, value)| Step::Put(key, value))
    };
    let mut steps: Vec<Step> = puts(0..6, "tables").collect();
    steps.push(Step::Flush);
    steps.extend(puts(4..10, "MemTables"));
    steps.push(Step::Ingest(wide_entries(5..205, "ingest")));
    steps.extend(puts(7..9, "puts after"));
    steps.push(Step::Ingest(entries(8..12, "second ingest")));
    steps.extend(puts(9..10, "last put"));
    steps
}

/// What there is after so many steps.
fn states(steps: &[Step]) -> Vec<Pairs> {
    let mut states = vec![Pairs::new()];
    for step in steps {
        let mut state = states[states.len() - 1].clone();
        match step {
            Step::Put(key, value) => _ = state.insert(key.clone(), value.clone()),
            Step::Flush => {}
            Step::Ingest(entries) => state.extend(entries.iter().cloned()),
        }
        states.push(state);
    }
    states
}

fn take(db: &Db, step: &Step) -> Result<()> {
    let keyspace = db.default_keyspace();
    match step {
        Step::Put(key, value) => keyspace.put(key, value),
        Step::Flush => db.flush(),
        Step::Ingest(entries) => {
            keyspace.ingest(entries.iter().map(|(key, value)| (key, value))).map(|_| ())
        }
    }
}

/// How many steps were acknowledged, up to the first that was not.
fn run(db: &Db, steps: &[Step]) -> usize {
    steps.iter().take_while(|step| take(db, step).is_ok()).count()
}

/// Opens what is left. `least` steps must be there.
fn check(
    disk: &FaultStorage,
    settings: &Settings,
    what: &str,
    steps: &[Step],
    least: usize,
    most: usize,
) {
    let db = try_open(disk, settings.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(unfinished(disk), [] as [String; 0], "{what}");
    let found = content(&db.default_keyspace());
    let states = states(steps);
    let is_there = (least..=most).rev().any(|taken| states[taken] == found);
    assert!(is_there, "{what}: not what {least} to {most} steps leave, but {} keys", found.len());
    // What is written from now on is newer than all that.
    let (keyspace, mut expected) = (db.default_keyspace(), found);
    let mut write = |numbers, from| {
        expected.extend(entries(numbers, from));
        expected.clone()
    };
    put_all(&keyspace, &entries(7..10, "puts of the next process"));
    assert!(content(&keyspace) == write(7..10, "puts of the next process"), "{what}");
    keyspace.ingest(entries(8..11, "ingest of the next process")).unwrap();
    let expected = write(8..11, "ingest of the next process");
    assert!(content(&keyspace) == expected, "{what}");
    db.close().unwrap();
    let db = open(disk, settings.clone());
    assert!(content(&db.default_keyspace()) == expected, "{what}");
    db.compact().unwrap();
    assert!(content(&db.default_keyspace()) == expected, "{what}");
    db.close().unwrap();
    let mut problems = Vec::new();
    let storage = Arc::new(disk.clone());
    let inspector = Inspector::of(storage.clone(), storage);
    inspector.check(&mut |problem| problems.push(problem.to_string())).unwrap();
    assert_eq!(problems, [] as [String; 0], "{what}");
}

/// `keeps_puts`: whether an acknowledged put survives power loss.
fn crash_in_every_call(settings: Settings, keeps_puts: bool) {
    let steps = steps();
    let calls = {
        let disk = disk();
        let db = open(&disk, settings.clone());
        let before = disk.operations();
        assert_eq!(run(&db, &steps), steps.len());
        disk.operations() - before
    };
    for call in 0..calls {
        for seed in 0..3 {
            let disk = FaultStorage::new(Rng::new(seed * 10_000 + call));
            let db = open(&disk, settings.clone());
            disk.crash_after(call);
            let taken = run(&db, &steps);
            drop(db);
            // Flushes and ingests are durable, and so is all that came before them.
            let is_durable = |step: &Step| keeps_puts || !matches!(step, Step::Put(..));
            let durable = steps[..taken].iter().rposition(is_durable).map_or(0, |at| at + 1);
            let what = format!("power loss in call {call} of {calls}, seed {seed}");
            check(&disk.crash(), &settings, &what, &steps, durable, (taken + 1).min(steps.len()));
        }
    }
}

#[test]
fn a_power_loss_leaves_an_ingest_whole_or_not_at_all() {
    crash_in_every_call(logged(), true);
}

#[test]
fn a_power_loss_with_a_log_that_is_synced_late_leaves_a_prefix() {
    crash_in_every_call(settings(Log::File { dir: None, sync: SyncPolicy::Os }), false);
}

#[test]
fn a_power_loss_without_a_log_leaves_a_prefix() {
    crash_in_every_call(settings(Log::None), false);
}

#[test]
fn a_process_that_dies_leaves_every_step_that_it_took() {
    let steps = steps();
    let settings = settings(Log::File { dir: None, sync: SyncPolicy::Os });
    for taken in 0..=steps.len() {
        let disk = disk();
        let db = open(&disk, settings.clone());
        assert_eq!(run(&db, &steps[..taken]), taken);
        let after = disk.kill();
        drop(db);
        check(&after, &settings, &format!("death after {taken} steps"), &steps, taken, taken);
    }
}

/// Power loss takes the mark of the ingest from the log, and the next log goes on behind its seqno.
#[test]
fn what_is_written_after_the_recovery_of_an_ingest_survives_the_next_power_loss() {
    let settings = settings(Log::File { dir: None, sync: SyncPolicy::Os });
    for seed in 0..20 {
        let disk = FaultStorage::new(Rng::new(seed));
        let db = open(&disk, settings.clone());
        let seqno = db.default_keyspace().ingest(entries(0..5, "ingest")).unwrap().seqno.unwrap();
        drop(db.snapshot());
        let disk = disk.crash();
        std::mem::forget(db);
        let db = open(&disk, settings.clone());
        assert_eq!(db.snapshot().seqno(), seqno);
        put_all(&db.default_keyspace(), &entries(3..8, "puts"));
        db.sync().unwrap();
        let disk = disk.crash();
        std::mem::forget(db);
        let found = content(&open(&disk, settings.clone()).default_keyspace());
        let expected: Pairs =
            entries(0..3, "ingest").into_iter().chain(entries(3..8, "puts")).collect();
        assert_eq!(found, expected, "seed {seed}");
    }
}

/// A power loss between the renaming and the edit leaves such files, and so does a lost edit.
#[test]
fn tables_with_final_names_and_without_an_edit_are_set_aside() {
    let disk = disk();
    let db = open(&disk, logged());
    let keyspace = db.default_keyspace();
    keyspace.ingest(entries(0..10, "ingest")).unwrap();
    let name = disk.files().into_iter().find(|name| name.ends_with(".tables")).unwrap();
    let bytes = disk.read_all(&name).unwrap();
    keyspace.clear().unwrap();
    db.compact().unwrap();
    assert_eq!(table_files(&disk), 0);
    db.close().unwrap();
    // Its manifest does not have the edit that removed the table.
    open(&disk, logged()).close().unwrap();
    disk.write_all(&name, &bytes);
    let db = open(&disk, logged());
    assert_eq!(content(&db.default_keyspace()).len(), 0);
    assert!(disk.files().contains(&format!("lost-{name}")));
}
