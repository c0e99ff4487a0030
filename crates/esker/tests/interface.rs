//! What the public types can do in every program: be shared, be sent, be printed, iterate.

use esker::*;
use std::fmt::Debug;

fn is_shared<T: Send + std::marker::Sync + Debug>() {}
fn is_sent<T: Send + Debug>() {}

#[test]
fn handles_settings_and_results_are_shared_between_threads() {
    is_shared::<Db>();
    is_shared::<Env>();
    is_shared::<Error>();
    is_shared::<Keyspace>();
    is_shared::<KeyspaceSettings>();
    is_shared::<Resources>();
    is_shared::<Settings>();
    is_shared::<Snapshot>();
    is_shared::<Stats>();
    is_shared::<TransactionDb<Db>>();
    is_shared::<TransactionOptions>();
    is_shared::<Value>();
    is_shared::<WriteBatch>();
}

#[test]
fn readers_are_sent_to_other_threads() {
    is_sent::<DbCursor>();
    is_sent::<Range>();
}

fn letters() -> (tempfile::TempDir, Db, Keyspace) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    let keyspace = db.default_keyspace();
    for letter in b'a'..=b'g' {
        db.put(&keyspace, &[letter], &[]).unwrap();
    }
    (dir, db, keyspace)
}

/// The letters that an iterator gives.
fn text(pairs: impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>) -> String {
    pairs.map(|pair| char::from(pair.unwrap().0[0])).collect()
}

#[test]
fn a_range_is_an_iterator_from_both_ends() {
    let (_dir, db, keyspace) = letters();
    let all = || db.range(&keyspace, ..);
    assert_eq!(text(all()), "abcdefg");
    assert_eq!(text(all().rev()), "gfedcba");
    assert_eq!(text(all().skip(1).step_by(2)), "bdf");
    assert_eq!(text(db.prefix(&keyspace, b"c")), "c");
}

#[test]
fn both_ends_of_a_range_meet_once() {
    let (_dir, db, keyspace) = letters();
    for from_front in 0..=8 {
        let mut range = db.range(&keyspace, ..);
        let front = text(range.by_ref().take(from_front));
        let back = text(range.by_ref().rev());
        let all = front + &back.chars().rev().collect::<String>();
        assert_eq!(all, "abcdefg", "{from_front} from the front");
        assert!(range.next().is_none() && range.next_back().is_none());
    }
    // In turns.
    let mut range = db.range(&keyspace, ..);
    let mut seen = Vec::new();
    while let Some(pair) = if seen.len() % 2 == 0 { range.next() } else { range.next_back() } {
        seen.push(pair.unwrap().0[0]);
    }
    assert_eq!(seen, b"agbfced");
}

#[test]
fn a_range_ends_after_its_first_error_and_an_empty_one_at_once() {
    let (_dir, db, keyspace) = letters();
    assert!(db.range(&keyspace, b"x".as_slice()..).next().is_none());
    assert!(db.range(&keyspace, b"x".as_slice()..).next_back().is_none());
    let (_other_dir, other, _) = letters();
    for mut steps in [db.range(&keyspace, ..), db.range(&keyspace, ..).at(&other.snapshot())] {
        other.clone().close().unwrap_or(());
        let foreign = steps.next().unwrap().is_err();
        assert_eq!(steps.next().is_none(), foreign, "an error is the last item");
    }
}

#[test]
fn a_range_reads_at_one_time_whatever_is_written_meanwhile() {
    let (_dir, db, keyspace) = letters();
    let mut range = db.range(&keyspace, ..);
    assert_eq!(range.next().unwrap().unwrap().0, b"a");
    db.delete(&keyspace, b"g").unwrap();
    db.put(&keyspace, b"h", b"").unwrap();
    assert_eq!(range.next_back().unwrap().unwrap().0, b"g");
}
