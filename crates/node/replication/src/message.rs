//! The messages between a primary and a follower, and their bytes: see `docs/formats/replication.md`.

use esker_base::Seqno;
use esker_base::checksum::crc32c;
use esker_base::coding::{
    put_bytes, put_varint64, take_bool, take_bytes, take_u32, take_u64, take_varint32,
    take_varint64, u32_at,
};
use esker_lsm::Origin;
use std::fmt;

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// What each message begins with. No TLS record does.
const MAGIC: [u8; 4] = *b"EsFo";

/// The length of what is before the body: magic, kind, zeros, length, checksum of that, checksum of the body.
pub(crate) const HEADER_BYTES: usize = 20;

/// Where the checksum of what comes before it is.
const HEADER_SUM_AT: usize = 12;
/// Where the checksum of the body is.
const BODY_SUM_AT: usize = 16;

/// The longest body that a primary takes, and a follower before the primary has proved who it is.
pub(crate) const GREETING_BYTES_MAX: usize = 16 << 10;

/// The longest body that a follower takes after that. Only frames are that long: a frame is sent as a whole.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 30;

/// The part of a file that is sent at once.
pub(crate) const DATA_BYTES: usize = 256 << 10;

/// The longest text.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Message {
    /// The follower's first: who it is.
    Hello {
        /// The version that it speaks.
        version: u32,
        /// Its NQN.
        host: String,
    },
    /// The primary's first.
    Welcome {
        /// The version that it speaks.
        version: u32,
        /// Whether the follower must prove that it has the secret of its host.
        authenticates: bool,
    },
    /// A message of DH-HMAC-CHAP.
    Auth(Vec<u8>),
    /// What the follower has, and wants to go on from.
    Follow {
        /// What it is a copy of.
        origin: Origin,
        /// The first sequence number that it does not have.
        next: Seqno,
        /// The name that its consumer has on the primary.
        name: String,
        /// Whether it encrypts its files.
        encrypts: bool,
        /// A number that the follower has drawn at its start.
        id: u64,
    },
    /// The follower goes on where it is.
    GoOn {
        /// What it is a copy of from now on.
        origin: Origin,
    },
    /// The follower begins anew: files follow.
    Base {
        /// What they are a copy of.
        origin: Origin,
        /// The number of files.
        files: u32,
        /// Their length together.
        bytes: u64,
    },
    /// A file begins.
    File {
        /// Its name.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// The next bytes of the file.
    Data(Vec<u8>),
    /// The file ends.
    FileEnd {
        /// The CRC-32C of all of it.
        crc32c: u32,
    },
    /// All files were sent. The follower says again what it has.
    BaseEnd,
    /// Keyspaces that were created and dropped: an edit of a manifest.
    Keyspaces(Vec<u8>),
    /// The settings of keyspaces that can be changed: an edit of a manifest.
    Settings(Vec<u8>),
    /// Frames of one segment of the log.
    Log {
        /// The header of the segment.
        header: Vec<u8>,
        /// The frames.
        frames: Vec<u8>,
    },
    /// All that there is was sent, or the primary is still there.
    Alive {
        /// The last write of the primary.
        last: Seqno,
    },
    /// The follower has applied all writes up to this one, as durably as its log is.
    Applied {
        /// The last of them.
        through: Seqno,
    },
    /// The peer does not go on, for this reason.
    Refuse(String),
}

/// Why bytes are no message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadMessage(pub(crate) String);

impl fmt::Display for BadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const AUTH: u8 = 3;
const FOLLOW: u8 = 4;
const GO_ON: u8 = 5;
const BASE: u8 = 6;
const FILE: u8 = 7;
const DATA: u8 = 8;
const FILE_END: u8 = 9;
const BASE_END: u8 = 10;
const KEYSPACES: u8 = 11;
const LOG: u8 = 12;
const ALIVE: u8 = 13;
const APPLIED: u8 = 14;
const REFUSE: u8 = 15;
const SETTINGS: u8 = 16;

