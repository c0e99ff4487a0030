//! Discovery, identity, features, keep-alive, and how queues belong together.

use crate::held::holding;
use crate::wire::{Wire, entry, key_command};
use crate::{Access, HOST, NODE, open_target, start, start_by, subsystem};
use esker_base::Clock;
use esker_nvme::Nqn;
use esker_target::{Answer, HostAccess, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that is set by hand, in milliseconds.
#[derive(Default)]
pub struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, Ordering::SeqCst);
    }
}

pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

fn identify(admin: &mut Wire, structure: u8, namespace: u32, set: u8) -> (Vec<u8>, u16) {
    let mut sqe = entry(0x06, namespace);
    sqe[40] = structure;
    sqe[47] = set;
    let (data, done) = admin.reading(sqe, 4096);
    (data, done.status)
}

fn log_page(admin: &mut Wire, page: u8, set: u8, bytes: u32) -> (Vec<u8>, u16) {
    let mut sqe = entry(0x02, 0xffff_ffff);
    sqe[40] = page;
    sqe[42..44].copy_from_slice(&((bytes / 4 - 1) as u16).to_le_bytes());
    sqe[59] = set;
    let (data, done) = admin.reading(sqe, bytes);
    (data, done.status)
}

fn feature(admin: &mut Wire, opcode: u8, feature: u8, value: u32) -> (u16, u32) {
    let mut sqe = entry(opcode, 0);
    sqe[40] = feature;
    sqe[44..48].copy_from_slice(&value.to_le_bytes());
    let done = admin.plain(sqe);
    (done.status, done.word)
}

#[test]
fn discovery_tells_where_the_subsystem_is() {
    let target = open_target();
    let mut wire = Wire::open(target.address(), 0);
    assert_eq!(wire.connect(DISCOVERY, HOST, 0xffff, 0, 31, 0).status, 0);
    wire.enable();
    let (controller, _) = identify(&mut wire, 1, 0, 0);
    assert_eq!(controller[111], 2, "a discovery controller");
    let (log, status) = log_page(&mut wire, 0x70, 0, 2048);
    assert_eq!((status, log[8]), (0, 1), "one entry");
    let entry = &log[1024..];
    assert_eq!((entry[0], entry[2]), (3, 2), "TCP, with namespaces");
    assert_eq!(&entry[256..256 + NODE.len()], NODE.as_bytes());
    let port = String::from_utf8_lossy(&entry[32..64]).trim_end().to_owned();
    assert_eq!(port, target.address().port().to_string());
    assert_eq!(&entry[512..521], b"127.0.0.1");
}

#[test]
fn what_linux_asks_is_answered() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    assert_eq!(admin.get_property(0, true).1, 0x820_1401_007f, "CAP");
    assert_eq!(admin.get_property(8, false).1, 0x0002_0000, "VS");
    assert_eq!(admin.get_property(0x14, false).1, 0x0046_0061, "CC");
    let (controller, _) = identify(&mut admin, 1, 0, 0);
    assert_eq!(&controller[4..14], b"ESKER-TEST");
    assert_eq!((controller[516], controller[525]), (2, 0), "NN, no volatile cache");
    assert_eq!(log_page(&mut admin, 2, 0, 512).1, 0, "health");
    assert_eq!(feature(&mut admin, 0x09, 0x07, 0x0001_0001), (0, 0x003f_003f), "64 queues");
    assert_eq!(identify(&mut admin, 6, 0, 1).1, 0);
    assert_eq!(identify(&mut admin, 2, 0, 0).0[..12], [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    let (names, _) = identify(&mut admin, 3, 1, 0);
    assert_eq!((names[20], names[21]), (3, 16), "a UUID");
    assert_eq!((names[40], names[41], names[44]), (4, 1, 1), "namespace 1 holds keys");
    assert_eq!(identify(&mut admin, 8, 1, 0).0[14], 1, "and is ready");
    let (effects, _) = log_page(&mut admin, 5, 1, 4096);
    assert_eq!((effects[1024 + 4], effects[1024 + 8]), (3, 1), "store, retrieve");
}

#[test]
fn what_spdk_asks_is_answered() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    assert_eq!(feature(&mut admin, 0x09, 0x0b, 0x100), (0, 0), "event configuration");
    assert_eq!(feature(&mut admin, 0x0a, 0x0b, 0), (0, 0x100));
    assert_eq!(feature(&mut admin, 0x0a, 0x0f, 0), (0, 0), "keep alive");
    assert_eq!(identify(&mut admin, 6, 0, 0).1, 0);
    assert_eq!(identify(&mut admin, 6, 0, 2).1, 0x29, "zones are not known");
    assert_eq!(identify(&mut admin, 7, 0, 1).0[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
    let (keys, _) = identify(&mut admin, 5, 1, 1);
    assert_eq!((keys[72], keys[78]), (16, 16), "keys of 16 bytes, values of 1 MiB");
    let (plain, _) = identify(&mut admin, 0, 1, 0);
    assert!(plain[8..16].iter().any(|&byte| byte != 0), "NCAP, or SPDK leaves it out");
    assert_eq!(identify(&mut admin, 0, 9, 0).1, 0x0b, "no such namespace");
}

#[test]
fn bytes_in_use_stand_where_the_command_set_has_them() {
    let target = open_target();
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.store(b"key", &[1; 1000]).status, 0);
    let (keys, _) = identify(&mut admin, 5, 1, 1);
    let at = |place: usize| u64::from_le_bytes(keys[place..place + 8].try_into().unwrap());
    assert_eq!((at(0), at(8), at(16)), (1 << 30, 0, 1003), "NSZE, nothing, NUSE");
}

#[test]
fn a_namespace_of_keys_shows_no_blocks_to_who_asks_for_them() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let (keys, status) = identify(&mut admin, 0, 1, 0);
    assert_eq!((status, &keys[..8], keys[130]), (0, &[0; 8][..], 0), "NSZE, and LBADS of format 0");
    assert_eq!(keys[104..120], [1; 16], "NGUID");
    let (blocks, _) = identify(&mut admin, 0, 2, 0);
    assert_eq!((blocks[..2].to_vec(), blocks[130]), (vec![0, 64], 9), "16 Ki blocks of 512 B");
}

