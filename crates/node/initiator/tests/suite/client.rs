//! Keys of up to 16 bytes.

use crate::clock::{HandClock, wait_until};
use crate::proxy::{Proxy, QUEUES};
use crate::silent::Silent;
use crate::{HOST, NODE, keys as connect, keys_by, node, nqn, serve, serve_at, start};
use esker_api::{Kv, WriteBatch};
use esker_base::{Clock, Error, KeyspaceId, SystemClock, SystemEntropy, Threads};
use esker_initiator::{KeyClient, RemoteError, Settings, discover};
use esker_lsm::{Db, Env, KeyspaceSettings};
use esker_nvme::Status;
use esker_nvme::auth::Secret;
use esker_nvme::command::kv::Condition;
use esker_nvme::pdu::Digests;
use esker_storage::MemoryStorage;
use esker_target::{
    Access, Answer, Description, HostAccess, MemoryBlocks, MemoryKeys, Namespace, OrderedKeys,
    Reply, Request, Target,
};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

fn memory() -> Arc<dyn Namespace> {
    Arc::new(MemoryKeys::new([1; 16], 1 << 30))
}

fn target() -> Target {
    serve(vec![memory(), Arc::new(MemoryBlocks::new([2; 16], 16, 9))])
}

/// A node that waits for nothing when it shuts down.
fn impatient(namespace: Arc<dyn Namespace>) -> Target {
    let node = node(vec![namespace]).drain_time(Duration::ZERO);
    start(node, Arc::new(SystemClock::new()))
}

fn settings(target: &Target) -> Settings {
    crate::settings(target.address())
}

#[test]
fn a_key_is_stored_found_retrieved_and_deleted() {
    let target = target();
    for digests in [0, 1, 2, 3] {
        let digests = Digests::of(digests).unwrap();
        let client = connect(settings(&target).digests(digests)).unwrap();
        assert_eq!(client.retrieve(b"k").unwrap(), None);
        assert!(!client.exist(b"k").unwrap() && !client.delete(b"k").unwrap());
        client.store(b"k", b"value").unwrap();
        assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"value");
        assert!(client.exist(b"k").unwrap() && client.delete(b"k").unwrap());
        assert!(!client.exist(b"k").unwrap());
    }
}

#[test]
fn values_of_all_lengths_come_back() {
    let target = target();
    let client = connect(settings(&target)).unwrap();
    for bytes in [0, 1, 65_535, 65_536, 65_537, 200_000, 1 << 20] {
        let value: Vec<u8> = (0..bytes).map(|at| (at / 251) as u8 ^ at as u8).collect();
        client.store(b"0123456789abcdef", &value).unwrap();
        assert!(client.retrieve(b"0123456789abcdef").unwrap().unwrap() == value, "{bytes}");
    }
    let long = vec![0; (1 << 20) + 1];
    let refused = client.store(b"k", &long);
    assert!(matches!(refused, Err(RemoteError::Value { limit: 1_048_576, .. })), "{refused:?}");
    assert!(matches!(client.store(b"", b"v"), Err(RemoteError::Key { bytes: 0, .. })));
    assert!(matches!(client.retrieve(&[0; 17]), Err(RemoteError::Key { bytes: 17, limit: 16 })));
}

#[test]
fn a_value_longer_than_a_retrieve_can_give_is_an_error() {
    let settings = esker_lsm::Settings::default().segment_bytes(8 << 20);
    let db = Db::open_with(Env::over(Arc::new(MemoryStorage::new())), settings).unwrap();
    let keyspace = db.keyspace("k", KeyspaceSettings::default()).unwrap();
    let longest = vec![7; 1 << 20];
    db.put(&keyspace, b"longest", &longest).unwrap();
    db.put(&keyspace, b"longer", [&longest[..], b"x"].concat()).unwrap();
    let store = Arc::new(db.store(&keyspace));
    let target =
        serve(vec![Arc::new(OrderedKeys::new([3; 16], 1 << 30, store, &Threads).unwrap())]);
    let client = connect(crate::settings(target.address())).unwrap();
    assert!(client.retrieve(b"longest").unwrap().unwrap() == longest);
    let cut_off = client.retrieve(b"longer").map(|value| value.map(|value| value.len()));
    assert!(matches!(cut_off, Err(RemoteError::Protocol { .. })), "{cut_off:?}");
}

