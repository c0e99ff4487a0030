//! R2T: a controller asks for a part of a command's data (TCP 3.6.2.8).

use crate::le_fields::{put_u16, put_u32, u16_at, u32_at};

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyToTransfer {
    /// CCCID: the command whose data it is.
    pub command_id: u16,
    /// TTAG: the controller's name for this transfer, which H2CData must repeat.
    pub transfer_tag: u16,
    /// R2TO: the offset in the command's data.
    pub offset: u32,
    /// R2TL: how much of it.
    pub bytes: u32,
}

impl ReadyToTransfer {
    pub(crate) fn parse(header: &[u8]) -> Self {
        ReadyToTransfer {
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
