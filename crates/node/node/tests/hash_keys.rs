//! A hash store inside the reactors of a target, through a client.

mod support;

use esker_base::hash64;
use esker_hashstore::device::FileDevice;
use esker_hashstore::partition::{self, Item, StoreCondition};
use esker_hashstore::store_file;
use esker_initiator::RemoteError;
use esker_node::HashKeys;
use esker_nvme::Status;
use esker_nvme::command::kv::Condition;
use esker_target::Namespace;
use std::collections::BTreeSet;
use support::{Store, client};

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}

#[test]
fn values_of_all_lengths_come_back_after_a_restart_too() {
    let store = Store::new(160 << 20, 2);
    let lengths = [0, 1, 440, 441, 511, 512, 4096, 32_768, 65_536, 65_537, 300_001, 1 << 20];
    for restarted in [false, true] {
        let target = store.serve_with(2, false);
        let client = client(&target);
        for (seed, length) in (0..).zip(lengths) {
            let (key, value) = (format!("key {length}"), pattern(length, seed));
            if !restarted {
                client.store(key.as_bytes(), &value).unwrap();
            }
            assert!(client.retrieve(key.as_bytes()).unwrap() == Some(value), "{length} bytes");
        }
        drop(client);
        target.drain();
    }
}

#[test]
fn a_drained_store_has_nothing_to_replay() {
    let store = Store::new(32 << 20, 4);
    let target = store.serve_with(3, false);
    let first = client(&target);
    for number in 0..100u32 {
        first.store(&number.to_be_bytes(), b"value").unwrap();
    }
    drop(first);
    target.drain();
    let opened = HashKeys::open([1; 16], &store.path, false).unwrap().opened();
    assert_eq!((opened.keys, opened.replayed), (100, 0));
}

#[test]
fn conditions_deletes_and_presence_go_by_the_key() {
    let store = Store::new(32 << 20, 4);
    let target = store.serve_with(2, false);
    let client = client(&target);
    for key in [&b"a"[..], b"b", b"c", b"a key of 16 byte"] {
        assert!(!client.store_if(key, b"1", Condition::IfExists).unwrap());
        assert!(!client.exist(key).unwrap() && !client.delete(key).unwrap());
        assert!(client.store_if(key, b"1", Condition::IfAbsent).unwrap());
        assert!(!client.store_if(key, b"2", Condition::IfAbsent).unwrap());
        assert_eq!(client.retrieve(key).unwrap().unwrap(), b"1");
        assert!(client.store_if(key, b"3", Condition::IfExists).unwrap());
        assert_eq!(client.retrieve(key).unwrap().unwrap(), b"3");
        assert!(client.exist(key).unwrap() && client.delete(key).unwrap());
        assert_eq!(client.retrieve(key).unwrap(), None);
    }
}

#[test]
fn a_list_goes_through_all_partitions_of_all_reactors() {
    let store = Store::new(64 << 20, 8);
    let target = store.serve_with(3, false);
    let client = client(&target);
    let keys: BTreeSet<Vec<u8>> =
        (0..2000).map(|number| format!("{number:x}").into_bytes()).collect();
    for key in &keys {
        client.store(key, b"v").unwrap();
    }
    for together in [7, 100, 3000] {
        let (mut found, mut from) = (Vec::new(), Vec::new());
        loop {
            let listed = client.list(&from, together).unwrap();
            let is_known = |key: &Vec<u8>| found.last() == Some(key);
            let new: Vec<_> = listed.into_iter().filter(|key| !is_known(key)).collect();
            let Some(last) = new.last() else { break };
            from.clone_from(last);
            found.extend(new);
        }
        assert_eq!(found.len(), keys.len(), "each once, {together} at a time");
        assert!(found.into_iter().collect::<BTreeSet<_>>() == keys);
    }
}

/// Other programs may have stored keys that no command has space for. A list steps over them, and goes on more than once to do so, in turns with
/// other lists.
#[test]
fn a_list_has_all_keys_that_lie_between_longer_ones() {
    for (partitions, reactors) in [(1, 1), (4, 1), (4, 3)] {
        let store = Store::new(partitions << 25, partitions as u32);
        let short: BTreeSet<_> = (0..5000u32)
            .filter(|number| number % 500 == 0)
            .map(|number| number.to_be_bytes().to_vec())
            .collect();
        let device = FileDevice::open(&store.path).unwrap();
        let (layout, mut parts, _) = store_file::open(&device).unwrap();
        for number in 0..5000u32 {
            let mut key = number.to_be_bytes().to_vec();
            key.resize(if number % 500 == 0 { 4 } else { 20 }, b'.');
            let partition = &mut parts[layout.partition_of(hash64(&key)) as usize];
            let item = Item::new(&key, 0, layout.block_bytes);
            partition.request(0, partition::Request::Store(item, StoreCondition::Always));
        }
        for partition in &mut parts {
            store_file::drive(partition, &device);
            let mut replies = std::iter::from_fn(|| partition.take_reply());
            assert!(replies.all(|reply| reply.result.is_ok()));
        }
        drop((parts, device));
        let target = store.serve_with(reactors, false);
        let clients = [(); 4].map(|()| client(&target));
        std::thread::scope(|scope| {
            let lists = clients.each_ref().map(|client| scope.spawn(|| client.list(b"", 100)));
            for list in lists {
                let listed = list.join().unwrap().unwrap();
                assert_eq!(listed.len(), short.len(), "each once");
                assert!(listed.into_iter().collect::<BTreeSet<_>>() == short);
            }
        });
        target.drain();
    }
}

