//! However a stream is cut, it is the same PDUs.

use crate::handmade::initialize_request;
use esker_nvme::Sqe;
use esker_nvme::pdu::{
    DataDigest, DataHeader, Decoder, Digests, Encoder, FatalError, Limits, Sender,
};
use proptest::prelude::*;

const LIMITS: Limits = Limits { command_data_bytes: 8192, data_bytes: 8192 };

/// A PDU of a host: a command with so much data, or data.
#[derive(Clone, Debug)]
enum Sent {
    Command(u8, usize),
    Data(u16, usize),
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        (any::<u8>(), prop_oneof![Just(0usize), 1..8192usize])
            .prop_map(|(opcode, bytes)| Sent::Command(opcode, bytes)),
        (any::<u16>(), 1..8192usize).prop_map(|(tag, bytes)| Sent::Data(tag, bytes)),
    ]
}

fn stream(digests: Digests, alignment: u8, pdus: &[Sent]) -> Vec<u8> {
    let mut out = initialize_request(digests.byte());
    let encoder = Encoder::new(digests, alignment);
    for pdu in pdus {
        let data: Vec<u8> = match pdu {
            Sent::Command(opcode, bytes) => {
                encoder.command(&Sqe::new(*opcode, 1), *bytes, &mut out);
                (0..*bytes).map(|at| at as u8).collect()
            }
            Sent::Data(tag, bytes) => {
                let header = DataHeader {
                    command_id: 1,
                    transfer_tag: *tag,
                    offset: 0,
                    bytes: *bytes as u32,
                };
                encoder.host_data(&header, true, &mut out);
                vec![*tag as u8; *bytes]
            }
        };
        if !data.is_empty() {
            out.extend_from_slice(&data);
            encoder.data_tail(&data, &mut out);
        }
    }
    out
}

/// All PDUs that come out when `stream` is fed in pieces of the lengths in `cuts`, over and over.
pub fn decode(
    stream: &[u8],
    digests: Digests,
    cuts: &[usize],
) -> (Vec<(Vec<u8>, bool)>, Option<FatalError>) {
    let mut decoder = Decoder::new(Sender::Host, LIMITS);
    let mut seen = Vec::new();
    let mut rest = stream;
    for cut in cuts.iter().cycle() {
        let mut piece = &rest[..rest.len().min(*cut)];
        rest = &rest[piece.len()..];
        while !piece.is_empty() {
            piece = &piece[decoder.push(piece)..];
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => {
                        seen.push((frame.bytes.to_vec(), frame.digest == DataDigest::Plain))
                    }
                    Ok(None) => break,
                    Err(fatal) => return (seen, Some(fatal)),
                }
                if seen.len() == 1 {
                    decoder.agreed(digests);
                }
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    (seen, None)
}

proptest! {
    #[test]
    fn any_split_of_a_stream_is_the_same_pdus(
        header in any::<bool>(),
        data in any::<bool>(),
        alignment in 0..32u8,
        pdus in prop::collection::vec(sent(), 0..8),
        cuts in prop::collection::vec(1..5000usize, 1..20),
    ) {
        let digests = Digests { header, data };
        let stream = stream(digests, alignment, &pdus);
        let (whole, fatal) = decode(&stream, digests, &[usize::MAX]);
        prop_assert_eq!(fatal, None);
        prop_assert_eq!(whole.len(), pdus.len() + 1);
        prop_assert!(whole.iter().all(|(_, intact)| *intact));
        prop_assert_eq!(whole.iter().map(|(pdu, _)| &pdu[..]).collect::<Vec<_>>().concat(), &stream[..]);
        prop_assert_eq!(&decode(&stream, digests, &cuts).0, &whole);
        prop_assert_eq!(&decode(&stream, digests, &[1]).0, &whole);
    }

    #[test]
    fn with_both_digests_no_flipped_bit_passes_for_sound(
        pdus in prop::collection::vec(sent(), 1..4),
        place in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let digests = Digests { header: true, data: true };
        let mut stream = stream(digests, 0, &pdus);
        let (sound, _) = decode(&stream, digests, &[usize::MAX]);
        let at = 128 + place.index(stream.len() - 128);
        stream[at] ^= 1 << bit;
        let (seen, fatal) = decode(&stream, digests, &[usize::MAX]);
        let intact = seen.iter().filter(|(_, intact)| *intact);
        for (pdu, _) in intact {
            prop_assert!(sound.iter().any(|(other, _)| other == pdu), "a damaged PDU was taken");
        }
        prop_assert!(fatal.is_some() || seen.len() < sound.len() || seen.iter().any(|(_, intact)| !intact));
    }
}
