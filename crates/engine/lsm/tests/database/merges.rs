//! Merge operators: what reads see of operands, wherever these are and whatever the operator does.

use crate::support::small;
use esker_api::{Append, Cursor, KeyRange, MergeError, MergeOperator};
use esker_base::background::Stepped;
use esker_base::{Error, Rng};
use esker_lsm::{Db, Env, Keyspace, KeyspaceSettings, Settings, Snapshot};
use esker_storage::MemoryStorage;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn in_steps(storage: &Arc<MemoryStorage>) -> Env {
    Env::over(storage.clone()).background(Arc::new(Stepped))
}

fn open(storage: &Arc<MemoryStorage>, settings: Settings) -> Db {
    Db::open_with(in_steps(storage), settings).unwrap()
}

fn appending() -> KeyspaceSettings {
    KeyspaceSettings::default().merge("append")
}

fn number(value: i64) -> [u8; 8] {
    value.to_le_bytes()
}

/// Reads `keyspace` at `at` in every way and compares it with `model`.
#[track_caller]
fn check(keyspace: &Keyspace, at: &Snapshot, model: &Model, rng: &mut Rng) {
    for key in (0..20_u8).map(|key| vec![key]) {
        let found = at.get(keyspace, &key).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), model.get(&key), "get of {key:?}");
    }
    let start = [rng.below(20) as u8];
    let ranges = [KeyRange::all(), KeyRange::from(&start[..]..)];
    for range in ranges {
        let expected: Vec<_> = model.iter().filter(|(key, _)| range.contains(key)).collect();
        let mut cursor = at.cursor(keyspace, range.clone()).unwrap();
        for is_forward in [true, false] {
            if is_forward { cursor.seek_first() } else { cursor.seek_last() }.unwrap();
            let mut found = Vec::new();
            while let Some((key, value)) = cursor.current() {
                found.push((key.to_vec(), value.to_vec()));
                // Now and then a step in the other direction, and back.
                if rng.one_in(6) {
                    if is_forward { cursor.prev() } else { cursor.next() }.unwrap();
                    if cursor.current().is_none() {
                        cursor.seek(&found[found.len() - 1].0).unwrap();
                    } else {
                        if is_forward { cursor.next() } else { cursor.prev() }.unwrap();
                    }
                }
                if is_forward { cursor.next() } else { cursor.prev() }.unwrap();
            }
            if !is_forward {
                found.reverse();
            }
            let expected: Vec<_> =
                expected.iter().map(|(key, value)| ((*key).clone(), (*value).clone())).collect();
            assert_eq!(found, expected, "forward {is_forward}, {range:?}");
        }
    }
}

/// Every write, flush, compaction, snapshot and reopening, against a map.
#[test]
fn reads_see_operands_in_their_order_over_the_value_below() {
    for seed in 0..120 {
        let (mut rng, storage) = (Rng::new(seed), Arc::new(MemoryStorage::new()));
        let settings = small().delete_age_max(std::time::Duration::MAX);
        let mut db = open(&storage, settings.clone());
        let mut keyspace = db.keyspace("texts", appending()).unwrap();
        let mut model = Model::new();
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..250_u32 {
            let key = vec![rng.below(20) as u8];
            match rng.below(40) {
                0..22 => {
                    let mut batch = db.batch();
                    for part in 0..1 + rng.below(3) {
                        let operand = format!("{step}.{part} ");
                        batch.merge(&keyspace, &key, &operand);
                        model.entry(key.clone()).or_default().extend(operand.bytes());
                    }
                    db.write(&batch).unwrap();
                }
                22..25 => {
                    let value = format!("={step} ");
                    keyspace.put(&key, &value).unwrap();
                    model.insert(key, value.into_bytes());
                }
                25 => {
                    keyspace.delete(&key).unwrap();
                    model.remove(&key);
                }
                26 => {
                    let end = vec![key[0] + 1 + rng.below(4) as u8];
                    keyspace.delete_range(&key[..]..&end[..]).unwrap();
                    model.retain(|other, _| !(&key..&end).contains(&other));
                }
                27 | 28 => db.flush().unwrap(),
                29 => while rng.one_in(2) && db.run_background_job() {},
                30 => db.compact_keyspace(&keyspace).unwrap(),
                31 if snapshots.len() < 4 => snapshots.push((db.snapshot(), model.clone())),
                32 if !snapshots.is_empty() => {
                    drop(snapshots.swap_remove(rng.below(snapshots.len() as u64) as usize));
                }
                33 if rng.one_in(4) => {
                    snapshots.clear();
                    db.close().unwrap();
                    db = open(&storage, settings.clone());
                    keyspace = db.open_keyspace("texts").unwrap();
                }
                34 => {
                    // A hot key: notes are left.
                    for part in 0..40 {
                        keyspace.merge(&key, [b'a' + part % 26]).unwrap();
                        model.entry(key.clone()).or_default().push(b'a' + part % 26);
                    }
                }
                35..37 => {
                    let keys: Vec<_> = (0..20_u8).map(|key| [key]).collect();
                    let found = keyspace.multi_get(&keys).unwrap();
                    for (key, value) in keys.iter().zip(found) {
                        let expected = model.get(&key[..]);
                        assert_eq!(value.as_deref(), expected.map(|it| &it[..]), "seed {seed}");
                    }
                }
                37 if rng.one_in(3) => {
                    let keys = (key[0]..20).step_by(1 + rng.below(4) as usize);
                    let value = format!("ingested {step} ");
                    keyspace.ingest(keys.clone().map(|key| ([key], &value))).unwrap();
                    model.extend(keys.map(|key| (vec![key], value.clone().into_bytes())));
                }
                _ => {
                    check(&keyspace, &db.snapshot(), &model, &mut rng);
                    for (at, model) in &snapshots {
                        check(&keyspace, at, model, &mut rng);
                    }
                }
            }
        }
    }
}

