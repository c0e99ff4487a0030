//! One budget of memory for all connections, and transfers that stall.

use crate::controllers::HandClock;
use crate::wire::{KIND, Wire, by_transport, key_command};
use crate::{Access, HOST, NODE, subsystem, wait_until};
use esker_base::{Clock, SystemEntropy, Threads};
use esker_target::{Settings, Target};
use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;

const MIB: u32 = 1 << 20;

/// A target of one reactor with so much memory, half of it for transfers.
fn target(memory_bytes: usize) -> (Arc<HandClock>, Target) {
    let clock = Arc::new(HandClock::default());
    let settings = Settings::new("127.0.0.1:0".parse().unwrap())
        .reactors(1)
        .drain_time(Duration::from_secs(10))
        .memory_bytes(memory_bytes)
        .subsystems(vec![subsystem(Access::Anyone)]);
    let background: Arc<dyn esker_base::Background> = Arc::new(Threads);
    let target = Target::start(settings, clock.clone(), Arc::new(SystemEntropy), &background);
    (clock, target.unwrap())
}

/// Begins a store of 1 MiB that is to be asked for.
fn begin_store(io: &mut Wire) -> u16 {
    begin_store_of(io, MIB)
}

fn begin_store_of(io: &mut Wire, bytes: u32) -> u16 {
    let mut sqe = key_command(0x01, b"key", bytes, 0);
    by_transport(&mut sqe, bytes);
    io.send(&mut sqe, &[])
}

/// The tag of the R2T that comes next.
fn tag_of_next(io: &mut Wire) -> u16 {
    let ready = io.read();
    assert_eq!(ready[KIND], 9);
    u16::from_le_bytes([ready[10], ready[11]])
}

/// How many R2Ts have come by now.
fn asked_for(io: &mut Wire) -> usize {
    let mut bytes = [0; 64 * 24];
    io.stream.set_nonblocking(true).unwrap();
    let come = match io.stream.peek(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
        come => come.unwrap(),
    };
    io.stream.set_nonblocking(false).unwrap();
    assert!(bytes[..come].chunks(24).all(|pdu| pdu[KIND] == 9));
    come / 24
}

/// Lets time pass, and waits until the target has inspected all connections since.
fn pass(clock: &HandClock, target: &Target, seconds: u64) {
    let mut canary = Wire::open(target.address(), 0);
    assert_eq!(canary.connect(NODE, HOST, 0xffff, 0, 31, 1).status, 0);
    clock.sleep(Duration::from_secs(seconds));
    // Its keep-alive time is over. It goes when all were looked at.
    canary.ends();
}

#[test]
fn connections_share_one_sum_and_it_is_free_again_when_they_are_gone() {
    const CONNECTIONS: usize = 12;
    let (_clock, target) = target(32 << 20);
    let mut all: Vec<_> = (0..CONNECTIONS).map(|_| Wire::queues(target.address(), 0)).collect();
    for (_, io) in &mut all {
        for _ in 0..4 {
            begin_store(io);
        }
    }
    let count = |all: &mut Vec<(Wire, Wire)>| all.iter_mut().map(|(_, io)| asked_for(io)).sum();
    wait_until("16 MiB are asked for", || target.totals().held_bytes >= 16 << 20);
    // Later requests are answered later.
    drop(Wire::queues(target.address(), 0));
    let transfers: usize = count(&mut all);
    assert_eq!(transfers, 16, "48 MiB were announced, and there are 16 MiB");
    drop(all);
    wait_until("nothing is held", || target.totals().held_bytes == 0);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.store_by_transfer(b"k", &[1; 1 << 20], 128 << 10).status, 0);
}

