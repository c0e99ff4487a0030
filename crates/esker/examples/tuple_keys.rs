//! Keys of several values, which sort as the values do: measurements by sensor and time.
//!
//! cargo run -p esker --example tuple_keys

use esker::{Db, KeyRange, Settings, tuple};

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("data"), Settings::default())?;
    let measured = db.default_keyspace();
    for (sensor, seconds, celsius) in
        [("cellar", 60_u64, 11_i64), ("roof", 120, -4), ("roof", 60, -3), ("roof", 3_600, 2)]
    {
        db.put(&measured, tuple::encode(&(sensor, seconds)), tuple::encode(&(celsius,)))?;
    }

    // All of one sensor, by time.
    let mut roof = Vec::new();
    for pair in db.range(&measured, KeyRange::prefix(tuple::encode(&("roof",)))) {
        let (key, value) = pair?;
        let (_, seconds): (String, u64) = tuple::decode(&key)?;
        let (celsius,): (i64,) = tuple::decode(&value)?;
        roof.push((seconds, celsius));
    }
    assert_eq!(roof, [(60, -3), (120, -4), (3_600, 2)]);
    db.close()?;
    Ok(())
}
