//! A check next to the process that has the database open.

use esker_lsm::inspect::Inspector;
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use scopeguard::defer;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn open(dir: &Path) -> Db {
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    let (segment_bytes, memory_bytes) = (64 << 10, 8 << 20);
    Db::open(
        dir,
        Settings::default().log(log).segment_bytes(segment_bytes).memory_bytes(memory_bytes),
    )
    .unwrap()
}

fn put_all(db: &Db, round: u32) {
    for number in 0..500_u32 {
        let value = [round as u8; 300];
        db.put(&db.default_keyspace(), number.wrapping_mul(2_654_435_761).to_be_bytes(), value)
            .unwrap();
    }
}

#[test]
fn nothing_is_found_wrong_while_logs_and_tables_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    put_all(&db, 0);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        defer! { over.store(true, Ordering::Relaxed) }
        scope.spawn(|| {
            for round in (1..).take_while(|_| !over.load(Ordering::Relaxed)) {
                put_all(&db, round);
                if round % 8 == 0 {
                    db.compact().unwrap();
                }
            }
        });
        let check = || {
            let mut problems = Vec::new();
            let inspector = Inspector::open(dir.path(), None).unwrap();
            let checked = inspector.check(&mut |problem| problems.push(problem.to_string()));
            (checked, problems)
        };
        let before = db.stats();
        let goes_on = || {
            let after = db.stats();
            after.flushes > before.flushes && after.compactions > before.compactions
        };
        // On a busy machine, many checks may run before the first flush.
        let mut checks = Vec::new();
        while checks.len() < 20 || (!goes_on() && checks.len() < 20_000) {
            checks.push(check());
        }
        assert!(goes_on(), "no flush or no compaction beside {} checks", checks.len());
        for (checked, problems) in checks {
            let checked = checked.unwrap();
            assert_eq!(problems, [""; 0]);
            assert!(checked.is_beside && checked.logs > 0);
        }
    });
}

#[test]
fn damage_is_found_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    put_all(&db, 0);
    db.compact().unwrap();
    db.wait_for_compactions().unwrap();
    let files = || {
        let entries = dir.path().read_dir().unwrap().map(Result::unwrap);
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    let table = files().into_iter().find(|(name, _)| name.to_string_lossy().ends_with(".tables"));
    let (name, mut bytes) = table.expect("a table");
    bytes[100] ^= 1;
    std::fs::write(dir.path().join(name), bytes).unwrap();
    let before = files();
    let mut problems = Vec::new();
    let inspector = Inspector::open(dir.path(), None).unwrap();
    let checked = inspector.check(&mut |problem| problems.push(problem)).unwrap();
    assert!(checked.is_beside);
    assert!(problems.len() == 1 && problems[0].is_corruption(), "{problems:?}");
    assert!(before == files());
    drop(db);
    assert!(!inspector.check(&mut |_| {}).unwrap().is_beside);
}