#[test]
fn a_store_that_waits_for_memory_gets_it_when_others_are_done_or_stand_still() {
    let (clock, target) = target(16 << 20);
    let (_admin, mut hog) = Wire::queues(target.address(), 0);
    let ids: Vec<u16> = (0..8).map(|_| begin_store(&mut hog)).collect();
    wait_until("all is asked for", || target.totals().held_bytes >= 8 << 20);
    let (_other_admin, mut io) = Wire::queues(target.address(), 0);
    let id = begin_store(&mut io);
    let first = hog.read();
    let tag = u16::from_le_bytes([first[10], first[11]]);
    assert_eq!(asked_for(&mut io), 0, "there is no memory");
    hog.transfer(ids[0], tag, MIB);
    let ready = io.read();
    assert_eq!(ready[KIND], 9, "the first store's memory");
    io.transfer(id, u16::from_le_bytes([ready[10], ready[11]]), MIB);
    assert_eq!(io.completion().status, 0);
    // It takes the memory again, and stands still, while another waits.
    begin_store(&mut hog);
    let rest: Vec<u8> = (0..9).map(|_| hog.read()[KIND]).collect();
    assert_eq!(rest, [9, 9, 9, 9, 9, 9, 9, 5, 9], "its last store is asked for, too");
    let id = begin_store(&mut io);
    pass(&clock, &target, 1);
    assert_eq!(asked_for(&mut io), 0, "there is no memory");
    pass(&clock, &target, 6);
    let ready = io.read();
    io.transfer(id, u16::from_le_bytes([ready[10], ready[11]]), MIB);
    assert_eq!(io.completion().status, 0);
    hog.ends();
    assert_eq!(target.totals().stalled, 1);
}

#[test]
fn a_half_sent_store_ends_its_connection_after_a_while_and_a_slow_one_does_not() {
    let (clock, target) = target(256 << 20);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let id = begin_store(&mut io);
    let ready = io.read();
    let tag = u16::from_le_bytes([ready[10], ready[11]]);
    let piece = vec![1; 64 << 10];
    for number in 0..3 {
        let pdu = io.host_data(id, tag, number * (64 << 10), &piece, false);
        io.stream.write_all(&pdu).unwrap();
        pass(&clock, &target, 20);
    }
    assert_eq!(target.totals().stalled, 0, "64 KiB came every 20 s");
    // A byte now and then is no progress.
    for offset in 0..2 {
        let pdu = io.host_data(id, tag, 3 * (64 << 10) + offset, &[1], false);
        io.stream.write_all(&pdu).unwrap();
        pass(&clock, &target, 16);
    }
    io.ends();
    assert_eq!(target.totals().stalled, 1);
    wait_until("nothing is held", || target.totals().held_bytes == 0);
}

#[test]
fn what_a_connection_holds_while_others_wait_is_turned_over_in_time_or_ends_it() {
    const STORES: usize = 8;
    const PDU_BYTES: u32 = 128 << 10;
    for is_kept in [true, false] {
        let (clock, target) = target(16 << 20);
        let (_admin, mut hog) = Wire::queues(target.address(), 0);
        let ids: Vec<u16> = (0..STORES).map(|_| begin_store(&mut hog)).collect();
        let tags: Vec<u16> = ids.iter().map(|_| tag_of_next(&mut hog)).collect();
        let (_other_admin, mut io) = Wire::queues(target.address(), 0);
        let id = begin_store(&mut io);
        pass(&clock, &target, 1);
        assert_eq!(asked_for(&mut io), 0, "there is no memory");
        let (stores, pdus) = if is_kept { (STORES, 2) } else { (1, 1) };
        for turn in 0..4 {
            for (id, tag) in ids.iter().zip(&tags).take(stores) {
                for number in pdus * turn..pdus * (turn + 1) {
                    let is_last = (number + 1) * PDU_BYTES == MIB;
                    let bytes = [1; PDU_BYTES as usize];
                    let pdu = hog.host_data(*id, *tag, number * PDU_BYTES, &bytes, is_last);
                    // The target may have ended it.
                    let _ = hog.stream.write_all(&pdu);
                }
            }
            pass(&clock, &target, 4);
        }
        assert_eq!(target.totals().stalled, u64::from(!is_kept));
        let tag = tag_of_next(&mut io);
        io.transfer(id, tag, MIB);
        assert_eq!(io.completion().status, 0);
    }
}

