//! PDUs are what the specification's figures say.

use crate::handmade;
use esker_nvme::command::kv::{Condition, Key, KvCommand};
use esker_nvme::pdu::{
    ControllerPdu, DataHeader, Decoder, Digests, Encoder, FatalError, FatalStatus, HostPdu,
    InitializeRequest, InitializeResponse, Limits, ReadyToTransfer, Sender, Termination,
};
use esker_nvme::{Cqe, Status};

const LIMITS: Limits = Limits { command_data_bytes: 65_536, data_bytes: 131_072 };

fn opened(sender: Sender, digests: Digests) -> Decoder {
    let mut decoder = Decoder::new(sender, LIMITS);
    let first = match sender {
        Sender::Host => handmade::initialize_request(digests.byte()),
        Sender::Controller => {
            let digests = [digests.byte()];
            handmade::bytes(128, &[(0, &[1, 0, 128, 0, 128]), (11, &digests), (12, &[0, 0, 2, 0])])
        }
    };
    assert_eq!(decoder.push(&first), 128);
    decoder.next_frame().unwrap().expect("the opening is whole");
    decoder.agreed(digests);
    decoder
}

#[track_caller]
fn push_all(decoder: &mut Decoder, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let _ = decoder.next_frame();
        rest = &rest[decoder.push(rest)..];
    }
}

#[test]
fn a_request_to_open_has_128_bytes_and_a_limit_that_is_0s_based() {
    let request = InitializeRequest {
        data_alignment: 0,
        digests: Digests { header: true, data: false },
        ready_to_transfer_max: 1,
    };
    assert_eq!(request.encode()[..], handmade::initialize_request(1));
    let mut decoder = Decoder::new(Sender::Host, LIMITS);
    decoder.push(&request.encode());
    let frame = decoder.next_frame().unwrap().unwrap();
    assert_eq!(HostPdu::parse(&frame), Ok(HostPdu::Initialize(request)));
}

#[test]
fn the_answer_to_it_announces_the_most_data_of_a_pdu() {
    let answer = InitializeResponse {
        data_alignment: 0,
        digests: Digests { header: true, data: true },
        host_data_bytes_max: 131_072,
    };
    let expected =
        handmade::bytes(128, &[(0, &[1, 0, 128, 0, 128]), (11, &[3]), (12, &[0, 0, 2, 0])]);
    assert_eq!(answer.encode()[..], expected);
}

#[test]
fn a_command_brings_its_data_in_the_capsule() {
    let mut decoder = opened(Sender::Host, Digests::default());
    push_all(&mut decoder, &handmade::store_capsule());
    let frame = decoder.next_frame().unwrap().unwrap();
    let Ok(HostPdu::Command(sqe, payload)) = HostPdu::parse(&frame) else { panic!("{frame:?}") };
    assert_eq!((sqe.command_id(), sqe.namespace()), (0x0102, 1));
    assert_eq!(sqe.sgl().unwrap().in_capsule(payload.bytes), Ok(Some(&b"value!!!"[..])));
    let key = Key::new(b"key").unwrap();
    let store = KvCommand::Store { key, bytes: 8, condition: Condition::Always };
    assert_eq!(KvCommand::parse(&sqe), Ok(store));
}

#[test]
fn our_capsule_is_the_one_written_by_hand() {
    let key = Key::new(b"key").unwrap();
    let store = KvCommand::Store { key, bytes: 8, condition: Condition::Always };
    let mut sqe = store.encode(1);
    sqe.set_command_id(0x0102);
    sqe.set_sgl(esker_nvme::command::Sgl::InCapsule { offset: 0, bytes: 8 });
    let mut out = Vec::new();
    let encoder = Encoder::new(Digests::default(), 0);
    encoder.command(&sqe, 8, &mut out);
    out.extend_from_slice(b"value!!!");
    encoder.data_tail(b"value!!!", &mut out);
    assert_eq!(out, handmade::store_capsule());
}

/// CRC32C of eight zero bytes and of nothing are easy to get right by accident; this one is RFC 3720's example,
/// 32 bytes of zeros: AA 36 91 8A in the order in which they are sent.
#[test]
fn digests_are_crc32c_in_the_order_of_iscsi() {
    let encoder = Encoder::new(Digests { header: false, data: true }, 0);
    let mut out = Vec::new();
    encoder.data_tail(&[0; 32], &mut out);
    assert_eq!(out, [0xaa, 0x36, 0x91, 0x8a]);
}

#[test]
fn a_completion_is_24_bytes_and_4_of_digest() {
    let mut out = Vec::new();
    let cqe = Cqe::new(0x0102, Status::KEY_NOT_FOUND).with_word(0x0a0b_0c0d).with_queue(5, 1);
    Encoder::new(Digests::default(), 0).response(&cqe, &mut out);
    let expected = [
        5, 0, 24, 0, 24, 0, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a, 0, 0, 0, 0, 5, 0, 1, 0, 0x02, 0x01, 0x0e,
        0x81,
    ];
    assert_eq!(out, expected);
    let mut with_digest = Vec::new();
    Encoder::new(Digests { header: true, data: true }, 0).response(&cqe, &mut with_digest);
    assert_eq!((with_digest.len(), with_digest[1], with_digest[4]), (28, 1, 28));
}

