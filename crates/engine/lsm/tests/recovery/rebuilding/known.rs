//! What the manifest knew of keyspaces before its damage is neither lost nor contradicted.

use super::*;
use esker_lsm::manifest::version_edit::VersionChange;

/// Damages the record behind the first one of which `is_last_read` holds. More records follow.
fn damage_behind(storage: &Arc<MemoryStorage>, is_last_read: impl Fn(&VersionChange) -> bool) {
    let manifest = inspector(storage).manifest().unwrap();
    let holds = |record: &_| {
        let esker_lsm::manifest::manifest_file::Record { edit, .. } = record;
        edit.changes.iter().any(&is_last_read)
    };
    let at = manifest.records.iter().position(holds).unwrap() + 1;
    assert!(
        at + 1 < manifest.records.len(),
        "the damage would look like a record that was cut off"
    );
    flip(&**storage, &manifest.name, manifest.records[at].offset as usize + 9);
}

fn fill(db: &Db, name: &str, value: &[u8]) {
    let keyspace = db.keyspace(name, KeyspaceSettings::default()).unwrap();
    for key in 0..50u32 {
        db.put(&keyspace, key.to_be_bytes(), value).unwrap();
    }
}

fn check(storage: &Arc<MemoryStorage>) {
    inspector(storage).check(&mut |problem| panic!("{problem}")).unwrap();
}

fn names(db: &Db) -> Vec<String> {
    db.keyspaces().into_iter().map(|info| info.name).collect()
}

#[test]
fn a_file_with_a_table_of_a_dropped_keyspace_is_kept_for_its_other_tables() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    fill(&db, "default", b"kept");
    fill(&db, "dropped", b"gone");
    db.flush().unwrap();
    let file = tables(&*storage);
    assert_eq!(file.len(), 1, "both are in one file");
    db.drop_keyspace(&db.open_keyspace("dropped").unwrap()).unwrap();
    fill(&db, "later", b"kept");
    db.flush().unwrap();
    fill(&db, "default", b"in the log");
    let expected = pairs(&db);
    let storage = copy(&*storage);
    damage_behind(&storage, |change| matches!(change, VersionChange::DropKeyspace(_)));
    let repaired = repair(&storage);
    assert!(!repaired.rebuilt.is_empty(), "{repaired:?}");
    assert!(storage.exists(&file[0]).unwrap(), "{repaired:?}");
    check(&storage);
    let db = open(&storage).unwrap();
    assert_eq!(different(&pairs(&db), &expected), [""; 0]);
    assert_eq!(names(&db), ["default", "later"]);
}

/// A snapshot lists every keyspace, so one that it does not list was dropped.
#[test]
fn a_keyspace_that_the_snapshot_does_not_list_stays_dropped_and_its_id_is_not_used_again() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    fill(&db, "default", b"kept");
    fill(&db, "dropped", b"gone");
    db.flush().unwrap();
    db.drop_keyspace(&db.open_keyspace("dropped").unwrap()).unwrap();
    db.close().unwrap();
    let db = open(&storage).unwrap();
    (0..2).for_each(|_| {
        fill(&db, "default", b"newer");
        db.flush().unwrap();
    });
    let expected = pairs(&db);
    let storage = copy(&*storage);
    damage_behind(&storage, |change| matches!(change, VersionChange::NextKeyspace(_)));
    repair(&storage);
    let db = open(&storage).unwrap();
    assert_eq!(different(&pairs(&db), &expected), [""; 0]);
    assert_eq!(names(&db), ["default"]);
    db.keyspace("new", KeyspaceSettings::default()).unwrap();
    let ids: Vec<u32> = db.keyspaces().iter().map(|info| info.id.0).collect();
    assert_eq!(ids, [0, 2]);
}

#[test]
fn a_drop_that_an_older_manifest_tells_and_a_newer_one_does_not_was_undone() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    fill(&db, "other", b"kept");
    db.flush().unwrap();
    let undone = copy(&*storage);
    let older = read_current(&*storage).unwrap();
    db.drop_keyspace(&db.open_keyspace("other").unwrap()).unwrap();
    let with_drop = read(&*storage, &older);

    let db = open(&undone).unwrap();
    (0..2).for_each(|_| {
        fill(&db, "other", b"newer");
        db.flush().unwrap();
    });
    let expected = pairs(&db);
    let storage = copy(&*undone);
    let mut file = storage.create(&older, WriteHint::of(FileKind::Meta)).unwrap();
    file.append(&with_drop).unwrap();
    damage_behind(&storage, |change| matches!(change, VersionChange::NextKeyspace(_)));
    repair(&storage);
    let db = open(&storage).unwrap();
    assert_eq!(different(&pairs(&db), &expected), [""; 0]);
}

#[test]
fn no_two_keyspaces_get_one_name() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    for name in ["one", "two"] {
        db.keyspace(name, KeyspaceSettings::default()).unwrap();
    }
    fill(&db, "default", b"kept");
    fill(&db, "a", b"dropped");
    db.flush().unwrap();
    db.drop_keyspace(&db.open_keyspace("a").unwrap()).unwrap();
    fill(&db, "a-3", b"kept");
    fill(&db, "a", b"kept");
    db.flush().unwrap();
    let expected = pairs(&db);
    let storage = copy(&*storage);
    storage.remove(&read_current(&*storage).unwrap()).unwrap();
    repair(&storage);
    let db = open(&storage).unwrap();
    assert_eq!(names(&db), ["default", "a-3-3", "a-3", "a"]);
    let mut found = pairs(&db);
    found.retain(|key, _| !key.starts_with(b"a-3-3/"));
    assert_eq!(different(&found, &expected), [""; 0]);
}