impl Message {
    /// What it is, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Message::Hello { .. } => "Hello",
            Message::Welcome { .. } => "Welcome",
            Message::Auth(_) => "Auth",
            Message::Follow { .. } => "Follow",
            Message::GoOn { .. } => "GoOn",
            Message::Base { .. } => "Base",
            Message::File { .. } => "File",
            Message::Data(_) => "Data",
            Message::FileEnd { .. } => "FileEnd",
            Message::BaseEnd => "BaseEnd",
            Message::Keyspaces(_) => "Keyspaces",
            Message::Settings(_) => "Settings",
            Message::Log { .. } => "Log",
            Message::Alive { .. } => "Alive",
            Message::Applied { .. } => "Applied",
            Message::Refuse(_) => "Refuse",
        }
    }

    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        let kind = self.put_body(&mut out);
        let length = (out.len() - HEADER_BYTES) as u32;
        out[..4].copy_from_slice(&MAGIC);
        out[4] = kind;
        out[8..12].copy_from_slice(&length.to_le_bytes());
        let sums = [crc32c(&out[..HEADER_SUM_AT]), crc32c(&out[HEADER_BYTES..])];
        out[HEADER_SUM_AT..BODY_SUM_AT].copy_from_slice(&sums[0].to_le_bytes());
        out[BODY_SUM_AT..HEADER_BYTES].copy_from_slice(&sums[1].to_le_bytes());
        out
    }

    fn put_body(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Message::Hello { version, host } => {
                out.extend(version.to_le_bytes());
                put_bytes(out, host.as_bytes());
                HELLO
            }
            Message::Welcome { version, authenticates } => {
                out.extend(version.to_le_bytes());
                out.push(u8::from(*authenticates));
                WELCOME
            }
            Message::Auth(bytes) => {
                out.extend(bytes);
                AUTH
            }
            Message::Follow { origin, next, name, encrypts, id } => {
                put_origin(out, origin);
                put_varint64(out, *next);
                put_bytes(out, name.as_bytes());
                out.push(u8::from(*encrypts));
                out.extend(id.to_le_bytes());
                FOLLOW
            }
            Message::GoOn { origin } => {
                put_origin(out, origin);
                GO_ON
            }
            Message::Base { origin, files, bytes } => {
                put_origin(out, origin);
                put_varint64(out, u64::from(*files));
                put_varint64(out, *bytes);
                BASE
            }
            Message::File { name, bytes } => {
                put_bytes(out, name.as_bytes());
                put_varint64(out, *bytes);
                FILE
            }
            Message::Data(bytes) => {
                out.extend(bytes);
                DATA
            }
            Message::FileEnd { crc32c } => {
                out.extend(crc32c.to_le_bytes());
                FILE_END
            }
            Message::BaseEnd => BASE_END,
            Message::Keyspaces(edit) => {
                out.extend(edit);
                KEYSPACES
            }
            Message::Settings(edit) => {
                out.extend(edit);
                SETTINGS
            }
            Message::Log { header, frames } => {
                put_bytes(out, header);
                out.extend(frames);
                LOG
            }
            Message::Alive { last } => {
                put_varint64(out, *last);
                ALIVE
            }
            Message::Applied { through } => {
                put_varint64(out, *through);
                APPLIED
            }
            Message::Refuse(text) => {
                let end = text.floor_char_boundary_of(TEXT_BYTES_MAX);
                put_bytes(out, &text.as_bytes()[..end]);
                REFUSE
            }
        }
    }

    fn take_body(kind: u8, mut body: &[u8]) -> Option<Message> {
        let input = &mut body;
        let message = match kind {
            HELLO => Message::Hello { version: take_u32(input)?, host: take_text(input)? },
            WELCOME => {
                Message::Welcome { version: take_u32(input)?, authenticates: take_bool(input)? }
            }
            AUTH => Message::Auth(take_rest(input)),
            FOLLOW => Message::Follow {
                origin: take_origin(input)?,
                next: take_varint64(input)?,
                name: take_text(input)?,
                encrypts: take_bool(input)?,
                id: take_u64(input)?,
            },
            GO_ON => Message::GoOn { origin: take_origin(input)? },
            BASE => Message::Base {
                origin: take_origin(input)?,
                files: take_varint32(input)?,
                bytes: take_varint64(input)?,
            },
            FILE => Message::File { name: take_text(input)?, bytes: take_varint64(input)? },
            DATA => Message::Data(take_rest(input)),
            FILE_END => Message::FileEnd { crc32c: take_u32(input)? },
            BASE_END => Message::BaseEnd,
            KEYSPACES => Message::Keyspaces(take_rest(input)),
            SETTINGS => Message::Settings(take_rest(input)),
            LOG => Message::Log { header: take_bytes(input)?.to_vec(), frames: take_rest(input) },
            ALIVE => Message::Alive { last: take_varint64(input)? },
            APPLIED => Message::Applied { through: take_varint64(input)? },
            REFUSE => Message::Refuse(take_text(input)?),
            _ => return None,
        };
        input.is_empty().then_some(message)
    }
}

