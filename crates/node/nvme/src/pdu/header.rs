//! The eight bytes that every PDU starts with, and all that they must agree on with the type.

use super::DIGEST_BYTES;
use super::termination::{FatalError, FatalStatus};
use crate::le_fields::{put_u32, u32_at};

/// The length of the common header.
pub const HEADER_BYTES: usize = 8;

/// Flag: a header digest follows the header.
pub(crate) const HEADER_DIGEST: u8 = 1;
/// Flag: a data digest follows the data.
pub(crate) const DATA_DIGEST: u8 = 1 << 1;
/// Flag: the last data of a transfer.
pub(crate) const LAST: u8 = 1 << 2;

/// Flag: the command succeeded, and no completion follows. A host may meet it; no controller here sets it.
const SUCCESS: u8 = 1 << 3;

/// Where fields stand, for errors to point to.
pub(crate) mod field {
    pub const KIND: u32 = 0;
    pub const FLAGS: u32 = 1;
    pub const HEADER_BYTES: u32 = 2;
    pub const DATA_OFFSET: u32 = 3;
    pub const PDU_BYTES: u32 = 4;
}

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// The initiator.
    Host,
    /// The target.
    Controller,
}

/// The types of PDUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PduKind {
    /// ICReq: a host opens the connection.
    InitializeRequest = 0,
    /// ICResp: the controller agrees.
    InitializeResponse = 1,
    /// H2CTermReq: the host ends the connection.
    HostTermination = 2,
    /// C2HTermReq: the controller ends the connection.
    ControllerTermination = 3,
    /// CapsuleCmd: a command, perhaps with data.
    Command = 4,
    /// CapsuleResp: a completion.
    Response = 5,
    /// H2CData: data that an R2T asked for.
    HostData = 6,
    /// C2HData: data that a command asked for.
    ControllerData = 7,
    /// R2T: the controller is ready for a command's data.
    ReadyToTransfer = 9,
}

impl PduKind {
    /// The type of this number.
    pub fn of(byte: u8) -> Option<Self> {
        use PduKind::*;
        let kinds = [
            InitializeRequest,
            InitializeResponse,
            HostTermination,
            ControllerTermination,
            Command,
            Response,
            HostData,
            ControllerData,
            ReadyToTransfer,
        ];
        kinds.into_iter().find(|&kind| kind as u8 == byte)
    }

    /// The length of its header: HLEN has one right value a type.
    pub const fn header_bytes(self) -> usize {
        match self {
            PduKind::InitializeRequest | PduKind::InitializeResponse => 128,
            PduKind::Command => 72,
            _ => 24,
        }
    }

    /// Who sends it.
    pub const fn sender(self) -> Sender {
        match self {
            PduKind::InitializeRequest
            | PduKind::HostTermination
            | PduKind::Command
            | PduKind::HostData => Sender::Host,
            _ => Sender::Controller,
        }
    }

    /// Whether it is outside of what was agreed on: no digests.
    pub const fn is_bare(self) -> bool {
        matches!(
            self,
            PduKind::InitializeRequest
                | PduKind::InitializeResponse
                | PduKind::HostTermination
                | PduKind::ControllerTermination
        )
    }

    /// Whether data may follow the header; a termination's is the header that it complains about.
    pub const fn carries_data(self) -> bool {
        matches!(
            self,
            PduKind::Command
                | PduKind::HostData
                | PduKind::ControllerData
                | PduKind::HostTermination
                | PduKind::ControllerTermination
        )
    }

    const fn flags_allowed(self) -> u8 {
        match self {
            PduKind::Command => HEADER_DIGEST | DATA_DIGEST,
            PduKind::HostData => HEADER_DIGEST | DATA_DIGEST | LAST,
            PduKind::ControllerData => HEADER_DIGEST | DATA_DIGEST | LAST | SUCCESS,
            PduKind::Response | PduKind::ReadyToTransfer => HEADER_DIGEST,
            _ => 0,
        }
    }
}

/// Which digests a connection has agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests {
    /// A CRC32C behind every header.
    pub header: bool,
    /// A CRC32C behind all data.
    pub data: bool,
}

impl Digests {
    /// From the DGST field: bit 0 header, bit 1 data.
    pub const fn of(byte: u8) -> Option<Self> {
        match byte {
            0..=3 => Some(Digests { header: byte & 1 != 0, data: byte & 2 != 0 }),
            _ => None,
        }
    }

    /// The DGST field.
    pub const fn byte(self) -> u8 {
        self.header as u8 | (self.data as u8) << 1
    }
}

