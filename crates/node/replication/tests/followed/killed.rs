//! A primary whose process is killed while it writes.

use crate::support::{PATIENCE, Place, any, follow, settings};
use esker_lsm::{Db, Log, SyncPolicy};
use esker_replication::{FollowerStats, Primary, PrimarySettings};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Says to the copy of this program what it is.
const ROLE: &str = "ESKER_TEST_PRIMARY";

/// The process that is killed. It prints its address, and then, after a line on its input, each write that was
/// acknowledged.
#[test]
#[ignore = "it is started by another test"]
fn primary_of_the_test() {
    let role = std::env::var(ROLE).expect("another test starts it");
    let (dir, sync) = role.split_once('|').unwrap();
    let sync = if sync == "always" { SyncPolicy::Always } else { SyncPolicy::Os };
    let db = Db::open(dir, settings().log(Log::File { dir: None, sync })).unwrap();
    // No base while it writes.
    let primary = PrimarySettings::new(any()).bound_bytes(1 << 30);
    let primary = Primary::start(db.clone(), primary).unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "address {}", primary.address()).unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    for number in 1_u64.. {
        db.default_keyspace().put(number.to_be_bytes(), number.to_string()).unwrap();
        writeln!(out, "wrote {number}").unwrap();
    }
}

/// Ends the process however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a primary, promotes its follower, and returns how many writes were acknowledged and how many are there.
fn kill(sync: &str, after: u64) -> (u64, u64) {
    let place = Place::new();
    let program = std::env::current_exe().unwrap();
    let role = format!("{}|{sync}", place.dir("primary").display());
    let child = Command::new(program)
        .args(["killed::primary_of_the_test", "--exact", "--ignored", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Killed(child.unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut next = |what: &str| {
        // The harness prints lines of its own.
        loop {
            let line = lines.next()?.ok()?;
            if let Some((_, rest)) = line.split_once(what) {
                return Some(rest.trim().to_owned());
            }
        }
    };
    let address = next("address ").unwrap().parse().unwrap();
    let follower = follow(&place.dir("copy"), address);
    let goes_on =
        |stats: &FollowerStats| stats.bases == 1 && stats.is_connected && !stats.is_in_base;
    assert!(follower.wait(PATIENCE, goes_on), "{:?}", follower.stats());
    child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut acknowledged = 0;
    while acknowledged < after || follower.stats().applied == 0 {
        acknowledged = next("wrote ").unwrap().parse().unwrap();
    }
    child.0.kill().unwrap();
    while let Some(number) = next("wrote ") {
        // The last line may be cut.
        acknowledged = number.parse().unwrap_or(acknowledged).max(acknowledged);
    }
    assert!(follower.wait(PATIENCE, |stats| !stats.is_connected));
    assert_eq!(follower.stats().bases, 1, "the writes came after the base");
    let promoted = follower.promote().unwrap();
    let keyspace = promoted.default_keyspace();
    let mut there = 0;
    for entry in promoted.iter(&keyspace) {
        let (key, value) = entry.unwrap();
        there += 1;
        assert_eq!(key[..], u64::to_be_bytes(there), "the writes are a prefix");
        assert_eq!(value[..], *there.to_string().as_bytes());
    }
    (acknowledged, there)
}

/// Not more than one write was in progress, so a follower has at most one that was not acknowledged.
#[test]
fn a_promoted_follower_of_a_killed_primary_has_a_prefix_of_its_writes() {
    for (sync, after) in [("os", 3_000), ("always", 300)] {
        let (acknowledged, there) = kill(sync, after);
        assert!((1..=acknowledged + 1).contains(&there), "{there} of {acknowledged}");
        let missing = acknowledged.saturating_sub(there);
        println!("sync {sync}: {acknowledged} acknowledged, {missing} of them are missing");
    }
}
