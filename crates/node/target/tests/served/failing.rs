//! Namespaces that fail, and hosts that are notified.

use crate::wire::{Wire, entry, key_command};
use crate::{Access, start, subsystem};
use esker_base::{Clock, SystemClock};
use esker_nvme::command::CommandSet;
use esker_target::{
    Answer, Description, FailedNamespace, Namespace, NamespaceHealth, Reply, Request, Target,
};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// A namespace that fails when the test says so.
#[derive(Default)]
struct Failing(NamespaceHealth);

impl Namespace for Failing {
    fn guid(&self) -> [u8; 16] {
        [9; 16]
    }
    fn description(&self) -> Description {
        Description::Keys { capacity_bytes: 1 << 30, value_bytes_max: 1 << 20 }
    }
    fn failures(&self) -> Option<&NamespaceHealth> {
        Some(&self.0)
    }
    fn submit(&self, _: Request, reply: Reply) {
        reply.send(Answer::Done);
    }
}

fn failing() -> (Arc<Failing>, Target) {
    let namespace = Arc::new(Failing::default());
    let mut subsystem = subsystem(Access::Anyone);
    subsystem.namespaces[1] = namespace.clone();
    (namespace, start(subsystem))
}

/// Asks to be notified of an event.
fn wait_for_event(admin: &mut Wire) -> u16 {
    admin.send(&mut entry(0x0c, 0), &[])
}

#[track_caller]
fn expect_event(admin: &mut Wire, id: u16) {
    let event = admin.completion();
    assert_eq!((event.id, event.status), (id, 0));
    assert_eq!(event.word, 0x0002_0001, "health, reliability, log page 2");
}

/// The health log's critical warnings and its count of integrity errors. With `retain`, the event stays as it is.
fn health(admin: &mut Wire, retain: bool) -> (u8, u8) {
    let mut sqe = entry(0x02, 0xffff_ffff);
    sqe[40] = 2;
    sqe[41] = u8::from(retain) << 7;
    sqe[42] = 127;
    let (page, done) = admin.reading(sqe, 512);
    assert_eq!(done.status, 0);
    (page[0], page[160])
}

fn ask_for_events(admin: &mut Wire, which: u32) {
    let mut sqe = entry(0x09, 0);
    sqe[40] = 0x0b;
    sqe[44..48].copy_from_slice(&which.to_le_bytes());
    assert_eq!(admin.plain(sqe).status, 0);
}

/// Nothing comes for some of the times that reactors look.
#[track_caller]
fn expect_nothing(admin: &Wire) {
    SystemClock::new().sleep(Duration::from_millis(400));
    admin.stream.set_nonblocking(true).unwrap();
    let come = admin.stream.peek(&mut [0]).map_err(|error| error.kind());
    admin.stream.set_nonblocking(false).unwrap();
    assert_eq!(come, Err(ErrorKind::WouldBlock));
}

#[test]
fn a_host_that_waits_for_events_is_told_of_a_failure() {
    let (namespace, target) = failing();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let waiting = wait_for_event(&mut admin);
    assert_eq!(health(&mut admin, false), (0, 0));
    expect_nothing(&admin);
    namespace.0.stop(|| "a sync failed".to_owned());
    expect_event(&mut admin, waiting);
    assert_eq!(health(&mut admin, false), (1 << 2, 0));
}

#[test]
fn a_failure_from_before_a_host_connected_is_told_when_it_asks() {
    let (namespace, target) = failing();
    namespace.0.stop(|| "a sync failed".to_owned());
    let (mut admin, _) = Wire::admin(target.address(), 0);
    expect_nothing(&admin);
    let waiting = wait_for_event(&mut admin);
    expect_event(&mut admin, waiting);
}

#[test]
fn further_failures_are_told_once_the_log_was_read() {
    let (namespace, target) = failing();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let waiting = wait_for_event(&mut admin);
    namespace.0.fault(|| "a bad sector".to_owned());
    expect_event(&mut admin, waiting);
    let waiting = wait_for_event(&mut admin);
    namespace.0.fault(|| "another".to_owned());
    assert_eq!(health(&mut admin, true), (1 << 2, 2));
    expect_nothing(&admin);
    assert_eq!(health(&mut admin, false), (1 << 2, 2));
    expect_event(&mut admin, waiting);
    wait_for_event(&mut admin);
    health(&mut admin, false);
    expect_nothing(&admin);
}

#[test]
fn a_namespace_that_could_not_be_opened_is_not_ready_and_the_others_are() {
    let failed = |set| Arc::new(FailedNamespace::new([9; 16], set, "a bad manifest".to_owned()));
    let mut subsystem = subsystem(Access::Anyone);
    subsystem.namespaces.push(failed(CommandSet::KeyValue));
    subsystem.namespaces.push(failed(CommandSet::Nvm));
    let target = start(subsystem);
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    for (namespace, ready) in [(1, 1), (2, 1), (3, 0), (4, 0)] {
        let mut identify = entry(0x06, namespace);
        identify[40] = 8;
        assert_eq!(admin.reading(identify, 4096).0[14], ready, "NSTAT of {namespace}");
    }
    assert_eq!(health(&mut admin, false), (1 << 2, 0));
    let mut commands = [0x01, 0x02, 0x06, 0x10, 0x14].map(|opcode| key_command(opcode, b"k", 0, 0));
    commands.iter_mut().for_each(|command| command[4] = 3);
    let blocks = [0x00, 0x01, 0x02, 0x08].map(|opcode| entry(opcode, 4));
    for command in commands.into_iter().chain(blocks) {
        let done = io.plain(command);
        assert_eq!((done.status, done.do_not_retry), (0x82, true), "opcode {}", command[0]);
    }
    assert_eq!(io.store(b"k", b"v").status, 0);
}

#[test]
fn a_host_that_wants_other_events_is_not_told() {
    let (namespace, target) = failing();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    ask_for_events(&mut admin, 0x100);
    let waiting = wait_for_event(&mut admin);
    namespace.0.stop(|| "a sync failed".to_owned());
    expect_nothing(&admin);
    ask_for_events(&mut admin, 0x104);
    expect_event(&mut admin, waiting);
}
