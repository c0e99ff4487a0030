//! What every peer must do, run over each that is built in. The oracle is the model that the rest of
//! the project is held against.

#![cfg(any_peer)]

use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, WriteBatch};
use esker_base::{Error, KeyspaceId, MAX_KEY_BYTES, Rng};
use esker_peers::{Peer, PeerSettings, check_settings, open};
use esker_workload::Model;
use std::ops::Bound;
use std::path::Path;

const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;

macro_rules! suite {
    ($module:ident, $feature:literal, $name:literal: $($behaviour:ident)*) => {
        #[cfg(feature = $feature)]
        mod $module {
            $(#[test]
            fn $behaviour() {
                let dir = tempfile::tempdir().unwrap();
                super::$behaviour($name, dir.path());
            })*
        }
    };
}

macro_rules! suites {
    ($($module:ident, $feature:literal, $name:literal;)*) => {
        $(suite! { $module, $feature, $name:
            a_pair_is_there_until_it_is_deleted
            the_last_write_wins
            several_keys_are_got_in_their_order
            a_batch_applies_in_its_order
            a_batch_of_one_counts_like_its_put
            a_refused_batch_changes_nothing
            readers_see_a_batch_whole_or_not_at_all
            cursors_agree_with_the_model
            a_cursor_goes_on_as_of_its_moment
            a_snapshot_stays_as_it_was
            a_range_delete_removes_just_its_range
            what_was_written_is_there_after_reopening
            a_synced_batch_is_taken
            written_bytes_grow
            settling_returns_and_keeps_all
            keys_that_no_store_takes_are_refused
            every_option_set_has_its_reason
            settings_that_cannot_be_are_refused
            a_store_with_parts_and_separated_values_gives_them_back
        })*
    };
}

suites! {
    rocksdb_wal, "rocksdb", "rocksdb-wal";
    rocksdb_wal_sync, "rocksdb", "rocksdb-wal-sync";
    rocksdb_nolog, "rocksdb", "rocksdb-nolog";
    rocksdb_universal, "rocksdb", "rocksdb-universal";
    rocksdb_leveled_4, "rocksdb", "rocksdb-leveled-4";
    rocksdb_universal_25, "rocksdb", "rocksdb-universal-25";
    leveldb, "leveldb", "leveldb";
    fjall, "fjall", "fjall";
    lmdb, "lmdb", "lmdb";
    redb, "redb", "redb";
    tidesdb, "tidesdb", "tidesdb";
}

// It has no atomic batches, no snapshots and no way backwards.
suite! { bf_tree, "bf-tree", "bf-tree":
    the_last_write_wins
    several_keys_are_got_in_their_order
    a_range_delete_removes_just_its_range
    what_was_written_is_there_after_reopening
    settling_returns_and_keeps_all
    every_option_set_has_its_reason
    settings_that_cannot_be_are_refused
    what_it_cannot_do_is_refused
    forward_cursors_agree_with_the_model
}

/// Small, so that a test's writes are flushed and compacted.
fn small() -> PeerSettings {
    PeerSettings { memory_bytes: 8 << 20, write_buffer_bytes: 256 << 10, ..PeerSettings::default() }
}

fn opened(name: &str, dir: &Path) -> Box<dyn Peer> {
    let peer = open(name, dir, &small()).unwrap();
    assert_eq!(peer.name(), name);
    peer
}

