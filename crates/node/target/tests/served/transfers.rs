//! R2T and its data, in ways that are right and wrong; digests that do not match; bytes one by one.

use crate::held::holding;
use crate::wire::{KIND, Wire, by_transport, key_command, pattern, u32_at};
use crate::{open_target, wait_until};
use esker_nvme::Status;
use esker_target::Answer;
use std::io::Write;
use std::net::SocketAddr;

const MIB: u32 = 1 << 20;

/// A queue with a store of `bytes` that waits for its data: the command's id and the transfer's tag.
fn waiting(address: SocketAddr, digests: u8, bytes: u32) -> (Wire, Wire, u16, u16) {
    let (admin, mut io) = Wire::queues(address, digests);
    let mut sqe = key_command(0x01, b"k", bytes, 0);
    by_transport(&mut sqe, bytes);
    let id = io.send(&mut sqe, &[]);
    let ready = io.read();
    assert_eq!(ready[KIND], 9);
    let tag = u16::from_le_bytes([ready[10], ready[11]]);
    (admin, io, id, tag)
}

#[track_caller]
fn expect_termination(
    address: SocketAddr,
    expected: (u16, u32),
    pdu: impl Fn(&Wire, u16, u16) -> Vec<u8>,
) {
    let (_admin, mut io, id, tag) = waiting(address, 0, 8192);
    let pdu = pdu(&io, id, tag);
    io.stream.write_all(&pdu).unwrap();
    assert_eq!(io.terminated(), expected);
}

#[test]
fn data_that_no_r2t_asked_for_ends_the_connection_and_no_other() {
    let target = open_target();
    let address = target.address();
    let (_admin, mut other) = Wire::queues(address, 0);
    let data = pattern(8192, 0);
    let field = 1;
    expect_termination(address, (field, 10), |io, id, tag| {
        io.host_data(id, tag + 1, 0, &data, true)
    });
    expect_termination(address, (field, 8), |io, id, tag| {
        io.host_data(id + 1, tag, 0, &data, true)
    });
    let (sequence, range) = (2, 4);
    expect_termination(address, (range, 0), |io, id, tag| io.host_data(id, tag, 4, &data, true));
    expect_termination(address, (range, 0), |io, id, tag| {
        io.host_data(id, tag, u32::MAX, &data[..1], true)
    });
    expect_termination(address, (sequence, 0), |io, id, tag| {
        io.host_data(id, tag, 4096, &data[..4096], true)
    });
    expect_termination(address, (sequence, 0), |io, id, tag| {
        io.host_data(id, tag, 0, &data, false)
    });
    expect_termination(address, (sequence, 0), |io, id, tag| {
        io.host_data(id, tag, 0, &data[..4096], true)
    });
    assert_eq!(other.store(b"still", b"here").status, 0);
    assert_eq!(other.retrieve(b"k", 64).1.status, 0x87, "nothing of those was stored");
}

#[test]
fn a_transfer_that_was_finished_takes_no_more_data() {
    let target = open_target();
    let (_admin, mut io, id, tag) = waiting(target.address(), 0, 100);
    let pdu = io.host_data(id, tag, 0, &[1; 100], true);
    io.stream.write_all(&pdu).unwrap();
    assert_eq!(io.completion().status, 0);
    io.stream.write_all(&pdu).unwrap();
    assert_eq!(io.terminated(), (1, 10));
}

#[test]
fn damaged_data_fails_its_command_and_may_be_sent_again() {
    let target = open_target();
    let (_admin, mut io, id, tag) = waiting(target.address(), 3, 100);
    let mut pdu = io.host_data(id, tag, 0, &[1; 100], true);
    pdu[28] ^= 1;
    io.stream.write_all(&pdu).unwrap();
    let done = io.completion();
    assert_eq!((done.id, done.status, done.do_not_retry), (id, 0x22, false));
    assert_eq!(io.retrieve(b"k", 64).1.status, 0x87, "nothing was stored");
    assert_eq!(io.store_by_transfer(b"k", &[1; 100], 100).status, 0);
}

