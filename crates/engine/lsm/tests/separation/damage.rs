//! A damaged or missing value file.

use crate::support::{World, key, long};
use esker_base::Error;
use esker_lsm::inspect::{Inspector, MissingLogPolicy};
use esker_storage::Storage;

/// The database with one bit of the value of key 7 changed, and where.
fn damaged() -> (World, String) {
    let world = World::new();
    world.fill(1);
    let name = world.value_files().remove(0);
    let file = world.storage.open(&name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    let value = long(&key(7), 1);
    let at = bytes.windows(value.len()).position(|it| it == value).unwrap();
    bytes[at + 100] ^= 1;
    drop(file);
    let World { storage, db, .. } = world;
    db.close().unwrap();
    storage.remove(&name).unwrap();
    let mut file = storage.create(&name, esker_base::WriteHint::table(0)).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    (World { storage, db, keyspace }, name)
}

fn problems(world: World) -> (u64, Vec<String>) {
    let World { storage, db, .. } = world;
    db.close().unwrap();
    let mut problems = Vec::new();
    let inspector = Inspector::of(storage.clone(), storage);
    let checked = inspector.check(&mut |problem| problems.push(problem.to_string())).unwrap();
    (checked.values, problems)
}

#[test]
fn a_damaged_value_fails_its_own_reads_only_and_they_name_the_file() {
    let (world, name) = damaged();
    let error = world.db.get(&world.keyspace, key(7)).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(&name), "{error}");
    for n in (0..50).filter(|n| *n != 7) {
        assert_eq!(world.db.get(&world.keyspace, key(n)).unwrap().unwrap(), &long(&key(n), 1)[..]);
    }
    world.db.put(&world.keyspace, "a", b"a").unwrap();
    world.compact();
    let (values, problems) = problems(world);
    assert_eq!((values, problems.len()), (50, 1));
    assert!(problems[0].contains("key007") && problems[0].contains(&name), "{problems:?}");
}

#[test]
fn a_missing_value_file_fails_the_reads_of_its_values_only() {
    let world = World::new();
    world.fill(1);
    let name = world.value_files().remove(0);
    world.db.put(&world.keyspace, "short", b"value").unwrap();
    world.flush();
    let World { storage, db, .. } = world;
    db.close().unwrap();
    storage.remove(&name).unwrap();
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    let world = World { storage, db, keyspace };
    assert_eq!(world.db.get(&world.keyspace, "short").unwrap().unwrap(), b"value");
    let error = world.db.get(&world.keyspace, key(0)).unwrap_err();
    assert!(matches!(&error, Error::Corruption { file, .. } if file.contains(&name)), "{error}");
    let (values, problems) = problems(world);
    assert_eq!((values, problems.len()), (50, 50));
}

#[test]
fn a_sound_database_has_no_problems() {
    let world = World::new();
    world.fill(1);
    world.fill(2);
    world.compact();
    assert_eq!(problems(world), (50, Vec::new()));
}

/// Repairs a database whose manifest and `CURRENT` are gone.
fn rebuilt(world: World) -> (World, Vec<String>) {
    let World { storage, db, .. } = world;
    db.close().unwrap();
    let names = storage.list().unwrap();
    for name in names.iter().filter(|name| name.contains("manifest") || *name == "CURRENT") {
        storage.remove(name).unwrap();
    }
    let inspector = Inspector::of(storage.clone(), storage.clone());
    let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    (World { storage, db, keyspace }, repaired.rebuilt)
}

#[test]
fn a_rebuilt_database_has_its_long_values() {
    let world = World::new();
    world.fill(1);
    let files = world.value_files();
    (0..50).for_each(|n| world.put(&key(n), 2));
    let (world, _) = rebuilt(world);
    world.expect(2);
    assert!(world.value_files().contains(&files[0]), "an older version is in a table");
    world.compact();
    world.expect(2);
    assert!(!world.value_files().contains(&files[0]));
}