fn got(store: &dyn Peer, key: &[u8]) -> Option<Vec<u8>> {
    store.get(key).unwrap().map(|value| value.into_vec())
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// A value that says which round wrote it, padded so that tables fill.
fn value(number: u64, round: u64) -> Vec<u8> {
    let mut value = format!("{number}/{round}/").into_bytes();
    let mut padding = vec![0; 200];
    Rng::new(number ^ round << 32).fill(&mut padding);
    value.extend(padding);
    value
}

fn pairs(cursor: &mut dyn Cursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    cursor.seek_first().unwrap();
    let mut pairs = Vec::new();
    while let Some((key, value)) = cursor.current() {
        pairs.push((key.to_vec(), value.to_vec()));
        cursor.next().unwrap();
    }
    pairs
}

fn a_store_with_parts_and_separated_values_gives_them_back(name: &str, dir: &Path) {
    let settings = PeerSettings { has_parts: true, separation_threshold: Some(1_000), ..small() };
    let value = |number: u64, round: u64| {
        let len = if number.is_multiple_of(3) { 20_000 } else { 50 };
        value(number, round).into_iter().cycle().take(len).collect::<Vec<u8>>()
    };
    let peer = open(name, dir, &settings).unwrap();
    for round in 0..3 {
        for number in 0..300 {
            peer.put(&key(number), &value(number, round)).unwrap();
        }
    }
    peer.flush().unwrap();
    peer.settle().unwrap();
    drop(peer);
    let peer = open(name, dir, &settings).unwrap();
    for number in 0..300 {
        assert_eq!(got(&*peer, &key(number)), Some(value(number, 2)), "{name}, {number}");
    }
}

fn a_pair_is_there_until_it_is_deleted(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    assert_eq!(got(&*peer, b"a"), None);
    peer.put(b"a", b"1").unwrap();
    peer.put(b"empty", b"").unwrap();
    peer.put(b"\0\xff\0", &[7; 100_000]).unwrap();
    assert_eq!(got(&*peer, b"a"), Some(b"1".to_vec()));
    assert_eq!(got(&*peer, b"empty"), Some(Vec::new()));
    assert_eq!(got(&*peer, b"\0\xff\0"), Some(vec![7; 100_000]));
    peer.delete(b"a").unwrap();
    peer.delete(b"never there").unwrap();
    assert_eq!(got(&*peer, b"a"), None);
    peer.flush().unwrap();
    assert_eq!(got(&*peer, b"a"), None);
    assert_eq!(got(&*peer, b"\0\xff\0"), Some(vec![7; 100_000]));
}

fn the_last_write_wins(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    for round in 0..4 {
        for number in 0..500 {
            peer.put(&key(number), &value(number, round)).unwrap();
        }
        if round % 2 == 1 {
            peer.flush().unwrap();
        }
    }
    for number in 0..500 {
        assert_eq!(got(&*peer, &key(number)), Some(value(number, 3)), "{number}");
    }
}

fn several_keys_are_got_in_their_order(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    peer.put(b"a", b"1").unwrap();
    peer.put(b"c", b"3").unwrap();
    let values = peer.multi_get(&[b"c", b"b", b"a"]).unwrap();
    let values: Vec<_> = values.into_iter().map(|value| value.map(|v| v.into_vec())).collect();
    assert_eq!(values, [Some(b"3".to_vec()), None, Some(b"1".to_vec())]);
}

fn a_batch_applies_in_its_order(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    peer.put(b"b", b"old").unwrap();
    peer.put(b"d", b"old").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(KEYSPACE, b"a", b"first");
    batch.put(KEYSPACE, b"a", b"second");
    batch.put(KEYSPACE, b"bb", b"gone with the range");
    batch.delete_range(KEYSPACE, b"b"..b"d");
    batch.put(KEYSPACE, b"c", b"after the range");
    batch.put(KEYSPACE, b"e", b"gone");
    batch.delete(KEYSPACE, b"e");
    peer.write(&batch).unwrap();
    let all = pairs(&mut *peer.cursor(KeyRange::all()).unwrap());
    let all: Vec<_> = all.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    let expected: [(&[u8], &[u8]); 3] =
        [(b"a", b"second"), (b"c", b"after the range"), (b"d", b"old")];
    assert_eq!(all, expected);
}

fn a_batch_of_one_counts_like_its_put(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let added = |write: &dyn Fn()| {
        let before = peer.written();
        write();
        let after = peer.written();
        let log_bytes = after.log_bytes.zip(before.log_bytes).map(|(now, then)| now - then);
        (after.user_bytes.unwrap() - before.user_bytes.unwrap(), log_bytes)
    };
    let batch = |sync: bool, fill: fn(&mut WriteBatch)| {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        if sync {
            batch.set_sync(true);
        }
        peer.write(&batch).unwrap();
    };
    let put = added(&|| peer.put(b"a", b"1").unwrap());
    assert_eq!(added(&|| batch(false, |batch| batch.put(KEYSPACE, b"a", b"2"))), put);
    assert_eq!(got(&*peer, b"a"), Some(b"2".to_vec()));
    assert_eq!(added(&|| batch(true, |batch| batch.put(KEYSPACE, b"a", b"3"))), put);
    assert_eq!(got(&*peer, b"a"), Some(b"3".to_vec()));
    let delete = added(&|| peer.delete(b"a").unwrap());
    peer.put(b"a", b"4").unwrap();
    assert_eq!(added(&|| batch(false, |batch| batch.delete(KEYSPACE, b"a"))), delete);
    assert_eq!(got(&*peer, b"a"), None);
    peer.put(b"a", b"5").unwrap();
    assert_eq!(added(&|| batch(true, |batch| batch.delete(KEYSPACE, b"a"))), delete);
    assert_eq!(got(&*peer, b"a"), None);
}

fn a_refused_batch_changes_nothing(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let mut with_empty_key = WriteBatch::new();
    with_empty_key.put(KEYSPACE, b"a", b"1");
    with_empty_key.put(KEYSPACE, b"", b"1");
    assert!(matches!(peer.write(&with_empty_key), Err(Error::EmptyKey)));
    let mut elsewhere = WriteBatch::new();
    elsewhere.put(KEYSPACE, b"a", b"1");
    elsewhere.put(KeyspaceId(9), b"a", b"1");
    assert!(matches!(peer.write(&elsewhere), Err(Error::UnknownKeyspace { .. })));
    let mut with_empty_range = WriteBatch::new();
    with_empty_range.put(KEYSPACE, b"a", b"1");
    with_empty_range.delete_range(KEYSPACE, b"b"..b"b");
    assert!(matches!(peer.write(&with_empty_range), Err(Error::EmptyRange)));
    assert_eq!(got(&*peer, b"a"), None);
}

fn readers_see_a_batch_whole_or_not_at_all(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let write = |round: u64| {
        let mut batch = WriteBatch::new();
        batch.put(KEYSPACE, b"left", round.to_le_bytes());
        batch.put(KEYSPACE, b"right", round.to_le_bytes());
        peer.write(&batch).unwrap();
    };
    write(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..300).for_each(write));
        loop {
            let is_over = writer.is_finished();
            let snapshot = peer.snapshot().unwrap();
            let left = peer.get_at(b"left", &*snapshot).unwrap();
            let right = peer.get_at(b"right", &*snapshot).unwrap();
            assert_eq!(left, right);
            if is_over {
                return;
            }
        }
    });
    assert_eq!(got(&*peer, b"left"), Some(299u64.to_le_bytes().to_vec()));
}

