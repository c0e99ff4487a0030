//! Compaction filters: what they change, whom they do not concern, and what happens when they fail.

use crate::pool_place::POOL_BYTES;
use crate::support::small;
use esker_api::{CompactionFilter, Concurrency, FilterDecision, FilterError, TransactionOptions};
use esker_base::background::Stepped;
use esker_base::{Clock, Error, IndexError, Rng};
use esker_lsm::version::TableMeta;
use esker_lsm::{Db, Env, Forwarding, Keyspace, KeyspaceSettings, Log, Settings, Shape, Snapshot};
use esker_pmem::{Accept, Pool};
use esker_storage::{FaultStorage, MemoryStorage};
use esker_table::Compression;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub fn decision(value: &[u8]) -> FilterDecision {
    if value.starts_with(b"drop") {
        return FilterDecision::Drop;
    }
    match value.strip_prefix(b"old") {
        Some(rest) => FilterDecision::Replace([b"new", rest].concat()),
        None => FilterDecision::Keep,
    }
}

/// Drops what begins with "drop", and replaces "old" by "new".
#[derive(Default)]
pub struct Rules {
    fails: AtomicBool,
    panics: AtomicBool,
    asked: AtomicU64,
    /// Called at each decision.
    on_call: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

pub struct Shared(pub Arc<Rules>);

impl CompactionFilter for Shared {
    fn name(&self) -> &str {
        "rules"
    }

    fn filter(&self, key: &[u8], value: &[u8]) -> Result<FilterDecision, FilterError> {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(call) = &mut *self.0.on_call.lock() {
            call();
        }
        if key == b"bad" && self.0.fails.load(Ordering::Relaxed) {
            return Err(FilterError::new("no luck"));
        }
        if key == b"bad" && self.0.panics.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("no luck"));
        }
        Ok(decision(value))
    }
}

pub fn rules() -> (Arc<Rules>, Settings) {
    let rules = Arc::new(Rules::default());
    (rules.clone(), small().compaction_filter(Shared(rules)))
}

pub fn filtered() -> KeyspaceSettings {
    KeyspaceSettings::default().compaction_filter("rules")
}

pub fn open(storage: &Arc<MemoryStorage>, settings: Settings) -> Db {
    let env = Env::over(storage.clone()).background(Arc::new(Stepped));
    Db::open_with(env, settings).unwrap()
}

/// A database in memory with a filtered keyspace.
fn fresh() -> (Arc<Rules>, Db, Keyspace) {
    let (rules, settings) = rules();
    let db = open(&Arc::new(MemoryStorage::new()), settings);
    let keyspace = db.keyspace("k", filtered()).unwrap();
    (rules, db, keyspace)
}

fn value(keyspace: &Keyspace, key: &str) -> Option<String> {
    text(keyspace.get(key).unwrap())
}

fn value_at(snapshot: &Snapshot, keyspace: &Keyspace, key: &str) -> Option<String> {
    text(snapshot.get(keyspace, key).unwrap())
}

