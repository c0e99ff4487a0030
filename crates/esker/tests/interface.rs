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
        db.put(&keyspace, [letter], []).unwrap();
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

#[test]
fn a_keyspace_reads_and_writes_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    let users = db.keyspace("users", KeyspaceSettings::default()).unwrap();
    assert!(users.is_empty().unwrap() && users.first().unwrap().is_none());
    users.put("ada", "analyst").unwrap();
    users.put(String::from("grace"), vec![1, 2]).unwrap();
    users.put([b'z'], []).unwrap();
    let before = db.snapshot();
    users.delete("ada").unwrap();
    assert!(!users.contains_key("ada").unwrap() && db.contains_key(&users, "grace").unwrap());
    assert_eq!(users.get_at("ada", &before).unwrap().as_deref(), Some(&b"analyst"[..]));
    assert_eq!(users.first().unwrap().unwrap().0, b"grace");
    assert_eq!(users.last().unwrap().unwrap().0, b"z");
    assert_eq!((users.count(..).unwrap(), users.count("h"..).unwrap()), (2, 1));
    assert_eq!(text(users.range("a"..="z").rev()), "zg");
    assert_eq!(users.multi_get(["z", "ada"]).unwrap(), [Some(Value::default()), None]);
    db.close().unwrap();
    assert!(matches!(users.get("grace"), Err(Error::Closed)));
    assert!(matches!(users.put("grace", ""), Err(Error::Closed)));
    assert!(matches!(users.iter().next(), Some(Err(Error::Closed))));
}
