//! Functions that panic, names, and operations that would bypass an index.

use crate::support::*;
use esker_base::{Error, IndexError};
use esker_lsm::{IndexSettings, IndexStatus, KeyspaceSettings};

#[test]
fn a_panic_of_the_function_fails_the_write_and_nothing_else() {
    let db = open(&disk());
    let users = users(&db);
    let function = |_: &[u8], value: &[u8], keys: &mut esker_lsm::IndexKeys| {
        assert_ne!(value, b"bad", "cannot index this");
        keys.add(value);
    };
    let index = users.index("picky", function).unwrap();
    index.wait_ready().unwrap();
    users.put("a", "good").unwrap();
    let error = users.put("a", "bad").unwrap_err();
    assert!(
        matches!(&error, Error::Index(error) if matches!(**error, IndexError::FunctionPanicked { .. }))
    );
    assert!(error.to_string().contains("\"picky\" panicked for the row a"), "{error}");
    assert!(error.to_string().contains("cannot index this"), "{error}");
    assert_eq!(users.get("a").unwrap().as_deref(), Some(&b"good"[..]));
    users.put("a", "better").unwrap();
    assert!(db.check_index(&index).unwrap().is_sound());
}

#[test]
fn a_build_reports_a_panic_and_two_rows_with_one_key() {
    let db = open(&disk());
    let users = users(&db);
    users.put("a", "same").unwrap();
    users.put("b", "same").unwrap();
    let panics = users.index("panics", |_, _, _| panic!("never")).unwrap();
    let error = panics.wait_ready().unwrap_err().to_string();
    assert!(error.contains("panicked for the row a: never"), "{error}");
    users.drop_index("panics").unwrap();

    let unique = || IndexSettings::new("unique").unique(true);
    let index = users.index(unique(), first_word).unwrap();
    let error = index.wait_ready().unwrap_err().to_string();
    assert!(error.contains("key same would be that of two rows, a and b"), "{error}");
    assert!(matches!(index.status(), IndexStatus::Failed(_)));
    assert!(index.get("same").next().unwrap().is_err());
    // Writes go on, and the build once the rows differ.
    users.put("b", "other").unwrap();
    let index = users.index(unique(), first_word).unwrap();
    index.wait_ready().unwrap();
    verify(&db, &index, &rows(&users), first_word);
}

/// The same once the build has passed the other row, and has failed at a third.
#[test]
fn a_row_that_the_build_has_passed_keeps_its_entry_when_another_gives_up_the_key() {
    let db = open(&disk());
    let users = users(&db);
    users.put("a", "free").unwrap();
    for number in 0..300 {
        users.put(format!("b{number:03}"), format!("word{number}")).unwrap();
    }
    users.put("m", "word0").unwrap();
    users.put("z", "same").unwrap();
    let unique = || IndexSettings::new("unique").unique(true);
    let index = users.index(unique(), first_word).unwrap();
    index.wait_ready().unwrap_err();
    users.put("a", "same").unwrap();
    users.put("z", "other").unwrap();
    users.put("m", "word300").unwrap();
    let index = users.index(unique(), first_word).unwrap();
    index.wait_ready().unwrap();
    verify(&db, &index, &rows(&users), first_word);
}

/// Chunks of a build end at any row, also at one whose key begins that of the next.
#[test]
fn a_build_passes_rows_whose_keys_begin_others() {
    for extra in 0..3 {
        let db = open(&disk());
        let users = users(&db);
        for number in 0..300_u32 {
            users.put(number.to_be_bytes(), "short").unwrap();
            users.put([&number.to_be_bytes()[..], b"x"].concat(), "long").unwrap();
        }
        (0..extra).for_each(|number| users.put([0, number], "first").unwrap());
        let index = users.index("words", words).unwrap();
        index.wait_ready().unwrap();
        verify(&db, &index, &rows(&users), words);
    }
}

/// Until the build finds it, a row may have an entry that another one has, too.
#[test]
fn a_row_that_gives_up_a_key_before_the_build_leaves_the_entry_of_another() {
    let db = open(&disk());
    let users = users(&db);
    users.put("z", "same").unwrap();
    let unique = || IndexSettings::new("unique").unique(true);
    let index = users.index(unique(), first_word).unwrap();
    // The build has not passed z, so its key is not known to be taken.
    users.put("a", "same").unwrap();
    users.put("z", "other").unwrap();
    index.wait_ready().unwrap();
    verify(&db, &index, &rows(&users), first_word);
    assert_eq!(index.get("same").next().unwrap().unwrap().key, "a");
}

#[test]
fn what_would_bypass_an_index_is_refused() {
    let db = open(&disk());
    let users = users(&db);
    let mut begun = db.sorted_writer(&users).unwrap();
    begun.put("a", "1").unwrap();
    let index = users.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    let refused = |error: Error| {
        assert!(
            matches!(&error, Error::Index(error) if matches!(**error, IndexError::Bypassed { .. })),
            "{error}"
        );
    };
    refused(begun.ingest().unwrap_err());
    refused(db.sorted_writer(&users).unwrap_err());
    refused(db.bulk_loader(&users).map(|_| ()).unwrap_err());
    refused(users.ingest([("a", "1")]).unwrap_err());
    assert!(rows(&users).is_empty());
    db.default_keyspace().ingest([("a", "1")]).unwrap();
    db.default_keyspace().clear().unwrap();
    let texts = db.keyspace("texts", KeyspaceSettings::default().merge("append")).unwrap();
    texts.merge("a", "first").unwrap();
    let index = texts.index("by_word", first_word).unwrap();
    index.wait_ready().unwrap();
    refused(texts.merge("a", " second").unwrap_err());
    // A transaction puts the result.
    let mut tx = db.transaction().unwrap();
    tx.merge(&texts, "a", "-second").unwrap();
    tx.commit().unwrap();
    verify(&db, &index, &rows(&texts), first_word);
    assert_eq!(index.get("first-second").next().unwrap().unwrap().key, "a");
}

