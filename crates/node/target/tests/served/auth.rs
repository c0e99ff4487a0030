//! DH-HMAC-CHAP: without a secret, or with a wrong one, no host gets in. What a right host computes is taken from
//! `esker_nvme::auth`, whose own tests hold it against other implementations.

use crate::wire::{Wire, entry, key_command};
use crate::{Access, HOST, NODE, start, start_with, subsystem};
use esker_base::background::{Body, Running};
use esker_base::{Background, Priority, Result, SystemClock, Threads};
use esker_nvme::Nqn;
use esker_nvme::auth::message::{Challenge, Message, Negotiate, Reply};
use esker_nvme::auth::{Group, Hash, KeyPair, Role, Secret, Transaction};
use esker_target::{HostAccess, Target};
use std::io::{ErrorKind, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

fn secret() -> Secret {
    Secret::parse(SECRET).unwrap()
}

/// Another secret: the same key, used in another way.
fn wrong() -> Secret {
    Secret::parse(&SECRET.replace(":00:", ":01:")).unwrap()
}

fn guarded() -> Target {
    let host = Nqn::new(HOST).unwrap();
    let controller_secret = Some(wrong());
    start(subsystem(Access::Listed(vec![
        HostAccess::new(host).secret(Some(secret())).controller_secret(controller_secret),
    ])))
}

fn security(fctype: u8, bytes: u32) -> [u8; 64] {
    let mut sqe = entry(0x7f, 0);
    sqe[4] = fctype;
    sqe[41..44].copy_from_slice(&[1, 1, 0xe9]);
    sqe[44..48].copy_from_slice(&bytes.to_le_bytes());
    sqe
}

fn send(wire: &mut Wire, message: &Message) {
    let data = message.encode();
    assert_eq!(wire.with_data(security(5, data.len() as u32), &data).status, 0);
}

fn fetch(wire: &mut Wire) -> Message {
    let (data, done) = wire.reading(security(6, 4096), 4096);
    assert_eq!(done.status, 0);
    Message::parse(&data).unwrap()
}

fn connected(target: &Target, controller: u16, queue: u16) -> (Wire, u16) {
    let mut wire = Wire::open(target.address(), 0);
    let done = wire.connect(NODE, HOST, controller, queue, 31, 0);
    assert_eq!(done.status, 0);
    assert_ne!(done.word & 1 << 17, 0, "authentication is required");
    (wire, done.word as u16)
}

fn challenged(wire: &mut Wire, group: Group, hash: Hash) -> Challenge {
    let offer = Negotiate { transaction: 77, channel: 0, hashes: vec![hash], groups: vec![group] };
    send(wire, &Message::Negotiate(offer));
    match fetch(wire) {
        Message::Challenge(challenge) => challenge,
        other => panic!("{other:?}"),
    }
}

/// A reply to `challenge` by a host that knows `secret`, and asks for a proof if it has a challenge.
fn reply(challenge: &Challenge, secret: &Secret, own: Option<Vec<u8>>) -> (Reply, Option<Vec<u8>>) {
    let pair = KeyPair::new(challenge.group, &[7; Group::PRIVATE_BYTES]);
    let session = pair.session(&challenge.public);
    let (host, node) = (Nqn::new(HOST).unwrap(), Nqn::new(NODE).unwrap());
    let transaction = Transaction {
        hash: challenge.hash,
        id: 77,
        channel: 0,
        host: &host,
        subsystem: &node,
        session: session.as_deref(),
    };
    let response =
        transaction.response(Role::Host, secret, &challenge.challenge, challenge.sequence);
    let proof = own.as_ref().map(|challenge| {
        transaction.response(Role::Controller, &wrong(), challenge, 5).as_bytes().to_vec()
    });
    let reply = Reply {
        transaction: 77,
        sequence: 5,
        response: response.as_bytes().to_vec(),
        challenge: own,
        public: pair.public,
    };
    (reply, proof)
}

fn prove(wire: &mut Wire, group: Group, hash: Hash) {
    let challenge = challenged(wire, group, hash);
    send(wire, &Message::Reply(reply(&challenge, &secret(), None).0));
    assert!(matches!(fetch(wire), Message::Success1(success) if success.response.is_none()));
}

#[test]
fn a_host_with_the_secret_gets_in_on_every_queue() {
    let target = guarded();
    for (group, hash) in [
        (Group::Null, Hash::Sha256),
        (Group::Ffdhe2048, Hash::Sha384),
        (Group::Ffdhe3072, Hash::Sha512),
    ] {
        let (mut admin, controller) = connected(&target, 0xffff, 0);
        prove(&mut admin, group, hash);
        admin.enable();
        let (mut io, _) = connected(&target, controller, 1);
        assert_eq!(io.store(b"k", b"v").status, 0x191, "an I/O queue proves itself, too");
        prove(&mut io, group, hash);
        assert_eq!(io.store(b"k", b"v").status, 0);
    }
}

#[test]
fn a_host_that_did_not_prove_itself_keeps_no_io_queue_from_one_that_does() {
    let target = guarded();
    let (mut admin, controller) = connected(&target, 0xffff, 0);
    prove(&mut admin, Group::Null, Hash::Sha256);
    admin.enable();
    let (mut stranger, _) = connected(&target, controller, 1);
    let (mut io, _) = connected(&target, controller, 1);
    stranger.ends();
    prove(&mut io, Group::Null, Hash::Sha256);
    assert_eq!(io.store(b"k", b"v").status, 0);
    let refused = Wire::open(target.address(), 0).connect(NODE, HOST, controller, 1, 31, 0);
    assert_eq!(refused.status, 0x0c, "a queue that is proved stays");
    assert_eq!(io.store(b"k", b"v").status, 0);
}

#[test]
fn before_the_proof_nothing_is_done() {
    let target = guarded();
    let (mut admin, _) = connected(&target, 0xffff, 0);
    assert_eq!(admin.set_property(0x14, 0x0046_0061).status, 0x191);
    assert_eq!(admin.get_property(0, true).0.status, 0x191);
    assert_eq!(admin.plain(entry(0x06, 0)).status, 0x191);
    assert_eq!(admin.plain(key_command(0x14, b"k", 0, 0)).status, 0x191);
}

#[test]
fn a_wrong_secret_is_told_and_the_connection_ends() {
    let target = guarded();
    for group in [Group::Null, Group::Ffdhe2048] {
        let (mut admin, _) = connected(&target, 0xffff, 0);
        let challenge = challenged(&mut admin, group, Hash::Sha256);
        send(&mut admin, &Message::Reply(reply(&challenge, &wrong(), None).0));
        assert!(matches!(fetch(&mut admin), Message::Failure1(77, _)));
        admin.ends();
    }
}

#[test]
fn a_controller_proves_itself_if_it_is_asked() {
    let target = guarded();
    let (mut admin, _) = connected(&target, 0xffff, 0);
    let challenge = challenged(&mut admin, Group::Ffdhe2048, Hash::Sha256);
    let (reply, proof) = reply(&challenge, &secret(), Some(vec![3; 32]));
    send(&mut admin, &Message::Reply(reply));
    match fetch(&mut admin) {
        Message::Success1(success) => assert_eq!(success.response, proof),
        other => panic!("{other:?}"),
    }
    assert_eq!(admin.get_property(0, true).0.status, 0x191, "not before the host is content");
    send(&mut admin, &Message::Success2(77));
    admin.enable();
}

#[test]
fn our_own_challenge_sent_back_is_no_way_in() {
    let target = guarded();
    let (mut admin, _) = connected(&target, 0xffff, 0);
    let challenge = challenged(&mut admin, Group::Null, Hash::Sha256);
    let (reply, _) = reply(&challenge, &secret(), Some(challenge.challenge.clone()));
    send(&mut admin, &Message::Reply(reply));
    assert!(matches!(fetch(&mut admin), Message::Failure1(..)));
}

#[test]
fn challenges_differ_each_time() {
    let target = guarded();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (mut admin, _) = connected(&target, 0xffff, 0);
        let challenge = challenged(&mut admin, Group::Null, Hash::Sha256);
        assert!(!seen.contains(&challenge.challenge));
        seen.push(challenge.challenge);
    }
}

