//! TLS, in a build that has it. Otherwise these tests are skipped.

use crate::controllers::{DISCOVERY, HandClock};
use crate::wire::{Wire, connect, in_capsule};
use crate::{HOST, NODE, settings, start_reactors, subsystem, wait_until};
use esker_base::{Background, Clock, SystemClock, SystemEntropy, Threads};
use esker_nvme::Nqn;
use esker_nvme::tls::TlsKey;
use esker_target::{Access, HostAccess, Target, limits};
use esker_tls::{Channel, client_psks};
use std::io::{Read, Write};
use std::sync::Arc;

const KEY: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const OPEN: &str = "nqn.2024-01.com.example:open";

/// ICReq without digests.
fn initialize() -> Vec<u8> {
    let mut request = vec![0; 128];
    request[..8].copy_from_slice(&[0, 0, 128, 0, 128, 0, 0, 0]);
    request
}

fn is_built() -> bool {
    if !esker_tls::IS_BUILT {
        esker_base::skipped(
            "connections by TLS",
            "built without TLS; --features esker-tls/s2n has it",
        );
    }
    esker_tls::IS_BUILT
}

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).unwrap()
}

/// A node for HOST, by TLS, and for OPEN.
fn guarded(clock: Arc<dyn Clock>) -> Target {
    let entry = |host, tls_keys| HostAccess::new(nqn(host)).tls_keys(tls_keys);
    let keys = vec![TlsKey::parse(KEY).unwrap()];
    let access = Access::Listed(vec![entry(HOST, keys), entry(OPEN, Vec::new())]);
    start_reactors(1, subsystem(access), clock)
}

/// A host's end, by hand.
struct Tls {
    wire: Wire,
    channel: Channel,
}

impl Tls {
    /// With the key of HOST for a subsystem.
    fn open(target: &Target, subsystem: &str) -> Self {
        let mut tls = Self::begin(target, subsystem);
        while !tls.channel.handshake().unwrap() {
            tls.flush();
            tls.fill();
        }
        tls.flush();
        tls
    }

    /// The same, without its last message.
    fn begin(target: &Target, subsystem: &str) -> Self {
        let psks = client_psks(&TlsKey::parse(KEY).unwrap(), &nqn(HOST), &nqn(subsystem));
        let channel = Channel::client(&psks[0]).unwrap();
        let mut tls = Tls { wire: Wire::raw(target.address()), channel };
        tls.flush();
        assert_ne!(tls.fill(), 0);
        tls
    }

    fn flush(&mut self) {
        let output = self.channel.take_output();
        self.wire.stream.write_all(&output).unwrap();
    }

    fn fill(&mut self) -> usize {
        let mut piece = [0; 20_000];
        let bytes = self.wire.stream.read(&mut piece).unwrap();
        self.channel.feed(&piece[..bytes]);
        bytes
    }

    fn send(&mut self, bytes: &[u8]) {
        self.channel.encrypt(bytes).unwrap();
        self.flush();
    }

    fn read(&mut self, bytes: usize) -> Vec<u8> {
        let (mut all, mut piece) = (Vec::new(), [0; 200]);
        while all.len() < bytes {
            match self.channel.decrypt(&mut piece).unwrap() {
                Some(more) => all.extend_from_slice(&piece[..more]),
                None => assert_ne!(self.fill(), 0, "the node closed it"),
            }
        }
        all
    }

    /// The status of a Connect.
    fn connect(&mut self, node: &str, host: &str) -> u16 {
        self.send(&initialize());
        self.read(128);
        let (mut sqe, data) = connect(node, host, 0xffff, 0, 31, 0);
        in_capsule(&mut sqe, data.len());
        let mut pdu = vec![4, 0, 72, 72];
        pdu.extend_from_slice(&(72 + data.len() as u32).to_le_bytes());
        pdu.extend_from_slice(&sqe);
        pdu.extend_from_slice(&data);
        // In pieces: records need not be PDUs.
        pdu.chunks(100).for_each(|piece| self.send(piece));
        let answer = self.read(24);
        u16::from_le_bytes([answer[22], answer[23]]) >> 1 & 0x7ff
    }
}

const SUCCESS: u16 = 0;
const INVALID_PARAMETERS: u16 = 0x182;
const INVALID_HOST: u16 = 0x184;

