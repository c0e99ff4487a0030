//! Settings that change while a database is open, and what of them a crash or the next open keeps.

use crate::clock::HandClock;
use crate::support::{key, open, pairs, small};
use esker_base::background::Stepped;
use esker_base::{Clock, Error, Rng};
use esker_lsm::options::space_policy::Ratio;
use esker_lsm::{
    BackgroundWriteRate, Db, Dedup, Env, KeyspaceChange, KeyspaceSettings, Log, Resources,
    SettingChange, Settings, Shape, SyncPolicy,
};
use esker_storage::{FaultStorage, MemoryStorage};
use esker_table::Compression;
use std::sync::Arc;
use std::time::Duration;

fn set(db: &Db, text: &str) -> Result<(), Error> {
    db.set(&text.parse::<SettingChange>().unwrap())
}

fn value(db: &Db, name: &str) -> Option<String> {
    let settings = db.settings().unwrap();
    settings.into_iter().find(|setting| setting.name == name).map(|setting| setting.value)
}

fn compressible(db: &Db, from: u64) {
    let keyspace = db.default_keyspace();
    (from..from + 200).for_each(|n| keyspace.put(key(n), [b'a'; 1000]).unwrap());
    db.flush().unwrap();
}

#[test]
fn a_keyspace_writes_its_next_tables_as_it_was_set_and_so_does_the_next_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    set(&db, "default.compression=none").unwrap();
    compressible(&db, 0);
    let plain = db.stats().flush_bytes;
    assert!(plain > 200_000, "{plain}");
    set(&db, "default.compression=zstd").unwrap();
    set(&db, "default.filter_bits=3").unwrap();
    compressible(&db, 1000);
    let packed = db.stats().flush_bytes - plain;
    assert!(packed < plain / 10, "{packed} of {plain}");
    assert_eq!(value(&db, "default.filter_bits").unwrap(), "3");
    assert_eq!(db.default_keyspace().settings().unwrap().compression, Compression::Zstd);
    let all = pairs(&db);
    db.close().unwrap();
    let db = open(dir.path());
    assert_eq!(value(&db, "default.compression").unwrap(), "zstd");
    assert_eq!(value(&db, "default.filter_bits").unwrap(), "3");
    assert_eq!(pairs(&db), all);
    db.close().unwrap();
    let db = Db::open_read_only(dir.path(), small()).unwrap();
    assert_eq!(value(&db, "default.compression").unwrap(), "zstd");
    assert!(matches!(set(&db, "default.compression=none"), Err(Error::ReadOnly)));
}

#[test]
fn a_program_opens_a_keyspace_with_its_own_settings_after_one_was_changed() {
    let dir = tempfile::tempdir().unwrap();
    let asked = KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 });
    // The third open reads the manifest that the second began.
    for round in 0..3 {
        let db = open(dir.path());
        let keyspace = db.keyspace("events", asked).unwrap();
        if round == 0 {
            set(&db, "events.dedup=space-goal:1.5").unwrap();
        }
        let amp = Ratio::of_hundredths(150);
        assert_eq!(keyspace.settings().unwrap(), asked.dedup(Dedup::SpaceGoal { amp }));
        // What was not changed has to be the same.
        let differs = db.keyspace("events", asked.filter_bits(4)).unwrap_err().to_string();
        assert!(
            differs.contains("filter_bits is 10, not 4") && !differs.contains("dedup"),
            "{differs}"
        );
        db.close().unwrap();
    }
}

/// Power is lost at each call to the disk in turn.
#[test]
fn a_change_survives_power_loss_once_it_returned() {
    let settings = small().log(Log::File { dir: None, sync: SyncPolicy::Always });
    let open = |disk: &FaultStorage| {
        let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
        Db::open_with(env, settings.clone()).unwrap()
    };
    let mut outcomes = [0; 2];
    for calls in 0..40 {
        let disk = FaultStorage::new(Rng::new(calls));
        let db = open(&disk);
        db.keyspace("users", KeyspaceSettings::default()).unwrap();
        db.put(&db.default_keyspace(), b"key", b"value").unwrap();
        set(&db, "background_threads=7").unwrap();
        disk.crash_after(calls);
        let is_set = set(&db, "users.compression=zstd").is_ok();
        let db = open(&disk.crash());
        let found = value(&db, "users.compression").unwrap();
        outcomes[usize::from(is_set)] += 1;
        assert!(found == "zstd" || (found == "lz4" && !is_set), "{calls}: {found}");
        assert_eq!(value(&db, "default.compression").unwrap(), "lz4");
        assert_eq!(value(&db, "background_threads").unwrap(), "2", "it is the program's");
        db.keyspace("users", KeyspaceSettings::default()).unwrap();
        assert!(db.get(&db.default_keyspace(), b"key").unwrap().is_some());
    }
    assert!(outcomes.iter().all(|&times| times > 0), "{outcomes:?}");
}

