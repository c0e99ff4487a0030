//! The one SGL descriptor of a command: where its data is (Base 4.1.2). Over TCP there are two places: in the
//! capsule, or behind R2T and C2HData.

use crate::Status;
use crate::le_fields::{put_u32, put_u64, u32_at, u64_at};

/// Where data is, and how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sgl {
    /// In the capsule, `offset` bytes into its data.
    InCapsule {
        /// From the start of the capsule's data.
        offset: u64,
        /// How much.
        bytes: u32,
    },
    /// To be transferred by PDUs of its own, in whichever direction the command has.
    Transport {
        /// How much.
        bytes: u32,
    },
}

/// Data block, address is an offset into the capsule.
const IN_CAPSULE: u8 = 0x01;
/// Transport data block, for the transport to interpret.
const TRANSPORT: u8 = 0x5a;
/// Data block with an address. A host that has no data to name leaves zeros.
const NONE: u8 = 0x00;

impl Sgl {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Status> {
        let length = u32_at(bytes, 8);
        match bytes[15] {
            IN_CAPSULE => Ok(Sgl::InCapsule { offset: u64_at(bytes, 0), bytes: length }),
            TRANSPORT => Ok(Sgl::Transport { bytes: length }),
            NONE if length == 0 => Ok(Sgl::Transport { bytes: 0 }),
            _ => Err(Status::SGL_TYPE_INVALID),
        }
    }

    pub(super) fn put(self, out: &mut [u8]) {
        let (kind, address) = match self {
            Sgl::InCapsule { offset, .. } => (IN_CAPSULE, offset),
            Sgl::Transport { .. } => (TRANSPORT, 0),
        };
        put_u64(out, 0, address);
        put_u32(out, 8, self.bytes());
        out[12..15].fill(0);
        out[15] = kind;
    }

    /// How much data.
    pub const fn bytes(self) -> u32 {
        match self {
            Sgl::InCapsule { bytes, .. } | Sgl::Transport { bytes } => bytes,
        }
    }

    /// The part of a capsule's `data` that this names: all of it for data in the capsule, or the reason why there
    /// is none. `None` if the data is yet to be transferred.
    pub fn in_capsule(self, data: &[u8]) -> Result<Option<&[u8]>, Status> {
        let Sgl::InCapsule { offset, bytes } = self else { return Ok(None) };
        let start = usize::try_from(offset).map_err(|_| Status::SGL_OFFSET_INVALID)?;
        let rest = data.get(start..).ok_or(Status::SGL_OFFSET_INVALID)?;
        rest.get(..bytes as usize).map(Some).ok_or(Status::DATA_SGL_LENGTH_INVALID)
    }
}
