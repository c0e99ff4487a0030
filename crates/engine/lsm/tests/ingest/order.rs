//! An ingest is one write among others: later writes replace it, it replaces earlier ones, and who
//! reads at an earlier snapshot does not see it, wherever the versions are.

use crate::support::*;
use esker_api::{Concurrency, Cursor, Isolation, TransactionOptions};
use esker_lsm::{Db, KeyspaceSettings, Log, Shape};

/// The ways to have what was written before an ingest in other places.
fn moves(db: &Db, how: usize) {
    match how {
        0 => {}
        1 => db.flush().unwrap(),
        2 => db.compact().unwrap(),
        _ => while db.run_background_job() {},
    }
}

#[test]
fn an_ingest_replaces_what_was_there_wherever_that_is() {
    for how in 0..4 {
        let db = open(&disk(), logged());
        let keyspace = db.default_keyspace();
        put_all(&keyspace, &entries(0..100, "puts"));
        moves(&db, how);
        let ingested = keyspace.ingest(entries(50..150, "ingest")).unwrap();
        let level = if how == 2 { 5 } else { 0 };
        assert_eq!(
            (ingested.entries, ingested.level),
            (100, Some(level)),
            "above what it overlaps"
        );
        for _ in 0..2 {
            assert_eq!(value(&keyspace, 49).as_deref(), Some("49 of puts"));
            assert_eq!(value(&keyspace, 50).as_deref(), Some("50 of ingest"));
            assert_eq!(value(&keyspace, 149).as_deref(), Some("149 of ingest"));
            assert_eq!(content(&keyspace).len(), 150);
            db.compact().unwrap();
        }
    }
}

#[test]
fn later_writes_replace_an_ingest_wherever_they_are() {
    for how in 0..4 {
        let disk = disk();
        let db = open(&disk, logged());
        let keyspace = db.default_keyspace();
        keyspace.ingest(entries(0..100, "ingest")).unwrap();
        put_all(&keyspace, &entries([7], "a put"));
        keyspace.delete(key(8)).unwrap();
        keyspace.delete_range(key(20)..key(30)).unwrap();
        let check = |keyspace| {
            assert_eq!(value(keyspace, 7).as_deref(), Some("7 of a put"));
            assert_eq!((value(keyspace, 8), value(keyspace, 25)), (None, None));
            assert_eq!(value(keyspace, 30).as_deref(), Some("30 of ingest"));
            assert_eq!(content(keyspace).len(), 89);
        };
        check(&keyspace);
        moves(&db, how);
        check(&keyspace);
        db.close().unwrap();
        let db = open(&disk, logged());
        check(&db.default_keyspace());
    }
}

#[test]
fn deletes_from_before_do_not_delete_what_is_ingested() {
    for how in 0..4 {
        let db = open(&disk(), logged());
        let keyspace = db.default_keyspace();
        put_all(&keyspace, &entries(0..100, "puts"));
        keyspace.delete(key(3)).unwrap();
        keyspace.delete_range(key(10)..key(90)).unwrap();
        moves(&db, how);
        keyspace.ingest(entries(0..50, "ingest")).unwrap();
        for _ in 0..2 {
            assert_eq!(content(&keyspace).len(), 50 + 10);
            assert_eq!(value(&keyspace, 3).as_deref(), Some("3 of ingest"));
            assert_eq!(value(&keyspace, 49).as_deref(), Some("49 of ingest"));
            assert_eq!(value(&keyspace, 60), None);
            db.compact().unwrap();
        }
    }
}

#[test]
fn snapshots_and_cursors_from_before_do_not_see_an_ingest() {
    for how in 0..4 {
        let db = open(&disk(), logged());
        let keyspace = db.default_keyspace();
        put_all(&keyspace, &entries((0..100).map(|n| 2 * n), "puts"));
        moves(&db, how);
        let before = db.snapshot();
        let mut cursor = db.cursor(&keyspace, ..).unwrap();
        cursor.seek_first().unwrap();
        keyspace.ingest(entries(0..100, "ingest")).unwrap();
        let after = db.snapshot();
        put_all(&keyspace, &entries([4, 5], "puts after"));
        for stage in 0..4 {
            moves(&db, stage);
            assert_eq!(before.count(&keyspace, ..).unwrap(), 100, "{how}, {stage}");
            assert_eq!(before.get(&keyspace, key(5)).unwrap(), None);
            assert_eq!(before.get(&keyspace, key(4)).unwrap().as_deref(), Some(&b"4 of puts"[..]));
            assert_eq!(before.range(&keyspace, ..).rev().count(), 100);
            assert_eq!(after.count(&keyspace, ..).unwrap(), 150);
            let seen = after.get(&keyspace, key(5)).unwrap();
            assert_eq!(seen.as_deref(), Some(&b"5 of ingest"[..]));
            assert_eq!(value(&keyspace, 5).as_deref(), Some("5 of puts after"));
        }
        let mut seen = 0;
        while let Some((_, found)) = cursor.current() {
            assert!(found.ends_with(b"of puts"));
            seen += 1;
            cursor.next().unwrap();
        }
        assert_eq!(seen, 100, "{how}");
    }
}

