//! What other parts of the engine do with ingested tables: copies, checks, repairs, statistics.

use crate::support::*;
use esker_lsm::inspect::Inspector;
use esker_lsm::inspect::repair::MissingLogPolicy;
use esker_storage::{MemoryStorage, Storage};
use std::sync::Arc;

fn inspector(disk: &esker_storage::FaultStorage) -> Inspector {
    let storage = Arc::new(disk.clone());
    Inspector::of(storage.clone(), storage)
}

#[test]
fn a_check_finds_nothing_wrong_with_ingested_tables() {
    let disk = disk();
    let db = open(&disk, logged());
    db.default_keyspace().ingest(wide_entries(5..300, "ingest")).unwrap();
    db.close().unwrap();
    let mut problems = Vec::new();
    let checked = inspector(&disk).check(&mut |problem| problems.push(problem.to_string()));
    assert_eq!(problems, [] as [String; 0]);
    assert!(checked.unwrap().table_entries == 295);
}

#[test]
fn a_checkpoint_has_what_was_ingested() {
    let db = open(&disk(), logged());
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &entries(0..10, "puts"));
    keyspace.ingest(wide_entries(5..300, "ingest")).unwrap();
    put_all(&keyspace, &entries(7..8, "puts after"));
    let copy = Arc::new(MemoryStorage::new());
    db.checkpoint_to(&*copy).unwrap();
    let env =
        esker_lsm::Env::over(copy.clone()).background(Arc::new(esker_base::background::Stepped));
    let copied = esker_lsm::Db::open_with(env, logged()).unwrap();
    assert!(content(&copied.default_keyspace()) == content(&keyspace));
    assert!(copy.list().unwrap().iter().all(|name| !name.ends_with(".ingest")));
}

#[test]
fn a_manifest_that_is_lost_is_rebuilt_with_ingested_tables() {
    let disk = disk();
    let db = open(&disk, logged());
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &entries(0..10, "puts"));
    keyspace.ingest(wide_entries(5..300, "ingest")).unwrap();
    put_all(&keyspace, &entries(7..8, "puts after"));
    let expected = content(&keyspace);
    db.close().unwrap();
    let current = disk.read_all("CURRENT").unwrap();
    let manifest = disk.files().into_iter().find(|name| name.contains("manifest"));
    let manifest = manifest.unwrap_or_else(|| panic!("{:?} {current:?}", disk.files()));
    disk.write_all(&manifest, b"");
    let report = inspector(&disk).repair(MissingLogPolicy::Refuse).unwrap();
    assert!(report.rebuilt.iter().any(|told| told.contains("were ingested")), "{report:?}");
    let db = open(&disk, logged());
    let keyspace = db.default_keyspace();
    assert!(content(&keyspace) == expected);
    db.compact().unwrap();
    assert!(content(&keyspace) == expected);
}

#[test]
fn a_repair_of_a_damaged_table_keeps_the_order_of_the_rest() {
    let disk = disk();
    let db = open(&disk, logged());
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &wide_entries(0..300, "puts"));
    db.flush().unwrap();
    let before = disk.files();
    keyspace.ingest(wide_entries(0..60, "ingest")).unwrap();
    db.close().unwrap();
    let new = disk.files().into_iter().filter(|name| name.ends_with(".tables"));
    let new: Vec<_> = new.filter(|name| !before.contains(name)).collect();
    assert_eq!(new.len(), 1, "{new:?}");
    disk.bit_flip(&new[0], 100, 3);
    inspector(&disk).repair(MissingLogPolicy::Refuse).unwrap();
    let db = open(&disk, logged());
    let found = content(&db.default_keyspace());
    let is_ingested = |value: &[u8]| value.windows(6).any(|it| it == b"ingest");
    let ingested = found.values().filter(|value| is_ingested(value)).count();
    // The first block of the table is lost, and what it replaced shows.
    assert!((30..60).contains(&ingested), "{ingested}");
    assert!(is_ingested(&found[&key(59)]));
    db.compact().unwrap();
    assert!(content(&db.default_keyspace()) == found);
}

#[test]
fn a_read_only_open_sees_an_ingest_that_no_flush_has_followed() {
    let disk = disk();
    let db = open(&disk, logged());
    let keyspace = db.default_keyspace();
    put_all(&keyspace, &entries(0..10, "puts"));
    let seqno = keyspace.ingest(entries(5..15, "ingest")).unwrap().seqno.unwrap();
    let env = esker_lsm::Env::over(Arc::new(disk.clone()))
        .background(Arc::new(esker_base::background::Stepped));
    let reader = esker_lsm::Db::open_read_only_with(env, logged()).unwrap();
    assert!(content(&reader.default_keyspace()) == content(&keyspace));
    assert_eq!(reader.snapshot().seqno(), seqno);
}

#[test]
fn what_is_ingested_counts_as_written() {
    let db = open(&disk(), logged());
    let ingested = db.ingest(&db.default_keyspace(), wide_entries(0..300, "ingest")).unwrap();
    let total = db.stats().account;
    assert_eq!((total.user_bytes, total.flush_bytes), (ingested.bytes, ingested.table_bytes));
    assert!(ingested.tables > 1 && ingested.table_bytes > 128 << 10, "{ingested:?}");
}
