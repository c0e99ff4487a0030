//! Keyspaces with a time to live.

use crate::Scratch;

#[test]
fn a_keyspace_is_created_with_a_time_to_live_and_says_so() {
    let scratch = Scratch::new();
    let put = ["put", "db", "-k", "events", "k", "v", "--keyspace-ttl", "12h"];
    scratch.run(&["put", "--create", "db", "k", "v"]).expect("");
    scratch.run(&put).expect("");
    let listed = scratch.run(&["keyspaces", "db"]).expect_status(0);
    assert!(listed.text().contains("time to live 43200s"), "{listed:?}");
    let listed = scratch.run(&["keyspaces", "db", "--json"]).json();
    let seconds: Vec<_> = listed["keyspaces"].as_array().unwrap().iter().collect();
    let of =
        |name: &str| seconds.iter().find(|it| it["name"] == name).unwrap()["ttl_seconds"].clone();
    assert_eq!((of("default"), of("events")), (serde_json::Value::Null, 43_200.0.into()));
    let manifest = scratch.run(&["dump-manifest", "db"]).expect_status(0);
    assert!(manifest.text().contains(": 43200000 ms,"), "{manifest:?}");
    scratch.run(&["get", "db", "-k", "events", "k"]).expect("v\n");
    scratch.run(&["check", "db"]).expect_status(0);
}

#[test]
fn a_time_to_live_below_a_second_is_rejected() {
    let scratch = Scratch::new();
    let put = ["put", "--create", "db", "k", "v", "--keyspace-ttl", "10ms"];
    scratch.run(&put).expect_failure(2, "--keyspace-ttl");
}