#[test]
fn damaged_data_in_a_capsule_fails_its_command() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 2);
    let mut sqe = key_command(0x01, b"k", 100, 0);
    crate::wire::in_capsule(&mut sqe, 100);
    sqe[2] = 0x77;
    let mut pdu = io.capsule(&sqe, &[5; 100]);
    pdu[100] ^= 0x10;
    io.stream.write_all(&pdu).unwrap();
    assert_eq!((io.completion().status, io.retrieve(b"k", 9).1.status), (0x22, 0x87));
}

#[test]
fn a_damaged_header_ends_the_connection() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 1);
    let mut pdu = io.capsule(&key_command(0x14, b"k", 0, 0), &[]);
    pdu[20] ^= 1;
    let digest = u32_at(&pdu, 72);
    io.stream.write_all(&pdu).unwrap();
    assert_eq!(io.terminated(), (3, digest));
}

#[test]
fn a_host_that_sends_byte_by_byte_is_served_like_any_other() {
    let target = open_target();
    for digests in [0, 3] {
        let (_admin, mut io) = Wire::queues(target.address(), digests);
        let mut sqe = key_command(0x01, b"slow", 300, 0);
        crate::wire::in_capsule(&mut sqe, 300);
        sqe[2] = 0x55;
        let pdu = io.capsule(&sqe, &pattern(300, 3));
        for byte in &pdu {
            io.stream.write_all(std::slice::from_ref(byte)).unwrap();
        }
        assert_eq!(io.completion().status, 0);
        assert!(io.retrieve(b"slow", 300).0 == pattern(300, 3));
    }
}

#[test]
fn more_transfers_than_memory_is_given_to_wait_and_all_are_done() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let bytes = 1 << 20;
    const COMMANDS: u8 = 12;
    let mut ids = Vec::new();
    for n in 0..COMMANDS {
        let mut sqe = key_command(0x01, &[n], bytes, 0);
        by_transport(&mut sqe, bytes);
        ids.push(io.send(&mut sqe, &[]));
    }
    let mut open = 0;
    let mut done = 0;
    let mut most = 0;
    let mut waiting = Vec::new();
    while done < COMMANDS {
        // Data is sent only when no more is asked for.
        let more_is_asked = open < 8 && open + done < COMMANDS;
        if more_is_asked || waiting.is_empty() {
            let pdu = io.read();
            match pdu[KIND] {
                9 => {
                    open += 1;
                    most = most.max(open);
                    waiting.push((
                        u16::from_le_bytes([pdu[8], pdu[9]]),
                        u16::from_le_bytes([pdu[10], pdu[11]]),
                    ));
                }
                5 => done += 1,
                other => panic!("a PDU of type {other}"),
            }
        } else {
            let (id, tag) = waiting.remove(0);
            let n = (id - ids[0]) as u8;
            let value = pattern(bytes as usize, n);
            for (at, piece) in value.chunks(131_072).enumerate() {
                let offset = (at * 131_072) as u32;
                let last = offset as usize + piece.len() == value.len();
                let pdu = io.host_data(id, tag, offset, piece, last);
                io.stream.write_all(&pdu).unwrap();
            }
            open -= 1;
        }
    }
    assert_eq!(most, 8, "transfers under way: 8 MiB");
    for n in 0..COMMANDS {
        assert!(io.retrieve(&[n], bytes).0 == pattern(bytes as usize, n));
    }
}

/// The next PDU answers this command, sent last: nothing else was to be said.
fn expect_nothing_else(io: &mut Wire) {
    let done = io.plain(key_command(0x14, b"k", 0, 0));
    assert_eq!(done.status, 0);
}

