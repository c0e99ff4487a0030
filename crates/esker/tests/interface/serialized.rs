//! The feature `serde`: settings are read and written, statistics and reports are written.

use esker::options::{Dedup, Ratio, Shape};
use esker::*;
use serde_json::{from_value, json, to_value};
use std::time::Duration;

#[test]
fn settings_are_written_and_read_again() {
    let keyspace = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(115) });
    let settings = Settings::default()
        .log(Log::File { dir: None, sync: SyncPolicy::Every(Duration::from_millis(50)) })
        .default_keyspace(keyspace);
    let written = to_value(&settings).unwrap();
    assert_eq!(written["default_keyspace"]["dedup"], json!({ "space_goal": { "amp": 1.15 } }));
    assert_eq!(from_value::<Settings>(written).unwrap(), settings);

    // What is not named has its default, and a name that no setting has is refused.
    let some: Settings = from_value(json!({ "memory_bytes": 64 << 20 })).unwrap();
    assert_eq!(some, Settings::default().memory_bytes(64 << 20));
    assert!(from_value::<Settings>(json!({ "memory": 64 })).is_err());
    assert!(from_value::<Ratio>(json!(-1.5)).is_err());
}

#[test]
fn statistics_and_reports_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db"), Settings::default()).unwrap();
    db.put(&db.default_keyspace(), "a", "1").unwrap();
    db.flush().unwrap();
    let stats = to_value(db.stats()).unwrap();
    assert_eq!((&stats["writes"], &stats["tables"]), (&json!(1), &json!(1)));
    assert_eq!(stats["compactions_done"]["level size"]["down"], json!(0));
    let levels = to_value(db.levels()).unwrap();
    assert_eq!(levels[0]["levels"][0]["runs"][0]["tables"][0]["entries"], json!(1));
    assert_eq!(to_value(db.keyspaces()).unwrap()[0]["name"], json!("default"));
    assert!(to_value(db.estimate_live_data()).unwrap()["keys"].is_number());
    assert_eq!(to_value(db.space_amp_status()).unwrap(), json!([]));
    db.close().unwrap();
    let checked = inspect::Inspector::open(dir.path().join("db"), None).unwrap();
    let checked = checked.check(&mut |problem| panic!("{problem}")).unwrap();
    assert_eq!(to_value(checked).unwrap()["tables"], json!(1));
    let mut lost = inspect::DroppedTable::default();
    lost.kept = 3;
    let mut repaired = inspect::RepairReport::default();
    repaired.lost_tables.push(lost);
    assert_eq!(to_value(repaired).unwrap()["lost_tables"][0]["kept"], json!(3));
}
