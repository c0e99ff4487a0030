//! What ends a connection, and what the peer is sent.

use crate::handmade::{bytes, initialize_request, store_capsule};
use esker_nvme::pdu::{Decoder, Digests, FatalError, FatalStatus, HostPdu, Limits, Sender};

const LIMITS: Limits = Limits { command_data_bytes: 8192, data_bytes: 4096 };

fn opened(digests: u8) -> Decoder {
    let mut decoder = Decoder::new(Sender::Host, LIMITS);
    decoder.push(&initialize_request(digests));
    decoder.next_frame().unwrap().unwrap();
    decoder.agreed(Digests::of(digests).unwrap());
    decoder
}

/// The error that `pdu`, or the beginning of one, leads to.
#[track_caller]
fn fatal(mut decoder: Decoder, pdu: &[u8]) -> (FatalStatus, u32) {
    decoder.push(pdu);
    let error: FatalError = match decoder.next_frame() {
        Err(fatal) => fatal,
        Ok(None) => panic!("more was waited for"),
        Ok(Some(frame)) => HostPdu::parse(&frame).expect_err("it was taken"),
    };
    (error.status, error.information)
}

const FIELD: FatalStatus = FatalStatus::InvalidHeaderField;

#[test]
fn types_that_are_not_a_hosts_are_refused_by_their_first_byte() {
    for kind in [1, 3, 5, 7, 8, 9, 10, 255] {
        assert_eq!(fatal(opened(0), &[kind, 0, 24, 0, 24, 0, 0, 0]), (FIELD, 0), "type {kind}");
    }
}

#[test]
fn the_first_pdu_opens_and_no_other_does() {
    let fresh = Decoder::new(Sender::Host, LIMITS);
    assert_eq!(fatal(fresh, &store_capsule()), (FatalStatus::Sequence, 0));
    assert_eq!(fatal(opened(0), &initialize_request(0)), (FatalStatus::Sequence, 0));
}

#[test]
fn an_opening_of_another_format_or_with_unknown_digests_is_refused() {
    let refused = |offset: usize, value: u8| {
        let mut request = initialize_request(0);
        request[offset] = value;
        fatal(Decoder::new(Sender::Host, LIMITS), &request)
    };
    assert_eq!(refused(8, 1), (FatalStatus::UnsupportedParameter, 8));
    assert_eq!(refused(10, 32), (FIELD, 10));
    assert_eq!(refused(11, 4), (FIELD, 11));
    assert_eq!(refused(2, 127), (FIELD, 2));
    assert_eq!(refused(4, 129), (FIELD, 4));
}

#[test]
fn flags_that_were_not_agreed_on_are_refused() {
    let mut pdu = store_capsule();
    pdu[1] = 1;
    assert_eq!(fatal(opened(0), &pdu), (FIELD, 1), "a header digest");
    pdu[1] = 2;
    assert_eq!(fatal(opened(0), &pdu), (FIELD, 1), "a data digest");
    pdu[1] = 4;
    assert_eq!(fatal(opened(0), &pdu), (FIELD, 1), "no flag of a command");
    pdu[1] = 0;
    assert_eq!(fatal(opened(1), &pdu), (FIELD, 1), "no header digest");
}

#[test]
fn a_header_that_does_not_match_its_digest_is_not_believed() {
    let header = [4, 1, 72, 0, 76, 0, 0, 0];
    let mut pdu = bytes(76, &[(0, &header), (72, &[1, 2, 3, 4])]);
    assert_eq!(fatal(opened(1), &pdu), (FatalStatus::HeaderDigest, 0x0403_0201));
    pdu.truncate(75);
    let mut decoder = opened(1);
    decoder.push(&pdu);
    assert_eq!(decoder.next_frame(), Ok(None), "the digest is not there yet");
}

#[test]
fn lengths_are_refused_before_anything_is_waited_for() {
    let capsule = |plen: u32, pdo: u8| {
        let plen = plen.to_le_bytes();
        fatal(opened(0), &[4, 0, 72, pdo, plen[0], plen[1], plen[2], plen[3]])
    };
    assert_eq!(capsule(71, 72), (FIELD, 4), "shorter than its header");
    assert_eq!(capsule(72 + 8193, 72), (FIELD, 4), "more than fits into a capsule");
    assert_eq!(capsule(u32::MAX, 72), (FIELD, 4));
    for offset in [0, 4, 68, 70, 73, 84] {
        assert_eq!(capsule(80, offset), (FIELD, 3), "data at {offset}");
    }
    let data = [6, 4, 24, 24, 25, 16, 0, 0];
    assert_eq!(fatal(opened(0), &data), (FatalStatus::TransferLimit, 0), "4097 bytes of data");
    assert_eq!(fatal(opened(0), &[2, 0, 24, 0, 153, 0, 0, 0]), (FIELD, 4), "a long termination");
}

#[test]
fn data_whose_length_is_not_the_pdus_is_refused() {
    for stated in [0u32, 7, 9, u32::MAX] {
        let pdu = bytes(32, &[(0, &[6, 4, 24, 24, 32]), (16, &stated.to_le_bytes())]);
        assert_eq!(fatal(opened(0), &pdu), (FIELD, 16), "{stated} stated, 8 there");
    }
    let empty = bytes(24, &[(0, &[6, 4, 24, 0, 24])]);
    assert_eq!(fatal(opened(0), &empty), (FIELD, 16), "no data at all");
}

#[test]
fn a_connection_that_says_nothing_costs_little() {
    let mut decoder = Decoder::new(Sender::Host, LIMITS);
    decoder.push(&initialize_request(0)[..100]);
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.memory_bytes() <= 256);
}

#[test]
fn the_buffer_never_grows_beyond_twice_the_longest_pdu() {
    let mut decoder = opened(0);
    let largest = 72 + LIMITS.command_data_bytes as u32;
    let mut pdu = bytes(largest as usize, &[(0, &[4, 0, 72, 72])]);
    pdu[4..8].copy_from_slice(&largest.to_le_bytes());
    for _ in 0..100 {
        let mut rest = &pdu[..];
        while !rest.is_empty() {
            rest = &rest[decoder.push(rest)..];
            while decoder.next_frame().unwrap().is_some() {}
        }
    }
    assert!(decoder.memory_bytes() <= 2 * pdu.len().max(8192), "{}", decoder.memory_bytes());
}