/// Puts, deletes and range deletes at random, with flushes between, on both alike.
fn filled(peer: &dyn Peer, rng: &mut Rng) -> Model {
    let model = Model::new();
    for step in 0..3_000 {
        let number = rng.below(400);
        match rng.below(20) {
            0 => {
                let (start, end) = (key(number), key(number + 1 + rng.below(20)));
                peer.delete_range((&start..&end).into()).unwrap();
                model.delete_range((&start..&end).into()).unwrap();
            }
            1..5 => {
                peer.delete(&key(number)).unwrap();
                model.delete(&key(number)).unwrap();
            }
            _ => {
                peer.put(&key(number), &value(number, step)).unwrap();
                model.put(&key(number), &value(number, step)).unwrap();
            }
        }
        if step == 1_000 || step == 2_000 {
            peer.flush().unwrap();
        }
    }
    model
}

fn random_range(rng: &mut Rng) -> KeyRange {
    let bound = |rng: &mut Rng, number| match rng.below(3) {
        0 => Bound::Included(key(number)),
        1 => Bound::Excluded(key(number)),
        _ => Bound::Unbounded,
    };
    let (start, length) = (rng.below(400), rng.below(100));
    // Now and then the range is empty, or ends before it starts.
    let end = if rng.one_in(10) { start.saturating_sub(length) } else { start + length };
    KeyRange { start: bound(rng, start), end: bound(rng, end) }
}

