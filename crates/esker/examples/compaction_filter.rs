//! Sessions of deleted users go with the next compaction: `cargo run -p esker --example
//! compaction_filter`.

use esker::filter::{CompactionFilter, FilterDecision, FilterError};
use esker::{Db, Error, KeyspaceSettings, Settings};
use std::collections::HashSet;
use std::sync::{Arc, RwLock};

/// The users that were deleted. The filter and the program share it.
type Deleted = Arc<RwLock<HashSet<Vec<u8>>>>;

/// Drops the sessions of deleted users, and removes the address from sessions that have ended.
struct LiveUsers {
    deleted: Deleted,
}

impl CompactionFilter for LiveUsers {
    fn name(&self) -> &str {
        "live_users"
    }

    /// A key is `user/session`, a value `state address`.
    fn filter(&self, key: &[u8], value: &[u8]) -> Result<FilterDecision, FilterError> {
        let Some(slash) = key.iter().position(|byte| *byte == b'/') else {
            return Err(FilterError::new("the key has no user"));
        };
        if self.deleted.read().expect("no writer panics").contains(&key[..slash]) {
            return Ok(FilterDecision::Drop);
        }
        Ok(match value.strip_prefix(b"ended ") {
            Some(_) => FilterDecision::Replace(b"ended".to_vec()),
            None => FilterDecision::Keep,
        })
    }
}

/// Runs the example.
pub fn main() -> Result<(), Error> {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("data");
    let deleted = Deleted::default();
    let filter = LiveUsers { deleted: deleted.clone() };
    let db = Db::open(&dir, Settings::default().compaction_filter(filter))?;
    let settings = KeyspaceSettings::default().compaction_filter("live_users");
    let sessions = db.keyspace("sessions", settings)?;
    sessions.put("ada/1", "open 10.0.0.7")?;
    sessions.put("ada/2", "ended 10.0.0.7")?;
    sessions.put("eve/1", "open 10.0.0.9")?;

    // Nothing is dropped for readers of a snapshot.
    let before = db.snapshot();
    deleted.write().expect("no reader panics").insert(b"eve".to_vec());
    db.compact()?;
    assert!(before.get(&sessions, "eve/1")?.is_some());
    drop(before);

    // A full compaction asks about every entry; others ask about what they rewrite.
    db.compact()?;
    assert!(sessions.get("eve/1")?.is_none());
    assert_eq!(sessions.get("ada/1")?.as_deref(), Some(&b"open 10.0.0.7"[..]));
    assert_eq!(sessions.get("ada/2")?.as_deref(), Some(&b"ended"[..]));
    let stats = db.stats().filters;
    assert_eq!((stats.dropped, stats.replaced), (1, 1));

    // A key that the filter does not understand stays, and a full compaction names it.
    sessions.put("mallory", "open 10.0.0.66")?;
    let failed = db.compact().expect_err("the filter failed");
    assert!(failed.to_string().contains("mallory"), "{failed}");
    assert!(sessions.contains_key("mallory")?);
    sessions.delete("mallory")?;
    db.close()?;

    // An open without the filter works, and compaction then drops nothing that a reader sees.
    let db = Db::open(&dir, Settings::default())?;
    assert_eq!(db.stats().filters.missing, ["sessions"]);
    assert!(db.open_keyspace("sessions")?.get("eve/1")?.is_none());
    db.close()
}