/// Where to cut a text.
trait FloorCharBoundary {
    fn floor_char_boundary_of(&self, at: usize) -> usize;
}

impl FloorCharBoundary for str {
    fn floor_char_boundary_of(&self, at: usize) -> usize {
        (0..=at.min(self.len())).rev().find(|&at| self.is_char_boundary(at)).unwrap_or(0)
    }
}

fn put_origin(out: &mut Vec<u8>, origin: &Origin) {
    out.extend(origin.database.to_le_bytes());
    out.extend(origin.opening.to_le_bytes());
}

fn take_origin(input: &mut &[u8]) -> Option<Origin> {
    Some(Origin::new(take_u64(input)?, take_u64(input)?))
}

fn take_text(input: &mut &[u8]) -> Option<String> {
    let bytes = take_bytes(input)?;
    let is_short = bytes.len() <= TEXT_BYTES_MAX;
    is_short.then(|| String::from_utf8(bytes.to_vec()).ok()).flatten()
}

fn take_rest(input: &mut &[u8]) -> Vec<u8> {
    std::mem::take(input).to_vec()
}

/// Makes messages of the bytes that arrive.
#[derive(Debug)]
pub struct Decoder {
    bytes: Vec<u8>,
    /// Where the next message starts.
    at: usize,
    body_bytes_max: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { bytes: Vec::new(), at: 0, body_bytes_max: GREETING_BYTES_MAX }
    }
}

impl Decoder {
    /// Accepts long messages from now on: the peer is who it says.
    pub fn trust(&mut self) {
        self.body_bytes_max = BODY_BYTES_MAX;
    }

