//! Identify Namespace of the NVM command set (CNS 00h; NVM 4.1.5.1).

use super::{SHARED, Structure};
use crate::le_fields::{put_u32, put_u64, u64_at};

/// A namespace of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvmNamespace {
    /// NSZE, NCAP and NUSE.
    pub blocks: u64,
    /// LBADS: blocks have 2^this bytes. At least 9.
    pub block_bytes_log2: u8,
    /// NGUID: the namespace's permanent identifier.
    pub guid: [u8; 16],
}

/// DLFEAT: blocks that were deallocated read as zeros.
const DEALLOCATED_ARE_ZEROS: u8 = 1;

/// DMRL: ranges of a Dataset Management command.
const DEALLOCATED_RANGES: u8 = 64;

/// DMRSL: blocks of one of them. 1 GiB of blocks of 512 bytes.
const DEALLOCATED_RANGE_BLOCKS: u32 = 1 << 21;

/// DMSL: blocks of all of them.
const DEALLOCATED_BLOCKS: u64 = 1 << 23;

/// Where formats start. There is one.
const FORMATS: usize = 128;

impl NvmNamespace {
    /// Writes the structure.
    pub fn encode(&self, out: &mut Structure) {
        out.fill(0);
        put_u64(out, 0, self.blocks);
        put_u64(out, 8, self.blocks);
        put_u64(out, 16, self.blocks);
        out[30] = SHARED;
        out[33] = DEALLOCATED_ARE_ZEROS;
        out[104..120].copy_from_slice(&self.guid);
        out[FORMATS + 2] = self.block_bytes_log2;
    }

    /// Writes Identify Controller of this command set (CNS 06h; NVM 4.1.5.3): how much one Dataset Management command is
    /// to deallocate, so that none takes longer than hosts wait. Other limits are those of Identify Controller.
    pub fn encode_controller(out: &mut Structure) {
        out.fill(0);
        out[3] = DEALLOCATED_RANGES;
        put_u32(out, 4, DEALLOCATED_RANGE_BLOCKS);
        put_u64(out, 8, DEALLOCATED_BLOCKS);
    }

    /// Reads the structure.
    pub fn parse(data: &Structure) -> Self {
        let format = usize::from(data[26] & 15);
        NvmNamespace {
            blocks: u64_at(data, 0),
            block_bytes_log2: data[FORMATS + 4 * format + 2],
            guid: data[104..120].try_into().expect("a slice of 16 bytes"),
        }
    }
}

/// Writes the structure of a namespace that has no blocks: no size (NSZE), no block format (LBADS
/// 0: not available; NVM 1.0, figure 98), and NCAP 1, because hosts take a namespace whose NCAP is
/// 0 for one that is not there (Base 2.0, 5.17.2.1); SPDK does so before it inspects the command
/// set.
pub fn namespace_without_blocks(guid: &[u8; 16], is_active: bool, out: &mut Structure) {
    out.fill(0);
    put_u64(out, 8, is_active.into());
    out[30] = SHARED;
    out[104..120].copy_from_slice(guid);
}
