//! H2CData and C2HData: where in a command's data the PDU's data belongs (TCP 3.6.2.9, 3.6.2.10).

use crate::le_fields::{put_u16, put_u32, u16_at, u32_at};

/// The part of a data PDU's header that is not common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataHeader {
    /// CCCID: the command that the data belongs to.
    pub command_id: u16,
    /// TTAG: the R2T that asked for it. Reserved, and zero, from a controller.
    pub transfer_tag: u16,
    /// DATAO: the offset in the command's data.
    pub offset: u32,
    /// DATAL: how much of it this is.
    pub bytes: u32,
}

/// Where fields stand, for errors to point to.
pub(crate) mod field {
    pub const BYTES: u32 = 16;
}

impl DataHeader {
    pub(crate) fn parse(header: &[u8]) -> Self {
        DataHeader {
            command_id: u16_at(header, 8),
            transfer_tag: u16_at(header, 10),
            offset: u32_at(header, 12),
            bytes: u32_at(header, 16),
        }
    }

    pub(crate) fn put(&self, out: &mut [u8]) {
        put_u16(out, 8, self.command_id);
        put_u16(out, 10, self.transfer_tag);
        put_u32(out, 12, self.offset);
        put_u32(out, 16, self.bytes);
    }
}
