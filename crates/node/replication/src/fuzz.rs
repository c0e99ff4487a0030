//! For fuzzing: bytes of a peer, and what is checked of them before anything is done.

use crate::message::{Decoder, Message};
use esker_lsm::fuzz_received;
use esker_nvme::auth::message::Message as Chap;

/// Decodes what a peer sends. The first byte says how it is cut, and whether the peer is known. However the bytes are
/// cut, the same messages come out; and what comes out encodes to what came in.
#[doc(hidden)]
pub fn fuzz_decode(bytes: &[u8]) {
    let Some((&how, sent)) = bytes.split_first() else { return };
    let (is_trusted, step) = (how & 1 == 1, usize::from(how >> 1) + 1);
    let (messages, is_refused) = decode(sent, is_trusted, step);
    let whole = decode(sent, is_trusted, sent.len().max(1));
    assert_eq!((&messages, is_refused), (&whole.0, whole.1), "cut in {step} bytes");
    for message in &messages {
        let (again, _) = decode(&message.encode(), true, usize::MAX);
        assert!(again.iter().eq([message]), "a message survives encoding");
        match message {
            Message::Log { header, frames } => fuzz_received(header, frames),
            Message::Keyspaces(edit) | Message::Settings(edit) => fuzz_received(&[], edit),
            Message::Auth(data) => _ = Chap::parse(data),
            _ => {}
        }
    }
}

fn decode(bytes: &[u8], is_trusted: bool, step: usize) -> (Vec<Message>, bool) {
    let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
    if is_trusted {
        decoder.trust();
    }
    for part in bytes.chunks(step) {
        decoder.feed(part);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(_) => return (messages, true),
            }
        }
    }
    (messages, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::Rng;
    use esker_lsm::Origin;

    /// As the fuzzer does it, without coverage.
    #[test]
    fn damaged_streams_are_refused_and_no_panic() {
        let origin = Origin::new(1, 2);
        let messages = [
            Message::Hello { version: 1, host: "nqn.a".into() },
            Message::GoOn { origin },
            Message::Keyspaces(b"\x1d\xfa\x01\x03\x05users\x00".to_vec()),
            Message::Settings(vec![22, 1, 0, 0]),
            Message::Log { header: vec![1; 64], frames: vec![2; 100] },
            Message::Alive { last: 9 },
        ];
        let sound: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
        let mut rng = Rng::new(7);
        for round in 0..4_000_u64 {
            let mut bytes = [vec![rng.next_u64() as u8], sound.clone()].concat();
            for _ in 0..round % 4 {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            bytes.truncate(1 + rng.below(bytes.len() as u64) as usize);
            fuzz_decode(&bytes);
            // The same with checksums that match, so that bodies are decoded, too.
            let body = &bytes[1..bytes.len().min(60)];
            for kind in 0..20 {
                fuzz_decode(&[&[1][..], &with_checksums(kind, body)].concat());
            }
        }
    }

    fn with_checksums(kind: u8, body: &[u8]) -> Vec<u8> {
        use esker_base::checksum::crc32c;
        let mut out = Message::Data(body.to_vec()).encode();
        out[4] = kind;
        let sum = crc32c(&out[..12]);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
        out
    }
}