#[test]
fn stores_can_depend_on_the_key() {
    let target = target();
    let client = connect(settings(&target)).unwrap();
    assert!(!client.store_if(b"k", b"x", Condition::IfExists).unwrap());
    assert!(client.store_if(b"k", b"1", Condition::IfAbsent).unwrap());
    assert!(!client.store_if(b"k", b"x", Condition::IfAbsent).unwrap());
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"1");
}

#[test]
fn a_list_longer_than_one_answer_is_put_together() {
    let target = target();
    let client = connect(settings(&target)).unwrap();
    let keys: Vec<Vec<u8>> = (0..6000u32).map(|n| format!("key{n:010}").into_bytes()).collect();
    keys.iter().for_each(|key| client.store(key, b"").unwrap());
    assert_eq!(client.list(b"", usize::MAX).unwrap(), keys);
    assert_eq!(client.list(&keys[5], 3).unwrap(), keys[5..8]);
    assert_eq!(client.list(b"zzz", 10).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_batch_with_an_empty_key_is_refused_and_nothing_of_it_is_written() {
    let target = target();
    let client = connect(settings(&target)).unwrap();
    let mut batch = WriteBatch::new();
    for key in [&b"a"[..], b"", b"c"] {
        batch.put(KeyspaceId::DEFAULT, key, b"v");
    }
    assert!(matches!(client.write(&batch), Err(Error::EmptyKey)));
    assert_eq!(client.get(b"a").unwrap(), None);
}

#[test]
fn many_threads_share_queues() {
    let target = target();
    for (queues, depth) in [(1, 2), (1, 64), (4, 8)] {
        let client = connect(settings(&target).queues(queues).depth(depth)).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..16u8 {
                let client = &client;
                scope.spawn(move || {
                    for round in 0..50u8 {
                        let key = [thread, round];
                        let bytes = 1 + usize::from(round) * 3000;
                        client.store(&key, &vec![thread ^ round; bytes]).unwrap();
                        let value = client.retrieve(&key).unwrap().unwrap();
                        assert!(value == vec![thread ^ round; bytes]);
                    }
                });
            }
        });
    }
}

#[test]
fn discovery_lists_the_subsystem() {
    let target = target();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let found = discover(&settings(&target), &clock, &SystemEntropy).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].subsystem.as_str(), found[0].address), (NODE, target.address()));
}

#[test]
fn both_sides_prove_who_they_are() {
    let secret = || Some(Secret::parse(SECRET).unwrap());
    let other = || Some(Secret::parse(&SECRET.replace(":00:", ":03:")).unwrap());
    let entry = HostAccess::new(nqn(HOST)).secret(secret()).controller_secret(other());
    let access = Access::Listed(vec![entry]);
    let mut node = node(vec![memory()]);
    node.subsystems[0].access = access;
    let target = start(node, Arc::new(SystemClock::new()));
    let with = |secret, controller_secret| {
        connect(settings(&target).secret(secret).controller_secret(controller_secret))
    };
    let client = with(secret(), other()).unwrap();
    client.store(b"k", b"v").unwrap();
    with(secret(), None).unwrap().exist(b"k").unwrap();
    let fails = |result: Result<KeyClient, RemoteError>| {
        matches!(result, Err(RemoteError::Authentication { .. }))
    };
    assert!(fails(with(None, None)), "no secret");
    assert!(fails(with(other(), None)), "a wrong one");
    assert!(fails(with(secret(), secret())), "a node that is another");
    let stranger = connect(settings(&target).host(nqn("nqn.stranger")));
    assert!(matches!(stranger, Err(RemoteError::Refused { .. })));
    let (proxy, address) = Proxy::start(target.address());
    proxy.io_needs_no_proof.store(true, SeqCst);
    let between = |controller_secret| {
        connect(crate::settings(address).secret(secret()).controller_secret(controller_secret))
    };
    assert!(fails(between(other())), "an I/O queue that asks for nothing");
    assert!(between(None).is_ok(), "nor need it, for a host that does not ask");
}

#[test]
fn a_namespace_of_blocks_is_refused() {
    let target = target();
    let refused = connect(settings(&target).namespace(2));
    assert!(matches!(refused, Err(RemoteError::Refused { .. })));
}

