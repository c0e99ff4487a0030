//! Data digests in both forms, and commands whose id an event request has.

use crate::open_target;
use crate::wire::{Wire, entry};

const LENGTHS: [usize; 9] = [1, 2, 3, 4, 5, 4094, 4095, 4096, 4097];

/// Stores and retrieves values of all lengths, in capsules and by R2T.
fn go_both_ways(pads_digests: bool) {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 3);
    io.pads_digests = pads_digests;
    for bytes in LENGTHS {
        let value = vec![bytes as u8 | 1; bytes];
        assert_eq!(io.store(b"capsule", &value).status, 0, "{bytes} bytes in a capsule");
        assert_eq!(io.store_by_transfer(b"transfer", &value, 1000).status, 0, "{bytes} bytes");
        for key in [&b"capsule"[..], b"transfer"] {
            // Checks the digest, in the form that this host uses.
            assert!(io.retrieve(key, bytes as u32).0 == value);
        }
    }
}

#[test]
fn digests_of_the_data_alone_are_accepted_and_sent() {
    go_both_ways(false);
}

#[test]
fn digests_of_padded_data_are_accepted_and_sent_to_hosts_that_use_them() {
    go_both_ways(true);
}

#[test]
fn a_digest_of_neither_form_fails_its_command_and_nothing_else() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 3);
    for bytes in LENGTHS {
        let mut sqe = crate::wire::key_command(0x01, b"k", bytes as u32, 0);
        crate::wire::in_capsule(&mut sqe, bytes);
        let mut pdu = io.capsule(&sqe, &vec![1; bytes]);
        *pdu.last_mut().unwrap() ^= 1;
        std::io::Write::write_all(&mut io.stream, &pdu).unwrap();
        let done = io.completion();
        assert_eq!((done.status, done.do_not_retry), (0x22, false));
    }
    assert_eq!(io.store(b"k", b"v").status, 0);
}

/// SPDK gives the ids of its event requests to others when it shuts a controller down.
#[test]
fn a_command_may_take_the_id_of_an_event_request_that_its_host_has_forgotten() {
    let target = open_target();
    let (mut admin, _) = Wire::admin(target.address(), 0);
    let held: Vec<u16> = (0..4).map(|_| admin.send(&mut entry(0x0c, 0), &[])).collect();
    let mut shutdown = entry(0x7f, 0);
    shutdown[2..4].copy_from_slice(&held[1].to_le_bytes());
    shutdown[44..48].copy_from_slice(&0x14u32.to_le_bytes());
    shutdown[48..56].copy_from_slice(&0x0046_4061u64.to_le_bytes());
    let pdu = admin.capsule(&shutdown, &[]);
    std::io::Write::write_all(&mut admin.stream, &pdu).unwrap();
    let done = admin.completion();
    assert_eq!((done.id, done.status), (held[1], 0));
    assert_eq!(admin.get_property(0x1c, false).1 & 0xc, 8, "shut down");
}
