//! Abort, of commands of I/O queues: what has not begun is ended, what is in progress goes on.

use crate::held::holding;
use crate::open_target;
use crate::wire::{KIND, Wire, by_transport, entry, in_capsule, key_command};
use esker_target::Answer;

const MIB: u32 = 1 << 20;
pub const ABORTED: u16 = 0x07;

/// Asks for a command's end. Says whether it was ended at once.
pub fn abort(admin: &mut Wire, queue: u16, id: u16) -> bool {
    let mut sqe = entry(0x08, 0);
    sqe[40..42].copy_from_slice(&queue.to_le_bytes());
    sqe[42..44].copy_from_slice(&id.to_le_bytes());
    let done = admin.plain(sqe);
    assert_eq!(done.status, 0);
    done.word & 1 == 0
}

/// Sends stores of a MiB each, of keys 0, 1 and so on, by R2T.
fn transfers(io: &mut Wire, count: u8) -> Vec<u16> {
    let store = |key| {
        let mut sqe = key_command(0x01, &[key], MIB, 0);
        by_transport(&mut sqe, MIB);
        io.send(&mut sqe, &[])
    };
    (0..count).map(store).collect()
}

/// The next PDU is an R2T: the command's id and the tag.
#[track_caller]
fn asked(io: &mut Wire) -> (u16, u16) {
    let ready = io.read();
    assert_eq!(ready[KIND], 9, "an R2T");
    let number = |at| u16::from_le_bytes([ready[at], ready[at + 1]]);
    (number(8), number(10))
}

#[track_caller]
pub fn expect_done(io: &mut Wire, id: u16, status: u16) {
    let done = io.completion();
    assert_eq!((done.id, done.status), (id, status));
}

#[test]
fn stores_that_wait_for_memory_are_aborted_and_those_behind_them_go_on() {
    let target = open_target();
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    let ids = transfers(&mut io, 10);
    let begun: Vec<_> = (0..8).map(|_| asked(&mut io)).collect();
    assert!(abort(&mut admin, 1, ids[8]), "its data was not asked for");
    expect_done(&mut io, ids[8], ABORTED);
    assert!(!abort(&mut admin, 1, ids[8]), "it is gone");
    let (id, tag) = begun[0];
    io.transfer(id, tag, MIB);
    expect_done(&mut io, ids[0], 0);
    assert_eq!(asked(&mut io).0, ids[9], "the one behind it");
}

#[test]
fn a_store_whose_data_is_on_its_way_ends_undone_when_the_data_is_here() {
    let target = open_target();
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    let ids = transfers(&mut io, 1);
    let (id, tag) = asked(&mut io);
    assert!(!abort(&mut admin, 1, id), "not at once");
    io.transfer(id, tag, MIB);
    expect_done(&mut io, ids[0], ABORTED);
    assert_eq!(io.retrieve(&[0], MIB).1.status, 0x87, "nothing was stored");
    assert_eq!(io.store(b"k", b"v").status, 0, "and the queue goes on");
}

#[test]
fn retrieves_that_wait_for_memory_are_aborted_and_those_that_their_namespace_has_are_not() {
    let (held, target) = holding(false);
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    let retrieve = |_| {
        let mut sqe = key_command(0x02, b"k", MIB, 0);
        by_transport(&mut sqe, MIB);
        io.send(&mut sqe, &[])
    };
    let ids: Vec<u16> = (0..9).map(retrieve).collect();
    // Answered when all before it were looked at.
    assert_eq!(io.plain(key_command(0x14, b"k", 0, 0)).status, 0);
    assert_eq!(held.count(), 8);
    assert!(abort(&mut admin, 1, ids[8]));
    expect_done(&mut io, ids[8], ABORTED);
    assert!(!abort(&mut admin, 1, ids[0]), "its namespace has it");
    held.answer_one(Answer::Done);
    expect_done(&mut io, ids[0], 0);
    assert_eq!(held.count(), 7, "what was aborted never comes to it");
}

#[test]
fn stores_of_long_keys_that_wait_to_be_compared_are_aborted() {
    let (held, target) = holding(true);
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    let mut value = vec![32, 0, 0, 0];
    value.extend_from_slice(crate::long_keys::KEY);
    let store = |_| {
        let mut sqe = key_command(0x01, &crate::long_keys::DIGEST, value.len() as u32, 0);
        in_capsule(&mut sqe, value.len());
        io.send(&mut sqe, &value)
    };
    let ids: Vec<u16> = (0..9).map(store).collect();
    assert_eq!(io.plain(key_command(0x14, b"k", 0, 0)).status, 0);
    assert_eq!(held.count(), 8);
    assert!(abort(&mut admin, 1, ids[8]));
    expect_done(&mut io, ids[8], ABORTED);
}

#[test]
fn commands_and_queues_that_are_not_there_are_not_aborted() {
    let target = open_target();
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    for (queue, id) in [(1, 999), (2, 1), (0, 999), (0xffff, 1)] {
        assert!(!abort(&mut admin, queue, id), "command {id} of queue {queue}");
    }
    assert_eq!(io.store(b"k", b"v").status, 0);
}

#[test]
fn no_host_aborts_what_is_anothers() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let ids = transfers(&mut io, 9);
    for _ in 0..8 {
        asked(&mut io);
    }
    let (mut other, _) = Wire::admin(target.address(), 0);
    assert!(!abort(&mut other, 1, ids[8]), "its controller has no such queue");
}