#[test]
fn messages_out_of_order_and_without_sense_fail() {
    let target = guarded();
    let out_of_order: [&dyn Fn(&mut Wire); 3] = [
        &|wire| send(wire, &Message::Success2(77)),
        &|wire| {
            let data = [9; 40];
            assert_eq!(wire.with_data(security(5, 40), &data).status, 0);
        },
        &|wire| {
            challenged(wire, Group::Null, Hash::Sha256);
            send(wire, &Message::Success2(77));
        },
    ];
    for break_it in out_of_order {
        let (mut admin, _) = connected(&target, 0xffff, 0);
        break_it(&mut admin);
        assert!(matches!(fetch(&mut admin), Message::Failure1(..)));
        admin.ends();
    }
    let (mut admin, _) = connected(&target, 0xffff, 0);
    let (_, done) = admin.reading(security(6, 4096), 4096);
    assert_eq!(done.status, 0x0c, "nothing to fetch");
}

/// Threads, of which those that compute begin when the test says so.
struct Gated(Mutex<Option<Receiver<()>>>);

impl Background for Gated {
    fn spawn(
        &self,
        name: &str,
        priority: Priority,
        body: Body,
    ) -> Result<Option<Box<dyn Running>>> {
        let gate = self.0.lock().unwrap().take_if(|_| name.starts_with("esker-proofs"));
        let gated = Box::new(move || {
            gate.map(|gate| gate.recv());
            body();
        });
        Threads.spawn(name, priority, gated)
    }
}

#[test]
fn while_a_key_is_computed_others_are_served() {
    let open = Nqn::new("nqn.open").unwrap();
    let entry = |host, secret| HostAccess::new(host).secret(secret);
    let hosts = vec![entry(Nqn::new(HOST).unwrap(), Some(secret())), entry(open, None)];
    let (begin, gate) = channel();
    let gated = Arc::new(Gated(Mutex::new(Some(gate))));
    let access = Access::Listed(hosts);
    let target = start_with(1, subsystem(access), Arc::new(SystemClock::new()), gated);
    // Dropped before the target, which waits for the thread behind the gate: a failure ends the test.
    let begin = begin;

    let (mut slow, _) = connected(&target, 0xffff, 0);
    let groups = vec![Group::Ffdhe4096];
    let offer = Negotiate { transaction: 77, channel: 0, hashes: vec![Hash::Sha256], groups };
    let offer = Message::Negotiate(offer).encode();
    let mut sqe = security(5, offer.len() as u32);
    crate::wire::in_capsule(&mut sqe, offer.len());
    let pdu = slow.capsule(&sqe, &offer);
    slow.stream.write_all(&pdu).unwrap();

    let mut other = Wire::open(target.address(), 0);
    assert_eq!(other.connect(NODE, "nqn.open", 0xffff, 0, 31, 0).status, 0);
    other.enable();
    slow.stream.set_nonblocking(true).unwrap();
    let answer = slow.stream.peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(answer, Err(ErrorKind::WouldBlock), "its key is not computed");

    slow.stream.set_nonblocking(false).unwrap();
    begin.send(()).unwrap();
    assert_eq!(slow.completion().status, 0);
    assert!(matches!(fetch(&mut slow), Message::Challenge(_)));
}
