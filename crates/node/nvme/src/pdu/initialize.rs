//! The first exchange of a connection: ICReq and ICResp (TCP 3.6.2.2, 3.6.2.3).

use super::header::{Digests, PduKind, put_header};
use super::termination::{FatalError, FatalStatus};
use crate::le_fields::{put_u16, put_u32, u16_at, u32_at};

const BYTES: usize = PduKind::InitializeRequest.header_bytes();

/// The only format there is.
const FORMAT_1_0: u16 = 0;

/// The largest HPDA and CPDA: data aligned to 128 bytes.
const ALIGNMENT_MAX: u8 = 31;

/// The smallest MAXH2CDATA that a controller may announce.
const H2C_DATA_BYTES_MIN: u32 = 4096;

/// ICReq: what a host wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitializeRequest {
    /// HPDA: data to the host is to start at a multiple of (this + 1) x 4 bytes.
    pub data_alignment: u8,
    /// The digests that the host wants.
    pub digests: Digests,
    /// R2Ts that may be open for one command.
    pub ready_to_transfer_max: u32,
}

/// ICResp: what the controller agrees to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InitializeResponse {
    /// CPDA: data to the controller is to start at a multiple of (this + 1) x 4 bytes.
    pub data_alignment: u8,
    /// The digests that are used.
    pub digests: Digests,
    /// The most data of one H2CData.
    pub host_data_bytes_max: u32,
}

fn unsupported(offset: u32, what: &'static str) -> FatalError {
    FatalError { status: FatalStatus::UnsupportedParameter, information: offset, what }
}

/// The fields that both have: alignment and digests.
fn parse_common(bytes: &[u8]) -> Result<(u8, Digests), FatalError> {
    if u16_at(bytes, 8) != FORMAT_1_0 {
        return Err(unsupported(8, "a PDU format version other than 1.0"));
    }
    if bytes[10] > ALIGNMENT_MAX {
        return Err(FatalError::field(10, "a data alignment above 128 bytes"));
    }
    let digests =
        Digests::of(bytes[11]).ok_or(FatalError::field(11, "a digest that is none known here"))?;
    Ok((bytes[10], digests))
}

fn common(kind: PduKind, alignment: u8, digests: Digests, word: u32) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    put_header(&mut out, kind, 0, 0, BYTES as u32);
    put_u16(&mut out, 8, FORMAT_1_0);
    out[10] = alignment;
    out[11] = digests.byte();
    put_u32(&mut out, 12, word);
    out
}

impl InitializeRequest {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, FatalError> {
        let (data_alignment, digests) = parse_common(bytes)?;
        // 0's based; a host that says FFFFFFFFh has no limit that matters.
        let ready_to_transfer_max = u32_at(bytes, 12).saturating_add(1);
        Ok(InitializeRequest { data_alignment, digests, ready_to_transfer_max })
    }

    /// The PDU.
    pub fn encode(&self) -> [u8; BYTES] {
        let ready = self.ready_to_transfer_max.saturating_sub(1);
        common(PduKind::InitializeRequest, self.data_alignment, self.digests, ready)
    }
}

impl InitializeResponse {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, FatalError> {
        let (data_alignment, digests) = parse_common(bytes)?;
        let host_data_bytes_max = u32_at(bytes, 12);
        if host_data_bytes_max < H2C_DATA_BYTES_MIN || !host_data_bytes_max.is_multiple_of(4) {
            return Err(FatalError::field(12, "a MAXH2CDATA below 4096 or no multiple of 4"));
        }
        Ok(InitializeResponse { data_alignment, digests, host_data_bytes_max })
    }

    /// The PDU.
    pub fn encode(&self) -> [u8; BYTES] {
        let kind = PduKind::InitializeResponse;
        common(kind, self.data_alignment, self.digests, self.host_data_bytes_max)
    }
}
