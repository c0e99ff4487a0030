//! Rows by something else than their key: users by city, and by e-mail address, which is unique.
//!
//! cargo run -p esker --example secondary_index

use esker::index::{IndexError, IndexKeys, IndexSettings};
use esker::{Db, Error, KeyspaceSettings, Settings};

/// The part of "name,city,email" at this place.
fn part(user: &[u8], place: usize) -> &[u8] {
    user.split(|&byte| byte == b',').nth(place).unwrap_or_default()
}

fn by_email(_id: &[u8], user: &[u8], keys: &mut IndexKeys) {
    // Users without an address are not in the index.
    if !part(user, 2).is_empty() {
        keys.add(part(user, 2).to_ascii_lowercase());
    }
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let dir = dir.path().join("data");
    let db = Db::open(&dir, Settings::default())?;
    let users = db.keyspace("users", KeyspaceSettings::default())?;
    users.put("1", "Ada,London,ada@example.org")?;
    users.put("2", "Grace,New York,grace@example.org")?;

    // The rows that are there are indexed in the background, and later ones as they are written.
    let city = users.index("by_city", |_, user, keys| keys.add(part(user, 1)))?;
    let unique = IndexSettings::new("by_email").unique(true);
    let email = users.index(unique.clone(), by_email)?;
    city.wait_ready()?;
    email.wait_ready()?;
    users.put("3", "Charles,London,")?;
    let in_london: Result<Vec<_>, _> =
        city.get("London").map(|row| row.map(|row| row.key.to_vec())).collect();
    assert_eq!(in_london?, [b"1", b"3"]);

    // A second row with an address is refused, whole batches and transactions too.
    let refused = db.transact(|tx| tx.put(&users, "4", "Eve,Paris,ADA@example.org"));
    match refused {
        Err(Error::Index(error)) => assert!(matches!(*error, IndexError::NotUnique { .. })),
        other => panic!("{other:?}"),
    }
    assert!(!users.contains_key("4")?);

    // Functions are not stored: after an open, writes wait for them to be registered.
    db.close()?;
    let db = Db::open(&dir, Settings::default())?;
    let users = db.open_keyspace("users")?;
    assert!(users.put("4", "Eve,Paris,").is_err());
    users.drop_index("by_city")?;
    let email = users.index(unique, by_email)?;
    users.put("4", "Eve,Paris,eve@example.org")?;
    let mut found = email.prefix("e").map(|row| row.map(|row| row.key));
    assert_eq!(found.next().transpose()?.as_deref(), Some(&b"4"[..]));
    assert!(found.next().is_none() && db.check_index(&email)?.is_sound());
    db.close()?;
    Ok(())
}