#[test]
fn what_cannot_be_set_says_why_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let before = db.settings().unwrap();
    for (text, reason) in [
        ("nobody.compression=zstd", "nobody"),
        ("default.filter_bits=33", "must be between 0 and 32"),
        ("default.dedup=space-goal:1.5", "tiered"),
        ("background_threads=0", "between 1 and 64"),
        ("background_write_rate=1K", "at least 64KiB"),
        ("memory_bytes=1M", "it must be at least"),
        ("sync=always", "given when the database is opened"),
        ("sync=0", "between 1 ms and 1 h"),
    ] {
        let error = set(&db, text).unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }
    assert_eq!(db.settings().unwrap(), before);
    let resources = Resources::new(32 << 20, 2).unwrap();
    let other = tempfile::tempdir().unwrap();
    let shared = Db::open(other.path(), small().resources(resources)).unwrap();
    for text in ["memory_bytes=1G", "background_threads=3"] {
        assert!(set(&shared, text).unwrap_err().to_string().contains("shares"), "{text}");
    }
    db.clone().close().unwrap();
    assert!(matches!(set(&db, "background_threads=3"), Err(Error::Closed)));
}

#[test]
fn more_memory_goes_to_the_block_cache() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let before = db.stats();
    set(&db, "memory_bytes=64M").unwrap();
    let after = db.stats();
    assert_eq!(after.memory_budget_bytes, 64 << 20);
    let more = after.cache_capacity_bytes - before.cache_capacity_bytes;
    assert_eq!(more, (64 << 20) - before.memory_budget_bytes);
    set(&db, "memory_bytes=8M").unwrap();
    assert_eq!(db.stats().cache_capacity_bytes, before.cache_capacity_bytes);
}

#[test]
fn a_rate_is_set_and_lifted() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    assert_eq!(db.stats().background_write_rate, None);
    db.set(&SettingChange::BackgroundWriteRate(BackgroundWriteRate::Fixed(1 << 20))).unwrap();
    assert_eq!(db.stats().background_write_rate, Some(1 << 20));
    set(&db, "background_write_rate=unlimited").unwrap();
    assert_eq!(db.stats().background_write_rate, None);
}

/// Threads are started, idle and used again. That they compact shows in the result.
#[test]
fn the_number_of_threads_changes_under_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let keyspace = db.default_keyspace();
    let mut rng = Rng::new(3);
    for threads in [4, 1, 8, 2] {
        set(&db, &format!("background_threads={threads}")).unwrap();
        assert_eq!(value(&db, "background_threads").unwrap(), threads.to_string());
        for n in 0..3_000_u64 {
            keyspace.put(rng.below(2_000).to_be_bytes(), [n as u8; 300]).unwrap();
        }
    }
    db.wait_for_compactions().unwrap();
    assert!(db.stats().compactions > 0);
    assert_eq!(db.background_error().map(|error| error.to_string()), None);
    db.close().unwrap();
}

#[test]
fn the_log_is_synced_at_the_interval_that_was_set() {
    let clock = HandClock::new();
    let env = Env::over(Arc::new(MemoryStorage::new()))
        .background(Arc::new(Stepped))
        .clock(clock.clone());
    let db = Db::open_with(env, small()).unwrap();
    let keyspace = db.default_keyspace();
    let mut synced = db.stats().log_syncs;
    let mut syncs_after = |millis: u64| {
        db.put(&keyspace, b"key", b"value").unwrap();
        clock.sleep(Duration::from_millis(millis));
        while db.run_background_job() {}
        let before = std::mem::replace(&mut synced, db.stats().log_syncs);
        synced - before
    };
    assert_eq!(syncs_after(10_000), 0, "never by the engine");
    set(&db, "sync=50ms").unwrap();
    assert_eq!(value(&db, "sync").unwrap(), "50ms");
    assert_eq!(syncs_after(60), 1);
    assert_eq!(syncs_after(10), 0);
    assert_eq!(syncs_after(60), 1);
    set(&db, "sync=os").unwrap();
    assert_eq!(syncs_after(10_000), 0);
}

/// The goal is kept once compactions have caught up with it.
#[test]
fn a_space_goal_that_is_set_later_is_reached() {
    // On a clock that stands still, as the picker also asks how often flushes come.
    let env = Env::over(Arc::new(MemoryStorage::new()))
        .background(Arc::new(Stepped))
        .clock(HandClock::new());
    let keyspace =
        KeyspaceSettings::default().shape(Shape::Tiered { runs: 8 }).compression(Compression::None);
    let segment_bytes = 64 << 10;
    let settings = Settings::default()
        .segment_bytes(segment_bytes)
        .memory_bytes(4 << 20)
        .default_keyspace(keyspace);
    let db = Db::open_with(env, settings).unwrap();
    let keyspace = db.default_keyspace();
    let mut rng = Rng::new(5);
    // What is written once more is flushed, and compacted only as far as the settings demand.
    let mut write = || {
        let mut most = 0;
        for n in 0..8_000 {
            keyspace.put(rng.below(2_000).to_be_bytes(), [9; 500]).unwrap();
            if n % 100 == 99 {
                db.flush().unwrap();
                most = most.max(db.stats().table_bytes);
            }
        }
        most
    };
    let before = write();
    let goal = Ratio::of_hundredths(120);
    let change = KeyspaceChange::Dedup(Dedup::SpaceGoal { amp: goal });
    db.set(&SettingChange::Keyspace { name: "default".to_owned(), change }).unwrap();
    while db.run_background_job() {}
    let after = write();
    let live = 2_000 * 520;
    let allowed = live * 6 / 5 + 4 * segment_bytes as u64;
    assert!(before > allowed && after <= allowed, "{before}, then {after} of {allowed}");
    let all = pairs(&db);
    assert!(all.len() > 1_900 && all.iter().all(|(_, value)| value[..] == [9; 500]));
    // And back.
    set(&db, "default.dedup=none").unwrap();
    let without = write();
    assert!(without > allowed, "{without}");
}
