//! No bytes make a parser panic.
//!
//! `PROPTEST_CASES` says how many are tried, from other seeds each time: see `fuzz/README.md`.

use esker_nvme::command::{admin, fabrics, kv, nvm};
use esker_nvme::pdu::{ControllerPdu, Decoder, Digests, HostPdu, Limits, Sender};
use esker_nvme::{Cqe, Nqn, Sqe, auth, identify, log_page};
use proptest::prelude::*;

fn drain(sender: Sender, digests: Digests, bytes: &[u8]) {
    let limits = Limits { command_data_bytes: 8192, data_bytes: 4096 };
    let mut decoder = Decoder::new(sender, limits);
    let mut rest = bytes;
    loop {
        match decoder.next_frame() {
            Ok(Some(frame)) => {
                let _ = (HostPdu::parse(&frame), ControllerPdu::parse(&frame));
                decoder.agreed(digests);
                continue;
            }
            Ok(None) if rest.is_empty() => return,
            Ok(None) => rest = &rest[decoder.push(rest)..],
            Err(fatal) => return assert!(!fatal.to_string().is_empty()),
        }
    }
}

/// Bytes that look like PDUs, so that more than the first eight are read.
fn almost_a_stream() -> impl Strategy<Value = Vec<u8>> {
    let pdu =
        (0..11u8, 0..16u8, any::<u8>(), 0..300u32, prop::collection::vec(any::<u8>(), 0..300));
    prop::collection::vec(pdu, 0..6).prop_map(|pdus| {
        let mut out = crate::handmade::initialize_request(3);
        for (kind, flags, offset, length, body) in pdus {
            let header = if kind == 4 { 72 } else { 24 };
            out.extend_from_slice(&[kind, flags, header, offset]);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&body);
        }
        out
    })
}

/// As many as are tried where nothing is said.
const TRIES: u32 = 2000;

fn tries() -> ProptestConfig {
    let said = std::env::var_os("PROPTEST_CASES").is_some();
    if said { ProptestConfig::default() } else { ProptestConfig::with_cases(TRIES) }
}

proptest! {
    #![proptest_config(tries())]

    #[test]
    fn the_decoder_takes_anything(bytes in almost_a_stream(), header in any::<bool>(), data in any::<bool>()) {
        let digests = Digests { header, data };
        drain(Sender::Host, digests, &bytes);
        drain(Sender::Host, digests, &bytes[128..]);
        drain(Sender::Controller, digests, &bytes);
    }

    #[test]
    fn commands_take_anything(bytes in any::<[u8; 32]>(), more in any::<[u8; 32]>(), data in prop::collection::vec(any::<u8>(), 0..64)) {
        let mut entry = [0; 64];
        entry[..32].copy_from_slice(&bytes);
        entry[32..].copy_from_slice(&more);
        for opcode in 0..=255 {
            entry[0] = opcode;
            let sqe = Sqe(entry);
            let _ = admin::AdminCommand::parse(&sqe);
            let _ = fabrics::FabricsCommand::parse(&sqe);
            let _ = kv::KvCommand::parse(&sqe);
            let _ = nvm::NvmCommand::parse(&sqe).map(|command| match command {
                nvm::NvmCommand::Read { blocks } => blocks.bytes(4096, u64::MAX),
                _ => None,
            });
            let _ = sqe.sgl().map(|sgl| sgl.in_capsule(&data).is_ok());
        }
        let _ = Cqe(bytes[..16].try_into().unwrap()).status().to_string();
        let _ = fabrics::ConnectData::parse(&data);
    }

    #[test]
    fn structures_and_messages_take_anything(data in prop::collection::vec(any::<u8>(), 0..5000)) {
        let _ = auth::message::Message::parse(&data);
        let _ = log_page::parse_discovery(&data);
        let _ = kv::listed(&data).count();
        let _ = Nqn::from_field(&data);
        let _ = auth::Secret::parse(&String::from_utf8_lossy(&data));
        if let Some(structure) = data.first_chunk::<4096>() {
            let _ = identify::Controller::parse(structure);
            let _ = identify::KvNamespace::parse(structure);
            let _ = identify::NvmNamespace::parse(structure);
            let _ = identify::command_set_of(structure);
            let _ = identify::listed(structure).count();
        }
    }

    #[test]
    fn messages_that_begin_right_take_anything(id in 0..5u8, length in 0..80u8, tail in prop::collection::vec(any::<u8>(), 0..700)) {
        let mut data = vec![u8::from(id != 0), id, 0, 0, 1, 0, length, 1, 1, 1];
        data.extend_from_slice(&tail);
        let _ = auth::message::Message::parse(&data);
    }
}
