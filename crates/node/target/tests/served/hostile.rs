//! Peers that break the protocol, or just stop: they lose their connection, and no other thread notices.

use crate::open_target;
use crate::wire::{Wire, by_transport, entry, key_command, pattern};
use esker_base::{Clock, SystemClock};
use std::cell::Cell;
use std::io::Write;
use std::net::Shutdown;
use std::time::Duration;

#[test]
fn garbage_before_the_opening_is_told_and_closed() {
    let target = open_target();
    for (garbage, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], (1, 0)),
        (&[4, 0, 72, 0, 72, 0, 0, 0][..], (2, 0)),
        (&[0, 0, 128, 0, 255, 255, 255, 255][..], (1, 4)),
        (&[0xff; 64][..], (1, 0)),
    ] {
        let mut wire = Wire::raw(target.address());
        wire.stream.write_all(garbage).unwrap();
        assert_eq!(wire.terminated(), expected, "{garbage:?}");
    }
    assert_eq!(target.totals().terminated, 4);
}

#[test]
fn oversize_pdus_are_refused_by_their_header() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let bytes = (72 + 65_537u32).to_le_bytes();
    io.stream.write_all(&[4, 0, 72, 72, bytes[0], bytes[1], bytes[2], bytes[3]]).unwrap();
    assert_eq!(io.terminated(), (1, 4));
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let bytes = (24 + 131_073u32).to_le_bytes();
    io.stream.write_all(&[6, 4, 24, 24, bytes[0], bytes[1], bytes[2], bytes[3]]).unwrap();
    assert_eq!(io.terminated(), (5, 0));
}

#[test]
fn a_peer_that_leaves_in_the_middle_takes_nothing_along() {
    let target = open_target();
    let (_admin, mut other) = Wire::queues(target.address(), 0);
    let mut sqe = key_command(0x01, b"torn", 1000, 0);
    crate::wire::in_capsule(&mut sqe, 1000);
    let pdu = other.capsule(&sqe, &pattern(1000, 1));
    for cut in [1, 7, 8, 71, 72, 500, 1071] {
        let (_admin, mut io) = Wire::queues(target.address(), 0);
        io.stream.write_all(&pdu[..cut]).unwrap();
        io.stream.shutdown(Shutdown::Write).unwrap();
        io.ends();
    }
    assert_eq!(other.retrieve(b"torn", 64).1.status, 0x87);
}

#[test]
fn more_commands_than_the_queue_has_entries_end_the_connection() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    // Transfers that are never sent stay under way.
    for _ in 0..129 {
        let mut sqe = key_command(0x01, b"k", 8192, 0);
        crate::wire::by_transport(&mut sqe, 8192);
        io.send(&mut sqe, &[]);
    }
    assert_eq!(io.terminated(), (2, 0));
}

#[test]
fn an_id_that_is_in_use_is_refused() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut sqe = key_command(0x01, b"k", 8192, 0);
    crate::wire::by_transport(&mut sqe, 8192);
    let id = io.send(&mut sqe, &[]);
    assert_eq!(io.read()[0], 9);
    let mut again = key_command(0x14, b"k", 0, 0);
    again[2..4].copy_from_slice(&id.to_le_bytes());
    let pdu = io.capsule(&again, &[]);
    io.stream.write_all(&pdu).unwrap();
    assert_eq!(io.completion().status, 0x03);
}

#[test]
fn a_thousand_half_open_connections_are_looked_after_only_when_something_comes() {
    const HALF_OPEN: u64 = 1000;
    const REQUESTS: u64 = 300;
    if !crate::allow_connections() {
        return;
    }
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let before = target.totals();
    let half: Vec<Wire> = (0..HALF_OPEN)
        .map(|number| {
            let mut wire = Wire::raw(target.address());
            wire.stream.write_all(&[0, 0, 128][..number as usize % 4]).unwrap();
            wire
        })
        .collect();
    let sent: u64 = (0..HALF_OPEN).map(|number| number % 4).sum();
    while target.totals().received_bytes < before.received_bytes + sent
        || target.totals().connections_opened < before.connections_opened + HALF_OPEN
    {
        std::thread::yield_now();
    }
    let before = target.totals();
    for _ in 0..REQUESTS {
        assert_eq!(io.store(b"k", b"v").status, 0);
        assert_eq!(io.retrieve(b"k", 9).0, b"v");
    }
    // So long that the reactors look at the time some ten times.
    SystemClock::new().sleep(Duration::from_secs(1));
    let after = target.totals();
    // A visit for each piece of a command and one for its answer, at the most; and one to end a connection, should this machine be so slow
    // that the time to open has passed.
    let ended = after.connections_closed - before.connections_closed;
    let visits = after.visits - before.visits - ended;
    assert!(
        visits <= 4 * 2 * REQUESTS,
        "{visits} visits for {REQUESTS} stores and as many retrieves"
    );
    drop(half);
    assert_eq!(io.retrieve(b"k", 9).0, b"v");
}

