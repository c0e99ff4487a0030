//! The five tasks with fjall. Its transactions need a database of another type.

use ::fjall::{Database, KeyspaceCreateOptions, OptimisticTxDatabase, Readable};

#[test]
fn tasks_without_transactions() -> Result<(), ::fjall::Error> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");

    // Open and put.
    let db = Database::builder(data).open()?;
    let users = db.keyspace("users", KeyspaceCreateOptions::default)?;
    users.insert("ada", "analyst")?;

    let index = db.keyspace("index", KeyspaceCreateOptions::default)?;

    // Batch over two keyspaces.
    let mut batch = db.batch();
    batch.insert(&users, "alan", "admiral");
    batch.remove(&index, "ada");
    batch.commit()?;

    // Scan a prefix backwards.
    let mut seen = Vec::new();
    for entry in users.prefix("a").rev() {
        let (key, value) = entry.into_inner()?;
        seen.push((key, value));
    }
    assert!(*seen[0].0 == *b"alan" && *seen[1].1 == *b"analyst");

    // Snapshot read.
    let snapshot = db.snapshot();
    let value = snapshot.get(&users, "ada")?;
    assert_eq!(value.as_deref(), Some(&b"analyst"[..]));
    Ok(())
}

#[test]
fn a_transaction_with_retry() -> Result<(), ::fjall::Error> {
    let dir = tempfile::tempdir()?;
    let db = OptimisticTxDatabase::builder(dir.path().join("data")).open()?;
    let accounts = db.keyspace("accounts", KeyspaceCreateOptions::default)?;
    accounts.insert("ada", [100])?;

    // Transaction with retry.
    loop {
        let mut tx = db.write_tx()?;
        let ada = tx.get(&accounts, "ada")?.map_or(0, |v| v[0]);
        let bob = tx.get(&accounts, "bob")?.map_or(0, |v| v[0]);
        tx.insert(&accounts, "ada", [ada - 30]);
        tx.insert(&accounts, "bob", [bob + 30]);
        if tx.commit()?.is_ok() {
            break;
        }
    }
    assert_eq!(accounts.get("bob")?.as_deref(), Some(&[30][..]));
    Ok(())
}
