//! A process that may have 64 files open, with a database of hundreds. The limit is the process's,
//! so nothing else is in this program.

use esker_lsm::{Db, KeyspaceSettings, Settings};
use rustix::process::{Resource, getrlimit, setrlimit};

const DESCRIPTORS: u64 = 64;
const KEYSPACES: usize = 150;

fn settings() -> Settings {
    Settings::default().segment_bytes(1 << 20).memory_bytes(8 << 20)
}

fn name(number: usize) -> String {
    format!("keyspace {number}")
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Every other keyspace has its values in value files.
fn keyspace(number: usize) -> KeyspaceSettings {
    KeyspaceSettings::default().separation_threshold(number.is_multiple_of(2).then_some(64))
}

#[test]
fn a_database_of_hundreds_of_files_works_with_64_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(DESCRIPTORS), ..limit })
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    assert_eq!(db.stats().max_open_files, DESCRIPTORS / 2);
    let open = |db: &Db, number| db.keyspace(&name(number), keyspace(number)).unwrap();
    for round in 0..3_u8 {
        for number in 0..KEYSPACES {
            let keyspace = open(&db, number);
            (0..10).for_each(|n| db.put(&keyspace, key(n), [round; 100]).unwrap());
            if number % 3 == 0 {
                db.flush().unwrap();
            }
        }
    }
    db.wait_for_compactions().unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path(), settings()).unwrap();
    assert!(db.stats().tables > 2 * DESCRIPTORS, "{}", db.stats().tables);
    let value_files = db.levels().iter().map(|tree| tree.values.files).sum::<u64>();
    assert!(value_files > DESCRIPTORS, "{value_files}");
    for number in 0..KEYSPACES {
        let keyspace = open(&db, number);
        let found = db.range(&keyspace, ..).map(|entry| entry.unwrap().1.to_vec());
        assert!(found.eq((0..10).map(|_| vec![2; 100])), "{number}");
        let found = db.multi_get(&keyspace, [key(3), key(8)]).unwrap();
        assert!(found.iter().all(|value| value.as_deref() == Some(&[2; 100][..])), "{number}");
    }
    assert!(db.stats().open_files <= DESCRIPTORS / 2);
    // Each keyspace has several runs, which a compaction reads together.
    db.compact().unwrap();
    assert_eq!(db.get(&open(&db, 77), key(5)).unwrap().as_deref(), Some(&[2; 100][..]));
    db.close().unwrap();
}