/// Of tables written while the database had one keyspace only, the keyspace is clear.
#[test]
fn a_flipped_byte_anywhere_in_a_table_costs_a_block_at_most_without_a_manifest_too() {
    let (sound, name, expected) = many_blocks();
    let db = open(&sound).unwrap();
    (0..2).for_each(|_| db.put(&db.default_keyspace(), b"more", b"").unwrap_or_else(|_| panic!()));
    db.flush().unwrap();
    db.put(&db.default_keyspace(), b"more", b"").unwrap();
    db.flush().unwrap();
    let sound = copy(&*sound);
    damage_behind(&sound, |change| matches!(change, VersionChange::NextKeyspace(_)));
    let bytes = read(&*sound, &name).len();
    // From the end: properties, index and footer are there.
    for at in (0..bytes).rev().step_by(61).take(20).chain([5_000]) {
        let storage = copy(&*sound);
        flip(&*storage, &name, at);
        let repaired = repair(&storage);
        assert_eq!(repaired.lost_tables.len(), 1, "byte {at}: {repaired:?}");
        assert!(storage.exists(&format!("{name}.damaged")).unwrap(), "byte {at}");
        let db = open(&storage).unwrap();
        let found = pairs(&db);
        assert!(found.len() + 60 >= expected.len(), "byte {at}: {} are left", found.len());
        let is_right = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            expected.get(key).is_none_or(|expected| expected == value)
        };
        assert!(found.iter().all(is_right), "byte {at}");
    }
}

/// Adds the logs of `early` that are gone since: a log may be kept for reuse under its name.
fn add_old_logs(storage: &dyn Storage, early: &dyn Storage) {
    let is_gone = |name: &String| name.ends_with(".log") && !storage.exists(name).unwrap();
    let gone: Vec<String> = early.list().unwrap().into_iter().filter(is_gone).collect();
    assert!(!gone.is_empty());
    for name in gone {
        let mut file = storage.create(&name, WriteHint::of(FileKind::Meta)).unwrap();
        file.append(&read(early, &name)).unwrap();
        file.sync().unwrap();
    }
}

#[test]
fn an_old_log_is_not_put_above_tables_whose_seqnos_are_zero() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    fill(&db, "default", b"old");
    let early = copy(&*storage);
    for value in [b"newer", b"newed"] {
        db.flush().unwrap();
        fill(&db, "default", value);
    }
    db.flush().unwrap();
    db.compact().unwrap();
    db.put(&db.default_keyspace(), b"key", b"in the log").unwrap();
    let expected = pairs(&db);
    let storage = copy(&*storage);
    add_old_logs(&*storage, &*early);
    storage.remove(&read_current(&*storage).unwrap()).unwrap();
    let repaired = repair(&storage);
    assert_eq!(repaired.log_entries, 1, "{repaired:?}");
    let db = open(&storage).unwrap();
    assert_eq!(different(&pairs(&db), &expected), [""; 0]);
}

#[test]
fn an_old_log_is_left_out_where_all_tables_were_dropped() {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    fill(&db, "default", b"flushed");
    db.flush().unwrap();
    fill(&db, "default", b"old");
    let early = copy(&*storage);
    db.flush().unwrap();
    db.delete_range(&db.default_keyspace(), &[][..]..).unwrap();
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(tables(&*storage), [""; 0], "all tables were dropped");
    db.put(&db.default_keyspace(), b"key", b"in the log").unwrap();
    let expected = pairs(&db);
    let storage = copy(&*storage);
    add_old_logs(&*storage, &*early);
    let manifest = inspector(&storage).manifest().unwrap();
    flip(&*storage, &manifest.name, manifest.records[0].offset as usize + 9);
    let repaired = repair(&storage);
    assert!(repaired.rebuilt.iter().any(|it| it.contains("left out")), "{repaired:?}");
    let db = open(&storage).unwrap();
    assert_eq!(different(&pairs(&db), &expected), [""; 0]);
}

/// A database with a table that was dropped, in a file that another one keeps.
fn with_dropped_table() -> (Arc<MemoryStorage>, Db) {
    let storage = Arc::new(MemoryStorage::new());
    let db = open(&storage).unwrap();
    fill(&db, "default", b"kept");
    fill(&db, "emptied", b"deleted");
    db.flush().unwrap();
    let emptied = db.open_keyspace("emptied").unwrap();
    db.delete_range(&emptied, &[][..]..).unwrap();
    db.flush().unwrap();
    db.wait_for_compactions().unwrap();
    assert_eq!(tables(&*storage).len(), 1, "the other table keeps the file");
    (storage, db)
}

#[test]
fn a_dropped_table_whose_file_is_still_there_stays_dropped() {
    let (storage, db) = with_dropped_table();
    // A table that is written later says so, whatever its keyspace.
    db.put(&db.default_keyspace(), b"more", b"").unwrap();
    db.flush().unwrap();
    let expected = pairs(&db);
    let storage = copy(&*storage);
    storage.remove(&read_current(&*storage).unwrap()).unwrap();
    repair(&storage);
    let db = open(&storage).unwrap();
    assert_eq!(different(&pairs(&db), &expected), [""; 0]);
}

#[test]
fn a_dropped_table_stays_dropped_if_the_manifest_says_so() {
    let (storage, db) = with_dropped_table();
    // More records follow.
    (0..2).for_each(|n| drop(db.keyspace(&format!("new-{n}"), Default::default()).unwrap()));
    let expected = pairs(&db);
    let storage = copy(&*storage);
    damage_behind(&storage, |change| matches!(change, VersionChange::RemoveTable { .. }));
    repair(&storage);
    let db = open(&storage).unwrap();
    assert_eq!(different(&pairs(&db), &expected), [""; 0]);
}
