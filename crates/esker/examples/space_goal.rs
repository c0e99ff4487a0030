//! A keyspace with a limit on its space: its tables stay within 1.5 times the live data, and four segments.
//!
//! cargo run -p esker --example space_goal

use esker::options::{Compression, Dedup, Ratio, Shape};
use esker::{Db, KeyspaceSettings, Settings};

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let settings = Settings::default().segment_bytes(256 << 10).memory_bytes(32 << 20);
    let db = Db::open(dir.path().join("data"), settings)?;
    let limited = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 16 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) })
        // So that sizes below are those of the data.
        .compression(Compression::None);
    let pages = db.keyspace("pages", limited)?;

    // Every page is written five times, so that most versions are obsolete.
    for version in 0..5_u8 {
        for page in 0..5_000_u32 {
            db.put(&pages, page.to_be_bytes(), [version; 100])?;
        }
    }
    db.flush()?;
    db.wait_for_compactions()?;
    for goal in db.space_amp_status() {
        println!("{}: {goal:?}", pages.name());
    }
    let live = 5_000.0 * 104.0;
    let limit = 1.5 * live + 4.0 * f64::from(256 << 10);
    assert!((db.stats().table_bytes as f64) < limit, "{} of {limit}", db.stats().table_bytes);
    db.close()?;
    Ok(())
}