#[test]
fn a_controller_says_what_sgls_it_takes() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let (controller, _) = identify(&mut admin, 1, 0, 0);
    let sgls = u32::from_le_bytes(controller[536..540].try_into().unwrap());
    assert_eq!(sgls, 0x0030_0001, "offsets and transport blocks, and no keyed ones");
}

#[test]
fn every_mandatory_feature_is_there_and_keeps_what_is_set() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    const GET: u8 = 0x0a;
    const SET: u8 = 0x09;
    assert_eq!(feature(&mut admin, GET, 0x01, 0), (0, 7), "arbitration without limit");
    assert_eq!(feature(&mut admin, SET, 0x01, 0x0102_0303), (0, 0));
    assert_eq!(feature(&mut admin, GET, 0x01, 0), (0, 0x0102_0303));
    assert_eq!(feature(&mut admin, GET, 0x02, 0), (0, 0), "power state 0");
    assert_eq!(feature(&mut admin, SET, 0x02, 0), (0, 0));
    assert_eq!(feature(&mut admin, SET, 0x02, 1).0, 0x02, "there is no power state 1");
    let under = 1 << 20;
    assert_eq!(feature(&mut admin, GET, 0x04, 0), (0, 0xffff), "no upper threshold");
    assert_eq!(feature(&mut admin, GET, 0x04, under), (0, 0), "no lower one");
    assert_eq!(feature(&mut admin, SET, 0x04, under | 280), (0, 0));
    assert_eq!(feature(&mut admin, GET, 0x04, under), (0, 280));
    assert_eq!(feature(&mut admin, GET, 0x04, 0), (0, 0xffff));
    assert_eq!(feature(&mut admin, GET, 0x04, 1 << 16).0, 0x02, "there is no sensor 1");
    assert_eq!(feature(&mut admin, GET, 0x05, 0), (0, 0), "error recovery");
    assert_eq!(feature(&mut admin, GET, 0x0a, 0), (0, 0), "write atomicity");
    assert_eq!(feature(&mut admin, GET, 0x06, 0).0, 0x02, "there is no cache");
    let mut save = entry(SET, 0);
    (save[40], save[43]) = (0x01, 0x80);
    assert_eq!(admin.plain(save).status, 0x10d, "nothing is saved");
    let mut can = entry(GET, 0);
    (can[40], can[41]) = (0x01, 3);
    assert_eq!(admin.plain(can).word, 4, "it can be changed");
}