fn text(value: Option<esker_api::Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Puts `key` beneath the tables that come next, so that they are not at the bottom.
fn put_at_the_bottom(db: &Db, keyspace: &Keyspace, key: &str, value: &str) {
    keyspace.put(key, value).unwrap();
    db.compact().unwrap();
}

#[test]
fn a_compaction_drops_and_replaces_what_the_filter_says() {
    let (_, db, keyspace) = fresh();
    for (key, value) in [("a", "drop"), ("b", "old 1"), ("c", "else"), ("d", "drop 2")] {
        keyspace.put(key, value).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(value(&keyspace, "a"), some("drop"), "a flush asks no filter");
    db.compact().unwrap();
    assert_eq!(value(&keyspace, "a"), None);
    assert_eq!(value(&keyspace, "b"), some("new 1"));
    assert_eq!(value(&keyspace, "c"), some("else"));
    let keys: Vec<_> = keyspace.iter().map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(keys, [b"b".to_vec(), b"c".to_vec()]);
    let stats = db.stats().filters;
    assert_eq!((stats.dropped, stats.replaced, stats.failed), (2, 1, 0));
    assert_eq!(stats.repeated, 0);
    assert_eq!(tables_of(&db, "k", |table| table.entries).1, 2, "at the bottom no delete stays");
}

/// The number of runs of a keyspace, and the sum of what its tables have.
fn tables_of(db: &Db, name: &str, count: impl Fn(&TableMeta) -> u64) -> (usize, u64) {
    let levels = db.levels();
    let keyspace = levels.iter().find(|keyspace| keyspace.name == name).unwrap();
    let runs = || keyspace.levels.iter().flat_map(|level| &level.runs);
    (runs().count(), runs().flat_map(|run| &run.tables).map(count).sum())
}

#[test]
fn what_a_dropped_value_hid_stays_hidden() {
    let (_, db, _) = fresh();
    let tiered = filtered().shape(Shape::Tiered { runs: 3 });
    let keyspace = db.keyspace("tiered", tiered).unwrap();
    let text_of = |n: u32| n.to_be_bytes().repeat(20);
    let flush_three = |text: &str| {
        // Enough entries that one delete is not worth a compaction of its own.
        (0..500_u32).for_each(|n| keyspace.put(n.to_be_bytes(), text_of(n)).unwrap());
        keyspace.put("k", text).unwrap();
        for n in 0..3 {
            keyspace.put("other", [n]).unwrap();
            db.flush().unwrap();
        }
        db.wait_for_compactions().unwrap();
    };
    flush_three("older");
    flush_three("drop");
    let (runs, deletes) = tables_of(&db, "tiered", |table| table.deletes);
    assert_eq!((runs, deletes), (2, 1), "the older value is in a run of its own");
    assert_eq!(value(&keyspace, "k"), None);
    db.compact().unwrap();
    assert_eq!(value(&keyspace, "k"), None);
    assert_eq!(tables_of(&db, "tiered", |table| table.entries), (1, 501));
}

#[test]
fn a_snapshot_keeps_what_it_sees() {
    let (rules, db, keyspace) = fresh();
    keyspace.put("a", "drop").unwrap();
    keyspace.put("b", "old").unwrap();
    let snapshot = db.snapshot();
    keyspace.put("c", "drop").unwrap();
    db.compact().unwrap();
    assert_eq!(rules.asked.load(Ordering::Relaxed), 1, "of what no snapshot sees");
    for at in [&snapshot, &db.snapshot()] {
        assert_eq!(value_at(at, &keyspace, "a"), some("drop"));
        assert_eq!(value_at(at, &keyspace, "b"), some("old"));
        assert_eq!(value_at(at, &keyspace, "c"), None);
    }
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!((value(&keyspace, "a"), value(&keyspace, "b")), (None, some("new")));
}

#[test]
fn a_snapshot_taken_while_a_compaction_runs_sees_no_change() {
    let (rules, db, keyspace) = fresh();
    for (key, value) in [("a", "drop"), ("b", "old"), ("c", "drop")] {
        keyspace.put(key, value).unwrap();
    }
    db.flush().unwrap();
    let taken = Arc::new(Mutex::new(None));
    let (to, from) = (taken.clone(), db.clone());
    // The compaction has listed the snapshots by then.
    *rules.on_call.lock() = Some(Box::new(move || {
        to.lock().get_or_insert_with(|| from.snapshot());
    }));
    db.compact().unwrap();
    *rules.on_call.lock() = None;
    let snapshot = taken.lock().take().unwrap();
    for _ in 0..2 {
        assert_eq!(value_at(&snapshot, &keyspace, "a"), some("drop"));
        assert_eq!(value_at(&snapshot, &keyspace, "b"), some("old"));
        assert_eq!(value(&keyspace, "c"), some("drop"));
        db.compact().unwrap();
    }
    let stats = db.stats().filters;
    assert_eq!((stats.repeated, stats.dropped, stats.replaced), (1, 0, 0));
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!((value(&keyspace, "a"), value(&keyspace, "b")), (None, some("new")));
    assert_eq!(db.stats().filters.repeated, 1);
}

#[test]
fn a_snapshot_that_ends_before_the_compaction_does_is_no_hindrance() {
    let (rules, db, keyspace) = fresh();
    keyspace.put("a", "drop").unwrap();
    let from = db.clone();
    *rules.on_call.lock() = Some(Box::new(move || drop(from.snapshot())));
    db.compact().unwrap();
    *rules.on_call.lock() = None;
    assert_eq!((value(&keyspace, "a"), db.stats().filters.repeated), (None, 0));
}

#[test]
fn readers_on_other_threads_never_see_a_value_again_that_was_gone() {
    let (_, settings) = rules();
    let db = Db::open_with(Env::over(Arc::new(MemoryStorage::new())), settings).unwrap();
    let keyspace = db.keyspace("k", filtered()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = scopeguard::guard((), |()| is_over.store(true, Ordering::Relaxed));
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut round, mut was_gone) = (0, false);
                while !is_over.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    let first = value_at(&snapshot, &keyspace, "k");
                    std::thread::yield_now();
                    assert_eq!(first, value_at(&snapshot, &keyspace, "k"), "a snapshot changed");
                    drop(snapshot);
                    let Some(now) = value(&keyspace, "k") else {
                        was_gone = true;
                        continue;
                    };
                    let now: u64 = now["drop ".len()..].parse().unwrap();
                    assert!(now > round || (now == round && !was_gone), "{round} came back");
                    if now > round {
                        (round, was_gone) = (now, false);
                    }
                }
            });
        }
        for round in 1..=150 {
            keyspace.put("k", format!("drop {round}")).unwrap();
            db.compact().unwrap();
        }
    });
    db.compact().unwrap();
    assert_eq!(value(&keyspace, "k"), None);
}