#[test]
fn a_request_for_data_names_command_tag_offset_and_length() {
    let mut out = Vec::new();
    let ready =
        ReadyToTransfer { command_id: 0x0102, transfer_tag: 0x0304, offset: 0, bytes: 0x10000 };
    Encoder::new(Digests::default(), 0).ready_to_transfer(&ready, &mut out);
    let expected = [9, 0, 24, 0, 24, 0, 0, 0, 2, 1, 4, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
    assert_eq!(out, expected);
    let mut decoder = opened(Sender::Controller, Digests::default());
    decoder.push(&out);
    let frame = decoder.next_frame().unwrap().unwrap();
    assert_eq!(ControllerPdu::parse(&frame), Ok(ControllerPdu::ReadyToTransfer(ready)));
}

#[test]
fn data_to_the_host_starts_where_the_host_wants_it() {
    let header = DataHeader { command_id: 1, transfer_tag: 0, offset: 0, bytes: 5 };
    for (alignment, offset) in [(0, 28), (1, 32), (31, 128)] {
        let digests = Digests { header: true, data: true };
        let encoder = Encoder::new(digests, alignment);
        let mut out = Vec::new();
        encoder.controller_data(&header, true, &mut out);
        assert_eq!((out.len(), usize::from(out[3])), (offset, offset), "alignment {alignment}");
        out.extend_from_slice(b"hello");
        encoder.data_tail(b"hello", &mut out);
        let mut decoder = opened(Sender::Controller, digests);
        push_all(&mut decoder, &out);
        let frame = decoder.next_frame().unwrap().unwrap();
        match ControllerPdu::parse(&frame) {
            Ok(ControllerPdu::Data { header: seen, payload, last: true, success: false }) => {
                assert_eq!(
                    (seen, payload.bytes, payload.is_intact()),
                    (header, &b"hello"[..], true)
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn damaged_data_is_yielded_and_said_to_be_damaged() {
    let digests = Digests { header: true, data: true };
    let encoder = Encoder::new(digests, 0);
    let header = DataHeader { command_id: 1, transfer_tag: 7, offset: 0, bytes: 5 };
    let mut out = Vec::new();
    encoder.host_data(&header, true, &mut out);
    out.extend_from_slice(b"hellp");
    encoder.data_tail(b"hello", &mut out);
    let mut decoder = opened(Sender::Host, digests);
    push_all(&mut decoder, &out);
    let frame = decoder.next_frame().unwrap().unwrap();
    let Ok(HostPdu::Data { payload, .. }) = HostPdu::parse(&frame) else { panic!() };
    assert!(!payload.is_intact());
}

#[test]
fn a_termination_says_why_and_repeats_the_header() {
    let fatal = FatalError::field(16, "a length that is wrong");
    let mut out = Vec::new();
    Encoder::controller_termination(&fatal, &[0xab; 300], &mut out);
    assert_eq!(out.len(), 152);
    assert_eq!(out[..14], [3, 0, 24, 0, 152, 0, 0, 0, 1, 0, 16, 0, 0, 0]);
    assert!(out[24..].iter().all(|&byte| byte == 0xab));
    let mut decoder = opened(Sender::Controller, Digests { header: true, data: true });
    push_all(&mut decoder, &out);
    let frame = decoder.next_frame().unwrap().unwrap();
    let expected = Termination { status: Some(FatalStatus::InvalidHeaderField), information: 16 };
    assert_eq!(ControllerPdu::parse(&frame), Ok(ControllerPdu::Terminate(expected)));
}

#[test]
fn a_buffer_that_is_asked_for_again_without_a_read_grows_once() {
    let mut decoder = opened(Sender::Controller, Digests::default());
    let mut answer = Vec::new();
    Encoder::new(Digests::default(), 0).response(&Cqe::new(1, Status::SUCCESS), &mut answer);
    let room = decoder.space().len();
    decoder.push(&answer.repeat(room / answer.len() + 1)[..room]);
    while decoder.next_frame().unwrap().is_some() {}
    let once = {
        decoder.space();
        decoder.memory_bytes()
    };
    for _ in 0..5 {
        decoder.space();
    }
    assert_eq!(decoder.memory_bytes(), once);
}

#[test]
fn the_buffer_grows_with_what_comes_at_a_time() {
    let encoder = Encoder::new(Digests::default(), 0);
    let mut answer = Vec::new();
    let header = DataHeader { command_id: 1, transfer_tag: 0, offset: 0, bytes: 4096 };
    encoder.controller_data(&header, true, &mut answer);
    answer.extend_from_slice(&[7; 4096]);
    encoder.response(&Cqe::new(1, Status::SUCCESS), &mut answer);
    for (together, expected) in [(1, 16 << 10), (1000, 256 << 10)] {
        let mut decoder = opened(Sender::Controller, Digests::default());
        let (mut pdus, mut reads) = (0, 0);
        for _ in 0..3 {
            let all = answer.repeat(together);
            let mut rest = &all[..];
            while !rest.is_empty() {
                rest = &rest[decoder.push(rest)..];
                reads += 1;
                while let Some(frame) = decoder.next_frame().unwrap() {
                    assert!(ControllerPdu::parse(&frame).is_ok());
                    pdus += 1;
                }
            }
        }
        assert_eq!(pdus, 2 * 3 * together);
        assert_eq!(decoder.memory_bytes(), expected);
        // However the PDUs lie, a read has room for more than what is left of the buffer behind them.
        assert!(reads <= 3 * (1 + 2 * together * answer.len() / expected), "{reads} reads");
    }
}