#[test]
fn every_log_page_that_is_listed_is_there_and_no_other() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let (pages, status) = log_page(&mut admin, 0x00, 0, 1024);
    assert_eq!(status, 0);
    for page in 0..=255u8 {
        let is_listed = pages[usize::from(page) * 4] & 1 != 0;
        let (_, status) = log_page(&mut admin, page, 0, 512);
        assert_eq!((page, status), (page, if is_listed { 0 } else { 0x109 }));
    }
    assert_eq!(log_page(&mut admin, 0x00, 0, 4).0, [1, 0, 0, 0]);
    let (features, _) = log_page(&mut admin, 0x12, 0, 1024);
    for number in 0..=255u8 {
        let is_listed = features[usize::from(number) * 4] & 1 != 0;
        assert_eq!((number, feature(&mut admin, 0x0a, number, 0).0 == 0), (number, is_listed));
    }
}

/// Linux refuses a second controller of a subsystem without CMIC bit 1, and a second path to a
/// namespace without NMIC bit 0.
#[test]
fn a_host_may_have_several_controllers_with_the_same_namespaces() {
    let target = open_target();
    let mut ids = Vec::new();
    let mut queues: Vec<_> = (0..3).map(|_| Wire::queues(target.address(), 0)).collect();
    for (admin, _) in &mut queues {
        let (controller, _) = identify(admin, 1, 0, 0);
        assert_eq!(controller[76], 3, "CMIC: ports and controllers, no ANA");
        ids.push(u16::from_le_bytes([controller[78], controller[79]]));
        for namespace in [1, 2] {
            assert_eq!(identify(admin, 8, namespace, 0).0[1], 1, "NMIC of {namespace}");
            assert_eq!(identify(admin, 0, namespace, 0).0[30], 1, "NMIC of {namespace}");
        }
        assert_eq!(identify(admin, 5, 1, 1).0[26], 1, "NMIC as its command set has it");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3, "CNTLID");
    let names: Vec<_> = queues.iter_mut().map(|(admin, _)| identify(admin, 3, 2, 0).0).collect();
    assert!(names.iter().all(|name| *name == names[0]), "one namespace by all ways");
    // What is stored by one way is there by another, also when the first is gone.
    assert_eq!(queues[0].1.store(b"k", b"v").status, 0);
    queues.remove(0);
    assert_eq!(queues[1].1.retrieve(b"k", 16).0, b"v");
}

#[test]
fn event_requests_are_held_up_to_four_and_can_be_aborted() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let held: Vec<u16> = (0..4).map(|_| admin.send(&mut entry(0x0c, 0), &[])).collect();
    assert_eq!(admin.plain(entry(0x0c, 0)).status, 0x105, "the fifth");
    let mut abort = entry(0x08, 0);
    abort[42..44].copy_from_slice(&held[1].to_le_bytes());
    admin.send(&mut abort, &[]);
    let (event, done) = (admin.completion(), admin.completion());
    assert_eq!((event.id, event.status), (held[1], 0x07));
    assert_eq!((done.status, done.word), (0, 0), "it was aborted");
    assert_eq!(admin.plain(abort).word, 1, "nothing more to abort");
}

#[test]
fn a_silent_host_loses_its_controller() {
    let clock = Arc::new(HandClock::default());
    let target = start_by(subsystem(Access::Anyone), clock.clone());
    let mut admin = Wire::open(target.address(), 0);
    let controller = admin.connect(NODE, HOST, 0xffff, 0, 31, 2000).word as u16;
    admin.enable();
    let mut io = Wire::io(target.address(), 0, controller, 1);
    assert_eq!(admin.plain(entry(0x18, 0)).status, 0, "keep alive");
    clock.sleep(Duration::from_millis(2000));
    admin.ends();
    io.ends();
}

#[test]
fn io_queues_go_with_their_admin_queue() {
    let target = open_target();
    let (admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.store(b"k", b"v").status, 0);
    drop(admin);
    io.ends();
}

#[test]
fn a_reset_ends_io_queues_and_leaves_the_admin_queue() {
    let target = open_target();
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    admin.set_property(0x14, 0x0046_0060);
    io.ends();
    assert_eq!(admin.get_property(0x1c, false).1, 0, "not ready");
    assert_eq!(identify(&mut admin, 1, 0, 0).1, 0x0c, "and nothing is done");
    admin.enable();
    admin.set_property(0x14, 0x0046_4061);
    assert_eq!(admin.get_property(0x1c, false).1 & 0xc, 8, "shut down");
}