fn cursors_agree_with_the_model(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let mut rng = Rng::new(17);
    let model = filled(&*peer, &mut rng);
    let snapshot = peer.snapshot().unwrap();
    for _ in 0..200 {
        let range = random_range(&mut rng);
        let mut theirs = match rng.one_in(2) {
            true => peer.cursor(range.clone()).unwrap(),
            false => peer.cursor_at(range.clone(), &*snapshot).unwrap(),
        };
        let mut ours = model.cursor(range.clone()).unwrap();
        assert!(theirs.current().is_none(), "a new cursor stands nowhere");
        for _ in 0..30 {
            let target = key(rng.below(420));
            match rng.below(10) {
                0 => (ours.seek_first().unwrap(), theirs.seek_first().unwrap()),
                1 => (ours.seek_last().unwrap(), theirs.seek_last().unwrap()),
                2 => (ours.seek(&target).unwrap(), theirs.seek(&target).unwrap()),
                3 => (ours.seek_back(&target).unwrap(), theirs.seek_back(&target).unwrap()),
                4..8 => (ours.next().unwrap(), theirs.next().unwrap()),
                _ => (ours.prev().unwrap(), theirs.prev().unwrap()),
            };
            assert_eq!(theirs.current(), ours.current(), "{range:?}");
        }
    }
}

fn a_cursor_goes_on_as_of_its_moment(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    for number in 0..200 {
        peer.put(&key(number), b"before").unwrap();
    }
    let mut cursor = peer.cursor(KeyRange::all()).unwrap();
    cursor.seek(&key(50)).unwrap();
    for number in 0..200 {
        peer.put(&key(number), b"after").unwrap();
    }
    peer.delete(&key(51)).unwrap();
    peer.put(b"key000050+", b"new").unwrap();
    peer.flush().unwrap();
    cursor.next().unwrap();
    assert_eq!(cursor.current(), Some((&key(51)[..], &b"before"[..])));
    cursor.seek_last().unwrap();
    assert_eq!(cursor.current(), Some((&key(199)[..], &b"before"[..])));
}

fn a_snapshot_stays_as_it_was(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    for number in 0..300 {
        peer.put(&key(number), &value(number, 1)).unwrap();
    }
    let early = peer.snapshot().unwrap();
    for number in 0..300 {
        peer.put(&key(number), &value(number, 2)).unwrap();
    }
    peer.delete_range((key(100)..key(200)).into()).unwrap();
    let late = peer.snapshot().unwrap();
    assert!(early.seqno() < late.seqno());
    for number in 0..300 {
        peer.delete(&key(number)).unwrap();
    }
    peer.flush().unwrap();
    peer.settle().unwrap();

    for number in 0..300 {
        let at = |moment| peer.get_at(&key(number), moment).unwrap().map(|v| v.into_vec());
        assert_eq!(at(&*early), Some(value(number, 1)), "{number}");
        let later = (!(100..200).contains(&number)).then(|| value(number, 2));
        assert_eq!(at(&*late), later, "{number}");
    }
    let pairs_at =
        |moment: &dyn Snapshot| pairs(&mut *peer.cursor_at(KeyRange::all(), moment).unwrap()).len();
    assert_eq!((pairs_at(&*early), pairs_at(&*late)), (300, 200));
    drop(early);
    assert_eq!(pairs_at(&*late), 200);
    assert_eq!(pairs(&mut *peer.cursor(KeyRange::all()).unwrap()), []);
}

