//! What a reactor does in a round, and what it spends on whom.

use crate::wire::{Wire, by_transport, in_capsule, key_command, pattern};
use crate::{Access, open_target, start_reactors, subsystem};
use esker_base::{Result, SystemClock};
use esker_target::{
    Answer, Description, Namespace, OperationSink, PerCoreNamespace, Reply, Request, Target,
};
use esker_uring::{Buffer, Descriptor, Operation};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// What a part was called with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Request,
    Completed,
    EndOfRound,
}

/// Notes what its only part is called with. That has a read in progress at all times until it is closed, and answers at once.
#[derive(Default)]
struct Noting(Arc<Mutex<Vec<Told>>>);

struct Part {
    told: Arc<Mutex<Vec<Told>>>,
    file: Descriptor,
    is_reading: bool,
    is_closed: bool,
}

impl Part {
    fn note(&self, told: Told) {
        self.told.lock().unwrap().push(told);
    }
}

impl Namespace for Noting {
    fn guid(&self) -> [u8; 16] {
        [7; 16]
    }

    fn description(&self) -> Description {
        Description::Keys { capacity_bytes: 1 << 30, value_bytes_max: 1 << 20 }
    }

    fn parts(&self, _: usize) -> Result<Vec<Box<dyn PerCoreNamespace>>> {
        let file = std::fs::File::open("/dev/zero").expect("every Linux has it").into();
        Ok(vec![Box::new(Part { told: self.0.clone(), file, is_reading: false, is_closed: false })])
    }

    fn owner(&self, _: &Request, _: usize) -> Option<usize> {
        Some(0)
    }
}

impl PerCoreNamespace for Part {
    fn request(&mut self, _: Request, reply: Reply, _: &mut OperationSink) {
        self.note(Told::Request);
        reply.send(Answer::Done);
    }

    fn completed(&mut self, _: u64, _: io::Result<usize>, _: Operation, _: &mut OperationSink) {
        self.is_reading = false;
        self.note(Told::Completed);
    }

    fn end_round(&mut self, out: &mut OperationSink) {
        self.note(Told::EndOfRound);
        if !self.is_closed && !std::mem::replace(&mut self.is_reading, true) {
            let (file, into) = (self.file.clone(), Buffer::zeroed(1).whole());
            out.submit(0, Operation::ReadAt { file, offset: 0, into });
        }
    }

    fn close(&mut self, _: &mut OperationSink) {
        self.is_closed = true;
    }
}

/// A round ends twice for a part: before connections send, and behind that, for those that have sent may have had requests which waited for it.
#[test]
fn what_comes_behind_a_send_begins_in_the_same_round() {
    const ROUNDS: usize = 20;
    let noting = Noting::default();
    let told = noting.0.clone();
    let mut subsystem = subsystem(Access::Anyone);
    subsystem.namespaces.push(Arc::new(noting));
    let target = start_reactors(1, subsystem, Arc::new(SystemClock::new()));
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let large = pattern(100_000, 1);
    assert_eq!(io.store_by_transfer(b"large", &large, 131_072).status, 0);
    for _ in 0..ROUNDS {
        // The first answer is enough to be sent before the second command is looked at.
        let mut retrieve = key_command(0x02, b"large", 100_000, 0);
        by_transport(&mut retrieve, 100_000);
        let mut exist = key_command(0x14, b"any", 0, 0);
        exist[4..8].copy_from_slice(&3u32.to_le_bytes());
        retrieve[2..4].copy_from_slice(&1001u16.to_le_bytes());
        exist[2..4].copy_from_slice(&1002u16.to_le_bytes());
        let both = [io.capsule(&retrieve, &[]), io.capsule(&exist, &[])].concat();
        io.stream.write_all(&both).unwrap();
        assert_eq!(io.answer(1001).0, large);
        assert_eq!(io.completion().id, 1002);
    }
    let told = told.lock().unwrap().clone();
    let requests = || told.iter().enumerate().filter(|(_, what)| **what == Told::Request);
    assert_eq!(requests().count(), ROUNDS);
    let ends_before =
        |at: usize| told[..at].iter().filter(|what| **what == Told::EndOfRound).count();
    assert!(requests().any(|(at, _)| ends_before(at) % 2 == 1), "none came behind a send");
    for (at, _) in requests() {
        let next = told[at..].iter().find(|what| **what != Told::Request);
        assert_ne!(next, Some(&Told::Completed), "the reactor waited before it began {at}");
    }
}

/// Peers that have a command in progress of which they send a byte at a time.
struct Slow {
    wire: Wire,
    /// The wire of its admin queue, which keeps the controller.
    _admin: Wire,
    pdu: Vec<u8>,
    sent: usize,
}

impl Slow {
    fn new(target: &Target, number: u8) -> Self {
        let (admin, wire) = Wire::queues(target.address(), number % 4);
        let mut sqe = key_command(0x01, &[number], 64, 0);
        in_capsule(&mut sqe, 64);
        let pdu = wire.capsule(&sqe, &[number; 64]);
        Slow { wire, _admin: admin, pdu, sent: 0 }
    }

    fn send_a_byte(&mut self) {
        self.wire.stream.write_all(&self.pdu[self.sent..=self.sent]).unwrap();
        self.sent += 1;
    }
}

#[test]
fn beside_slow_and_broken_peers_others_are_served_and_no_more_is_done_than_what_came_needs() {
    const SLOW: u8 = 20;
    const BYTES: u64 = 60;
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let mut slow: Vec<_> = (0..SLOW).map(|number| Slow::new(&target, number)).collect();
    let mut broken: Vec<_> = (0..BYTES).map(|_| Wire::queues(target.address(), 1)).collect();
    let before = target.totals();
    for (_, broken) in &mut broken {
        slow.iter_mut().for_each(Slow::send_a_byte);
        // A header that its digest is not of.
        let mut pdu = broken.capsule(&key_command(0x14, b"k", 0, 0), &[]);
        pdu[20] ^= 1;
        broken.stream.write_all(&pdu).unwrap();
        // All that was sent before is unfinished, or wrong.
        assert_eq!(io.store(b"k", b"v").status, 0);
        assert_eq!(io.retrieve(b"k", 9).0, b"v");
        assert_eq!(broken.terminated().0, 3);
    }
    let after = target.totals();
    // One for each byte. For a broken PDU: it came, what is told of it was sent, and the end, of its admin queue, too, at the most. For a command: each
    // piece of it, and its answer.
    let visits_max = u64::from(SLOW) * BYTES + BYTES * 4 + 2 * BYTES * 4;
    let visits = after.visits - before.visits;
    assert!(visits <= visits_max, "{visits} visits, more than {visits_max}");
    for mut slow in slow {
        let rest = slow.pdu.split_off(slow.sent);
        slow.wire.stream.write_all(&rest).unwrap();
        assert_eq!(slow.wire.completion().status, 0);
    }
}