/// Their entries would stay when they are gone.
#[test]
fn rows_that_expire_fail_a_build_and_are_refused_from_then_on() {
    let hour = std::time::Duration::from_secs(3_600);
    let is_bypassed = |error: &Error| matches!(error, Error::Index(error) if matches!(**error, IndexError::Bypassed { .. }));
    for (is_flushed, is_merged) in [(false, false), (true, false), (false, true), (true, true)] {
        let db = open(&disk());
        let settings = KeyspaceSettings::default().merge("append");
        let users = db.keyspace("texts", settings).unwrap();
        users.put("a", "stays").unwrap();
        users.put_with_ttl("b", "goes", hour).unwrap();
        if is_merged {
            users.merge("b", "-later").unwrap();
        }
        if is_flushed {
            db.flush().unwrap();
        }
        let index = users.index("by_word", first_word).unwrap();
        let error = index.wait_ready().unwrap_err().to_string();
        assert!(error.contains("could not index the expiring rows"), "{error}");
        let refused = users.put_with_ttl("c", "goes", hour).unwrap_err();
        assert!(is_bypassed(&refused), "{refused}");
        let mut tx = db.transaction().unwrap();
        tx.put_with_ttl(&users, "c", "goes", hour).unwrap();
        let refused = tx.commit().unwrap_err();
        assert!(is_bypassed(&refused), "{refused}");
        users.put("b", "stays").unwrap();
        let index = users.index("by_word", first_word).unwrap();
        index.wait_ready().unwrap();
        verify(&db, &index, &rows(&users), first_word);
    }
}

#[test]
fn a_keyspace_whose_rows_expire_has_no_index() {
    let db = open(&disk());
    let hour = std::time::Duration::from_secs(3_600);
    let users = db.keyspace("short", KeyspaceSettings::default().ttl(hour)).unwrap();
    assert!(users.index("by_word", words).is_err());
    let samples = db.keyspace("samples", KeyspaceSettings::default().window(hour, None)).unwrap();
    let error = samples.index("by_word", words).unwrap_err();
    assert!(error.to_string().contains("windows"), "{error}");
    let others = db.keyspace("others", KeyspaceSettings::default()).unwrap();
    let index = others.index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    assert!(others.set_ttl(Some(hour)).is_err());
    others.drop_index("by_word").unwrap();
    others.set_ttl(Some(hour)).unwrap();
    assert!(others.index("by_word", words).is_err());
}

#[test]
fn handles_of_an_index_that_was_dropped_or_replaced_say_so() {
    let db = open(&disk());
    let users = users(&db);
    users.put("a", "word").unwrap();
    let old = users.index("words", words).unwrap();
    old.wait_ready().unwrap();
    let new = users.index(IndexSettings::new("words").version(2), words).unwrap();
    new.wait_ready().unwrap();
    users.drop_index("words").unwrap();
    for index in [old, new] {
        let errors = [
            index.get("word").next().unwrap().map(|_| ()),
            index.entries(..).next().unwrap().map(|_| ()),
            db.snapshot().index_range(&index, ..).next().unwrap().map(|_| ()),
            db.check_index(&index).map(|_| ()),
            index.wait_ready(),
        ];
        for error in errors {
            let error = error.unwrap_err().to_string();
            assert!(error.contains("has no index \"words\""), "{error}");
        }
        assert!(matches!(index.status(), IndexStatus::Failed(_)));
    }
}

#[test]
fn names_and_keys_have_limits() {
    let db = open(&disk());
    let users = users(&db);
    for name in ["", "a\u{1}", &"n".repeat(201)] {
        let error = users.index(name, words).unwrap_err().to_string();
        assert!(error.contains("can't name an index"), "{error}");
    }
    let error = users.drop_index("none").unwrap_err().to_string();
    assert!(error.contains("has no index \"none\""), "{error}");
    let index =
        users.index("long", |_, value, keys| keys.add(vec![b'a'; value.len() * 1_000])).unwrap();
    index.wait_ready().unwrap();
    users.put("a", [1; 10]).unwrap();
    let error = users.put("b", [1; 70]).unwrap_err();
    assert!(matches!(&error, Error::Index(_)), "{error}");
    assert!(
        error.to_string().contains("index \"long\" would have an entry of 70003 bytes"),
        "{error}"
    );
    assert_eq!(users.get("b").unwrap(), None);
    assert!(db.check_index(&index).unwrap().is_sound());
}

#[test]
fn an_index_of_another_database_is_refused() {
    let (db, other) = (open(&disk()), open(&disk()));
    let index = users(&db).index("by_word", words).unwrap();
    index.wait_ready().unwrap();
    assert!(matches!(other.check_index(&index), Err(Error::ForeignHandle { .. })));
    let error = other.snapshot().index_range(&index, ..).next().unwrap().unwrap_err();
    assert!(matches!(error, Error::ForeignHandle { .. }), "{error}");
    drop(db);
    assert!(matches!(index.get("a").next(), Some(Err(Error::Closed))));
}
