//! The first program: keyspaces, a batch, a snapshot, a range.
//!
//! cargo run -p esker --example quick_start

use esker::{Db, KeyspaceSettings, Settings};

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("data"), Settings::default())?;
    let users = db.keyspace("users", KeyspaceSettings::default())?;
    db.put(&users, b"ada", b"analyst")?;

    // All of a batch, or nothing of it.
    let mut batch = db.batch();
    batch.put(&users, b"grace", b"admiral");
    batch.put(&users, b"linus", b"maintainer");
    batch.delete(&users, b"ada");
    db.write(&batch)?;

    // Later writes do not change what a snapshot shows.
    let snapshot = db.snapshot();
    db.delete(&users, b"grace")?;
    assert!(db.get(&users, b"grace")?.is_none());
    assert!(snapshot.get(&users, "grace")?.is_some());

    let mut names = Vec::new();
    for pair in snapshot.iter(&users).rev() {
        let (name, job) = pair?;
        names.push(format!("{}: {}", str::from_utf8(&name)?, str::from_utf8(&job)?));
    }
    assert_eq!(names, ["linus: maintainer", "grace: admiral"]);
    db.close()?;
    Ok(())
}