#[test]
fn clients_on_all_reactors_see_each_others_stores() {
    let store = Store::new(64 << 20, 4);
    let target = store.serve_with(3, false);
    let clients: Vec<_> = (0..6).map(|_| client(&target)).collect();
    std::thread::scope(|scope| {
        for (number, client) in (0u8..).zip(&clients) {
            scope.spawn(move || {
                for turn in 0..50 {
                    client.store(&[number, turn], &pattern(5000, number ^ turn)).unwrap();
                }
            });
        }
    });
    for (number, client) in (0u8..6).zip(clients.iter().rev()) {
        for turn in 0..50 {
            let value = client.retrieve(&[number, turn]).unwrap();
            assert!(value == Some(pattern(5000, number ^ turn)));
        }
    }
}

#[test]
fn a_full_store_says_so_and_deletes_make_room() {
    let store = Store::new(8 << 20, 1);
    let target = store.serve_with(1, false);
    let client = client(&target);
    let value = pattern(100_000, 1);
    let full = (0..200u8).find(|&number| client.store(&[number], &value).is_err());
    let full = full.expect("8 MiB hold no 20 MB");
    assert!(client.store(&[full], &value).unwrap_err().to_string().contains("capacity exceeded"));
    for number in 0..10 {
        assert!(client.delete(&[number]).unwrap());
    }
    client.store(&[full], &value).unwrap();
    assert!(client.retrieve(&[full]).unwrap() == Some(value));
}

#[test]
fn with_a_volatile_cache_stores_replace_each_other_and_a_drain_leaves_nothing_to_replay() {
    let store = Store::new(16 << 20, 2);
    let target = store.serve_with(2, true);
    let first = client(&target);
    // More than there is room for: space must come back by checkpoints.
    for turn in 0..400u32 {
        first.store(&[(turn % 20) as u8], &pattern(100_000, turn as u8)).unwrap();
    }
    first.flush().unwrap();
    for key in 0..20u8 {
        let turn = 380 + u32::from(key);
        assert!(first.retrieve(&[key]).unwrap() == Some(pattern(100_000, turn as u8)));
    }
    drop(first);
    target.drain();
    let opened = HashKeys::open([1; 16], &store.path, false).unwrap().opened();
    assert_eq!((opened.keys, opened.replayed), (20, 0));
}

#[test]
fn bytes_in_use_are_told_as_they_change_with_a_volatile_cache_too() {
    for has_cache in [false, true] {
        let store = Store::new(16 << 20, 2);
        let keys = store.open(has_cache);
        let target = store.serve(2, keys.clone());
        let client = client(&target);
        let used = || keys.used_bytes();
        let before = used();
        client.store(b"k", &pattern(100_000, 1)).unwrap();
        // Told after the answer: the next answer of the same partition comes later.
        client.exist(b"k").unwrap();
        assert!((100_000..110_000).contains(&(used() - before)), "{} bytes", used() - before);
    }
}

#[test]
fn a_damaged_value_is_told_to_those_who_look_after_the_node() {
    let store = Store::new(16 << 20, 1);
    let value = pattern(100_000, 1);
    let target = store.serve_with(1, false);
    client(&target).store(b"k", &value).unwrap();
    target.drain();
    let mut bytes = std::fs::read(&store.path).unwrap();
    let at = bytes.windows(1000).position(|window| window == &value[..1000]).unwrap();
    bytes[at + 500] ^= 1;
    std::fs::write(&store.path, bytes).unwrap();

    let keys = store.open(false);
    let target = store.serve(1, keys.clone());
    let failures = || keys.failures().expect("it can fail");
    assert!(failures().reasons().is_empty(), "nobody has read it");
    let read = client(&target).retrieve(b"k");
    assert!(matches!(read, Err(RemoteError::Refused { .. })), "{read:?}");
    let [reason] = &failures().reasons()[..] else { panic!("{:?}", failures()) };
    assert!(reason.contains("a value is not what was written"), "{reason}");
    assert!(!failures().has_stopped());
}

#[test]
fn what_the_device_does_not_give_back_is_an_unrecovered_read_error() {
    let store = Store::new(16 << 20, 1);
    let target = store.serve_with(1, false);
    let client = client(&target);
    client.store(b"k", &pattern(100_000, 1)).unwrap();
    let file = std::fs::File::options().write(true).open(&store.path).unwrap();
    file.set_len(1 << 16).unwrap();
    match client.retrieve(b"k") {
        Err(RemoteError::Refused { status, .. }) => assert!(status.is(Status::READ_ERROR)),
        other => panic!("{other:?}"),
    }
}
