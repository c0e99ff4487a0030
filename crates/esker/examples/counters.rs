//! Counters, sets and an own operator, by merges: `cargo run -p esker --example counters`.

use esker::merge::{MergeError, MergeOperator};
use esker::merge::{decode_i64, set_elements, set_of};
use esker::{Db, Error, KeyspaceSettings, Settings};

/// Keeps the last three entries of a list, separated by commas.
struct LastThree;

impl MergeOperator for LastThree {
    fn name(&self) -> &str {
        "last_three"
    }

    fn merge(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeError> {
        let all = base.into_iter().chain(operands.iter().copied());
        let entries: Vec<&[u8]> = all.flat_map(|part| part.split(|byte| *byte == b',')).collect();
        Ok(entries[entries.len().saturating_sub(3)..].join(&b','))
    }

    /// Without it, flush and compaction keep each operand until they meet the value below.
    fn combine(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.merge(key, Some(older), &[newer]).ok()
    }
}

/// Runs the example.
pub fn main() -> Result<(), Error> {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().join("data");
    let db = Db::open(&dir, Settings::default().merge_operator(LastThree))?;

    // A counter: no read, no transaction, no lost update.
    let visits = db.keyspace("visits", KeyspaceSettings::default().merge("add_i64"))?;
    visits.merge("/index.html", 1_i64.to_le_bytes())?;
    visits.merge("/index.html", 2_i64.to_le_bytes())?;
    let value = visits.get("/index.html")?.expect("there is a value");
    assert_eq!(decode_i64(&value), Some(3));

    // A set, in a batch with a put.
    let tags = db.keyspace("tags", KeyspaceSettings::default().merge("set_union"))?;
    let mut batch = db.batch();
    batch.put(&db.default_keyspace(), "article/7", "text");
    batch.merge(&tags, "article/7", set_of([&b"news"[..], b"rust"]));
    batch.merge(&tags, "article/7", set_of([&b"databases"[..], b"rust"]));
    db.write(&batch)?;
    let value = tags.get("article/7")?.expect("there is a value");
    assert_eq!(set_elements(&value), Some(vec![&b"databases"[..], b"news", b"rust"]));

    // An own operator. A snapshot sees the operands that were there.
    let recent = db.keyspace("recent", KeyspaceSettings::default().merge("last_three"))?;
    recent.put("ada", "a,b")?;
    recent.merge("ada", "c")?;
    let before = db.snapshot();
    recent.merge("ada", "d")?;
    db.flush()?;
    assert_eq!(recent.get("ada")?.as_deref(), Some(&b"b,c,d"[..]));
    assert_eq!(before.get(&recent, "ada")?.as_deref(), Some(&b"a,b,c"[..]));
    drop(before);
    db.close()?;

    // Without the operator the database opens. Reads that need it say so.
    let db = Db::open(&dir, Settings::default())?;
    let recent = db.open_keyspace("recent")?;
    assert!(matches!(recent.get("ada"), Err(Error::NoMergeOperator { .. })));
    assert_eq!(decode_i64(&db.open_keyspace("visits")?.get("/index.html")?.unwrap()), Some(3));
    Ok(())
}