#[test]
fn a_connection_that_the_node_does_not_receive_from_is_not_stalled() {
    /// With half a PDU each they fill the account of buffers, of 4 MiB.
    const HALF_SENT: usize = 17;
    const PDU_BYTES: u32 = 128 << 10;
    let (clock, target) = target(16 << 20);
    let begin = |bytes| {
        let (admin, mut io) = Wire::queues(target.address(), 0);
        let id = begin_store_of(&mut io, bytes);
        let tag = tag_of_next(&mut io);
        (admin, io, id, tag)
    };
    let (_admin, mut io, id, tag) = begin(MIB);
    let mut peers: Vec<_> = (0..HALF_SENT).map(|_| begin(PDU_BYTES)).collect();
    for (_, peer, id, tag) in &mut peers {
        let pdu = peer.host_data(*id, *tag, 0, &[1; PDU_BYTES as usize], true);
        peer.stream.write_all(&pdu[..1000]).unwrap();
    }
    let transfers = (MIB + HALF_SENT as u32 * PDU_BYTES) as u64;
    wait_until("all buffers are used", || target.totals().held_bytes > transfers + (3 << 20));
    io.transfer(id, tag, MIB);
    pass(&clock, &target, 1);
    assert_eq!(target.totals().stalled, 0);
    pass(&clock, &target, 6);
    for (_, peer, ..) in &mut peers {
        peer.ends();
    }
    assert_eq!(io.completion().status, 0, "it sent everything");
    assert_eq!(target.totals().stalled, HALF_SENT as u64);
}

#[test]
fn half_a_capsule_ends_its_connection_after_a_while() {
    let (clock, target) = target(256 << 20);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut sqe = key_command(0x01, b"k", 32 << 10, 0);
    crate::wire::in_capsule(&mut sqe, 32 << 10);
    let pdu = io.capsule(&sqe, &[1; 32 << 10]);
    io.stream.write_all(&pdu[..200]).unwrap();
    pass(&clock, &target, 1);
    pass(&clock, &target, 28);
    assert_eq!(target.totals().stalled, 0);
    pass(&clock, &target, 2);
    io.ends();
    assert_eq!(target.totals().stalled, 1);
}

#[test]
fn answers_that_are_left_unread_end_their_connection_after_a_while() {
    let (clock, target) = target(256 << 20);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.store_by_transfer(b"long", &[2; 1 << 20], 128 << 10).status, 0);
    for _ in 0..120 {
        let mut sqe = key_command(0x02, b"long", MIB, 0);
        by_transport(&mut sqe, MIB);
        io.send(&mut sqe, &[]);
    }
    wait_until("it is full of answers", || target.totals().held_bytes >= 8 << 20);
    pass(&clock, &target, 1);
    pass(&clock, &target, 28);
    assert_eq!(target.totals().stalled, 0);
    // How many answers the system has depends on scheduling. Each mebibyte of them, up to 9,
    // prolongs the limit by 30 s.
    for _ in 0..10 {
        pass(&clock, &target, 10 * 30);
    }
    assert_eq!(target.totals().stalled, 1);
    wait_until("nothing is held", || target.totals().held_bytes == 0);
}

#[test]
fn a_connection_that_is_idle_after_a_transfer_lives() {
    let (clock, target) = target(256 << 20);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.store_by_transfer(b"k", &[1; 1 << 20], 128 << 10).status, 0);
    assert_eq!(io.store(b"k", &[1; 60_000]).status, 0);
    pass(&clock, &target, 1);
    pass(&clock, &target, 100);
    assert_eq!(io.retrieve(b"k", MIB).0.len(), 60_000);
    assert_eq!(target.totals().stalled, 0);
}
