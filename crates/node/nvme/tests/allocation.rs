//! The hot path, a PDU parsed or built, takes no memory from the allocator: counted by one of its own, and so in a process of its own.

use allocation_counter::measure;
use esker_nvme::command::kv::{Condition, Key, KvCommand};
use esker_nvme::command::nvm::{Blocks, NvmCommand};
use esker_nvme::command::{Sgl, Sqe};
use esker_nvme::pdu::{
    ControllerPdu, DataHeader, Digests, Encoder, HostPdu, InitializeRequest, InitializeResponse,
    Limits, ReadyToTransfer, Scanner, Sender,
};
use esker_nvme::{Cqe, Status};
use std::hint::black_box;

const LIMITS: Limits = Limits { command_data_bytes: 65_536, data_bytes: 131_072 };

const ALL_DIGESTS: [Digests; 2] =
    [Digests { header: false, data: false }, Digests { header: true, data: true }];

/// The commands of an I/O queue.
fn commands() -> Vec<Sqe> {
    let key = Key::new(b"sixteen bytes ok").unwrap();
    let keys = [
        KvCommand::Store { key, bytes: 4096, condition: Condition::Always },
        KvCommand::Retrieve { key, bytes: 4096 },
        KvCommand::Delete { key },
        KvCommand::Exist { key },
        KvCommand::List { from: Some(key), bytes: 4096 },
        KvCommand::Flush,
    ];
    let blocks = Blocks { first: 7, count: 8 };
    let of_blocks = [
        NvmCommand::Read { blocks },
        NvmCommand::Write { blocks, force_unit_access: true },
        NvmCommand::Flush,
    ];
    let keys = keys.iter().map(|command| command.encode(1));
    let mut all: Vec<Sqe> = keys.chain(of_blocks.iter().map(|command| command.encode(1))).collect();
    for (id, sqe) in (0..).zip(&mut all) {
        sqe.set_command_id(id);
        sqe.set_sgl(Sgl::InCapsule { offset: 0, bytes: 4096 });
    }
    all
}

/// A scanner behind the opening, in which both sides agreed on digests.
fn scanner(sender: Sender, digests: Digests) -> Scanner {
    let mut scanner = Scanner::new(sender, LIMITS);
    let opening = match sender {
        Sender::Host => {
            InitializeRequest { data_alignment: 0, digests, ready_to_transfer_max: 1 }.encode()
        }
        Sender::Controller => {
            InitializeResponse { data_alignment: 0, digests, host_data_bytes_max: 131_072 }.encode()
        }
    };
    scanner.scan(&opening).unwrap().expect("it is whole");
    scanner.agreed(digests);
    scanner
}

#[test]
fn what_a_host_sends_is_built_without_allocation() {
    let (commands, data) = (commands(), [7; 4096]);
    for digests in ALL_DIGESTS {
        let encoder = Encoder::new(digests, 0);
        let mut out = Vec::with_capacity(64 << 10);
        let counted = measure(|| {
            for sqe in &commands {
                encoder.command(sqe, data.len(), &mut out);
                out.extend_from_slice(&data);
                encoder.data_tail(&data, &mut out);
            }
            let header = DataHeader { command_id: 1, transfer_tag: 2, offset: 0, bytes: 4096 };
            encoder.host_data(&header, true, &mut out);
        });
        assert!(out.len() > commands.len() * data.len());
        assert_eq!(counted.count_total, 0, "{digests:?}: {counted:?}");
    }
}

#[test]
fn what_a_host_sends_is_parsed_without_allocation() {
    let (commands, data) = (commands(), [7; 4096]);
    for digests in ALL_DIGESTS {
        let encoder = Encoder::new(digests, 0);
        let mut scanner = scanner(Sender::Host, digests);
        let mut sent = Vec::new();
        for sqe in &commands {
            encoder.command(sqe, data.len(), &mut sent);
            sent.extend_from_slice(&data);
            encoder.data_tail(&data, &mut sent);
        }
        let header = DataHeader { command_id: 1, transfer_tag: 2, offset: 0, bytes: 4096 };
        encoder.host_data(&header, true, &mut sent);
        sent.extend_from_slice(&data);
        encoder.data_tail(&data, &mut sent);
        let (mut parsed, mut rest) = (0, &sent[..]);
        let counted = measure(|| {
            while let Some(frame) = scanner.scan(rest).unwrap() {
                rest = &rest[frame.header.pdu_bytes..];
                parsed += 1;
                let HostPdu::Command(sqe, payload) = HostPdu::parse(&frame).unwrap() else {
                    continue;
                };
                assert!(payload.is_intact());
                black_box(sqe.sgl().unwrap().in_capsule(payload.bytes).unwrap());
                let _ = black_box((KvCommand::parse(&sqe), NvmCommand::parse(&sqe)));
            }
        });
        assert_eq!((parsed, rest.len()), (commands.len() + 1, 0));
        assert_eq!(counted.count_total, 0, "{digests:?}: {counted:?}");
    }
}

#[test]
fn what_a_controller_sends_is_built_and_parsed_without_allocation() {
    let data = [7; 4096];
    for digests in ALL_DIGESTS {
        let encoder = Encoder::new(digests, 0);
        let mut scanner = scanner(Sender::Controller, digests);
        let mut out = Vec::with_capacity(64 << 10);
        let mut parsed = 0;
        let counted = measure(|| {
            let header = DataHeader { command_id: 1, transfer_tag: 0, offset: 0, bytes: 4096 };
            encoder.controller_data(&header, true, &mut out);
            out.extend_from_slice(&data);
            encoder.data_tail(&data, &mut out);
            let cqe = Cqe::new(1, Status::SUCCESS).with_word(4096).with_queue(5, 1);
            encoder.response(&cqe, &mut out);
            let ready =
                ReadyToTransfer { command_id: 3, transfer_tag: 4, offset: 0, bytes: 1 << 17 };
            encoder.ready_to_transfer(&ready, &mut out);
            let mut rest = &out[..];
            while let Some(frame) = scanner.scan(rest).unwrap() {
                rest = &rest[frame.header.pdu_bytes..];
                parsed += 1;
                let _ = black_box(ControllerPdu::parse(&frame).unwrap());
            }
        });
        assert_eq!(parsed, 3);
        assert_eq!(counted.count_total, 0, "{digests:?}: {counted:?}");
    }
}

#[test]
fn the_counter_counts() {
    assert!(measure(|| drop(black_box(Vec::<u8>::with_capacity(9)))).count_total > 0);
}