#[test]
fn after_a_restart_of_the_node_work_goes_on() {
    let keys = memory();
    let first = serve(vec![keys.clone()]);
    let address = first.address();
    let client = connect(settings(&first)).unwrap();
    client.store(b"k", b"before").unwrap();
    first.drain();
    let second = serve_at(address, vec![keys]);
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"before");
    client.store(b"k", b"after").unwrap();
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"after");
    drop(second);
}

#[test]
fn a_node_that_is_gone_is_an_error_that_names_it() {
    let target = target();
    let address = target.address();
    let client = keys_by(Arc::new(HandClock::default()), settings(&target)).unwrap();
    target.drain();
    let error = client.retrieve(b"k").unwrap_err();
    assert!(error.is_of_connection() && error.to_string().contains(&address.to_string()));
}

#[test]
fn a_store_that_was_not_answered_is_unknown() {
    let silent = Silent::of_keys();
    let target = impatient(silent.clone());
    let client = connect(settings(&target)).unwrap();
    std::thread::scope(|scope| {
        let store = scope.spawn(|| client.store(b"k", b"v"));
        let delete = scope.spawn(|| client.delete(b"k"));
        while silent.count() < 2 {
            std::thread::yield_now();
        }
        target.drain();
        let (store, delete) = (store.join().unwrap(), delete.join().unwrap());
        assert!(matches!(store, Err(RemoteError::Unknown { what: "store", .. })), "{store:?}");
        assert!(matches!(delete, Err(RemoteError::Unknown { what: "delete", .. })), "{delete:?}");
    });
    silent.answer_all();
}

/// Each step to connect takes less than the deadline, and all of them more.
#[test]
fn connecting_takes_no_longer_than_the_deadline() {
    let target = target();
    let (proxy, address) = Proxy::start(target.address());
    let clock = Arc::new(HandClock::default());
    let (deadline, step) = (Duration::from_secs(4), Duration::from_secs(3));
    let settings = crate::settings(address).deadline(deadline);
    let client = keys_by(clock.clone(), settings.clone()).unwrap();
    *proxy.slowness.lock().unwrap() = Some((clock.clone(), step));
    let connected = keys_by(clock.clone(), settings.clone()).err();
    assert!(matches!(connected, Some(RemoteError::Deadline)), "{connected:?}");
    assert_eq!(clock.now(), 2 * step);
    let by_hand: Arc<dyn Clock> = clock.clone();
    let found = discover(&settings, &by_hand, &SystemEntropy).err();
    assert!(matches!(found, Some(RemoteError::Deadline)), "{found:?}");
    assert_eq!(clock.now(), 4 * step);
    // Nor does it when an operation has to connect anew.
    let of_first = proxy.clients().drain(..QUEUES).collect::<Vec<_>>();
    // One that is down already is as good.
    of_first.iter().for_each(|socket| _ = socket.shutdown(Shutdown::Both));
    let found = client.exist(b"k");
    assert!(matches!(found, Err(RemoteError::Deadline)), "{found:?}");
    assert!((6 * step..7 * step).contains(&clock.now()));
}

#[test]
fn a_node_that_does_not_answer_is_not_waited_for_beyond_the_deadline() {
    let (silent, clock) = (Silent::of_keys(), Arc::new(HandClock::default()));
    let target = impatient(silent.clone());
    let settings = settings(&target);
    let deadline = settings.deadline;
    let client = keys_by(clock.clone(), settings).unwrap();
    let late_at = |requests| {
        wait_until("the node has the request", || silent.count() == requests);
        clock.sleep(deadline);
    };
    std::thread::scope(|scope| {
        let retrieve = scope.spawn(|| client.retrieve(b"k"));
        late_at(1);
        assert!(matches!(retrieve.join().unwrap(), Err(RemoteError::Deadline)));
        let store = scope.spawn(|| client.store(b"k", b"v"));
        late_at(2);
        assert!(matches!(store.join().unwrap(), Err(RemoteError::Unknown { .. })));
    });
}

#[test]
fn a_store_after_one_that_was_not_answered_waits_until_that_is_done() {
    let silent = Silent::of_keys();
    let target = serve(vec![silent.clone()]);
    let first = settings(&target).deadline(Duration::from_secs(1));
    let (client, other) = (connect(first).unwrap(), connect(settings(&target)).unwrap());
    assert!(matches!(client.store(b"k", b"1"), Err(RemoteError::Unknown { .. })));
    // The node has it still: until then it lets this host not in again.
    assert!(matches!(client.store(b"k", b"2"), Err(RemoteError::Deadline)));
    assert_eq!(silent.count(), 1);
    std::thread::scope(|scope| {
        // Another client is another host.
        let others = scope.spawn(|| other.store(b"k", b"3"));
        while silent.count() < 2 {
            std::thread::yield_now();
        }
        silent.answer_all();
        others.join().unwrap().unwrap();
    });
}

