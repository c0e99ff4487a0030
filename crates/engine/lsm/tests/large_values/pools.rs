//! A database whose log is in persistent memory.

use crate::pool_place::Place;
use crate::support::large;

#[test]
fn a_large_value_is_in_a_file_and_survives_a_kill() {
    let place = Place::new();
    let db = place.open().unwrap();
    let keyspace = db.default_keyspace();
    keyspace.put("before", b"1").unwrap();
    let value = large("v", 3 << 20);
    keyspace.put_reader("v", &value[..]).unwrap();
    keyspace.put("after", b"2").unwrap();
    drop(keyspace);
    let place = place.after_kill(db);
    let db = place.open().unwrap();
    let keyspace = db.default_keyspace();
    assert_eq!(keyspace.get("before").unwrap().unwrap(), b"1");
    assert_eq!(keyspace.get("after").unwrap().unwrap(), b"2");
    assert!(keyspace.get("v").unwrap().unwrap() == value[..]);
}