#[test]
fn a_compaction_leaves_a_put_and_keeps_what_a_snapshot_sees() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage, small());
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).unwrap();
    sums.put("k", number(10)).unwrap();
    sums.merge("k", number(1)).unwrap();
    let before = db.snapshot();
    sums.merge("k", number(2)).unwrap();
    sums.merge("k", number(4)).unwrap();
    db.compact().unwrap();
    assert_eq!(sums.get("k").unwrap().as_deref(), Some(&number(17)[..]));
    assert_eq!(before.get(&sums, "k").unwrap().as_deref(), Some(&number(11)[..]));
    let entries = || {
        let levels = db.levels();
        let sums = levels.iter().find(|keyspace| keyspace.name == "sums").unwrap();
        sums.levels
            .iter()
            .flat_map(|it| &it.runs)
            .flat_map(|run| &run.tables)
            .map(|it| it.entries)
            .sum::<u64>()
    };
    assert_eq!(entries(), 2, "one operand above the snapshot, and one value below");
    drop(before);
    db.compact().unwrap();
    assert_eq!(entries(), 1);
    assert_eq!(sums.get("k").unwrap().as_deref(), Some(&number(17)[..]));
}

/// Appends, and counts how many operands a merge got at most. Fails or panics if asked.
#[derive(Default)]
struct Watched {
    most: AtomicUsize,
    fails: AtomicBool,
    panics: AtomicBool,
}

struct Shared(Arc<Watched>);

impl MergeOperator for Shared {
    fn name(&self) -> &str {
        "watched"
    }

    fn merge(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        if key == b"bad" && self.0.fails.load(Ordering::Relaxed) {
            return Err(MergeError::new("no luck"));
        }
        if key == b"bad" && self.0.panics.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new("no luck"));
        }
        self.0.most.fetch_max(operands.len(), Ordering::Relaxed);
        // Only the length counts, so that a value of many operands stays short.
        let so_far = base.map_or(0, |base| u64::from_le_bytes(base.try_into().unwrap()));
        let more: usize = operands.iter().map(|operand| operand.len()).sum();
        Ok((so_far + more as u64).to_le_bytes().to_vec())
    }
}

fn watched() -> (Arc<Watched>, Settings) {
    let watched = Arc::new(Watched::default());
    (watched.clone(), small().merge_operator(Shared(watched)))
}

fn length(value: &Option<esker_api::Value>) -> Option<u64> {
    value.as_ref().map(|value| u64::from_le_bytes(value[..].try_into().unwrap()))
}

#[test]
fn no_read_of_a_hot_key_folds_more_than_some_hundred_operands() {
    for expires in [false, true] {
        read_a_hot_key(expires);
    }
}

fn read_a_hot_key(expires: bool) {
    let (watched, settings) = watched();
    let settings = settings.segment_bytes(8 << 20).memory_bytes(64 << 20);
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage, settings);
    let hot = db.keyspace("hot", KeyspaceSettings::default().merge("watched")).unwrap();
    match expires {
        true => hot.put_with_ttl("k", 7_u64.to_le_bytes(), std::time::Duration::MAX).unwrap(),
        false => hot.put("k", 7_u64.to_le_bytes()).unwrap(),
    }
    db.flush().unwrap();
    let mut cursor = 0;
    for merges in 1..=30_000_u64 {
        hot.merge("k", "x").unwrap();
        if merges.is_multiple_of(997) {
            watched.most.store(0, Ordering::Relaxed);
            assert_eq!(length(&hot.get("k").unwrap()), Some(7 + merges));
            let read = watched.most.load(Ordering::Relaxed);
            assert!(read <= 300, "{read} operands after {merges} merges");
            let entries: Vec<_> = hot.iter().map(|entry| entry.unwrap().1).collect();
            assert_eq!(length(&entries.first().cloned()), Some(7 + merges));
            cursor = cursor.max(watched.most.load(Ordering::Relaxed));
        }
    }
    assert!(cursor <= 300, "{cursor} operands in a scan");
}

