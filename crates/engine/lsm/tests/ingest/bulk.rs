//! Entries in any order are sorted and ingested, in bounded memory.

use crate::support::*;
use esker_base::{Error, Rng};
use esker_storage::fault::FaultKind;

/// The last entry of each key, wherever the earlier ones are.
#[test]
fn the_last_entry_of_each_key_is_loaded() {
    for bytes in [10, 3_000] {
        let disk = disk();
        let db = open(&disk, logged());
        let keyspace = db.default_keyspace();
        put_all(&keyspace, &entries(0..5, "puts"));
        let (mut rng, mut expected) = (Rng::new(bytes), content(&keyspace));
        let mut loader = db.bulk_loader(&keyspace).unwrap();
        for number in 0..2_000 {
            let mut value = vec![0; bytes as usize];
            rng.fill(&mut value);
            let key = key(rng.below(700) as u32 + number / 1_000);
            loader.put(&key, &value).unwrap();
            expected.insert(key, value);
        }
        assert_eq!(
            unfinished(&disk).len() > 3,
            bytes == 3_000,
            "what memory does not hold is in files"
        );
        assert_eq!(keyspace.count(..).unwrap(), 5, "nothing is visible yet");
        let ingested = loader.ingest().unwrap();
        assert!(ingested.entries > 600);
        assert!(content(&keyspace) == expected);
        assert_eq!(unfinished(&disk), [] as [String; 0]);
        db.close().unwrap();
        assert!(content(&open(&disk, logged()).default_keyspace()) == expected);
    }
}

/// Entries that were accepted went with the run.
#[test]
fn a_loader_that_could_not_write_a_run_fails_from_then_on() {
    let mut failed = 0;
    for call in 0..40 {
        let disk = disk();
        let db = open(&disk, logged());
        let keyspace = db.default_keyspace();
        let mut loader = db.bulk_loader(&keyspace).unwrap();
        disk.fail_after(call, FaultKind::Io);
        let put = |number| loader.put(key(number), [7; 3_000]);
        if (0..2_000).map(put).all(|put| put.is_ok()) {
            assert!(loader.ingest().map_or(true, |it| it.entries == 2_000), "call {call}");
            continue;
        }
        failed += 1;
        assert!(loader.put(key(5_000), "later").is_err(), "call {call}");
        assert!(loader.ingest().is_err(), "call {call}");
        assert_eq!(keyspace.count(..).unwrap(), 0);
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn edge_keys_are_loaded() {
    let db = open(&disk(), logged());
    let keyspace = db.default_keyspace();
    let mut loader = db.bulk_loader(&keyspace).unwrap();
    let keys = [&b"b"[..], b"", b"\0", &[0xff; 20], &[0xff; 16], b"a"];
    keys.iter().for_each(|key| loader.put(key, "value").unwrap());
    loader.ingest().unwrap();
    let found: Vec<_> = keyspace.range(..).map(|pair| pair.unwrap().0.into_vec()).collect();
    assert_eq!(found, [&b""[..], b"\0", b"a", b"b", &[0xff; 16], &[0xff; 20]]);
}

#[test]
fn an_entry_that_a_put_would_refuse_is_refused_and_others_are_loaded() {
    let db = open(&disk(), logged());
    let keyspace = db.default_keyspace();
    let mut loader = db.bulk_loader(&keyspace).unwrap();
    loader.put("a", "1").unwrap();
    assert!(matches!(loader.put(vec![1; 65_537], ""), Err(Error::KeyTooLong { .. })));
    assert!(matches!(loader.put("b", vec![1; 20_000]), Err(Error::ValueTooLarge { .. })));
    assert_eq!(loader.ingest().unwrap().entries, 1);
}

#[test]
fn a_load_that_is_stopped_or_dropped_leaves_nothing() {
    for stops in [true, false] {
        let disk = disk();
        let db = open(&disk, logged());
        let keyspace = db.default_keyspace();
        let mut loader = db.bulk_loader(&keyspace).unwrap();
        for (key, value) in wide_entries((0..5_000).rev(), "load") {
            loader.put(key, value).unwrap();
        }
        assert!(unfinished(&disk).len() > 3);
        if stops {
            let mut asked = 0;
            let stopped = loader.ingest_while(&mut |entries| {
                asked = entries;
                entries < 2_000
            });
            assert!(matches!(stopped, Err(Error::Cancelled { .. })));
            assert_eq!(asked, 2_000);
        } else {
            drop(loader);
        }
        assert_eq!((unfinished(&disk).len(), table_files(&disk)), (0, 0));
        assert_eq!(keyspace.count(..).unwrap(), 0);
    }
}

#[test]
fn a_full_disk_fails_the_load_and_leaves_nothing() {
    let disk = disk();
    let db = open(&disk, logged());
    let keyspace = db.default_keyspace();
    while db.run_background_job() {}
    disk.set_space_limit(Some(disk.used_bytes() + (1 << 20)));
    let mut loader = db.bulk_loader(&keyspace).unwrap();
    let all = wide_entries((0..5_000).rev(), "load");
    let mut put = all.iter().map(|(key, value)| loader.put(key, value));
    let failed = put.find_map(Result::err);
    drop(put);
    assert!(failed.is_some_and(|error| error.is_out_of_space()));
    drop(loader);
    assert_eq!((unfinished(&disk).len(), table_files(&disk)), (0, 0));
    keyspace.put("after", "1").unwrap();
}
