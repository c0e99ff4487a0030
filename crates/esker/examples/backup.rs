//! Backs up a database every so often, keeps the last backups, and restores one.
//!
//! `cargo run --example backup`

use esker::backup::Repository;
use esker::{Db, Result, Settings};

/// Backs up, prunes and restores.
pub fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::open(dir.path().join("db"), Settings::default())?;
    let events = db.default_keyspace();
    let repository = Repository::create(dir.path().join("backups"))?;

    // In an application a timer would do this, in a thread of its own: writers proceed.
    for hour in 0..5_u32 {
        for event in 0..1000_u32 {
            events.put([hour.to_be_bytes(), event.to_be_bytes()].concat(), [0; 100])?;
        }
        let report = repository.back_up(&db)?;
        println!(
            "backup {}: copied {} of {} bytes",
            report.number, report.copied_bytes, report.bytes
        );
    }
    let pruned = repository.prune(3)?;
    println!("kept {:?}, removed {:?}", pruned.kept, pruned.removed);

    // The state after the third hour.
    let backup = repository.backups()?.remove(0);
    repository.restore(Some(backup.number), dir.path().join("restored"))?;
    let restored = Db::open(dir.path().join("restored"), Settings::default())?;
    assert_eq!(restored.default_keyspace().iter().count(), 3000);
    println!("restored backup {}", backup.number);
    Ok(())
}
