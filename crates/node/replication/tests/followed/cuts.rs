//! Connections that end anywhere.

use crate::proxy::{Harm, Proxy};
use crate::support::{Place, catch_up, expect_same, follow, serve};
use std::sync::atomic::Ordering;

/// After the first, which gives the base, each connection ends three bytes later than the one before:
/// the fields of a header have one to eight.
#[test]
fn a_connection_may_end_after_any_byte() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let cut = |connection| match connection {
        0 => Harm::None,
        n => Harm::Cut((n - 1) * 3),
    };
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    drop(follower);
    db.keyspace("users", Default::default()).unwrap().put("b", "2").unwrap();
    let mut batch = db.batch();
    batch.put(&db.default_keyspace(), "c", "3");
    batch.put(&db.default_keyspace(), "d", "4");
    db.write(&batch).unwrap();
    let proxy = Proxy::to(primary.address(), Box::new(move |n| cut(n + 1)));
    let follower = follow(&place.dir("copy"), proxy.address);
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 0);
    assert!(proxy.connections.load(Ordering::SeqCst) > 30);
    drop(follower);
}

#[test]
fn a_base_may_end_anywhere() {
    let place = Place::new();
    let db = place.db();
    (0..3_u8).for_each(|key| db.default_keyspace().put([key], [key; 20]).unwrap());
    let primary = serve(&db);
    let proxy = Proxy::to(primary.address(), Box::new(|n| Harm::Cut(n * 97)));
    let follower = follow(&place.dir("copy"), proxy.address);
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 1);
    assert!(proxy.connections.load(Ordering::SeqCst) > 5);
    drop(follower);
}
