//! The commands of the Key Value set, byte for byte.

use crate::open_target;
use crate::wire::{Wire, entry, key_command, pattern, u32_at};

#[test]
fn what_was_stored_is_retrieved_at_every_length() {
    let target = open_target();
    for digests in [0, 3] {
        let (_admin, mut io) = Wire::queues(target.address(), digests);
        for bytes in [0, 1, 3, 100, 4096, 32_768, 65_536] {
            let value = pattern(bytes, digests);
            assert_eq!(io.store(b"key", &value).status, 0, "{bytes} bytes");
            let (read, done) = io.retrieve(b"key", 1 << 20);
            assert!(read == value, "{bytes} bytes");
            assert_eq!((done.status, done.word), (0, bytes as u32));
        }
    }
}

#[test]
fn values_beyond_a_capsule_come_by_transfer() {
    let target = open_target();
    for digests in [0, 3] {
        let (_admin, mut io) = Wire::queues(target.address(), digests);
        for (bytes, piece) in [(1, 1), (8192, 8192), (70_001, 10_000), (1 << 20, 131_072)] {
            let value = pattern(bytes, 7);
            assert_eq!(io.store_by_transfer(b"0123456789abcdef", &value, piece).status, 0);
            let (read, done) = io.retrieve(b"0123456789abcdef", 1 << 20);
            assert!(read == value, "{bytes} bytes in pieces of {piece}");
            assert_eq!(done.word, bytes as u32);
        }
    }
}

#[test]
fn a_retrieve_gives_what_the_host_has_room_for_and_says_how_long_the_value_is() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let value = pattern(1000, 1);
    io.store(b"k", &value);
    let (read, done) = io.retrieve(b"k", 100);
    assert_eq!((&read[..], done.word), (&value[..100], 1000));
}

#[test]
fn keys_of_1_to_16_bytes_are_told_apart() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let keys: [&[u8]; 6] = [b"a", b"a\0", b"aa", b"12345678", b"123456789", b"0123456789abcdef"];
    for key in keys {
        io.store(key, key);
    }
    for key in keys {
        assert_eq!(io.retrieve(key, 64).0, key);
    }
    assert_eq!(io.plain(key_command(0x14, b"\0", 0, 0)).status, 0x87);
}

#[test]
fn delete_and_exist_know_whether_a_key_is_there() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.plain(key_command(0x14, b"k", 0, 0)).status, 0x87, "exist");
    assert_eq!(io.plain(key_command(0x10, b"k", 0, 0)).status, 0x87, "delete");
    let (data, done) = io.retrieve(b"k", 64);
    assert_eq!((data.len(), done.status, done.do_not_retry), (0, 0x87, true));
    io.store(b"k", b"v");
    assert_eq!(io.plain(key_command(0x14, b"k", 0, 0)).status, 0);
    assert_eq!(io.plain(key_command(0x10, b"k", 0, 0)).status, 0);
    assert_eq!(io.plain(key_command(0x14, b"k", 0, 0)).status, 0x87);
}

#[test]
fn stores_can_depend_on_the_key() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut store = |options: u8, value: &[u8]| {
        io.with_data(key_command(0x01, b"k", value.len() as u32, options), value).status
    };
    assert_eq!(store(1, b"only if there"), 0x87);
    assert_eq!(store(2, b"first"), 0);
    assert_eq!(store(2, b"only if not there"), 0x89);
    assert_eq!(store(1, b"second"), 0);
    assert_eq!(store(3, b"both"), 0x02);
    assert_eq!(io.retrieve(b"k", 64).0, b"second");
}

#[test]
fn a_list_goes_on_where_the_last_one_ended() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let keys: Vec<Vec<u8>> = (0..100u32).map(|n| format!("key{n:03}").into_bytes()).collect();
    keys.iter().for_each(|key| assert_eq!(io.store(key, b"v").status, 0));
    let mut seen: Vec<Vec<u8>> = Vec::new();
    loop {
        let from = seen.last().cloned().unwrap_or_default();
        let (list, done) = io.reading(key_command(0x06, &from, 100, 0), 100);
        assert_eq!(done.status, 0);
        assert!(list.len() <= 100);
        let mut at = 4;
        let mut more = 0;
        for _ in 0..u32_at(&list, 0) {
            let length = usize::from(u16::from_le_bytes(list[at..at + 2].try_into().unwrap()));
            let key = list[at + 2..at + 2 + length].to_vec();
            at += (2 + length).next_multiple_of(4);
            if seen.last() != Some(&key) {
                seen.push(key);
                more += 1;
            }
        }
        if more == 0 {
            break;
        }
    }
    assert_eq!(seen, keys);
}

#[test]
fn what_is_not_allowed_has_its_own_status() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut status = |sqe| io.plain(sqe).status;
    assert_eq!(status(key_command(0x14, b"", 0, 0)), 0x86, "an empty key");
    let mut long = key_command(0x14, b"0123456789abcdef", 0, 0);
    long[44] = 17;
    assert_eq!(status(long), 0x86, "a key of 17 bytes");
    assert_eq!(status(key_command(0x01, b"k", (1 << 20) + 1, 0)), 0x85, "a value that is too long");
    assert_eq!(status(key_command(0x03, b"k", 0, 0)), 0x01, "an opcode of no command");
    let mut elsewhere = key_command(0x14, b"k", 0, 0);
    elsewhere[4] = 9;
    assert_eq!(status(elsewhere), 0x0b, "a namespace that is not there");
    assert_eq!(status(key_command(0x01, b"k", 8, 0)), 0x0f, "a value without data");
}

#[test]
fn a_full_namespace_says_so_and_keeps_what_it_has() {
    use crate::{Access, start, subsystem};
    use esker_target::MemoryKeys;
    use std::sync::Arc;
    let mut small = subsystem(Access::Anyone);
    small.namespaces[0] = Arc::new(MemoryKeys::new([1; 16], 1000));
    let target = start(small);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.store(b"a", &[1; 900]).status, 0);
    assert_eq!(io.store(b"b", &[2; 200]).status, 0x81);
    assert_eq!(io.store(b"a", &[3; 999]).status, 0, "in its own place");
    assert_eq!(io.retrieve(b"a", 1000).0, [3; 999]);
}

#[test]
fn commands_are_answered_without_waiting_for_each_other() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut ids = Vec::new();
    for n in 0..64u8 {
        let value = pattern(1000, n);
        let mut sqe = key_command(0x01, &[n], 1000, 0);
        crate::wire::in_capsule(&mut sqe, 1000);
        ids.push(io.send(&mut sqe, &value));
    }
    let mut done: Vec<u16> = ids.iter().map(|_| io.completion().id).collect();
    done.sort_unstable();
    assert_eq!(done, ids);
    for n in 0..64u8 {
        assert!(io.retrieve(&[n], 1000).0 == pattern(1000, n));
    }
}

#[test]
fn without_a_volatile_cache_a_flush_succeeds_and_has_nothing_to_do() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.plain(entry(0x00, 1)).status, 0);
}