#[test]
fn a_host_is_who_its_key_says_and_no_other() {
    if !is_built() {
        return;
    }
    let target = guarded(Arc::new(SystemClock::new()));
    assert_eq!(Tls::open(&target, NODE).connect(NODE, HOST), SUCCESS);
    assert_eq!(Tls::open(&target, NODE).connect(NODE, OPEN), INVALID_PARAMETERS);
    assert_eq!(Tls::open(&target, DISCOVERY).connect(NODE, HOST), INVALID_PARAMETERS);
    assert_eq!(Tls::open(&target, DISCOVERY).connect(DISCOVERY, HOST), SUCCESS);
    let in_clear_text =
        |node, host| Wire::open(target.address(), 0).connect(node, host, 0xffff, 0, 31, 0).status;
    assert_eq!(in_clear_text(NODE, HOST), INVALID_HOST);
    assert_eq!(in_clear_text(NODE, OPEN), SUCCESS);
    assert_eq!(in_clear_text(DISCOVERY, HOST), SUCCESS);
}

#[test]
fn a_record_that_was_changed_ends_the_connection_and_is_no_refusal() {
    if !is_built() {
        return;
    }
    let target = guarded(Arc::new(SystemClock::new()));
    let mut tls = Tls::open(&target, NODE);
    assert_eq!(tls.connect(NODE, HOST), SUCCESS);
    tls.channel.encrypt(&[7; 100]).unwrap();
    let mut record = tls.channel.take_output();
    *record.last_mut().unwrap() ^= 1;
    tls.wire.stream.write_all(&record).unwrap();
    wait_until("it ends", || target.totals().connections_closed == 1);
    assert_eq!(target.totals().tls_refused, 0);
}

#[test]
fn a_host_that_is_listed_twice_is_refused_at_the_start() {
    let entry = |tls_keys| HostAccess::new(nqn(HOST)).tls_keys(tls_keys);
    // By its first entry it would need no TLS.
    let entries = vec![entry(Vec::new()), entry(vec![TlsKey::parse(KEY).unwrap()])];
    let settings = settings(1, subsystem(Access::Listed(entries)));
    let (clock, entropy) = (Arc::new(SystemClock::new()), Arc::new(SystemEntropy));
    let background: Arc<dyn Background> = Arc::new(Threads);
    let started = Target::start(settings, clock, entropy, &background);
    assert!(started.err().is_some_and(|error| error.to_string().contains("listed twice")));
}

#[test]
fn a_handshake_that_stands_still_ends_like_any_connection() {
    let clock = Arc::new(HandClock::default());
    let target = guarded(clock.clone());
    let mut wire = Wire::raw(target.address());
    wire.stream.write_all(&[22, 3, 1]).unwrap();
    if is_built() {
        wait_until("it is there", || target.totals().connections_opened == 1);
        clock.sleep(limits::CONNECT_TIME);
    }
    // Without TLS it ends at once.
    assert_eq!(wire.stream.read(&mut [0]).unwrap(), 0);
    wait_until("it is gone", || target.totals().connections_closed == 1);
}

#[test]
fn a_reactor_has_so_many_handshakes_at_a_time() {
    if !is_built() {
        return;
    }
    let target = guarded(Arc::new(HandClock::default()));
    let begin = || {
        let mut wire = Wire::raw(target.address());
        wire.stream.write_all(&[22, 3, 1]).unwrap();
        wire
    };
    let most = limits::HANDSHAKES as u64;
    let mut silent: Vec<_> = (0..most).map(|_| begin()).collect();
    wait_until("all are there", || target.totals().connections_opened == most);
    // Silent hosts make room for one with a key, the oldest first.
    assert_eq!(Tls::open(&target, NODE).connect(NODE, HOST), SUCCESS);
    assert_eq!(silent[0].stream.read(&mut [0]).unwrap(), 0);
    assert_eq!(target.totals().tls_refused, 1);
    silent.clear();
    wait_until("all are gone", || target.totals().connections_closed == most + 1);
    // Hosts that have proved their key, and go no further.
    let proved: Vec<_> = (0..most).map(|_| Tls::begin(&target, NODE)).collect();
    assert_eq!(target.totals().tls_refused, 1);
    let mut more = begin();
    assert_eq!(more.stream.read(&mut [0]).unwrap(), 0, "one more is refused");
    assert_eq!(target.totals().tls_refused, 2);
    drop(proved);
    // Clear text is another matter.
    let open = Wire::open(target.address(), 0).connect(NODE, OPEN, 0xffff, 0, 31, 0);
    assert_eq!(open.status, SUCCESS);
}