fn a_range_delete_removes_just_its_range(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    for number in 0..400 {
        peer.put(&key(number), &value(number, 0)).unwrap();
        if number == 200 {
            peer.flush().unwrap();
        }
    }
    peer.delete_range((key(100)..key(300)).into()).unwrap();
    peer.put(&key(150), b"back").unwrap();
    let there = |number: u64| got(&*peer, &key(number)).is_some();
    assert!(there(99) && !there(100) && there(150) && !there(299) && there(300));
    assert_eq!(pairs(&mut *peer.cursor(KeyRange::all()).unwrap()).len(), 201);
    assert!(matches!(peer.delete_range((b"b"..b"a").into()), Err(Error::EmptyRange)));
}

fn what_was_written_is_there_after_reopening(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    for number in 0..2_000 {
        peer.put(&key(number), &value(number, 0)).unwrap();
    }
    peer.delete(&key(7)).unwrap();
    if name == "rocksdb-nolog" {
        peer.flush().unwrap();
    }
    drop(peer);
    let peer = opened(name, dir);
    assert_eq!(got(&*peer, &key(7)), None);
    for number in 8..2_000 {
        assert_eq!(got(&*peer, &key(number)), Some(value(number, 0)), "{number}");
    }
    assert_eq!(peer.written().user_bytes, Some(0), "totals are since the store was opened");
}

fn a_synced_batch_is_taken(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let mut batch = WriteBatch::new();
    batch.put(KEYSPACE, b"a", b"1");
    batch.set_sync(true);
    peer.write(&batch).unwrap();
    drop(peer);
    assert_eq!(got(&*opened(name, dir), b"a"), Some(b"1".to_vec()));
}

fn written_bytes_grow(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    for number in 0..4_000 {
        peer.put(&key(number % 1_000), &value(number, 0)).unwrap();
    }
    peer.flush().unwrap();
    peer.settle().unwrap();
    let written = peer.written();
    let user_bytes = written.user_bytes.unwrap();
    assert!((4_000 * 210..4_000 * 240).contains(&user_bytes), "{written:?}");

    if ["fjall", "lmdb", "redb"].contains(&name) {
        assert_eq!(written.flush_bytes, None, "it does not tell");
        return;
    }
    let log_bytes = written.log_bytes.unwrap();
    match name {
        "rocksdb-nolog" => assert_eq!(log_bytes, 0),
        _ => assert!((user_bytes..user_bytes * 5 / 4).contains(&log_bytes), "{written:?}"),
    }
    let flush_bytes = written.flush_bytes.unwrap();
    assert!((200_000..2 * user_bytes).contains(&flush_bytes), "{written:?}");

    // As much again, so that compactions are due in all shapes.
    for number in 0..8_000 {
        peer.put(&key(number % 1_000), &value(number, 1)).unwrap();
    }
    peer.flush().unwrap();
    peer.settle().unwrap();
    let more = peer.written();
    assert!(more.user_bytes > written.user_bytes, "{more:?}");
    assert!(more.flush_bytes > written.flush_bytes, "{more:?}");
    assert!(more.compaction_bytes.unwrap() > 100_000, "{more:?}");
    let counts_stalls = name.starts_with("rocksdb") || name == "tidesdb";
    assert_eq!(more.stall_us.is_some(), counts_stalls);
}

fn settling_returns_and_keeps_all(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    peer.settle().unwrap();
    peer.flush().unwrap();
    for round in 0..3 {
        for number in 0..2_000 {
            peer.put(&key(number), &value(number, round)).unwrap();
        }
    }
    peer.flush().unwrap();
    peer.settle().unwrap();
    let before = peer.written();
    for number in 0..2_000 {
        assert_eq!(got(&*peer, &key(number)), Some(value(number, 2)), "{number}");
    }
    assert_eq!(peer.written(), before, "nothing was left to do");
}

fn keys_that_no_store_takes_are_refused(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let too_long = vec![b'k'; MAX_KEY_BYTES + 1];
    assert!(matches!(peer.put(b"", b"1"), Err(Error::EmptyKey)));
    assert!(matches!(peer.put(&too_long, b"1"), Err(Error::KeyTooLong { .. })));
    assert!(matches!(peer.get(b""), Err(Error::EmptyKey)));
    assert!(matches!(peer.delete(&too_long), Err(Error::KeyTooLong { .. })));
    let longest = vec![b'k'; MAX_KEY_BYTES];
    if ["fjall", "lmdb"].contains(&name) {
        assert!(matches!(peer.put(&longest, b"1"), Err(Error::KeyTooLong { .. })));
        return;
    }
    peer.put(&longest, b"1").unwrap();
    peer.flush().unwrap();
    assert_eq!(got(&*peer, &longest), Some(b"1".to_vec()));
}

