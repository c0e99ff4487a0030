//! The NVM command set (CSI 0), as far as a plain block namespace has it: flush, write, read, write
//! zeroes, and dataset management, which frees blocks.

use super::Sqe;
use crate::Status;
use crate::le_fields::{u32_at, u64_at};

/// The opcodes.
pub mod opcode {
    /// Flush.
    pub const FLUSH: u8 = 0x00;
    /// Write.
    pub const WRITE: u8 = 0x01;
    /// Read.
    pub const READ: u8 = 0x02;
    /// Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;

    /// Dataset Management.
    pub const DATASET_MANAGEMENT: u8 = 0x09;

    /// All of them, for the log page that lists what is supported.
    pub const ALL: [u8; 5] = [FLUSH, WRITE, READ, WRITE_ZEROES, DATASET_MANAGEMENT];
}

/// Blocks in a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// The first (SLBA).
    pub first: u64,
    /// How many: 1 to 65,536; in a range of Dataset Management any number.
    pub count: u32,
}

impl Blocks {
    /// The first byte, and how many; none if that is beyond what 64 bits or `namespace_bytes` hold.
    pub fn bytes(&self, block_bytes: u32, namespace_bytes: u64) -> Option<(u64, u64)> {
        let start = self.first.checked_mul(u64::from(block_bytes))?;
        let length = u64::from(self.count) * u64::from(block_bytes);
        (start.checked_add(length)? <= namespace_bytes).then_some((start, length))
    }
}

/// A command of the NVM set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NvmCommand {
    /// Makes all that was written before safe.
    Flush,
    /// Writes blocks.
    Write {
        /// Which.
        blocks: Blocks,
        /// Whether to make just these safe before it is acknowledged.
        force_unit_access: bool,
    },
    /// Reads blocks.
    Read {
        /// Which.
        blocks: Blocks,
    },
    /// Makes blocks zero, without data.
    WriteZeroes {
        /// Which.
        blocks: Blocks,
        /// Whether to make just these safe before it is acknowledged.
        force_unit_access: bool,
    },
    /// Says what will be done with ranges of blocks, which its data has ([`ranges`]).
    DatasetManagement {
        /// How many: 1 to 256.
        ranges: u16,
        /// AD: they are not needed any more.
        deallocate: bool,
    },
}

/// The length of a range in the data of Dataset Management.
pub const RANGE_BYTES: usize = 16;

/// The ranges in the data of Dataset Management (NVM 1.0, 3.2.3). Their context attributes are
/// hints.
pub fn ranges(data: &[u8]) -> impl Iterator<Item = Blocks> {
    data.chunks_exact(RANGE_BYTES)
        .map(|range| Blocks { first: u64_at(range, 8), count: u32_at(range, 4) })
}

/// CDW11 of Dataset Management: AD, deallocate.
const DEALLOCATE: u32 = 1 << 2;

/// CDW12: force unit access.
const FUA: u32 = 1 << 30;
/// CDW12: protection information, which no namespace here has.
const PROTECTION: u32 = 0xf << 26;

impl NvmCommand {
    /// Reads the command, or says how to refuse it.
    pub fn parse(sqe: &Sqe) -> Result<Self, Status> {
        let word = sqe.word(12);
        let blocks = Blocks { first: sqe.double_word(10), count: (word & 0xffff) + 1 };
        let force_unit_access = word & FUA != 0;
        let opcode = sqe.opcode();
        if opcode == opcode::DATASET_MANAGEMENT {
            let ranges = (sqe.word(10) & 0xff) as u16 + 1;
            let deallocate = sqe.word(11) & DEALLOCATE != 0;
            return Ok(NvmCommand::DatasetManagement { ranges, deallocate });
        }
        if opcode != opcode::FLUSH && word & PROTECTION != 0 {
            return Err(Status::INVALID_FIELD);
        }
        match opcode {
            opcode::FLUSH => Ok(NvmCommand::Flush),
            opcode::WRITE => Ok(NvmCommand::Write { blocks, force_unit_access }),
            opcode::READ => Ok(NvmCommand::Read { blocks }),
            opcode::WRITE_ZEROES => Ok(NvmCommand::WriteZeroes { blocks, force_unit_access }),
            _ => Err(Status::INVALID_OPCODE),
        }
    }

    /// The entry for `namespace`, all but the command id and the SGL.
    pub fn encode(&self, namespace: u32) -> Sqe {
        let (opcode, blocks, force_unit_access) = match *self {
            NvmCommand::Flush => return Sqe::new(opcode::FLUSH, namespace),
            NvmCommand::DatasetManagement { ranges, deallocate } => {
                let mut sqe = Sqe::new(opcode::DATASET_MANAGEMENT, namespace);
                sqe.set_word(10, u32::from(ranges.saturating_sub(1)) & 0xff);
                sqe.set_word(11, if deallocate { DEALLOCATE } else { 0 });
                return sqe;
            }
            NvmCommand::Write { blocks, force_unit_access } => {
                (opcode::WRITE, blocks, force_unit_access)
            }
            NvmCommand::Read { blocks } => (opcode::READ, blocks, false),
            NvmCommand::WriteZeroes { blocks, force_unit_access } => {
                (opcode::WRITE_ZEROES, blocks, force_unit_access)
            }
        };
        let flags = if force_unit_access { FUA } else { 0 };
        let mut sqe = Sqe::new(opcode, namespace);
        sqe.set_double_word(10, blocks.first);
        sqe.set_word(12, blocks.count.saturating_sub(1) & 0xffff | flags);
        sqe
    }
}