/// Counts the operands that it gets, and appends them.
struct Counted {
    operands: Arc<AtomicUsize>,
    fails: bool,
}

impl MergeOperator for Counted {
    fn name(&self) -> &str {
        "counted"
    }

    fn merge(
        &self,
        _: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        self.operands.fetch_add(operands.len(), Ordering::Relaxed);
        match self.fails {
            true => Err(MergeError::new("no luck")),
            false => Ok([base.unwrap_or_default(), &operands.concat()].concat()),
        }
    }
}

/// Such a key gets no note, and a writer that folded all of its operands again and again would cost
/// the square of their number.
#[test]
fn writers_fold_keys_with_long_expiring_or_failing_values_a_few_times_only() {
    let (long, short) = ([7; 100], [7; 1]);
    let cases: [(&[u8], bool, bool); 3] =
        [(&long, false, false), (&short, true, false), (&short, false, true)];
    for (operand, expires, fails) in cases {
        let operands = Arc::new(AtomicUsize::new(0));
        let counted = Counted { operands: operands.clone(), fails };
        let settings = small().segment_bytes(8 << 20).memory_bytes(64 << 20);
        let db = open(&Arc::new(MemoryStorage::new()), settings.merge_operator(counted));
        let keyspace = db.keyspace("k", KeyspaceSettings::default().merge("counted")).unwrap();
        if expires {
            keyspace.put_with_ttl("k", "", std::time::Duration::MAX).unwrap();
        }
        (0..10_000).for_each(|_| keyspace.merge("k", operand).unwrap());
        let folded = operands.load(Ordering::Relaxed);
        assert!(folded < 100_000, "{folded} operands were folded by 10000 merges");
        if !fails {
            let value = keyspace.get("k").unwrap().unwrap();
            assert_eq!(value.len(), 10_000 * operand.len());
        }
    }
}

#[test]
fn an_operator_that_fails_fails_the_reads_of_its_key_and_nothing_else() {
    for panics in [false, true] {
        let (watched, settings) = watched();
        let storage = Arc::new(MemoryStorage::new());
        let db = open(&storage, settings);
        let keyspace = db.keyspace("k", KeyspaceSettings::default().merge("watched")).unwrap();
        let switch = if panics { &watched.panics } else { &watched.fails };
        keyspace.put("bad", 1_u64.to_le_bytes()).unwrap();
        keyspace.merge("bad", "ab").unwrap();
        keyspace.merge("good", "abc").unwrap();
        switch.store(true, Ordering::Relaxed);
        let moves: [&dyn Fn(); 3] = [&|| (), &|| db.flush().unwrap(), &|| db.compact().unwrap()];
        for go_on in moves {
            go_on();
            let error = keyspace.get("bad").unwrap_err();
            assert!(matches!(error, Error::MergeFailed { .. }), "{error}");
            assert!(error.to_string().contains("bad"), "{error}");
            let error = keyspace.iter().find_map(Result::err).unwrap();
            assert!(matches!(error, Error::MergeFailed { .. }), "{error}");
            assert_eq!(length(&keyspace.get("good").unwrap()), Some(3));
            keyspace.put("other", 9_u64.to_le_bytes()).unwrap();
        }
        switch.store(false, Ordering::Relaxed);
        assert_eq!(length(&keyspace.get("bad").unwrap()), Some(3), "nothing is lost");
        db.compact().unwrap();
        assert_eq!(length(&keyspace.get("bad").unwrap()), Some(3));
    }
}