fn every_option_set_has_its_reason(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let options = peer.configuration();
    // A B-tree has fewer.
    let has_buffers = !["lmdb", "redb", "bf-tree"].contains(&name);
    assert!(options.len() >= if has_buffers { 8 } else { 4 }, "{options:?}");
    for (option, value) in &options {
        let (_, reason) = value.split_once(" (").unwrap_or_else(|| panic!("{option}: {value}"));
        assert!(reason.len() > 8 && reason.ends_with(')'), "{option}: {value}");
    }
    let is_of_buffer = |value: &str| value.starts_with("262144 (");
    assert_eq!(options.iter().any(|(_, value)| is_of_buffer(value)), has_buffers, "{options:?}");
}

fn what_it_cannot_do_is_refused(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    peer.put(b"a", b"1").unwrap();
    let mut two = WriteBatch::new();
    two.put(KEYSPACE, b"a", b"2");
    two.put(KEYSPACE, b"b", b"2");
    assert!(matches!(peer.write(&two), Err(Error::NotOffered { .. })));
    assert_eq!((got(&*peer, b"a"), got(&*peer, b"b")), (Some(b"1".to_vec()), None));
    assert!(matches!(peer.snapshot().map(drop), Err(Error::NotOffered { .. })));
    let mut cursor = peer.cursor(KeyRange::all()).unwrap();
    assert!(matches!(cursor.seek_last(), Err(Error::NotOffered { .. })));
    assert!(matches!(peer.put(&[b'k'; 49], b"1"), Err(Error::KeyTooLong { bytes: 49 })));
    assert!(peer.put(b"empty", b"").is_err() && peer.put(b"large", &[7; 2_000]).is_err());
}

fn forward_cursors_agree_with_the_model(name: &str, dir: &Path) {
    let peer = opened(name, dir);
    let mut rng = Rng::new(17);
    let model = filled(&*peer, &mut rng);
    for _ in 0..200 {
        let range = random_range(&mut rng);
        let mut theirs = peer.cursor(range.clone()).unwrap();
        let mut ours = model.cursor(range.clone()).unwrap();
        for _ in 0..30 {
            let target = key(rng.below(420));
            match rng.below(10) {
                0 => (ours.seek_first().unwrap(), theirs.seek_first().unwrap()),
                1..4 => (ours.seek(&target).unwrap(), theirs.seek(&target).unwrap()),
                _ => (ours.next().unwrap(), theirs.next().unwrap()),
            };
            assert_eq!(theirs.current(), ours.current(), "{range:?}");
        }
    }
}

fn settings_that_cannot_be_are_refused(name: &str, dir: &Path) {
    let bad = PeerSettings { memory_bytes: 1 << 20, ..PeerSettings::default() };
    assert!(matches!(open(name, dir, &bad), Err(Error::InvalidSetting { .. })));
    let zstd = PeerSettings { compression: esker_peers::Compression::Zstd, ..small() };
    assert_eq!(check_settings(name, &zstd).is_ok(), name.starts_with("rocksdb"));
    assert!(check_settings(name, &small()).is_ok() && check_settings(name, &bad).is_err());
    match open(name, dir, &zstd) {
        Ok(peer) => {
            assert!(name.starts_with("rocksdb"));
            peer.put(b"a", &[1; 10_000]).unwrap();
            peer.flush().unwrap();
            assert_eq!(got(&*peer, b"a"), Some(vec![1; 10_000]));
        }
        Err(error) => {
            assert!(!name.starts_with("rocksdb") && error.to_string().contains("compression"));
            assert_eq!(dir.read_dir().unwrap().count(), 0, "refused before a file is made");
        }
    }
}
