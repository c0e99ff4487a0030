//! Hosts that lose their connection and come again while something that they sent is still to be done.

use crate::held::{Held, holding};
use crate::wire::{Wire, connect, in_capsule, key_command};
use crate::{HOST, NODE, wait_until};
use esker_target::{Answer, Target};
use std::io::ErrorKind;
use std::net::Shutdown;

/// A host sends this command and leaves; the node has noticed both.
fn leave(held: &Held, target: &Target, mut sqe: [u8; 64], data: &[u8]) {
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    if !data.is_empty() {
        in_capsule(&mut sqe, data.len());
    }
    io.send(&mut sqe, data);
    io.stream.shutdown(Shutdown::Write).unwrap();
    io.ends();
    assert_eq!(held.count(), 1);
}

/// The same host comes again: its Connect was sent.
fn come_again(target: &Target) -> Wire {
    let mut wire = Wire::open(target.address(), 0);
    let (mut sqe, data) = connect(NODE, HOST, 0xffff, 0, 31, 0);
    in_capsule(&mut sqe, data.len());
    wire.send(&mut sqe, &data);
    wire
}

#[test]
fn a_host_that_comes_again_waits_for_its_changes_and_others_do_not() {
    let (held, target) = holding(false);
    leave(&held, &target, key_command(0x01, b"k", 5, 0), b"value");
    let mut again = come_again(&target);
    let mut other = Wire::open(target.address(), 0);
    assert_eq!(other.connect(NODE, "nqn.other", 0xffff, 0, 31, 0).status, 0);
    again.stream.set_nonblocking(true).unwrap();
    let early = again.stream.peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(early, Err(ErrorKind::WouldBlock), "connected before its store was done");
    again.stream.set_nonblocking(false).unwrap();
    held.answer_one(Answer::Done);
    assert_eq!(again.completion().status, 0);
    // And is a host like any other.
    again.enable();
}

#[test]
fn a_host_that_comes_again_does_not_wait_for_reads() {
    let (held, target) = holding(false);
    leave(&held, &target, key_command(0x02, b"k", 5, 0), b"");
    assert_eq!(come_again(&target).completion().status, 0);
}

#[test]
fn another_way_of_a_host_takes_no_commands_until_the_changes_of_the_first_are_done() {
    let (held, target) = holding(false);
    let (_admin, mut other_way) = Wire::queues(target.address(), 0);
    let mut strangers = [(); 2].map(|()| {
        let mut admin = Wire::open(target.address(), 0);
        let controller = admin.connect(NODE, "nqn.other", 0xffff, 0, 31, 0).word as u16;
        admin.enable();
        let mut io = Wire::open(target.address(), 0);
        assert_eq!(io.connect(NODE, "nqn.other", controller, 1, 31, 0).status, 0);
        (admin, io)
    });
    leave(&held, &target, key_command(0x01, b"k", 5, 0), b"value");
    let mut again = key_command(0x01, b"k", 5, 0);
    in_capsule(&mut again, 5);
    other_way.send(&mut again, b"value");
    for (_, io) in &mut strangers {
        let done = io.plain(key_command(0x14, b"k", 0, 0));
        assert_eq!(done.status, 0, "others are not held back");
    }
    assert_eq!(held.count(), 1, "it was carried out beside the first");
    held.answer_one(Answer::Done);
    wait_until("it is carried out", || held.count() == 1);
    held.answer_one(Answer::Done);
    assert_eq!(other_way.completion().status, 0);
}