/// A seek in a table whose versions are all newer than the snapshot.
#[test]
fn seeks_at_an_older_snapshot_pass_over_an_ingest() {
    let db = open(&disk(), logged());
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &entries([100, 300], "puts"));
    let before = db.snapshot();
    keyspace.ingest(entries((0..50).map(|n| n * 10), "ingest")).unwrap();
    let keys = |range: std::ops::Range<Vec<u8>>, back: bool| -> Vec<Vec<u8>> {
        let range = before.range(&keyspace, range);
        match back {
            true => range.rev().map(|pair| pair.unwrap().0.into_vec()).collect(),
            false => range.map(|pair| pair.unwrap().0.into_vec()).collect(),
        }
    };
    for back in [false, true] {
        assert_eq!(keys(key(0)..key(100), back), [] as [Vec<u8>; 0]);
        assert_eq!(keys(key(100)..key(300), back), [key(100)]);
        assert_eq!(keys(key(105)..key(301), back), [key(300)]);
        assert_eq!(keys(key(301)..key(999), back), [] as [Vec<u8>; 0]);
    }
}

#[test]
fn an_ingest_into_a_range_without_tables_goes_to_the_last_level() {
    let db = open(&disk(), logged());
    let keyspace = db.default_keyspace();
    let levels = |ingested: esker_lsm::Ingested| ingested.level;
    assert_eq!(levels(keyspace.ingest(entries(100..200, "first")).unwrap()), Some(6));
    assert_eq!(levels(keyspace.ingest(entries(300..400, "second")).unwrap()), Some(6));
    assert_eq!(levels(keyspace.ingest(entries(200..300, "between")).unwrap()), Some(6));
    assert_eq!(levels(keyspace.ingest(entries(50..101, "overlapping")).unwrap()), Some(5));
    assert_eq!(levels(keyspace.ingest(entries(50..101, "again")).unwrap()), Some(4));
    put_all(&keyspace, &entries([500], "put"));
    // It is flushed to level 0 first.
    assert_eq!(levels(keyspace.ingest(entries(499..600, "over a put")).unwrap()), Some(0));
    assert_eq!(content(&keyspace).len(), 350 + 101);
    assert_eq!(value(&keyspace, 100).as_deref(), Some("100 of again"));
    while db.run_background_job() {}
    db.compact().unwrap();
    assert_eq!(value(&keyspace, 100).as_deref(), Some("100 of again"));
    assert_eq!(content(&keyspace).len(), 350 + 101);
}

#[test]
fn in_tiered_keyspaces_only_the_first_ingest_goes_to_the_last_level() {
    let db = open(&disk(), logged());
    let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 4 });
    let keyspace = db.keyspace("tiered", tiered).unwrap();
    let first = keyspace.ingest(wide_entries(0..500, "first")).unwrap();
    assert!(first.tables > 1);
    assert_eq!(first.level, Some(6));
    for round in 0..6 {
        let ingested = keyspace.ingest(entries(round * 50..round * 50 + 100, "later")).unwrap();
        assert_eq!(ingested.level, Some(0));
        while db.run_background_job() {}
        assert_eq!(value(&keyspace, round * 50).unwrap(), format!("{} of later", round * 50));
        assert_eq!(content(&keyspace).len(), 500);
    }
}

#[test]
fn copies_in_the_dram_table_do_not_hide_an_ingest() {
    let db = open(&disk(), logged().dram_table_bytes(Some(1 << 20)));
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &entries(0..100, "puts"));
    db.flush().unwrap();
    (0..100).for_each(|number| assert!(value(&keyspace, number).is_some()));
    assert!(db.stats().dram_table.fills > 0, "they are copied");
    keyspace.ingest(entries(0..50, "ingest")).unwrap();
    for number in 0..100 {
        let from = if number < 50 { "ingest" } else { "puts" };
        assert_eq!(value(&keyspace, number).unwrap(), format!("{number} of {from}"));
    }
    db.compact().unwrap();
    assert_eq!(value(&keyspace, 1).as_deref(), Some("1 of ingest"));
}

