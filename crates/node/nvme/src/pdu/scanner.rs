//! Finds the PDUs in bytes that the caller keeps.
//!
//! A header is used only after its digest was verified, and before one byte of the data is waited for:
//! so a length that is not allowed ends the connection at once, and no receiver has to keep more than the longest PDU
//! allowed. The first PDU must open the connection, and no other may.

use super::header::{Digests, HEADER_BYTES, Header, PduKind, Sender};
use super::termination::{FatalError, FatalStatus};
use super::{DIGEST_BYTES, TERM_BYTES_MAX};
use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::u32_at;

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
    /// What the data digest says of the data. Plain where there is none.
    pub digest: DataDigest,
}

/// What a data digest (DDGST; TCP 1.0, 3.3.2.2) covers, if it matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataDigest {
    /// The data.
    Plain,
    /// The data and zeros up to a multiple of four bytes. SPDK computes it like that; the zeros are
    /// not sent.
    Padded,
    /// Neither: the data is damaged.
    Mismatch,
}

impl DataDigest {
    fn of(data: &[u8], digest: u32) -> Self {
        match digest {
            digest if digest == crc32c(data) => DataDigest::Plain,
            digest if digest == padded_digest(data) => DataDigest::Padded,
            _ => DataDigest::Mismatch,
        }
    }
}

/// The digest of `data` and of zeros up to a multiple of four bytes.
pub(super) fn padded_digest(data: &[u8]) -> u32 {
    let zeros = data.len().next_multiple_of(DIGEST_BYTES) - data.len();
    crc32c_append(crc32c(data), &[0; DIGEST_BYTES][..zeros])
}

/// See the file's head.
#[derive(Debug)]
pub struct Scanner {
    sender: Sender,
    limits: Limits,
    digests: Digests,
    opened: bool,
    /// The next PDU's header, once it was checked with its digest.
    next: Option<Header>,
}

impl Scanner {
    /// A scanner of what `sender` sends on a new connection.
    pub fn new(sender: Sender, limits: Limits) -> Self {
        Scanner { sender, limits, digests: Digests::default(), opened: false, next: None }
    }

    /// The first exchange has agreed on `digests`. They hold for all PDUs not yet yielded.
    pub fn agreed(&mut self, digests: Digests) {
        self.digests = digests;
    }

    /// Whether the connection was opened.
    pub fn is_open(&self) -> bool {
        self.opened
    }

    /// The length of the PDU that has begun, once that is known and checked.
    pub fn pdu_bytes(&self) -> Option<usize> {
        self.next.map(|header| header.pdu_bytes)
    }

    /// The header of the PDU that has begun, once it is there and checked.
    pub fn begun(&self) -> Option<Header> {
        self.next
    }

    /// The PDU at the front of `bytes`, or `None` until all of it is there; then ask again with the same bytes and
    /// more. After an error the connection is of no more use.
    pub fn scan<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<Frame<'a>>, FatalError> {
        let Some(header) = self.checked_header(bytes)? else { return Ok(None) };
        let Some(bytes) = bytes.get(..header.pdu_bytes) else { return Ok(None) };
        self.next = None;
        self.opened = true;
        let data = &bytes[header.data_start..header.data_end];
        let digest = match header.has_data_digest() {
            true => DataDigest::of(data, u32_at(bytes, header.data_end)),
            false => DataDigest::Plain,
        };
        Ok(Some(Frame { header, bytes, digest }))
    }

    fn checked_header(&mut self, bytes: &[u8]) -> Result<Option<Header>, FatalError> {
        if self.next.is_some() {
            return Ok(self.next);
        }
        let Some(first) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header::parse(first, self.sender, self.digests, |kind| self.limits.of(kind))?;
        self.check_order(header.kind)?;
        if bytes.len() < header.header_end() {
            return Ok(None);
        }
        if header.has_header_digest() {
            check_header_digest(&bytes[..header.header_end()])?;
        }
        self.next = Some(header);
        Ok(self.next)
    }

    /// A connection is opened once, and first.
    fn check_order(&self, kind: PduKind) -> Result<(), FatalError> {
        let opens = matches!(kind, PduKind::InitializeRequest | PduKind::InitializeResponse);
        match (self.opened, opens) {
            (false, false) => {
                Err(FatalError::sequence("something before the connection was opened"))
            }
            (true, true) => Err(FatalError::sequence("a second request to open the connection")),
            _ => Ok(()),
        }
    }
}

fn check_header_digest(bytes: &[u8]) -> Result<(), FatalError> {
    let (header, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
    if crc32c(header) == u32_at(digest, 0) {
        return Ok(());
    }
    Err(FatalError {
        status: FatalStatus::HeaderDigest,
        information: u32_at(digest, 0),
        what: "a header that does not match its digest",
    })
}
