//! How a connection ends that one side can't go on with: H2CTermReq and C2HTermReq (TCP 3.6.2.4, 3.6.2.5).

use crate::le_fields::{put_u16, put_u32, u16_at, u32_at};

/// The longest termination: 24 bytes, and up to 128 of the header it complains about.
pub const TERM_BYTES_MAX: usize = 152;

/// The fatal error status, FES.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum FatalStatus {
    /// A field of the header has a value that is not allowed; FEI is the field's offset.
    InvalidHeaderField = 1,
    /// A PDU that does not come at this point.
    Sequence = 2,
    /// The header digest does not match.
    HeaderDigest = 3,
    /// Data outside of what was asked for.
    OutOfRange = 4,
    /// More data in a PDU than MAXH2CDATA, or more R2Ts than MAXR2T.
    TransferLimit = 5,
    /// A parameter that is not supported; FEI is its offset.
    UnsupportedParameter = 6,
}

impl FatalStatus {
    fn of(value: u16) -> Option<Self> {
        use FatalStatus::*;
        [
            InvalidHeaderField,
            Sequence,
            HeaderDigest,
            OutOfRange,
            TransferLimit,
            UnsupportedParameter,
        ]
        .into_iter()
        .find(|&status| status as u16 == value)
    }
}

/// Why a connection can't go on: what the peer is sent, and what a log says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the peer sent {what} (fatal error status {:02x}h, information {information:x}h)", *status as u16)]
pub struct FatalError {
    /// FES.
    pub status: FatalStatus,
    /// FEI: the offset of the field that is wrong, where the status has one.
    pub information: u32,
    /// What came, for people.
    pub what: &'static str,
}

impl FatalError {
    /// A header field, at `offset`, that is wrong.
    pub const fn field(offset: u32, what: &'static str) -> Self {
        FatalError { status: FatalStatus::InvalidHeaderField, information: offset, what }
    }

    /// A PDU that does not come at this point.
    pub const fn sequence(what: &'static str) -> Self {
        FatalError { status: FatalStatus::Sequence, information: 0, what }
    }

    /// Data outside of what was asked for.
    pub const fn out_of_range(what: &'static str) -> Self {
        FatalError { status: FatalStatus::OutOfRange, information: 0, what }
    }
}

/// What a peer that ended the connection said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Termination {
    /// FES, or `None` if it is none known here.
    pub status: Option<FatalStatus>,
    /// FEI.
    pub information: u32,
}

impl Termination {
    pub(crate) fn parse(header: &[u8]) -> Self {
        Termination { status: FatalStatus::of(u16_at(header, 8)), information: u32_at(header, 10) }
    }
}

pub(crate) fn put_fatal(out: &mut [u8], fatal: &FatalError) {
    put_u16(out, 8, fatal.status as u16);
    put_u32(out, 10, fatal.information);
}
