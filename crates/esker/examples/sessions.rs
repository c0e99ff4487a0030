//! Sessions that expire: `cargo run -p esker --example sessions`.

use esker::env::{Clock, SystemClock};
use esker::{Db, Error, KeyspaceSettings, Settings};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs the example.
pub fn main() -> Result<(), Error> {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Db::open(dir.path().join("data"), Settings::default())?;
    let sessions = db.keyspace("sessions", KeyspaceSettings::default())?;

    sessions.put_with_ttl("4711", "ada", HOUR)?;
    assert_eq!(sessions.get("4711")?.as_deref(), Some(&b"ada"[..]));

    // Each request renews the session, together with what else it writes.
    let log = db.keyspace("log", KeyspaceSettings::default())?;
    let mut batch = db.batch();
    batch.put_with_ttl(&sessions, "4711", "ada", HOUR);
    batch.put(&log, "1", "ada: GET /");
    db.write(&batch)?;

    // A login is one transaction: the time to live begins with the commit.
    db.transact(|tx| {
        if tx.get_for_update(&sessions, "0815")?.is_none() {
            tx.put_with_ttl(&sessions, "0815", "grace", Duration::from_millis(20))?;
        }
        Ok(())
    })?;

    // Nothing deletes the session. From the moment it expires, no reader finds it: not at an older
    // snapshot either.
    let before = db.snapshot();
    let clock = SystemClock::new();
    while sessions.contains_key("0815")? {
        clock.sleep(Duration::from_millis(5));
    }
    assert_eq!(before.get(&sessions, "0815")?, None);
    assert_eq!(sessions.count(..)?, 1);

    // A compaction drops what has expired.
    db.compact()?;
    assert_eq!(sessions.first()?.map(|(key, _)| key.to_vec()), Some(b"4711".to_vec()));
    db.close()
}
