//! The five tasks with redb.

use ::redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

// Open and put.
const USERS: TableDefinition<&str, &str> = TableDefinition::new("users");

const INDEX: TableDefinition<&str, &str> = TableDefinition::new("index");
const ACCOUNTS: TableDefinition<&str, u64> = TableDefinition::new("accounts");

#[test]
fn tasks_without_transactions() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data.redb");

    let db = Database::create(data)?;
    let tx = db.begin_write()?;
    {
        tx.open_table(USERS)?.insert("ada", "analyst")?;
    }
    tx.commit()?;

    // Batch over two keyspaces.
    let tx = db.begin_write()?;
    {
        let mut users = tx.open_table(USERS)?;
        let mut index = tx.open_table(INDEX)?;
        users.insert("alan", "admiral")?;
        index.remove("ada")?;
    }
    tx.commit()?;

    // Scan a prefix backwards.
    let mut seen = Vec::new();
    let tx = db.begin_read()?;
    let users = tx.open_table(USERS)?;
    for entry in users.range("a".."b")?.rev() {
        let (key, value) = entry?;
        seen.push((key.value().to_owned(), value.value().to_owned()));
    }
    assert!(seen[0].0 == "alan" && seen[1].1 == "analyst");

    // Snapshot read.
    let snapshot = db.begin_read()?;
    let users = snapshot.open_table(USERS)?;
    let value = users.get("ada")?;
    assert_eq!(value.map(|value| value.value().to_owned()).as_deref(), Some("analyst"));
    Ok(())
}

#[test]
fn a_transaction() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Database::create(dir.path().join("data.redb"))?;
    let tx = db.begin_write()?;
    tx.open_table(ACCOUNTS)?.insert("ada", 100)?;
    tx.commit()?;

    // Transaction with retry.
    let tx = db.begin_write()?;
    {
        let mut accounts = tx.open_table(ACCOUNTS)?;
        let ada = accounts.get("ada")?.map_or(0, |v| v.value());
        let bob = accounts.get("bob")?.map_or(0, |v| v.value());
        accounts.insert("ada", ada - 30)?;
        accounts.insert("bob", bob + 30)?;
    }
    tx.commit()?;

    let tx = db.begin_read()?;
    let bob = tx.open_table(ACCOUNTS)?.get("bob")?;
    assert_eq!(bob.map(|v| v.value()), Some(30));
    Ok(())
}
