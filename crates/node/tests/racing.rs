//! Two clients on two reactors race on one key. What they saw must be linearizable.
//!
//! Every store writes a value of its own, so each read names the store that it saw. Such a history is linearizable if and
//! only if its zones are in order (Gibbons and Korach, "Testing shared memories", SIAM J. Comput. 26, 1997): the zone of a
//! value lies between the first end and the last beginning of the operations that wrote or read it. It is forward if the
//! end comes first: then the value was in force all the while, so no two forward zones overlap; and a backward zone, whose
//! operations were all under way at one moment, must not lie inside of a forward one.

mod support;

use esker_initiator::KeyClient;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use support::{Store, client};

const KEY: &[u8] = b"raced for";
const OPERATIONS: u64 = 300;

/// An operation: the value that it wrote or read (0 for none there), when it began and when it ended.
#[derive(Clone, Copy, Debug)]
struct Seen {
    value: u64,
    began: u64,
    ended: u64,
}

/// Why a history is not linearizable.
fn flaw(history: &[Seen]) -> Option<String> {
    let mut zones: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for seen in history {
        let (first_end, last_began) = zones.entry(seen.value).or_insert((u64::MAX, 0));
        *first_end = seen.ended.min(*first_end);
        *last_began = seen.began.max(*last_began);
    }
    let zones: Vec<_> = zones.into_iter().collect();
    for (at, &(value, (end, began))) in zones.iter().enumerate() {
        for &(other, (other_end, other_began)) in &zones[at + 1..] {
            let (low, high) = (end.min(began), end.max(began));
            let (other_low, other_high) = (other_end.min(other_began), other_end.max(other_began));
            let is_flaw = match (end < began, other_end < other_began) {
                (true, true) => low < other_high && other_low < high,
                (true, false) => low < other_low && other_high < high,
                (false, true) => other_low < low && high < other_high,
                (false, false) => false,
            };
            if is_flaw {
                return Some(format!("values {value} and {other} were both in force"));
            }
        }
    }
    None
}

/// A value as it is stored: its number, again and again.
fn bytes_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(4096)
}

fn number_of(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == bytes_of(number), "a value torn between two stores");
    number
}

/// Stores and retrieves in turn.
fn race(client: &KeyClient, racer: u64, clock: &AtomicU64, history: &Mutex<Vec<Seen>>) {
    for turn in 0..OPERATIONS {
        let began = clock.fetch_add(1, SeqCst);
        let value = if turn % 2 == racer % 2 {
            let number = 1 + racer * OPERATIONS + turn;
            client.store(KEY, &bytes_of(number)).unwrap();
            number
        } else {
            client.retrieve(KEY).unwrap().map_or(0, |bytes| number_of(&bytes))
        };
        let ended = clock.fetch_add(1, SeqCst);
        history.lock().unwrap().push(Seen { value, began, ended });
    }
}

#[test]
fn what_racing_clients_see_is_linearizable() {
    for has_volatile_cache in [false, true] {
        let store = Store::new(64 << 20, 4);
        let target = store.serve_with(2, has_volatile_cache);
        let clients: Vec<_> = (0..4).map(|_| client(&target)).collect();
        let (clock, history) = (AtomicU64::new(1), Mutex::new(vec![]));
        std::thread::scope(|scope| {
            for (racer, client) in (0..).zip(&clients) {
                let (clock, history) = (&clock, &history);
                scope.spawn(move || race(client, racer, clock, history));
            }
        });
        // The key was not there before all.
        let mut history = history.into_inner().unwrap();
        history.push(Seen { value: 0, began: 0, ended: 0 });
        assert_eq!(history.len() as u64, 4 * OPERATIONS + 1);
        assert_eq!(flaw(&history), None);
    }
}

#[test]
fn histories_that_are_not_linearizable_are_found() {
    let seen = |value, began, ended| Seen { value, began, ended };
    let fine = [seen(1, 1, 4), seen(2, 2, 6), seen(1, 3, 5), seen(2, 7, 8)];
    assert_eq!(flaw(&fine), None);
    let stale = [seen(1, 1, 2), seen(2, 3, 4), seen(1, 5, 6)];
    assert!(flaw(&stale).is_some(), "a read of what was replaced before it began");
    let back = [seen(1, 1, 9), seen(2, 1, 9), seen(1, 2, 3), seen(2, 4, 5), seen(1, 6, 7)];
    assert!(flaw(&back).is_some(), "a value that comes back");
}
