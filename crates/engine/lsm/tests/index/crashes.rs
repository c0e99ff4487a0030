//! A power loss in every call of writes, of a build, of a rebuild and of a drop.

use crate::support::*;
use esker_base::{Result, Rng};
use esker_lsm::{Db, IndexSettings};
use esker_storage::FaultStorage;

/// Rows from before the index, an index, writes, another version of it, writes, a drop, and the
/// index once more.
fn run(db: &Db) -> Result<()> {
    let users = db.keyspace("users", Default::default())?;
    let mut batch = db.batch();
    for number in 0..700_u32 {
        batch.put(&users, number.to_be_bytes(), format!("w{} before", number % 5));
    }
    db.write(&batch)?;
    users.index("index", words)?.wait_ready()?;
    users.put("a", "w1 first")?;
    db.flush()?;
    users.put("a", "w2 second")?;
    users.index(IndexSettings::new("index").version(2), first_word)?.wait_ready()?;
    users.put("b", "w1 third")?;
    users.delete("a")?;
    users.drop_index("index")?;
    users.put("b", "w3 without")?;
    users.index("index", words)?.wait_ready()?;
    users.put("b", "w4 last")
}

/// Whatever is there, an index that says that it is ready has the entries of the rows, and one that is
/// built from there on comes to have them. Returns whether there is a keyspace to index.
fn check(disk: &FaultStorage, at: u64) -> bool {
    for version in [1, 2] {
        let db = try_open(&disk.crash()).unwrap_or_else(|error| panic!("call {at}: {error}"));
        let Ok(users) = db.open_keyspace("users") else { return false };
        let function = if version == 1 { words as Function } else { first_word };
        let settings = IndexSettings::new("index").version(version);
        let index = users.index(settings, function).unwrap();
        if index.is_ready() {
            verify(&db, &index, &rows(&users), function);
        }
        users.put("a", "w1 after").unwrap();
        index.wait_ready().unwrap();
        verify(&db, &index, &rows(&users), function);
    }
    true
}

#[test]
fn a_power_loss_in_any_call_leaves_an_index_right_or_not_ready() {
    let whole = disk();
    let db = open(&whole);
    let before = whole.operations();
    run(&db).unwrap();
    let calls = whole.operations() - before;
    assert!(calls > 50, "{calls}");
    let mut checked = 0;
    for call in 0..calls {
        let disk = FaultStorage::new(Rng::new(call));
        let db = open(&disk);
        disk.crash_after(call);
        let _ = run(&db);
        drop(db);
        checked += u64::from(check(&disk, call));
    }
    assert!(checked > calls * 3 / 4, "{checked} of {calls}");
}