#[test]
fn no_copy_of_a_value_outlives_the_filter() {
    let memory = tempfile::Builder::new().tempdir_in("/dev/shm").unwrap();
    let pool = memory.path().join("pool");
    Pool::create(&pool, POOL_BYTES, Accept::Emulated).unwrap();
    for log in [Log::None, Log::Pmem { pool: pool.clone(), emulated: true }] {
        let is_pool = matches!(log, Log::Pmem { .. });
        let opened = is_pool.then(|| Pool::open(&pool, Accept::Emulated).unwrap());
        let (_, settings) = rules();
        let settings = settings.log(log).forwarding(Forwarding::Always).memory_bytes(32 << 20);
        let storage = Arc::new(MemoryStorage::new());
        let mut env = Env::over(storage.clone()).background(Arc::new(Stepped));
        env.pool = opened;
        let db = Db::open_with(env, settings).unwrap();
        let keyspace = db.keyspace("k", filtered()).unwrap();
        let other = db.keyspace("other", KeyspaceSettings::default()).unwrap();
        let read = || {
            for _ in 0..4 {
                (0..50).for_each(|n| _ = keyspace.get(format!("{n}")).unwrap());
            }
        };
        for n in 0..50 {
            keyspace.put(format!("{n}"), "drop").unwrap();
            other.put(format!("{n}"), "drop").unwrap();
        }
        read();
        db.flush().unwrap();
        read();
        db.compact().unwrap();
        for n in 0..50 {
            assert_eq!(value(&keyspace, &n.to_string()), None, "pool: {is_pool}");
            assert_eq!(value(&other, &n.to_string()), some("drop"));
        }
    }
}

/// Tables that overlap nothing could move down as they are.
#[test]
fn tables_are_read_when_they_leave_level_0() {
    let (_, db, _) = fresh();
    let keyspace = db.keyspace("large", filtered().compression(Compression::None)).unwrap();
    let large = format!("drop{}", "x".repeat(20 << 10));
    for n in 0..80 {
        keyspace.put(format!("{n:02}"), &large).unwrap();
        if n % 8 == 7 {
            db.flush().unwrap();
        }
    }
    db.wait_for_compactions().unwrap();
    assert_eq!(keyspace.count(..).unwrap(), 0);
}

#[test]
fn no_fold_of_a_hot_key_outlives_the_filter() {
    let (_, db, _) = fresh();
    let keyspace = db.keyspace("hot", filtered().merge("append")).unwrap();
    for round in 0..2 {
        keyspace.put("k", "drop").unwrap();
        keyspace.put("other", [round]).unwrap();
        db.flush().unwrap();
    }
    (0..40).for_each(|_| keyspace.merge("k", "+").unwrap());
    assert_eq!(value(&keyspace, "k"), some(&format!("drop{}", "+".repeat(40))));
    db.wait_for_compactions().unwrap();
    assert_eq!(value(&keyspace, "k"), some(&"+".repeat(40)));
    db.flush().unwrap();
    assert_eq!(value(&keyspace, "k"), some(&"+".repeat(40)));
}

#[test]
fn a_filter_sees_the_fold_of_operands_and_never_an_operand() {
    let (rules, db, _) = fresh();
    let keyspace = db.keyspace("merging", filtered().merge("append")).unwrap();
    put_at_the_bottom(&db, &keyspace, "z", "z");
    keyspace.put("a", "ol").unwrap();
    keyspace.merge("a", "d 1").unwrap();
    keyspace.put("b", "dr").unwrap();
    keyspace.merge("b", "op").unwrap();
    keyspace.merge("c", "dr").unwrap();
    keyspace.merge("c", "op").unwrap();
    rules.asked.store(0, Ordering::Relaxed);
    db.compact().unwrap();
    assert_eq!(value(&keyspace, "a"), some("new 1"));
    assert_eq!((value(&keyspace, "b"), value(&keyspace, "c")), (None, None));
    assert!(rules.asked.load(Ordering::Relaxed) >= 4);
    keyspace.merge("b", "more").unwrap();
    assert_eq!(value(&keyspace, "b"), some("more"), "on no value");
}

