//! Takes a connection's bytes in any split and yields its PDUs.
//!
//! Bytes are read straight into [`Decoder::space`]; a PDU is yielded, borrowed, when all of it is there. What a
//! header says is believed only after its digest was checked, and before one byte of the data is waited for: so a
//! length that is not allowed ends the connection at once, and nobody can make the buffer longer than the longest
//! PDU allowed, twice. It starts small: a connection that says nothing costs little.
//!
//! The first PDU must open the connection, and no other may.

use super::header::{Digests, HEADER_BYTES, Header, PduKind, Sender};
use super::term::{Fatal, FatalStatus};
use super::{DIGEST_BYTES, TERM_BYTES_MAX};
use esker_base::checksum::crc32c;
use esker_base::coding::u32_at;

/// Where the buffer starts. Enough for the first exchange.
const BUFFER_BYTES_MIN: usize = 256;

/// Where the buffer goes when the connection is open: a queue full of small commands in one read.
const BUFFER_BYTES_OPEN: usize = 16 << 10;

/// How much data PDUs may carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// In a command capsule.
    pub command_data_bytes: usize,
    /// In a data PDU.
    pub data_bytes: usize,
}

impl Limits {
    fn of(&self, kind: PduKind) -> usize {
        match kind {
            PduKind::Command => self.command_data_bytes,
            PduKind::HostData | PduKind::ControllerData => self.data_bytes,
            _ => TERM_BYTES_MAX - kind.header_bytes().min(TERM_BYTES_MAX),
        }
    }
}

/// A whole PDU whose lengths and header digest are right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Its common header.
    pub header: Header,
    /// All of its bytes.
    pub bytes: &'a [u8],
    /// Whether the data digest matches, where there is one.
    pub data_intact: bool,
}

/// See the file's head.
#[derive(Debug)]
pub struct Decoder {
    sender: Sender,
    limits: Limits,
    digests: Digests,
    opened: bool,
    /// The next PDU's header, once it was checked with its digest.
    next: Option<Header>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Decoder {
    /// A decoder of what `sender` sends on a new connection.
    pub fn new(sender: Sender, limits: Limits) -> Self {
        Decoder {
            sender,
            limits,
            digests: Digests::default(),
            opened: false,
            next: None,
            buffer: vec![0; BUFFER_BYTES_MIN],
            start: 0,
            end: 0,
        }
    }

    /// The first exchange has agreed on `digests`. They hold for all PDUs not yet yielded.
    pub fn agreed(&mut self, digests: Digests) {
        self.digests = digests;
    }

    /// Room to read into; then say [`filled`](Self::filled). It is not empty, and there is room for the rest of a PDU
    /// that has begun, if [`next_frame`](Self::next_frame) was asked before until it had no more.
    pub fn space(&mut self) -> &mut [u8] {
        let there = self.end - self.start;
        let missing = self.next.map_or(1, |header| header.pdu_bytes.saturating_sub(there));
        let wanted = if self.opened { BUFFER_BYTES_OPEN } else { BUFFER_BYTES_MIN };
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.buffer.len() - self.end < missing {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // Twice the PDU, so that the one behind it is read with it.
        let whole = self.next.map_or(0, |header| 2 * header.pdu_bytes);
        if self.buffer.len() - self.end < missing || self.buffer.len() < wanted {
            self.buffer.resize(whole.max(wanted).max(self.buffer.len()), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// `bytes` more were put into [`space`](Self::space).
    pub fn filled(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.end, "more bytes than there was room for");
        self.end += bytes;
    }

    /// Copies `bytes` in, as much as there is room for, and says how much that was: all callers but those that
    /// read straight into [`space`](Self::space).
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let space = self.space();
        let taken = bytes.len().min(space.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        self.filled(taken);
        taken
    }

    /// Bytes of memory held.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes of the PDU that is next, as far as they are there: what a termination repeats.
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The next PDU, or `None` until more bytes are there. After an error the connection is of no more use.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, Fatal> {
        let Some(header) = self.checked_header()? else { return Ok(None) };
        if self.end - self.start < header.pdu_bytes {
            return Ok(None);
        }
        let start = self.start;
        self.start += header.pdu_bytes;
        self.next = None;
        self.opened = true;
        let bytes = &self.buffer[start..start + header.pdu_bytes];
        let data = &bytes[header.data_start..header.data_end];
        let data_intact =
            !header.has_data_digest() || crc32c(data) == u32_at(bytes, header.data_end);
        Ok(Some(Frame { header, bytes, data_intact }))
    }

    fn checked_header(&mut self) -> Result<Option<Header>, Fatal> {
        if self.next.is_some() {
            return Ok(self.next);
        }
        let bytes = &self.buffer[self.start..self.end];
        let Some(first) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let limits = self.limits;
        let header = Header::parse(first, self.sender, self.digests, |kind| limits.of(kind))?;
        self.check_order(header.kind)?;
        if bytes.len() < header.header_end() {
            return Ok(None);
        }
        if header.has_header_digest() {
            check_header_digest(&bytes[..header.header_bytes + DIGEST_BYTES])?;
        }
        self.next = Some(header);
        Ok(self.next)
    }

    /// A connection is opened once, and first.
    fn check_order(&self, kind: PduKind) -> Result<(), Fatal> {
        let opens = matches!(kind, PduKind::InitializeRequest | PduKind::InitializeResponse);
        match (self.opened, opens) {
            (false, false) => Err(Fatal::sequence("something before the connection was opened")),
            (true, true) => Err(Fatal::sequence("a second request to open the connection")),
            _ => Ok(()),
        }
    }
}

fn check_header_digest(bytes: &[u8]) -> Result<(), Fatal> {
    let (header, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
    if crc32c(header) == u32_at(digest, 0) {
        return Ok(());
    }
    Err(Fatal {
        status: FatalStatus::HeaderDigest,
        information: u32_at(digest, 0),
        what: "a header that does not match its digest",
    })
}
