//! A connection's bytes from a host: the first says which digests were agreed on and how the stream is cut.
#![no_main]

use esker_nvme::auth::message::Message;
use esker_nvme::command::admin::AdminCommand;
use esker_nvme::command::fabrics::{ConnectData, FabricsCommand};
use esker_nvme::command::kv::KvCommand;
use esker_nvme::command::nvm::NvmCommand;
use esker_nvme::pdu::{Decoder, Digests, Frame, HostPdu, Limits, Sender};

const LIMITS: Limits = Limits { command_data_bytes: 8192, data_bytes: 4096 };

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&first, stream)) = bytes.split_first() else { return };
    let digests = Digests { header: first & 1 != 0, data: first & 2 != 0 };
    let whole = frames(stream, digests, usize::MAX);
    assert_eq!(whole, frames(stream, digests, usize::from(first >> 2) + 1), "a cut changes nothing");
});

fn frames(stream: &[u8], digests: Digests, cut: usize) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::new(Sender::Host, LIMITS);
    let mut seen = Vec::new();
    let mut rest = stream;
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => {
                read(&frame);
                seen.push(frame.bytes.to_vec());
                decoder.agreed(digests);
            }
            Ok(None) if rest.is_empty() => return seen,
            Ok(None) => rest = &rest[decoder.push(&rest[..rest.len().min(cut)])..],
            Err(_) => return seen,
        }
        assert!(decoder.memory_bytes() <= 2 * (72 + 128 + 8 + 8192), "the buffer is bounded");
    }
}

fn read(frame: &Frame<'_>) {
    let Ok(HostPdu::Command(sqe, payload)) = HostPdu::parse(frame) else { return };
    let _ = (AdminCommand::parse(&sqe), FabricsCommand::parse(&sqe));
    let _ = (KvCommand::parse(&sqe), NvmCommand::parse(&sqe));
    let _ = (ConnectData::parse(payload.bytes), Message::parse(payload.bytes));
    if let Ok(Ok(Some(data))) = sqe.sgl().map(|sgl| sgl.in_capsule(payload.bytes)) {
        assert!(data.len() <= payload.bytes.len());
    }
}