/// The status of a Connect, and its word.
fn refused(
    target: &Target,
    node: &str,
    host: &str,
    controller: u16,
    queue: u16,
    entries: u16,
) -> (u16, u32) {
    let done = Wire::open(target.address(), 0).connect(node, host, controller, queue, entries, 0);
    (done.status, done.word)
}

#[test]
fn connects_that_make_no_sense_are_refused_by_field() {
    let target = open_target();
    let (_admin, own) = Wire::admin(target.address(), 0);
    let _first = Wire::io(target.address(), 0, own, 1);
    let data = 1 << 16;
    assert_eq!(refused(&target, "nqn.other", HOST, 0xffff, 0, 31), (0x182, 256 | data));
    assert_eq!(refused(&target, NODE, "host", 0xffff, 0, 31), (0x182, 512 | data));
    assert_eq!(refused(&target, NODE, HOST, 5, 0, 31), (0x182, 16 | data), "a chosen controller");
    assert_eq!(refused(&target, NODE, HOST, 0xffff, 0, 0), (0x182, 44), "a queue of one entry");
    assert_eq!(refused(&target, NODE, HOST, own, 2, 128), (0x182, 44), "129 entries");
    assert_eq!(refused(&target, NODE, HOST, own, 65, 127), (0x182, 42), "queue 65");
    assert_eq!(refused(&target, NODE, HOST, own + 1, 2, 127), (0x182, 16 | data));
    assert_eq!(refused(&target, NODE, "nqn.b", own, 2, 127), (0x182, 512 | data), "another's");
    assert_eq!(refused(&target, NODE, HOST, own, 1, 127).0, 0x0c, "queue 1 is there");
}

#[test]
fn nothing_is_done_before_a_connect_or_a_start() {
    let target = open_target();
    let mut wire = Wire::open(target.address(), 0);
    assert_eq!(wire.plain(key_command(0x14, b"k", 0, 0)).status, 0x0c);
    assert_eq!(wire.get_property(0, true).0.status, 0x0c);
    let done = wire.connect(NODE, HOST, 0xffff, 0, 31, 0);
    assert_eq!(done.status, 0);
    assert_eq!(identify(&mut wire, 1, 0, 0).1, 0x0c, "the controller was not started");
    assert_eq!(refused(&target, NODE, HOST, done.word as u16, 1, 31).0, 0x0c);
    assert_eq!(wire.connect(NODE, HOST, 0xffff, 0, 31, 0).status, 0x0c, "a second time");
}

#[test]
fn hosts_that_are_not_listed_are_refused_and_see_nothing() {
    let listed = HostAccess::new(Nqn::new(HOST).unwrap());
    let target = start(subsystem(Access::Listed(vec![listed])));
    assert_eq!(refused(&target, NODE, "nqn.stranger", 0xffff, 0, 31).0, 0x184);
    let mut wire = Wire::open(target.address(), 0);
    wire.connect(DISCOVERY, "nqn.stranger", 0xffff, 0, 31, 0);
    wire.enable();
    assert_eq!(log_page(&mut wire, 0x70, 0, 1024).0[8], 0, "no entries");
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.store(b"k", b"v").status, 0);
}

#[test]
fn completions_say_how_far_the_queue_was_taken() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let heads: Vec<u16> = (0..130).map(|_| io.store(b"k", b"v").head).collect();
    assert_eq!((heads[0], heads[125], heads[126], heads[127]), (2, 127, 0, 1), "modulo 128");
}

#[test]
fn a_host_may_do_without_flow_control() {
    let target = open_target();
    let (_admin, controller) = Wire::admin(target.address(), 0);
    let mut io = Wire::open(target.address(), 0);
    let done = io.connect_without_flow_control(NODE, HOST, controller, 1);
    assert_eq!((done.status, done.head), (0, 0xffff), "agreed to");
    assert_eq!(io.store(b"k", b"v").status, 0);
}

#[test]
fn draining_finishes_what_is_under_way() {
    let (held, target) = holding(false);
    let address = target.address();
    let (_admin, controller) = Wire::admin(address, 0);
    let [mut io, mut idle] = [1, 2].map(|queue| Wire::io(address, 0, controller, queue));
    let mut sqe = key_command(0x01, b"k", 8192, 0);
    crate::wire::in_capsule(&mut sqe, 8192);
    let id = io.send(&mut sqe, &[1; 8192]);
    while held.count() == 0 {
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| target.drain());
        idle.ends();
        held.answer_one(Answer::Done);
        let done = io.completion();
        assert_eq!((done.id, done.status), (id, 0));
        io.ends();
    });
    assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
}