#[test]
fn any_bytes_on_a_live_queue_do_no_harm() {
    let target = open_target();
    let (_admin, mut other) = Wire::queues(target.address(), 0);
    other.store(b"kept", b"value");
    let mut rng = esker_base::Rng::new(1);
    for round in 0..200 {
        let (_admin, mut io) = Wire::queues(target.address(), (round % 4) as u8);
        let mut sqe = key_command(0x01, b"other", 64, 0);
        crate::wire::in_capsule(&mut sqe, 64);
        let mut pdu = io.capsule(&sqe, &[3; 64]);
        for _ in 0..=rng.below(4) {
            let at = rng.below(pdu.len() as u64) as usize;
            // The key stays: what is stored by chance is stored elsewhere.
            if !(16..24).contains(&at) {
                pdu[at] = rng.next_u64() as u8;
            }
        }
        let _ = io.stream.write_all(&pdu);
        let _ = io.stream.shutdown(Shutdown::Write);
        io.ends();
    }
    assert_eq!(other.retrieve(b"kept", 64).0, b"value");
}

/// Sends `pdu` with one byte of its header changed after the other, each on a connection of its own, which ends.
fn send_changed(pdu: &[u8], header: usize, kept: std::ops::Range<usize>, open: impl Fn() -> Wire) {
    for at in (0..header).filter(|at| !kept.contains(at)) {
        for byte in [0, 0xff, pdu[at] ^ 1, pdu[at] ^ 0x80] {
            let mut changed = pdu.to_vec();
            changed[at] = byte;
            let mut wire = open();
            let _ = wire.stream.write_all(&changed);
            let _ = wire.stream.shutdown(Shutdown::Write);
            wire.ends();
        }
    }
}

#[test]
fn any_byte_of_the_header_of_any_kind_of_pdu_changed_does_no_harm() {
    const NONE: std::ops::Range<usize> = 0..0;
    let target = open_target();
    let address = target.address();
    let (_admin, mut other) = Wire::queues(address, 0);
    let (_admin, controller) = Wire::admin(address, 0);
    other.store(b"kept", b"value");
    // The last one of an id may not be gone quite yet.
    let number = Cell::new(0);
    let queue = || {
        number.set(number.get() % 64 + 1);
        Wire::io(address, 0, controller, number.get())
    };

    let mut opening = [0; 128];
    opening[..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
    send_changed(&opening, 16, NONE, || Wire::raw(address));

    let mut sqe = key_command(0x01, b"other", 64, 0);
    crate::wire::in_capsule(&mut sqe, 64);
    let command = queue().capsule(&sqe, &[3; 64]);
    // The key stays: what is stored by chance is stored elsewhere.
    send_changed(&command, 72, 16..24, queue);

    // Data that was asked for; a queue's first command has slot 0 and id 2, behind Connect.
    let asked = || {
        let mut io = queue();
        let mut sqe = key_command(0x01, b"other", 64, 0);
        by_transport(&mut sqe, 64);
        io.send(&mut sqe, &[]);
        assert_eq!(io.read()[0], 9, "an R2T");
        io
    };
    send_changed(&other.host_data(2, 0, 0, &[4; 64], true), 24, NONE, asked);

    // What ends a connection, and what only a node sends.
    for (kind, bytes) in
        [(2, 96), (1, 128), (3, 96), (5, 24), (7, 88), (9, 24), (8, 24), (0x0a, 24)]
    {
        let mut pdu = vec![0; bytes];
        pdu[..8].copy_from_slice(&[kind, 0, bytes.min(128) as u8, 0, bytes as u8, 0, 0, 0]);
        if matches!(kind, 2 | 3 | 7) {
            pdu[2] = 24;
        }
        send_changed(&pdu, 8, NONE, queue);
    }
    assert_eq!(other.retrieve(b"kept", 64).0, b"value");
    assert_eq!(other.store(b"k", b"v").status, 0);
}

#[test]
fn a_host_that_reads_nothing_is_held_back_and_others_go_on() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let value = pattern(1 << 20, 9);
    assert_eq!(io.store_by_transfer(b"big", &value, 131_072).status, 0);
    let mut ids = Vec::new();
    for _ in 0..100 {
        let mut sqe = key_command(0x02, b"big", 1 << 20, 0);
        crate::wire::by_transport(&mut sqe, 1 << 20);
        ids.push(io.send(&mut sqe, &[]));
    }
    let (_admin2, mut other) = Wire::queues(target.address(), 0);
    assert_eq!(other.store(b"k", b"v").status, 0);
    for id in ids {
        let (read, done) = io.answer(id);
        assert!(done.id == id && read == value);
    }
}

#[test]
fn answers_that_nobody_reads_are_few_and_come_in_order_when_they_are_read() {
    const PAGES: u16 = 1000;
    const BYTES: u32 = 1 << 20;
    /// The output, and what two sockets hold.
    const UNREAD_MAX: u64 = 60;
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let before = target.totals().commands;
    let mut health = entry(0x02, 0xffff_ffff);
    let dwords_less_one = BYTES / 4 - 1;
    health[40..44].copy_from_slice(&(dwords_less_one << 16 | 2).to_le_bytes());
    health[44] = (dwords_less_one >> 16) as u8;
    by_transport(&mut health, BYTES);
    let ids: Vec<u16> = (0..PAGES).map(|_| admin.send(&mut health, &[])).collect();
    for (read, id) in (0..).zip(ids) {
        let answered = target.totals().commands - before;
        assert!(answered <= read + UNREAD_MAX, "{answered} answered, {read} read");
        let (page, done) = admin.answer(id);
        assert_eq!((page.len(), done.status), (BYTES as usize, 0));
    }
}