#[test]
fn a_repair_that_rewrites_a_damaged_table_keeps_the_values_of_the_rest() {
    let world = World::new();
    (0..2_000).for_each(|n| world.put(&format!("key{n:04}"), 1));
    world.compact();
    let World { storage, db, .. } = world;
    db.close().unwrap();
    let name = storage.list().unwrap().into_iter().find(|name| name.ends_with(".tables")).unwrap();
    let file = storage.open(&name).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes[100] ^= 1;
    drop(file);
    storage.remove(&name).unwrap();
    let mut file = storage.create(&name, esker_base::WriteHint::table(0)).unwrap();
    file.append(&bytes).unwrap();
    file.sync().unwrap();
    let inspector = Inspector::of(storage.clone(), storage.clone());
    let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
    assert_eq!(repaired.lost_tables.len(), 1);
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    let read = |n: u32| db.get(&keyspace, format!("key{n:04}")).unwrap();
    let left = (0..2_000).filter(|n| read(*n).is_some()).collect::<Vec<_>>();
    assert!(left.len() > 1_000 && left.len() < 2_000, "{}", left.len());
    for n in left {
        assert_eq!(read(n).unwrap(), &long(&format!("key{n:04}"), 1)[..]);
    }
}

#[test]
fn a_repair_names_the_keys_whose_values_are_lost_and_keeps_the_rest() {
    let (world, name) = damaged();
    let World { storage, db, .. } = world;
    db.close().unwrap();
    let inspector = Inspector::of(storage.clone(), storage.clone());
    let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
    let [lost] = &repaired.lost_tables[..] else { panic!("{repaired:?}") };
    assert_eq!(lost.kept, 49);
    assert!(lost.error.contains(&name), "{}", lost.error);
    let keys: Vec<_> = lost.lost_keys.iter().map(|lost| lost.from.clone()).collect();
    assert_eq!(keys, [key(7).into_bytes()]);
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    let world = World { storage, db, keyspace };
    assert_eq!(world.db.get(&world.keyspace, key(7)).unwrap(), None);
    assert_eq!(world.db.get(&world.keyspace, key(8)).unwrap().unwrap(), &long(&key(8), 1)[..]);
    assert_eq!(world.values().live_values, 49);
    assert_eq!(problems(world), (49, Vec::new()));
}

/// A database whose file of values of keys 0 to 49 was repaired: key 7 is dropped, and its value is still damaged.
fn repaired() -> World {
    let World { storage, db, .. } = damaged().0;
    db.close().unwrap();
    let inspector = Inspector::of(storage.clone(), storage.clone());
    inspector.repair(MissingLogPolicy::Refuse).unwrap();
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    World { storage, db, keyspace }
}

#[test]
fn the_files_of_a_repaired_database_verify() {
    let world = repaired();
    let files = world.db.live_files().unwrap();
    assert_eq!(files.tables().iter().filter(|name| name.ends_with(".values")).count(), 1);
    for name in files.tables() {
        files.verify(&name).unwrap();
    }
}

#[test]
fn a_rebuilt_manifest_knows_what_is_obsolete() {
    let world = World::new();
    world.fill(1);
    let first = world.value_files();
    (0..45).for_each(|n| world.db.delete(&world.keyspace, key(n)).unwrap());
    world.compact();
    assert_eq!((world.value_files(), world.values().live_values), (first.clone(), 5));
    let (world, _) = rebuilt(world);
    world.db.put(&world.keyspace, "z", b"short").unwrap();
    world.compact();
    while world.db.run_background_job() {}
    assert!(!world.value_files().contains(&first[0]), "{:?}", world.values());
    assert_eq!(world.db.get(&world.keyspace, key(46)).unwrap().unwrap(), &long(&key(46), 1)[..]);
}