    /// Takes what arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next message, or `None` if it has not arrived as a whole.
    ///
    /// # Errors
    /// What is wrong with the bytes. Nothing after them can be read.
    pub fn next_message(&mut self) -> Result<Option<Message>, BadMessage> {
        let bad = |what: String| Err(BadMessage(what));
        let rest = &self.bytes[self.at..];
        let magic = &rest[..rest.len().min(4)];
        if magic != &MAGIC[..magic.len()] {
            return bad("what arrived is no message of this protocol".to_owned());
        }
        let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        if u32_at(header, HEADER_SUM_AT) != crc32c(&header[..HEADER_SUM_AT]) {
            return bad("the checksum of a message's header does not match".to_owned());
        }
        let length = u32_at(header, 8) as usize;
        if length > self.body_bytes_max {
            return bad(format!(
                "a message has {length} bytes, and at most {} are expected here",
                self.body_bytes_max
            ));
        }
        let Some(message) = rest.get(..HEADER_BYTES + length) else { return Ok(None) };
        let (kind, body) = (header[4], &message[HEADER_BYTES..]);
        if u32_at(header, BODY_SUM_AT) != crc32c(body) {
            return bad("the checksum of a message does not match".to_owned());
        }
        if header[5..8] != [0; 3] {
            return bad("reserved bytes of a message are not zero".to_owned());
        }
        let Some(decoded) = Message::take_body(kind, body) else {
            return bad(format!("a message of kind {kind} is malformed, or the kind is unknown"));
        };
        self.at += HEADER_BYTES + length;
        Ok(Some(decoded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Message> {
        let origin = Origin::new(0x1234, 0xfedc_ba98_7654_3210);
        vec![
            Message::Hello { version: 1, host: "nqn.a".into() },
            Message::Welcome { version: 1, authenticates: true },
            Message::Auth(vec![1, 2, 3]),
            Message::Follow { origin, next: 700, name: "a".into(), encrypts: false, id: 7 },
            Message::GoOn { origin },
            Message::Base { origin, files: 3, bytes: 1 << 40 },
            Message::File { name: "CURRENT".into(), bytes: 30 },
            Message::Data(vec![7; 100]),
            Message::FileEnd { crc32c: 0x8000_0001 },
            Message::BaseEnd,
            Message::Keyspaces(vec![29, 1]),
            Message::Settings(vec![30, 1]),
            Message::Log { header: vec![1; 64], frames: vec![2; 200] },
            Message::Alive { last: 900 },
            Message::Applied { through: 899 },
            Message::Refuse("no".into()),
        ]
    }

    #[test]
    fn messages_read_back_however_they_are_cut() {
        let bytes: Vec<u8> = samples().iter().flat_map(Message::encode).collect();
        for step in [1, 7, 19, 20, 21, bytes.len()] {
            let (mut decoder, mut found) = (Decoder::default(), Vec::new());
            for part in bytes.chunks(step) {
                decoder.feed(part);
                while let Some(message) = decoder.next_message().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, samples(), "{step} bytes at once");
        }
    }

    #[test]
    fn no_changed_byte_passes() {
        for message in samples() {
            let bytes = message.encode();
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut bad = bytes.clone();
                    bad[at] ^= 1 << bit;
                    let mut decoder = Decoder::default();
                    decoder.feed(&bad);
                    assert!(decoder.next_message().is_err(), "byte {at} of {message:?}");
                }
            }
        }
    }

    #[test]
    fn a_peer_that_is_not_known_sends_short_messages_only() {
        let bytes = Message::Data(vec![0; GREETING_BYTES_MAX + 1]).encode();
        let mut decoder = Decoder::default();
        decoder.feed(&bytes[..HEADER_BYTES]);
        let error = decoder.next_message().unwrap_err();
        assert!(error.to_string().contains("at most 16384"), "{error}");
        let mut decoder = Decoder::default();
        decoder.trust();
        decoder.feed(&bytes);
        assert!(decoder.next_message().unwrap().is_some());
    }

    /// The bytes are a protocol: `docs/formats/replication.md`.
    #[test]
    fn a_message_has_the_bytes_that_the_format_says() {
        let message = Message::Follow {
            origin: Origin::new(1, 2),
            next: 300,
            name: "b".into(),
            encrypts: true,
            id: 9,
        };
        let bytes = message.encode();
        assert_eq!(bytes[..12], *b"EsFo\x04\0\0\0\x1d\0\0\0");
        assert_eq!(
            bytes[20..],
            *b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\xac\x02\x01b\x01\x09\0\0\0\0\0\0\0"
        );
        assert_eq!(bytes[12..16], crc32c(&bytes[..12]).to_le_bytes());
        assert_eq!(bytes[16..20], crc32c(&bytes[20..]).to_le_bytes());
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "é".repeat(TEXT_BYTES_MAX);
        let mut decoder = Decoder::default();
        decoder.trust();
        decoder.feed(&Message::Refuse(text).encode());
        let Ok(Some(Message::Refuse(cut))) = decoder.next_message() else { panic!() };
        assert_eq!(cut.len(), TEXT_BYTES_MAX);
    }
}