#[test]
fn an_ingest_shows_in_a_range_that_was_known_to_be_empty() {
    let db = open(&disk(), logged());
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &entries(0..2_000, "puts"));
    db.flush().unwrap();
    (0..2_000).for_each(|number| keyspace.delete(key(number)).unwrap());
    // Two scans prove that there is nothing.
    (0..3).for_each(|_| assert_eq!(keyspace.range(..).count(), 0));
    keyspace.ingest(entries(900..1_100, "ingest")).unwrap();
    assert_eq!(keyspace.range(..).count(), 200);
    assert_eq!(keyspace.range(..).rev().count(), 200);
}

#[test]
fn a_transaction_that_read_a_key_conflicts_with_its_ingest() {
    for how in 0..3 {
        let db = open(&disk(), logged());
        let keyspace = db.default_keyspace();
        put_all(&keyspace, &entries(0..10, "puts"));
        let mut options = TransactionOptions::default().isolation(Isolation::Serializable);
        options.concurrency = Concurrency::Optimistic;
        let mut touched = db.transaction_with(options).unwrap();
        assert!(touched.get(&keyspace, key(3)).unwrap().is_some());
        touched.put(&keyspace, "sum", "3").unwrap();
        let mut apart = db.transaction_with(options).unwrap();
        assert!(apart.get(&keyspace, key(9)).unwrap().is_some());
        apart.put(&keyspace, "other", "9").unwrap();
        keyspace.ingest(entries(0..5, "ingest")).unwrap();
        moves(&db, how);
        assert!(touched.commit().unwrap_err().is_transient(), "{how}");
        apart.commit().unwrap();
    }
}

#[test]
fn writes_after_an_ingest_without_a_log_get_seqnos_of_their_own() {
    let disk = disk();
    let db = open(&disk, settings(Log::None));
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &entries(0..10, "puts"));
    let ingested = keyspace.ingest(entries(5..15, "ingest")).unwrap();
    let seqno = ingested.seqno.unwrap();
    put_all(&keyspace, &entries([6], "lost"));
    let disk = disk.crash();
    let db = open(&disk, settings(Log::None));
    let keyspace = db.default_keyspace();
    assert_eq!(content(&keyspace).len(), 15);
    assert_eq!(value(&keyspace, 6).as_deref(), Some("6 of ingest"));
    let before = db.snapshot();
    assert_eq!(before.seqno(), seqno);
    put_all(&keyspace, &entries([6], "a put"));
    assert_eq!(value(&keyspace, 6).as_deref(), Some("6 of a put"));
    assert_eq!(before.get(&keyspace, key(6)).unwrap().as_deref(), Some(&b"6 of ingest"[..]));
    db.close().unwrap();
    let db = open(&disk, settings(Log::None));
    assert_eq!(value(&db.default_keyspace(), 6).as_deref(), Some("6 of a put"));
}

#[test]
fn several_keyspaces_are_ingested_at_once() {
    let db = open(&disk(), logged());
    let (one, other) = (
        db.keyspace("one", KeyspaceSettings::default()).unwrap(),
        db.keyspace("other", KeyspaceSettings::default()).unwrap(),
    );
    let mut writers = Vec::new();
    for (keyspace, from) in [(&other, 0), (&one, 50), (&one, 0)] {
        let mut writer = db.sorted_writer(keyspace).unwrap();
        entries(from..from + 50, "ingest")
            .into_iter()
            .for_each(|(key, value)| writer.put(key, value).unwrap());
        writers.push(writer);
    }
    // One without entries does no harm.
    writers.push(db.sorted_writer(&db.default_keyspace()).unwrap());
    let before = db.snapshot();
    let ingested = db.ingest_writers(writers).unwrap();
    assert_eq!((ingested.entries, ingested.tables), (150, 3));
    assert_eq!((content(&one).len(), content(&other).len()), (100, 50));
    assert_eq!(before.count(&one, ..).unwrap() + before.count(&other, ..).unwrap(), 0);
    assert_eq!(db.snapshot().seqno(), ingested.seqno.unwrap());
}

#[test]
fn an_ingest_of_nothing_changes_nothing() {
    let disk = disk();
    let db = open(&disk, logged());
    let ingested = db.ingest(&db.default_keyspace(), [] as [(&str, &str); 0]).unwrap();
    assert_eq!((ingested.entries, ingested.seqno, ingested.level), (0, None, None));
    assert!(unfinished(&disk).is_empty());
}