#[test]
fn a_transfers_memory_is_free_when_its_store_is_done_and_not_before() {
    let (held, target) = holding(false);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    for n in 0..9u8 {
        let mut sqe = key_command(0x01, &[n], MIB, 0);
        by_transport(&mut sqe, MIB);
        io.send(&mut sqe, &[]);
    }
    let transfers: Vec<Vec<u8>> = (0..8).map(|_| io.read()).collect();
    for ready in &transfers {
        assert_eq!(ready[KIND], 9);
        let number = |at| u16::from_le_bytes([ready[at], ready[at + 1]]);
        io.transfer(number(8), number(10), MIB);
    }
    expect_nothing_else(&mut io);
    assert_eq!(held.count(), 8);
    held.answer_one(Answer::Done);
    let next = [io.read()[KIND], io.read()[KIND]];
    assert_eq!(next, [5, 9], "a completion, and then the memory goes to the ninth");
}

#[test]
fn values_that_are_read_to_be_compared_count_as_memory() {
    let (held, target) = holding(true);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let (digest, mut value) = (crate::long_keys::DIGEST, vec![32, 0, 0, 0]);
    value.extend_from_slice(crate::long_keys::KEY);
    for _ in 0..9 {
        let mut sqe = key_command(0x01, &digest, value.len() as u32, 0);
        crate::wire::in_capsule(&mut sqe, value.len());
        io.send(&mut sqe, &value);
    }
    expect_nothing_else(&mut io);
    assert_eq!(held.count(), 8, "each may be a MiB");
    held.answer_one(Answer::Failed(Status::KEY_NOT_FOUND));
    expect_nothing_else(&mut io);
    assert_eq!(held.count(), 8, "a store took the retrieve's place, and its memory");
    for _ in 0..7 {
        held.answer_one(Answer::Failed(Status::KEY_NOT_FOUND));
    }
    held.answer_one(Answer::Done);
    assert_eq!(io.completion().status, 0);
    expect_nothing_else(&mut io);
    assert_eq!(held.count(), 8, "seven stores, and the ninth's retrieve");
}

#[test]
fn a_store_that_waits_for_its_data_is_finished_by_a_drain() {
    let target = open_target();
    let (_admin, controller) = Wire::admin(target.address(), 0);
    // Of four connections each reactor has two.
    let [mut io, mut idle, mut other] =
        [1, 2, 3].map(|queue| Wire::io(target.address(), 0, controller, queue));
    let mut sqe = key_command(0x01, b"k", MIB, 0);
    by_transport(&mut sqe, MIB);
    let id = io.send(&mut sqe, &[]);
    let ready = io.read();
    std::thread::scope(|scope| {
        scope.spawn(|| target.drain());
        idle.ends();
        other.ends();
        let tag = u16::from_le_bytes([ready[10], ready[11]]);
        // No command is taken on, and none is in the way.
        let late = io.capsule(&key_command(0x14, b"k", 0, 0), &[]);
        io.stream.write_all(&late).unwrap();
        // More than is received at a time.
        io.transfer(id, tag, MIB);
        let done = io.completion();
        assert_eq!((done.id, done.status), (id, 0));
        io.ends();
    });
}

#[test]
fn commands_behind_answers_that_the_host_leaves_unread_are_carried_out() {
    // More than a socket takes, and less than a connection holds.
    const COUNT: u64 = 120;
    const BYTES: usize = 60_000;
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let value = pattern(BYTES, 3);
    assert_eq!(io.store(b"k", &value).status, 0);
    let before = target.totals().commands;
    let mut retrieve = key_command(0x02, b"k", BYTES as u32, 0);
    by_transport(&mut retrieve, BYTES as u32);
    let ids: Vec<u16> = (0..COUNT).map(|_| io.send(&mut retrieve, &[])).collect();
    wait_until("all are carried out", || target.totals().commands >= before + COUNT);
    for id in ids {
        let data = io.read();
        assert_eq!((data[KIND], &data[24..]), (7, &value[..]));
        assert_eq!(io.completion().id, id);
    }
}
