//! A namespace of long keys. Digests here are of SHA-256 as others compute it.

use crate::wire::{Wire, entry, key_command};
use crate::{NODE, Nqn, start};
use esker_target::{LongKeys, MemoryKeys, Namespace, Subsystem, Target};
use std::sync::Arc;

/// SHA-256 of "a key of more than sixteen bytes", by coreutils' `sha256sum`: its first half.
pub const KEY: &[u8] = b"a key of more than sixteen bytes";
pub const DIGEST: [u8; 16] = [
    0xe7, 0x8e, 0xb9, 0x8c, 0x8c, 0xbb, 0x9f, 0xb1, 0xcc, 0x4c, 0x7b, 0xdc, 0x90, 0x1a, 0x74, 0x3a,
];

/// Namespace 1 has long keys, namespace 2 is the same keys as they are there.
fn serve() -> Target {
    let keys: Arc<dyn Namespace> = Arc::new(MemoryKeys::new([1; 16], 1 << 30));
    start(Subsystem::new(
        Nqn::new(NODE).unwrap(),
        "ESKER-TEST",
        vec![Arc::new(LongKeys::new(keys.clone())), keys],
    ))
}

fn stored(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut stored = vec![key.len() as u8, 0, 0, 0];
    stored.extend_from_slice(key);
    stored.extend_from_slice(value);
    stored
}

#[test]
fn a_long_key_is_stored_replaced_and_retrieved_with_its_value() {
    let target = serve();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    for value in [&b"value"[..], b"another", b""] {
        let stored = stored(KEY, value);
        assert_eq!(io.store(&DIGEST, &stored).status, 0);
        assert_eq!(io.retrieve(&DIGEST, 4096).0, stored);
    }
    let large = stored(KEY, &vec![7; 200_000]);
    assert_eq!(io.store_by_transfer(&DIGEST, &large, 65_536).status, 0);
    assert!(io.retrieve(&DIGEST, 1 << 20).0 == large);
}

#[test]
fn what_does_not_belong_to_the_digest_is_refused() {
    let target = serve();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut other = DIGEST;
    other[15] ^= 1;
    assert_eq!(io.store(&other, &stored(KEY, b"value")).status, 0x02);
    for stored in [&b""[..], b"v", b"\0\0\0\0v", &stored(KEY, b"")[..20]] {
        assert_eq!(io.store(&DIGEST, stored).status, 0x02);
    }
    assert_eq!(io.plain(key_command(0x14, &DIGEST, 0, 0)).status, 0x87);
}

#[test]
fn a_store_does_not_replace_another_keys_value() {
    let target = serve();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    // Nobody has found two keys of one digest: so one is put there past the check.
    let theirs = stored(b"what would have the same digest", b"theirs");
    let mut sqe = key_command(0x01, &DIGEST, theirs.len() as u32, 0);
    sqe[4] = 2;
    assert_eq!(io.with_data(sqe, &theirs).status, 0);
    assert_eq!(io.store(&DIGEST, &stored(KEY, b"ours")).status, 0x7c0);
    assert_eq!(io.retrieve(&DIGEST, 4096).0, theirs);
}

#[test]
fn conditions_hold_for_long_keys() {
    let target = serve();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let stored = stored(KEY, b"value");
    let store = |options| key_command(0x01, &DIGEST, stored.len() as u32, options);
    assert_eq!(io.with_data(store(1), &stored).status, 0x87, "only if it exists");
    assert_eq!(io.with_data(store(2), &stored).status, 0);
    assert_eq!(io.with_data(store(2), &stored).status, 0x89, "only if it does not");
    assert_eq!(io.plain(key_command(0x10, &DIGEST, 0, 0)).status, 0);
}

#[test]
fn a_host_can_tell_such_a_namespace() {
    let target = serve();
    let (mut admin, _io) = Wire::queues(target.address(), 0);
    for (namespace, has_long_keys) in [(1, 1), (2, 0)] {
        let mut identify = entry(0x06, namespace);
        identify[40] = 5;
        identify[47] = 1;
        assert_eq!(admin.reading(identify, 4096).0[3840], has_long_keys);
    }
}