#[test]
fn a_rebuild_names_a_value_file_that_is_missing() {
    let world = World::new();
    world.fill(1);
    let missing = world.value_files().remove(0);
    world.put("later", 1);
    world.flush();
    world.storage.rename(&missing, "elsewhere").unwrap();
    let (world, notes) = rebuilt(world);
    let names_it = |note: &&String| note.contains(&missing) && note.contains("50 values");
    assert_eq!(notes.iter().filter(names_it).count(), 1, "{notes:?}");
    assert!(world.db.get(&world.keyspace, key(3)).is_err());
    assert_eq!(world.db.get(&world.keyspace, "later").unwrap().unwrap(), &long("later", 1)[..]);
    // Once it is back, its values are.
    let World { storage, db, .. } = world;
    db.close().unwrap();
    storage.rename("elsewhere", &missing).unwrap();
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    assert_eq!(db.get(&keyspace, key(3)).unwrap().unwrap(), &long(&key(3), 1)[..]);
}

/// What a repair, and the next open, leave of the value file of a table that is missing. `rebuilds`: the manifest is
/// missing, too.
fn left_of_the_values_of_a_missing_table(rebuilds: bool) {
    let world = World::new();
    world.fill(1);
    let values = world.value_files().remove(0);
    world.put("later", 1);
    world.flush();
    let World { storage, db, .. } = world;
    db.close().unwrap();
    let tables = storage.list().unwrap().into_iter().filter(|name| name.ends_with(".tables"));
    storage.rename(&tables.min().unwrap(), "elsewhere").unwrap();
    for name in storage.list().unwrap().iter().filter(|_| rebuilds) {
        if name.contains("manifest") || name == "CURRENT" {
            storage.remove(name).unwrap();
        }
    }
    let inspector = Inspector::of(storage.clone(), storage.clone());
    let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
    assert!(repaired.set_aside.contains(&values), "{:?}", repaired.set_aside);
    crate::support::open(&storage, esker_lsm::Settings::default()).close().unwrap();
    assert!(storage.exists(&format!("{values}.damaged")).unwrap());
}

#[test]
fn a_repair_sets_the_values_of_a_missing_table_aside() {
    left_of_the_values_of_a_missing_table(false);
}

#[test]
fn a_rebuild_sets_the_values_of_a_missing_table_aside() {
    left_of_the_values_of_a_missing_table(true);
}

#[test]
fn a_file_with_a_damaged_value_is_not_collected_and_the_rest_is_read() {
    let (world, name) = damaged();
    (10..50).for_each(|n| world.put(&key(n), 2));
    world.compact();
    world.put("another", 1);
    world.compact();
    while world.db.run_background_job() {}
    assert!(world.value_files().contains(&name));
    let error = world.db.get(&world.keyspace, key(7)).unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains(&name), "{error}");
    assert_eq!(world.db.get(&world.keyspace, key(8)).unwrap().unwrap(), &long(&key(8), 1)[..]);
    assert_eq!(world.db.get(&world.keyspace, key(20)).unwrap().unwrap(), &long(&key(20), 2)[..]);
}

#[test]
fn a_repair_without_a_value_file_keeps_what_is_not_in_it() {
    let world = World::new();
    world.fill(1);
    world.db.put(&world.keyspace, "short", b"value").unwrap();
    world.flush();
    let lost = world.value_files().remove(0);
    world.put("later", 1);
    world.flush();
    let World { storage, db, .. } = world;
    db.close().unwrap();
    storage.remove(&lost).unwrap();
    let inspector = Inspector::of(storage.clone(), storage.clone());
    let repaired = inspector.repair(MissingLogPolicy::Refuse).unwrap();
    assert_eq!(repaired.lost_tables.iter().map(|it| it.lost_keys.len()).sum::<usize>(), 50);
    let db = crate::support::open(&storage, esker_lsm::Settings::default());
    let keyspace = db.open_keyspace("k").unwrap();
    let world = World { storage, db, keyspace };
    assert_eq!(world.db.get(&world.keyspace, "short").unwrap().unwrap(), b"value");
    assert_eq!(world.db.get(&world.keyspace, "later").unwrap().unwrap(), &long("later", 1)[..]);
    assert_eq!((world.values().live_values, world.values().files), (1, 1));
    assert_eq!(problems(world), (1, Vec::new()));
}
