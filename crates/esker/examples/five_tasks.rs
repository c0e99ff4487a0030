//! The five tasks of `docs/guide/migrating.md`, as that page shows them.
//!
//! cargo run -p esker --example five_tasks

use esker::{Db, KeyspaceSettings, Settings};

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");

    // Open and put.
    let db = Db::open(data, Settings::default())?;
    let users = db.keyspace("users", KeyspaceSettings::default())?;
    users.put("ada", "analyst")?;

    let index = db.keyspace("index", KeyspaceSettings::default())?;
    let accounts = db.keyspace("accounts", KeyspaceSettings::default())?;
    accounts.put("ada", [100])?;

    // Batch over two keyspaces.
    let mut batch = db.batch();
    batch.put(&users, "alan", "admiral");
    batch.delete(&index, "ada");
    db.write(&batch)?;

    // Scan a prefix backwards.
    let mut seen = Vec::new();
    for entry in users.prefix("a").rev() {
        let (key, value) = entry?;
        seen.push((key, value));
    }
    assert!(seen[0].0 == b"alan" && seen[1].1 == b"analyst");

    // Transaction with retry.
    db.transact(|tx| {
        let ada = tx.get_for_update(&accounts, "ada")?.map_or(0, |v| v[0]);
        let bob = tx.get_for_update(&accounts, "bob")?.map_or(0, |v| v[0]);
        tx.put(&accounts, "ada", [ada - 30])?;
        tx.put(&accounts, "bob", [bob + 30])
    })?;
    assert_eq!(accounts.get("bob")?.as_deref(), Some(&[30][..]));

    // Snapshot read.
    let snapshot = db.snapshot();
    let value = snapshot.get(&users, "ada")?;
    assert_eq!(value.as_deref(), Some(&b"analyst"[..]));
    Ok(())
}
