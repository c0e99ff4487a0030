//! Keys longer than 16 bytes: the client in a namespace of long keys, and in another that is the same keys as they are
//! there.

use crate::{keys as client, settings};
use esker_initiator::{KeyClient, RemoteError};
use esker_nvme::Status;
use esker_nvme::command::kv::Condition;
use esker_target::{LongKeys, MemoryKeys, Namespace, Target};
use std::collections::BTreeSet;
use std::sync::Arc;

/// With the first half of its SHA-256, by coreutils' `sha256sum`.
const KEY: &[u8] = b"a key of more than sixteen bytes";
const DIGEST: [u8; 16] = [
    0xe7, 0x8e, 0xb9, 0x8c, 0x8c, 0xbb, 0x9f, 0xb1, 0xcc, 0x4c, 0x7b, 0xdc, 0x90, 0x1a, 0x74, 0x3a,
];

/// Namespace 1 has long keys, namespace 2 is what it holds.
fn serve() -> Target {
    let keys: Arc<dyn Namespace> = Arc::new(MemoryKeys::new([1; 16], 1 << 30));
    crate::serve(vec![Arc::new(LongKeys::new(keys.clone())), keys])
}

fn connect(target: &Target, namespace: u32) -> KeyClient {
    client(settings(target.address()).namespace(namespace)).unwrap()
}

fn clients(target: &Target) -> (KeyClient, KeyClient) {
    (connect(target, 1), connect(target, 2))
}

fn long_key(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 251) as u8 ^ at as u8).collect()
}

#[test]
fn keys_of_all_lengths_are_stored_found_retrieved_and_deleted() {
    let target = serve();
    let client = connect(&target, 1);
    for bytes in [1, 16, 17, 1000, 65_535] {
        let key = long_key(bytes);
        assert_eq!(client.retrieve(&key).unwrap(), None);
        assert!(!client.exist(&key).unwrap() && !client.delete(&key).unwrap());
        for value in [&b""[..], b"value", &[7; 200_000]] {
            client.store(&key, value).unwrap();
            assert!(client.retrieve(&key).unwrap().unwrap() == value, "{bytes}");
        }
        assert!(client.exist(&key).unwrap() && client.delete(&key).unwrap());
        assert!(!client.exist(&key).unwrap());
    }
}

#[test]
fn what_lies_on_the_node_is_as_documented() {
    let target = serve();
    let (client, raw) = clients(&target);
    client.store(KEY, b"value").unwrap();
    let stored = [&[KEY.len() as u8, 0, 0, 0], KEY, b"value"].concat();
    assert_eq!(raw.retrieve(&DIGEST).unwrap().unwrap(), stored);
    assert_eq!(raw.list(b"", 10).unwrap(), [DIGEST]);
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let target = serve();
    let client = connect(&target, 1);
    for bytes in [0, 65_536] {
        let refused = client.store(&long_key(bytes), b"v").unwrap_err();
        assert!(matches!(refused, RemoteError::Key { limit: 65_535, .. }), "{refused}");
    }
    let longest = (1 << 20) - 4 - KEY.len();
    client.store(KEY, &vec![1; longest]).unwrap();
    assert!(client.retrieve(KEY).unwrap().unwrap() == vec![1; longest]);
    let refused = client.store(KEY, &vec![1; longest + 1]).unwrap_err();
    assert!(matches!(refused, RemoteError::Value { limit, .. } if limit == longest), "{refused}");
}

#[test]
fn stores_can_depend_on_the_key() {
    let target = serve();
    let client = connect(&target, 1);
    assert!(!client.store_if(KEY, b"x", Condition::IfExists).unwrap());
    assert!(client.store_if(KEY, b"1", Condition::IfAbsent).unwrap());
    assert!(!client.store_if(KEY, b"x", Condition::IfAbsent).unwrap());
    assert_eq!(client.retrieve(KEY).unwrap().unwrap(), b"1");
}

#[test]
fn another_key_of_the_same_digest_is_neither_returned_nor_replaced() {
    let target = serve();
    let (client, raw) = clients(&target);
    // Nobody has found two keys of one digest: so one is put there past the check.
    let other = b"what would have the same digest";
    let stored = [&[other.len() as u8, 0, 0, 0], &other[..], b"theirs"].concat();
    raw.store(&DIGEST, &stored).unwrap();
    assert_eq!(client.retrieve(KEY).unwrap(), None);
    let refused = client.store(KEY, b"ours").unwrap_err();
    let is_taken =
        matches!(refused, RemoteError::Refused { status, .. } if status.is(Status::DIGEST_TAKEN));
    assert!(is_taken, "{refused}");
    assert_eq!(raw.retrieve(&DIGEST).unwrap().unwrap(), stored);
    assert_eq!(client.list(b"", 10).unwrap(), [other]);
}

#[test]
fn a_value_without_its_key_is_an_error() {
    let target = serve();
    let (client, raw) = clients(&target);
    raw.store(&DIGEST, b"no key").unwrap();
    assert!(matches!(client.retrieve(KEY), Err(RemoteError::Protocol { .. })));
    assert!(matches!(client.list(b"", 10), Err(RemoteError::Protocol { .. })));
}

#[test]
fn a_list_has_the_keys_themselves() {
    let target = serve();
    let client = connect(&target, 1);
    // More than one command lists, and some too long to be found at the first look.
    let keys: BTreeSet<Vec<u8>> = (0..4000u32)
        .map(|n| {
            [n.to_be_bytes().to_vec(), long_key(if n % 100 == 0 { 9000 } else { 20 })].concat()
        })
        .collect();
    keys.iter().for_each(|key| client.store(key, b"value").unwrap());
    let listed = client.list(b"", usize::MAX).unwrap();
    assert_eq!(listed.len(), keys.len());
    assert!(listed.iter().cloned().collect::<BTreeSet<_>>() == keys);
    assert!(client.list(&listed[5], 3).unwrap() == listed[5..8]);
    assert!(client.list(&listed[3990], 100).unwrap() == listed[3990..]);
}