#[test]
fn a_database_opens_without_the_operator_and_keeps_the_operands() {
    let (_, settings) = watched();
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage, settings.clone());
    let keyspace = db.keyspace("k", KeyspaceSettings::default().merge("watched")).unwrap();
    keyspace.put("plain", 1_u64.to_le_bytes()).unwrap();
    keyspace.put("merged", 1_u64.to_le_bytes()).unwrap();
    keyspace.merge("merged", "ab").unwrap();
    keyspace.merge("merged", "c").unwrap();
    db.flush().unwrap();
    keyspace.merge("merged", "d").unwrap();
    db.close().unwrap();

    let db = open(&storage, small());
    let keyspace = db.open_keyspace("k").unwrap();
    for _ in 0..2 {
        assert_eq!(length(&keyspace.get("plain").unwrap()), Some(1));
        let error = keyspace.get("merged").unwrap_err();
        assert!(matches!(error, Error::NoMergeOperator { .. }), "{error}");
        assert!(error.to_string().contains("\"watched\""), "{error}");
        assert!(keyspace.merge("plain", "x").unwrap_err().to_string().contains("\"watched\""));
        db.compact().unwrap();
    }
    db.close().unwrap();

    let db = open(&storage, settings);
    let keyspace = db.open_keyspace("k").unwrap();
    assert_eq!(length(&keyspace.get("merged").unwrap()), Some(5));
}

#[test]
fn a_merge_that_cannot_be_read_is_not_written() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage, small());
    let plain = db.default_keyspace();
    let error = plain.merge("k", "1").unwrap_err();
    assert!(error.to_string().contains("KeyspaceSettings::merge"), "{error}");
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).unwrap();
    let mut batch = db.batch();
    batch.put(&plain, "k", "1");
    batch.merge(&sums, "k", "seven b");
    let error = db.write(&batch).unwrap_err();
    assert!(matches!(error, Error::MergeFailed { .. }), "{error}");
    assert_eq!((plain.get("k").unwrap(), sums.get("k").unwrap()), (None, None));
    let other = db.keyspace("sums", KeyspaceSettings::default().merge("max")).unwrap_err();
    assert!(other.to_string().contains("merge operator is add_i64, not max"), "{other}");
    assert!(db.keyspace("long", KeyspaceSettings::default().merge("n".repeat(32))).is_err());
}

#[test]
fn transactions_merge_into_what_they_read_and_conflict() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage, small());
    let sums = db.keyspace("sums", KeyspaceSettings::default().merge("add_i64")).unwrap();
    sums.merge("k", number(5)).unwrap();
    let mut tx = db.transaction().unwrap();
    tx.merge(&sums, "k", number(1)).unwrap();
    tx.merge(&sums, "k", number(2)).unwrap();
    assert_eq!(tx.get(&sums, "k").unwrap().as_deref(), Some(&number(8)[..]));
    assert_eq!(sums.get("k").unwrap().as_deref(), Some(&number(5)[..]));
    tx.commit().unwrap();
    assert_eq!(sums.get("k").unwrap().as_deref(), Some(&number(8)[..]));
    let mut tx = db.transaction().unwrap();
    tx.get(&sums, "k").unwrap();
    sums.merge("k", number(1)).unwrap();
    let error = tx.merge(&sums, "k", number(1)).unwrap_err();
    assert!(error.is_transient(), "a merge is a change: {error}");
    assert!(db.default_keyspace().id() != sums.id());
    let mut tx = db.transaction().unwrap();
    assert!(tx.merge(&db.default_keyspace(), "k", "x").is_err());
}

#[test]
fn a_killed_process_loses_no_operand_that_the_log_has() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = Db::open(dir.path(), small()).unwrap();
        let texts = db.keyspace("texts", appending()).unwrap();
        texts.put("k", "a").unwrap();
        texts.merge("k", "b").unwrap();
        db.flush().unwrap();
        texts.merge("k", "c").unwrap();
        texts.merge("", "empty").unwrap();
        // Not closed: the log is replayed.
        std::mem::forget(db.snapshot());
    }
    let db = Db::open(dir.path(), small()).unwrap();
    let texts = db.open_keyspace("texts").unwrap();
    assert_eq!(texts.get("k").unwrap().as_deref(), Some(&b"abc"[..]));
    assert_eq!(texts.get("").unwrap().as_deref(), Some(&b"empty"[..]));
    assert_eq!(texts.settings().unwrap(), appending());
}

/// The name of an operator that a user replaces: the user's counts.
#[test]
fn an_own_operator_replaces_a_built_in_one_of_its_name() {
    struct Last;
    impl MergeOperator for Last {
        fn name(&self) -> &str {
            "append"
        }
        fn merge(
            &self,
            _: &[u8],
            _: Option<&[u8]>,
            operands: &[&[u8]],
        ) -> Result<Vec<u8>, MergeError> {
            Ok(operands[operands.len() - 1].to_vec())
        }
    }
    let own = small().merge_operator(Append).merge_operator(Last);
    let db = open(&Arc::new(MemoryStorage::new()), own);
    let texts = db.keyspace("texts", appending()).unwrap();
    texts.merge("k", "a").unwrap();
    texts.merge("k", "b").unwrap();
    assert_eq!(texts.get("k").unwrap().as_deref(), Some(&b"b"[..]));
}
