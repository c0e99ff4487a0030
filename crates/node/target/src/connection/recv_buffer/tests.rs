//! However bytes come in pieces, the PDUs in them are the same, and so is the error that ends them.

use super::*;
use esker_base::checksum::crc32c;
use esker_nvme::command::Sqe;
use esker_nvme::pdu::{DataDigest, Digests, Encoder, FatalError, HostPdu, InitializeRequest};
use proptest::prelude::*;

const LIMITS: Limits = Limits { command_data_bytes: 64 << 10, data_bytes: 128 << 10 };

/// What was seen of a PDU.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    header: Header,
    data_checksum: u32,
    data_intact: bool,
}

fn seen(header: Header, data: &[u8], data_intact: bool) -> Seen {
    Seen { header, data_checksum: crc32c(data), data_intact }
}

/// The PDUs at the front of `bytes`, which are all there, and what ends them.
fn uncut(bytes: &[u8], digests: Digests) -> (Vec<Seen>, Option<FatalError>) {
    let (mut scanner, mut all, mut rest) = (Scanner::new(Sender::Host, LIMITS), Vec::new(), bytes);
    loop {
        match scanner.scan(rest) {
            Ok(Some(frame)) => {
                let header = frame.header;
                let data = &rest[header.data_start..header.data_end];
                all.push(seen(header, data, frame.digest == DataDigest::Plain));
                scanner.agreed(digests);
                rest = &rest[header.pdu_bytes..];
            }
            Ok(None) => return (all, None),
            Err(fatal) => return (all, Some(fatal)),
        }
    }
}

/// The same through an input that receives pieces of at most these lengths, in turn. Data of large capsules is to begin at `place` in a page.
fn cut(
    mut bytes: &[u8],
    digests: Digests,
    lengths: &[usize],
    place: usize,
) -> (Vec<Seen>, Option<FatalError>) {
    let (mut input, mut all) = (Input::new(Sender::Host, LIMITS), Vec::new());
    input.set_place(place);
    let mut lengths = lengths.iter().copied().cycle();
    while !bytes.is_empty() {
        let (mut room, is_all) = input.room(false).expect("it is here");
        assert!(!room.is_empty(), "nothing could ever come");
        let piece = if is_all { room.len() } else { lengths.next().unwrap_or(1).min(room.len()) };
        let piece = bytes.split_off(..piece.min(bytes.len())).expect("it is no more than all");
        room[..piece.len()].copy_from_slice(piece);
        input.give_back(room, piece.len());
        let mut buffered = input.take();
        let outcome = take_frames(&mut input, &mut buffered, digests, &mut all);
        input.put(buffered);
        if let Err(fatal) = outcome {
            return (all, Some(fatal));
        }
    }
    (all, None)
}

/// As a connection does.
fn take_frames(
    input: &mut Input,
    bytes: &mut Bytes,
    digests: Digests,
    all: &mut Vec<Seen>,
) -> Result<(), FatalError> {
    while let Some(frame) = input.scanner.scan(bytes.unread())? {
        let (header, intact) = (frame.header, frame.digest == DataDigest::Plain);
        input.scanner.agreed(digests);
        if header.kind == PduKind::Command {
            input.expect_another(header);
            if let Some(data) = bytes.detach_buffer(&header) {
                all.push(seen(header, &data, intact));
                continue;
            }
        }
        all.push(seen(header, &bytes.unread()[header.data_start..header.data_end], intact));
        bytes.advance(header.pdu_bytes);
    }
    Ok(())
}

/// Commands with so much data, behind the PDU that opens the connection.
fn stream(digests: Digests, data: &[usize]) -> Vec<u8> {
    let open = InitializeRequest { data_alignment: 0, digests, ready_to_transfer_max: 1 };
    let (mut out, encoder) = (open.encode().to_vec(), Encoder::new(digests, 0));
    for (&bytes, number) in data.iter().zip(0u8..) {
        let sqe = Sqe([number; 64]);
        let data: Vec<u8> = (0..bytes).map(|at| at as u8 ^ number).collect();
        encoder.command(&sqe, bytes, &mut out);
        out.extend_from_slice(&data);
        if bytes > 0 {
            encoder.data_tail(&data, &mut out);
        }
    }
    out
}

/// Little, or so much that a capsule gets a buffer of its own; several alike in a row, too.
fn data() -> impl Strategy<Value = Vec<usize>> {
    let bytes = prop_oneof![
        Just(0),
        1..600usize,
        LARGE_BYTES - 4..LARGE_BYTES + 4,
        LARGE_BYTES..=64 << 10,
        Just(32 << 10),
    ];
    let alike = (bytes, 1..4usize).prop_map(|(bytes, times)| vec![bytes; times]);
    prop::collection::vec(alike, 0..4).prop_map(|runs| runs.concat())
}

/// How much comes at a time: a byte, some, or all that there is space for.
fn lengths() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![1..10usize, 1..5000usize, Just(72), Just(usize::MAX)];
    prop::collection::vec(length, 1..12)
}

proptest! {
    #[test]
    fn any_cut_of_what_comes_is_the_same_pdus_and_the_same_error(
        header in any::<bool>(),
        data_digest in any::<bool>(),
        data in data(),
        lengths in lengths(),
        place in 0..PAGE_BYTES,
        damage in prop::option::of((any::<prop::sample::Index>(), 1..=u8::MAX)),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let digests = Digests { header, data: data_digest };
        let mut bytes = stream(digests, &data);
        prop_assert_eq!(uncut(&bytes, digests).0.len(), 1 + data.len());
        if let Some((at, change)) = damage {
            let at = at.index(bytes.len());
            bytes[at] ^= change;
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len()));
        }
        prop_assert_eq!(cut(&bytes, digests, &lengths, place), uncut(&bytes, digests));
    }
}

#[test]
fn byte_by_byte_is_the_same_as_at_once() {
    let digests = Digests { header: true, data: true };
    let bytes = stream(digests, &[0, 20_000, 20_000, 3, 65_536]);
    for lengths in [[1], [usize::MAX]] {
        assert_eq!(cut(&bytes, digests, &lengths, 100), uncut(&bytes, digests));
    }
}

#[test]
fn the_second_of_two_large_capsules_is_received_where_its_data_belongs() {
    let bytes = stream(Digests::default(), &[32 << 10; 2]);
    let mut input = Input::new(Sender::Host, LIMITS);
    input.set_place(56);
    let (mut given, mut rest) = (0, &bytes[..]);
    while !rest.is_empty() {
        let (mut room, _) = input.room(false).unwrap();
        let piece = rest.split_off(..room.len().min(rest.len())).unwrap();
        room[..piece.len()].copy_from_slice(piece);
        input.give_back(room, piece.len());
        let mut buffered = input.take();
        while let Some(frame) = input.scanner.scan(buffered.unread()).unwrap() {
            let header = frame.header;
            let is_command = HostPdu::parse(&frame).is_ok() && header.kind == PduKind::Command;
            input.expect_another(header);
            match buffered.detach_buffer(&header).filter(|_| is_command) {
                Some(data) => given += usize::from(is_at(data.range().start, 56)),
                None => buffered.advance(header.pdu_bytes),
            }
        }
        input.put(buffered);
    }
    assert_eq!(given, 2, "the first one, too, whose beginning was moved there");
}
