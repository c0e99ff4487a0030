//! Typed keyspaces: entries are in the order of the tuples, and other types are reported.

use esker::options::Shape;
use esker::typed::{Json, OpenTyped, TypedError, TypedKeyspace};
use esker::*;
use std::collections::BTreeMap;

type Key = (i64, String);

fn opened() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    (dir, db)
}

#[test]
fn typed_entries_are_in_the_order_of_their_tuples() {
    let (_dir, db) = opened();
    let typed = db.typed::<Key, String>("t").unwrap();
    let mut expected: BTreeMap<Key, String> = BTreeMap::new();
    for number in [i64::MIN, -256, -255, -1, 0, 1, 9, 10, 255, 256, 70_000, i64::MAX] {
        // Texts that are prefixes of each other, or hold the bytes that end and escape a text.
        for text in ["", "a", "a\0", "a\0b", "ab", "b", "\u{ff}"] {
            let (key, value) = ((number, text.to_owned()), format!("{number} {text}"));
            typed.put(&key, &value).unwrap();
            expected.insert(key, value);
        }
    }
    let all: Vec<_> = typed.iter().map(|entry| entry.unwrap()).collect();
    assert_eq!(all, expected.clone().into_iter().collect::<Vec<_>>());
    let (from, to) = ((-1, "a\0".to_owned()), (10, "a".to_owned()));
    let check = |found: typed::TypedRange<Key, String>, expected: Vec<Key>| {
        let found: Vec<Key> = found.rev().map(|entry| entry.unwrap().0).collect();
        assert_eq!(found, expected.into_iter().rev().collect::<Vec<_>>());
    };
    let keys = |range: (std::ops::Bound<Key>, std::ops::Bound<Key>)| {
        expected.range(range).map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    use std::ops::Bound::{Excluded, Included, Unbounded};
    check(
        typed.range(from.clone()..to.clone()),
        keys((Included(from.clone()), Excluded(to.clone()))),
    );
    check(
        typed.range(from.clone()..=to.clone()),
        keys((Included(from.clone()), Included(to.clone()))),
    );
    check(typed.range(..to.clone()), keys((Unbounded, Excluded(to))));
    check(typed.range((Excluded(from.clone()), Unbounded)), keys((Excluded(from), Unbounded)));
    check(
        typed.prefix(&(255_i64,)),
        keys((Included((255, String::new())), Excluded((256, String::new())))),
    );

    let mut batch = db.batch();
    let first = (i64::MIN, String::new());
    typed.delete_in(&mut batch, &first);
    db.write(&batch).unwrap();
    assert!(!typed.contains_key(&first).unwrap());
    assert_eq!(typed.get(&(9, "ab".to_owned())).unwrap().as_deref(), Some("9 ab"));
}

#[test]
fn an_entry_of_another_type_is_reported_with_its_key() {
    let (_dir, db) = opened();
    let numbers = db.typed::<(u32,), Json<u32>>("t").unwrap();
    (1..=3).for_each(|n| numbers.put(&(n,), &Json(n)).unwrap());
    numbers.keyspace().put(tuple::encode(&(2_u32,)), "two").unwrap();
    numbers.keyspace().put(tuple::encode(&("x",)), "4").unwrap();
    assert!(matches!(numbers.get(&(2,)), Err(TypedError::Value { .. })));
    let found: Vec<_> = numbers.iter().collect();
    assert_eq!(found.len(), 4);
    let text = |at: usize| found[at].as_ref().unwrap_err().to_string();
    let is_key = |at: usize| matches!(found[at], Err(TypedError::Key { .. }));
    let at = (0..4).find(|&at| is_key(at)).unwrap();
    assert!(text(at).contains("keyspace \"t\""), "{}", text(at));
    let sum: u32 = found.iter().flatten().map(|(_, Json(number))| number).sum();
    assert_eq!(sum, 4);

    // Settings of an existing keyspace do not matter.
    let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 });
    let own = TypedKeyspace::<(u32,), String>::new(db.keyspace("tiered", tiered).unwrap());
    own.put(&(1,), &"one".to_owned()).unwrap();
    let again = db.typed::<(u32,), String>("tiered").unwrap();
    assert_eq!(again.get(&(1,)).unwrap().as_deref(), Some("one"));
}
