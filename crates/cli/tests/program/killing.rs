//! A node that is killed under load, again and again: every store that it acknowledged is there, and no value is torn.
//!
//! A few rounds by default. All fifty: `ESKER_KILL_ROUNDS=50 cargo test -p esker-cli --test program killing`.

use crate::Scratch;
use crate::serving::Serving;
use esker_base::{Clock, Rng, SystemClock, SystemEntropy, Threads};
use esker_initiator::{KeyClient, Settings};
use esker_nvme::Nqn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const CONFIG: &str = r#"
listen = "127.0.0.1:0"
reactors = 2

[[namespace]]
kind = "hash"
path = "store"
bytes = "64MiB"

[[namespace]]
kind = "lsm"
create = true
path = "db"
"#;

const NAMESPACES: u32 = 2;
const KEYS: u64 = 24;

/// What is known of a key. Versions count from 1.
#[derive(Default)]
struct Known {
    acknowledged: AtomicU64,
    sent: AtomicU64,
}

/// A version of a key: lengths and bytes follow from both.
fn value(key: u64, version: u64) -> Vec<u8> {
    let mut rng = Rng::new(key << 32 | version);
    let mut value = vec![0; 8 + rng.below(60_000) as usize];
    rng.fill(&mut value[8..]);
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

fn connect(node: &Serving, namespace: u32) -> Option<KeyClient> {
    let nqn = |name| Nqn::new(name).unwrap();
    let address = node.address.parse().unwrap();
    let mut settings = Settings::new(address, nqn("nqn.test"), nqn("nqn.2024-01.io.esker:node"));
    settings.namespace = namespace;
    KeyClient::connect(
        settings,
        Arc::new(SystemClock::new()),
        Arc::new(SystemEntropy),
        Arc::new(Threads),
    )
    .ok()
}

/// Stores the next versions of one key after the other, until the node is gone.
fn load(node: &Serving, namespace: u32, known: &[Known], share: usize) {
    let Some(client) = connect(node, namespace) else { return };
    loop {
        for (key, known) in (0u64..).zip(known).skip(share).step_by(2) {
            let version = known.sent.load(SeqCst) + 1;
            known.sent.store(version, SeqCst);
            if client.store(&key.to_be_bytes(), &value(key, version)).is_err() {
                return;
            }
            known.acknowledged.store(version, SeqCst);
        }
    }
}

fn check(node: &Serving, namespace: u32, known: &[Known]) {
    let client = connect(node, namespace).expect("the node is there again");
    for (key, known) in (0u64..).zip(known) {
        let (acknowledged, sent) = (known.acknowledged.load(SeqCst), known.sent.load(SeqCst));
        let found = client.retrieve(&key.to_be_bytes()).unwrap().unwrap_or_default();
        let version = found.first_chunk().map_or(0, |version| u64::from_le_bytes(*version));
        let context = format!("namespace {namespace}, key {key}: version {version}");
        assert!((acknowledged..=sent).contains(&version), "{context}, not {acknowledged}..={sent}");
        assert!(version == 0 || found == value(key, version), "{context} is torn");
    }
}

fn acknowledged(known: &[Vec<Known>]) -> u64 {
    known.iter().flatten().map(|known| known.acknowledged.load(SeqCst)).sum()
}

#[test]
fn a_node_that_is_killed_has_all_that_it_acknowledged() {
    let rounds = std::env::var("ESKER_KILL_ROUNDS").map_or(4, |rounds| rounds.parse().unwrap());
    let scratch = Scratch::new();
    let config = scratch.file("node.toml", CONFIG.as_bytes());
    let known: Vec<Vec<Known>> =
        (0..NAMESPACES).map(|_| (0..KEYS).map(|_| Known::default()).collect()).collect();
    let mut rng = Rng::new(7);
    for _ in 0..rounds {
        let node = Serving::run(&scratch, &["serve", "--config", &config]);
        for (namespace, known) in (1..).zip(&known) {
            check(&node, namespace, known);
        }
        let before = acknowledged(&known);
        std::thread::scope(|scope| {
            let mut loads = Vec::new();
            for (namespace, known) in (1..).zip(&known) {
                for share in 0..2 {
                    let node = &node;
                    loads.push(scope.spawn(move || load(node, namespace, known, share)));
                }
            }
            // Some stores, however long they take; then never the same.
            while acknowledged(&known) <= before + 10 && !loads.iter().all(|it| it.is_finished()) {
                std::thread::yield_now();
            }
            SystemClock::new().sleep(Duration::from_millis(rng.below(400)));
            node.kill();
        });
    }
    let acknowledged = acknowledged(&known);
    assert!(acknowledged > rounds * 10, "{acknowledged} stores in {rounds} rounds are no load");
    println!("{rounds} rounds, {acknowledged} acknowledged stores");
}