/// A namespace of keys with a volatile cache or without, which counts flushes and answers with this status.
struct Flushed {
    has_cache: bool,
    flushes: AtomicUsize,
    status: Status,
}

impl Namespace for Flushed {
    fn guid(&self) -> [u8; 16] {
        [9; 16]
    }
    fn description(&self) -> Description {
        Description::Keys { capacity_bytes: 1 << 30, value_bytes_max: 1 << 20 }
    }
    fn has_volatile_cache(&self) -> bool {
        self.has_cache
    }
    fn submit(&self, request: Request, reply: Reply) {
        assert!(matches!(request, Request::Flush), "{request:?}");
        self.flushes.fetch_add(1, SeqCst);
        reply.send(match self.status.is_success() {
            true => Answer::Done,
            false => Answer::Failed(self.status),
        });
    }
}

#[test]
fn a_flush_is_sent_where_there_is_a_volatile_cache() {
    let fault = Status::WRITE_FAULT;
    for (has_cache, status) in [(false, fault), (true, Status::SUCCESS), (true, fault)] {
        let keys = Arc::new(Flushed { has_cache, flushes: AtomicUsize::new(0), status });
        let target = serve(vec![keys.clone()]);
        let client = connect(settings(&target)).unwrap();
        match client.flush() {
            Ok(()) => assert!(!has_cache || status.is_success(), "a failed flush is told"),
            Err(error) => assert!(matches!(error, RemoteError::Refused { action: "flush", .. })),
        }
        assert_eq!(keys.flushes.load(SeqCst), usize::from(has_cache));
    }
}

/// Keys in memory that says it has a volatile cache.
struct Cached(MemoryKeys);

impl Namespace for Cached {
    fn guid(&self) -> [u8; 16] {
        self.0.guid()
    }
    fn description(&self) -> Description {
        self.0.description()
    }
    fn has_volatile_cache(&self) -> bool {
        true
    }
    fn submit(&self, request: Request, reply: Reply) {
        self.0.submit(request, reply);
    }
}

#[test]
fn a_flush_does_not_answer_for_stores_from_before_the_node_was_gone() {
    let cached: Arc<dyn Namespace> = Arc::new(Cached(MemoryKeys::new([1; 16], 1 << 30)));
    let target = serve(vec![cached.clone()]);
    let address = target.address();
    let [flushed, unflushed, unsuccessful] = [(); 3].map(|()| connect(settings(&target)).unwrap());
    for client in [&flushed, &unflushed, &unsuccessful] {
        client.store(b"k", b"1").unwrap();
        client.flush().unwrap();
    }
    unflushed.store(b"k", b"2").unwrap();
    assert!(!unsuccessful.store_if(b"k", b"3", Condition::IfAbsent).unwrap());
    target.drain();
    let target = serve_at(address, vec![cached]);
    // All find the node that is there now.
    for client in [&flushed, &unflushed, &unsuccessful] {
        client.retrieve(b"k").unwrap();
    }
    for client in [&flushed, &unsuccessful] {
        client.flush().unwrap();
        client.store(b"l", b"1").unwrap();
        client.flush().unwrap();
    }
    for _ in 0..2 {
        let lost = unflushed.flush();
        assert!(matches!(lost, Err(RemoteError::Unknown { what: "write", .. })), "{lost:?}");
        unflushed.store(b"l", b"2").unwrap();
    }
    drop(target);
}

#[test]
fn a_flush_fails_when_the_node_comes_back_without_a_cache_it_had() {
    let keys = || MemoryKeys::new([1; 16], 1 << 30);
    let target = serve(vec![Arc::new(Cached(keys()))]);
    let address = target.address();
    let client = connect(settings(&target)).unwrap();
    client.store(b"k", b"v").unwrap();
    target.drain();
    let target = serve_at(address, vec![Arc::new(keys())]);
    assert!(!client.exist(b"k").unwrap());
    let lost = client.flush();
    assert!(matches!(lost, Err(RemoteError::Unknown { what: "write", .. })), "{lost:?}");
    drop(target);
}