/// A common header that agrees with itself and with the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What it is.
    pub kind: PduKind,
    /// FLAGS, as sent.
    pub flags: u8,
    /// Bytes of the header, without the digest.
    pub header_bytes: usize,
    /// Where data starts. Equal to `data_end` if there is none.
    pub data_start: usize,
    /// Where data ends.
    pub data_end: usize,
    /// Bytes of all of the PDU.
    pub pdu_bytes: usize,
}

impl Header {
    /// Reads a header from `sender` on a connection that agreed on `digests`, and checks everything that can be
    /// checked without the rest. `data_bytes_max` is asked for the type's limit.
    pub fn parse(
        bytes: &[u8; HEADER_BYTES],
        sender: Sender,
        digests: Digests,
        data_bytes_max: impl Fn(PduKind) -> usize,
    ) -> Result<Self, FatalError> {
        let kind = PduKind::of(bytes[0])
            .filter(|kind| kind.sender() == sender)
            .ok_or(FatalError::field(field::KIND, "a PDU of a type that is not expected"))?;
        let flags = bytes[1];
        if flags & !kind.flags_allowed() != 0 {
            return Err(FatalError::field(
                field::FLAGS,
                "a flag that the PDU's type does not have",
            ));
        }
        let header_bytes = kind.header_bytes();
        if usize::from(bytes[2]) != header_bytes {
            return Err(FatalError::field(field::HEADER_BYTES, "a header of the wrong length"));
        }
        let has_header_digest = digests.header && !kind.is_bare();
        if has_header_digest != (flags & HEADER_DIGEST != 0) {
            return Err(FatalError::field(field::FLAGS, "a header digest other than agreed on"));
        }
        let header_end = header_bytes + if has_header_digest { DIGEST_BYTES } else { 0 };
        let pdu_bytes = u32_at(bytes, 4) as usize;
        if pdu_bytes < header_end {
            return Err(FatalError::field(field::PDU_BYTES, "a PDU shorter than its header"));
        }
        let mut header = Header {
            kind,
            flags,
            header_bytes,
            data_start: pdu_bytes,
            data_end: pdu_bytes,
            pdu_bytes,
        };
        if pdu_bytes > header_end {
            header.place_data(header_end, usize::from(bytes[3]), digests)?;
        }
        header.check_length(data_bytes_max(kind))?;
        Ok(header)
    }

    fn place_data(
        &mut self,
        header_end: usize,
        offset: usize,
        digests: Digests,
    ) -> Result<(), FatalError> {
        if !self.kind.carries_data() {
            return Err(FatalError::field(field::PDU_BYTES, "data where there is none"));
        }
        if self.kind.is_bare() {
            self.data_start = header_end;
            return Ok(());
        }
        if digests.data != (self.flags & DATA_DIGEST != 0) {
            return Err(FatalError::field(field::FLAGS, "a data digest other than agreed on"));
        }
        let digest = if digests.data { DIGEST_BYTES } else { 0 };
        if offset < header_end || !offset.is_multiple_of(4) || offset + digest >= self.pdu_bytes {
            return Err(FatalError::field(field::DATA_OFFSET, "a data offset outside of the PDU"));
        }
        self.data_start = offset;
        self.data_end = self.pdu_bytes - digest;
        Ok(())
    }

    fn check_length(&self, data_bytes_max: usize) -> Result<(), FatalError> {
        if self.data_bytes() <= data_bytes_max {
            return Ok(());
        }
        Err(match self.kind {
            PduKind::HostData => FatalError {
                status: FatalStatus::TransferLimit,
                information: 0,
                what: "more data in one PDU than announced as the most",
            },
            _ => FatalError::field(field::PDU_BYTES, "a PDU that is too long"),
        })
    }

    /// Bytes of data.
    pub fn data_bytes(&self) -> usize {
        self.data_end - self.data_start
    }

    /// Where the header and its digest end.
    pub fn header_end(&self) -> usize {
        self.header_bytes + if self.flags & HEADER_DIGEST != 0 { DIGEST_BYTES } else { 0 }
    }

    /// Whether this PDU carries a header digest.
    pub fn has_header_digest(&self) -> bool {
        self.flags & HEADER_DIGEST != 0
    }

    /// Whether this PDU's data has a digest.
    pub fn has_data_digest(&self) -> bool {
        self.flags & DATA_DIGEST != 0 && self.data_bytes() > 0
    }

    /// Whether this is the last data of its transfer.
    pub fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }

    /// Whether no completion follows this data.
    pub fn is_success(&self) -> bool {
        self.flags & SUCCESS != 0
    }
}

/// Writes a common header.
pub(crate) fn put_header(out: &mut [u8], kind: PduKind, flags: u8, data_offset: u8, bytes: u32) {
    out[0] = kind as u8;
    out[1] = flags;
    out[2] = kind.header_bytes() as u8;
    out[3] = data_offset;
    put_u32(out, 4, bytes);
}