#[test]
fn a_filter_that_fails_keeps_the_entry_and_names_it() {
    for panics in [false, true] {
        let (rules, db, keyspace) = fresh();
        let switch = if panics { &rules.panics } else { &rules.fails };
        switch.store(true, Ordering::Relaxed);
        for key in ["a", "bad", "c"] {
            keyspace.put(key, "drop").unwrap();
        }
        for _ in 0..2 {
            let error = db.compact().unwrap_err();
            assert!(matches!(error, Error::FilterFailed { .. }), "{error}");
            for part in ["bad", "\"k\"", "rules"] {
                assert!(error.to_string().contains(part), "{error}");
            }
            assert_eq!(value(&keyspace, "bad"), some("drop"), "nothing is lost");
            assert_eq!((value(&keyspace, "a"), value(&keyspace, "c")), (None, None));
            keyspace.put("more", "kept").unwrap();
            db.wait_for_compactions().unwrap();
        }
        assert!(db.stats().filters.failed >= 2);
        assert!(db.background_error().is_none(), "the store goes on");
        switch.store(false, Ordering::Relaxed);
        db.compact().unwrap();
        assert_eq!(value(&keyspace, "bad"), None);
    }
}

#[test]
fn a_database_opens_without_its_filter_and_keeps_what_is_there() {
    let storage = Arc::new(MemoryStorage::new());
    let (_, settings) = rules();
    let db = open(&storage, settings.clone());
    let keyspace = db.keyspace("k", filtered()).unwrap();
    keyspace.put("a", "drop").unwrap();
    db.compact().unwrap();
    keyspace.put("b", "drop").unwrap();
    db.close().unwrap();

    let db = open(&storage, small());
    let keyspace = db.open_keyspace("k").unwrap();
    keyspace.put("c", "old").unwrap();
    db.compact().unwrap();
    assert_eq!((value(&keyspace, "a"), value(&keyspace, "b")), (None, some("drop")));
    assert_eq!(value(&keyspace, "c"), some("old"));
    assert_eq!(db.stats().filters.missing, ["k"]);
    let asked = db.keyspace("k", KeyspaceSettings::default()).unwrap_err().to_string();
    assert!(asked.contains("compaction filter is rules, not none"), "{asked}");
    db.close().unwrap();

    let db = open(&storage, settings);
    let keyspace = db.keyspace("k", filtered()).unwrap();
    assert!(db.stats().filters.missing.is_empty());
    db.compact().unwrap();
    assert_eq!((value(&keyspace, "b"), value(&keyspace, "c")), (None, some("new")));
}

#[test]
fn a_keyspace_with_a_filter_has_no_index() {
    let (_, db, keyspace) = fresh();
    let error = keyspace.index("by_value", |_, value, keys| keys.add(value)).unwrap_err();
    let is_filtered = |error: &Error| match error {
        Error::Index(cause) => matches!(**cause, IndexError::Filtered { .. }),
        _ => false,
    };
    assert!(is_filtered(&error), "{error}");
    assert!(error.to_string().contains("\"rules\""), "{error}");
    assert!(keyspace.indexes().unwrap().is_empty());
    drop(db);
}

#[test]
fn a_bad_name_of_a_filter_is_rejected() {
    let (_, db, _) = fresh();
    let bad = KeyspaceSettings::default().compaction_filter("");
    let error = db.keyspace("bad", bad).unwrap_err().to_string();
    assert!(error.contains("compaction_filter"), "{error}");
}

#[test]
fn tables_that_leave_level_0_pass_the_filter_and_a_full_compaction_asks_about_all() {
    let (rules, db, keyspace) = fresh();
    let big = |n: u32| [&n.to_be_bytes()[..], &[7; 1000]].concat();
    for n in 0..2_000_u32 {
        keyspace.put(n.to_be_bytes(), big(n)).unwrap();
    }
    db.flush().unwrap();
    while db.run_background_job() {}
    db.wait_for_compactions().unwrap();
    let asked = || rules.asked.swap(0, Ordering::Relaxed);
    assert_eq!((asked(), db.stats().trivial_moves), (2_000, 0), "level 0 was left by a rewrite");
    db.compact().unwrap();
    assert_eq!(asked(), 2_000, "also of tables without obsolete data");
}

/// A calendar that is set by hand, in milliseconds.
struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
    fn sleep(&self, _: Duration) {}
}

