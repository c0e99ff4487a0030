//! Four clients on two reactors race on one key. What they saw must be linearizable.
//!
//! It is if there is an order of all operations in which each saw what those before it left, and none comes before one that had ended when it
//! began. Such an order is looked for (Wing and Gong, "Testing and verifying concurrent objects", J. Parallel Distrib. Comput. 17, 1993): each
//! client's operations come in their order, so what is done already is a count for each client; a set of counts with a current value is
//! tried once.

mod support;

use esker_base::Threads;
use esker_initiator::KeyClient;
use esker_lsm::{Db, Env, KeyspaceSettings};
use esker_storage::MemoryStorage;
use esker_target::{OrderedKeys, Target};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use support::{Store, client, serve};

const KEY: &[u8] = b"raced for";
const CLIENTS: u64 = 4;
const OPERATIONS: u64 = 300;

/// What was done; values are numbers.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Store(u64),
    /// The value that it found.
    Retrieve(Option<u64>),
    /// Whether it found one.
    Delete(bool),
}
use Operation::{Delete, Retrieve, Store as Stored};

/// An operation, when it began and when it ended.
#[derive(Clone, Copy, Debug)]
struct Seen {
    operation: Operation,
    began: u64,
    ended: u64,
}

impl Operation {
    /// The current value after it if that before it is `value`; none if it can't come there.
    fn after(self, value: Option<u64>) -> Option<Option<u64>> {
        match self {
            Stored(new) => Some(Some(new)),
            Retrieve(found) => (found == value).then_some(value),
            Delete(found) => (found == value.is_some()).then_some(None),
        }
    }
}

/// Why what clients did, each in its order, is not linearizable if the key was not there before; none if it is.
fn flaw(clients: &[Vec<Seen>]) -> Option<String> {
    let mut to_try = vec![(vec![0; clients.len()], None)];
    let mut tried: HashSet<(Vec<usize>, Option<u64>)> = to_try.iter().cloned().collect();
    let mut furthest = vec![];
    while let Some((done, value)) = to_try.pop() {
        let next = |client: usize| clients[client].get(done[client]);
        let first_end = (0..clients.len()).filter_map(next).map(|seen| seen.ended).min()?;
        for client in 0..clients.len() {
            let Some(seen) = next(client).filter(|seen| seen.began < first_end) else { continue };
            let Some(value) = seen.operation.after(value) else { continue };
            let mut done = done.clone();
            done[client] += 1;
            if tried.insert((done.clone(), value)) {
                to_try.push((done, value));
            }
        }
        furthest = furthest.max(done);
    }
    let next = |(client, done): (&Vec<Seen>, &usize)| client.get(*done).copied();
    let stuck: Vec<_> = clients.iter().zip(&furthest).map(next).collect();
    Some(format!("after {furthest:?} operations none of these can be next: {stuck:?}"))
}

/// A value as it is stored: its number, again and again.
fn bytes_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(4096)
}

fn number_of(bytes: Vec<u8>) -> u64 {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == bytes_of(number), "a value torn between two stores");
    number
}

fn operate(client: &KeyClient, racer: u64, turn: u64) -> Operation {
    match (racer + turn) % 5 {
        0 | 2 => {
            let number = racer * OPERATIONS + turn;
            client.store(KEY, &bytes_of(number)).unwrap();
            Stored(number)
        }
        4 => Delete(client.delete(KEY).unwrap()),
        _ => Retrieve(client.retrieve(KEY).unwrap().map(number_of)),
    }
}

/// What one client saw.
fn race(client: &KeyClient, racer: u64, clock: &AtomicU64) -> Vec<Seen> {
    let seen = |turn| {
        let began = clock.fetch_add(1, SeqCst);
        let operation = operate(client, racer, turn);
        Seen { operation, began, ended: clock.fetch_add(1, SeqCst) }
    };
    (0..OPERATIONS).map(seen).collect()
}

fn expect_linearizable(target: &Target) {
    let clients: Vec<_> = (0..CLIENTS).map(|_| client(target)).collect();
    let clock = AtomicU64::new(1);
    let seen = std::thread::scope(|scope| {
        let start = |(racer, client)| {
            scope.spawn({
                let clock = &clock;
                move || race(client, racer, clock)
            })
        };
        let racers: Vec<_> = (0..).zip(&clients).map(start).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(flaw(&seen), None);
}

#[test]
fn what_clients_see_that_race_on_a_hash_store_is_linearizable() {
    for has_volatile_cache in [false, true] {
        let store = Store::new(64 << 20, 4);
        expect_linearizable(&store.serve_with(2, has_volatile_cache));
    }
}

#[test]
fn what_clients_see_that_race_on_a_database_is_linearizable() {
    let settings = esker_lsm::Settings::default().segment_bytes(8 << 20);
    let db = Db::open_with(Env::over(Arc::new(MemoryStorage::new())), settings).unwrap();
    let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
    let store = Arc::new(db.store(&keyspace));
    let keys = OrderedKeys::new([2; 16], 1 << 30, store, &Threads).unwrap();
    expect_linearizable(&serve(2, Arc::new(keys)));
}

#[test]
fn histories_that_are_not_linearizable_are_found() {
    let seen = |operation, began, ended| Seen { operation, began, ended };
    let fine = [
        vec![seen(Stored(1), 1, 4), seen(Retrieve(Some(2)), 7, 8), seen(Delete(true), 10, 13)],
        vec![seen(Stored(2), 2, 6), seen(Delete(false), 12, 14), seen(Retrieve(None), 15, 16)],
        vec![seen(Retrieve(Some(1)), 3, 5)],
    ];
    assert_eq!(flaw(&fine), None);
    let wrong = |what, history: &[Vec<Seen>]| assert!(flaw(history).is_some(), "{what}");
    let (one, two) = (Retrieve(Some(1)), Retrieve(Some(2)));
    wrong(
        "a read of what was replaced before it began",
        &[vec![seen(Stored(1), 1, 2), seen(Stored(2), 3, 4), seen(one, 5, 6)]],
    );
    let stores = [vec![seen(Stored(1), 1, 9)], vec![seen(Stored(2), 1, 9)]];
    let reads = vec![seen(one, 2, 3), seen(two, 4, 5), seen(one, 6, 7)];
    wrong("a value that comes back", &[&stores[..], &[reads]].concat());
    wrong("a read before the store began", &[vec![seen(one, 1, 2), seen(Stored(1), 5, 6)]]);
    wrong("a read of what nobody stored", &[vec![seen(one, 1, 2)]]);
    let deleted = vec![seen(Stored(1), 1, 2), seen(Delete(true), 3, 4)];
    wrong("a read of what was deleted", &[deleted.clone(), vec![seen(one, 5, 6)]]);
    wrong("two deletes of one value", &[deleted, vec![seen(Delete(true), 3, 4)]]);
}