#[test]
fn a_replaced_value_expires_when_the_old_one_would_have() {
    let (_, settings) = rules();
    let clock = Arc::new(HandClock(1_700_000_000_000.into()));
    let storage = Arc::new(MemoryStorage::new());
    let env = Env::over(storage.clone()).background(Arc::new(Stepped)).clock(clock.clone());
    let db = Db::open_with(env, settings).unwrap();
    let keyspace = db.keyspace("k", filtered()).unwrap();
    keyspace.put_with_ttl("a", "old 1", Duration::from_secs(10)).unwrap();
    keyspace.put_with_ttl("b", "drop", Duration::from_secs(10)).unwrap();
    db.compact().unwrap();
    assert_eq!((value(&keyspace, "a"), value(&keyspace, "b")), (some("new 1"), None));
    clock.0.fetch_add(9_999, Ordering::Relaxed);
    assert_eq!(value(&keyspace, "a"), some("new 1"));
    clock.0.fetch_add(1, Ordering::Relaxed);
    assert_eq!(value(&keyspace, "a"), None);
}

fn optimistic() -> TransactionOptions {
    TransactionOptions::default().concurrency(Concurrency::Optimistic)
}

#[test]
fn a_transaction_whose_value_a_filter_would_drop_reads_it_to_its_end() {
    let (_, db, keyspace) = fresh();
    keyspace.put("k", "drop").unwrap();
    let mut transaction = db.transaction_with(optimistic()).unwrap();
    assert_eq!(text(transaction.get(&keyspace, "k").unwrap()), some("drop"));
    db.compact().unwrap();
    assert_eq!(text(transaction.get(&keyspace, "k").unwrap()), some("drop"));
    transaction.put(&keyspace, "copy", "of it").unwrap();
    transaction.commit().unwrap();
    db.compact().unwrap();
    assert_eq!((value(&keyspace, "k"), value(&keyspace, "copy")), (None, some("of it")));
}

#[test]
fn a_write_that_a_filter_changed_still_conflicts_and_is_not_seen_before() {
    for (written, left) in [("drop", None), ("old", some("new"))] {
        let (_, db, keyspace) = fresh();
        let before = db.snapshot();
        let mut transaction = db.transaction_with(optimistic()).unwrap();
        assert_eq!(text(transaction.get(&keyspace, "k").unwrap()), None);
        keyspace.put("k", written).unwrap();
        db.compact().unwrap();
        assert_eq!(value(&keyspace, "k"), left);
        assert_eq!(value_at(&before, &keyspace, "k"), None);
        transaction.put(&keyspace, "k", "mine").unwrap();
        let error = transaction.commit().unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }), "{error}");
    }
}

/// A key has its value, or what the filter makes of it, and never the one before.
#[test]
fn a_power_loss_in_a_filtered_compaction_loses_no_value_and_brings_none_back() {
    let keys = || (0..60_u32).map(|n| format!("key {n}"));
    let put = |n: usize| format!("{}{n}", ["drop ", "old ", "else "][n % 3]);
    let kept = |n: usize| match decision(put(n).as_bytes()) {
        FilterDecision::Keep => Some(put(n)),
        FilterDecision::Drop => None,
        FilterDecision::Replace(value) => some(std::str::from_utf8(&value).unwrap()),
    };
    let open = |disk: &FaultStorage| {
        let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped));
        let db = Db::open_with(env, rules().1).unwrap();
        let keyspace = db.keyspace("k", filtered()).unwrap();
        (db, keyspace)
    };
    let mut partly = 0;
    for call in 0.. {
        let disk = FaultStorage::new(Rng::new(call));
        let (db, keyspace) = open(&disk);
        keys().for_each(|key| keyspace.put(key, "first").unwrap());
        db.compact().unwrap();
        keys().enumerate().for_each(|(n, key)| keyspace.put(key, put(n)).unwrap());
        db.flush().unwrap();
        disk.crash_after(call);
        let is_done = db.compact().is_ok();
        drop((db, keyspace));
        let (db, keyspace) = open(&disk.crash());
        let found: Vec<_> = keys().map(|key| value(&keyspace, &key)).collect();
        let is_filtered = (0..60).all(|n| found[n] == kept(n));
        for (n, found) in found.into_iter().enumerate() {
            assert!(found == kept(n) || found == Some(put(n)), "call {call}: key {n}: {found:?}");
        }
        assert!(is_filtered || !is_done, "call {call}: a compaction that was done is lost");
        partly += u32::from(!is_filtered);
        db.compact().unwrap();
        assert!(
            keys().enumerate().all(|(n, key)| value(&keyspace, &key) == kept(n)),
            "call {call}"
        );
        if is_done {
            break;
        }
    }
    assert!(partly > 3, "{partly} calls of a compaction");
}
