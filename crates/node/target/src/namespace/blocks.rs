//! Blocks in memory, for tests: nothing survives the process.

use super::{Answer, Description, Namespace, Request};
use esker_nvme::Status;
use esker_uring::Buffer;
use parking_lot::Mutex;

/// A volatile namespace of blocks, all zeros at first.
pub struct MemoryBlocks {
    guid: [u8; 16],
    block_bytes_log2: u8,
    length: u64,
    bytes: Mutex<Vec<u8>>,
}

impl MemoryBlocks {
    /// A namespace of `blocks` blocks of 2^`block_bytes_log2` bytes.
    pub fn new(guid: [u8; 16], blocks: usize, block_bytes_log2: u8) -> Self {
        let length = blocks << block_bytes_log2;
        let bytes = Mutex::new(vec![0; length]);
        MemoryBlocks { guid, block_bytes_log2, length: length as u64, bytes }
    }

    fn carry_out(&self, request: Request) -> Answer {
        let mut bytes = self.bytes.lock();
        match request {
            Request::Flush => Answer::Done,
            Request::Write { offset, data, .. } => {
                bytes[offset as usize..][..data.len()].copy_from_slice(&data);
                Answer::Done
            }
            Request::Read { offset, bytes: length } => {
                Answer::Data(Buffer::from_slice(&bytes[offset as usize..][..length]).whole())
            }
            Request::WriteZeroes { offset, bytes: length, .. } => {
                bytes[offset as usize..][..length as usize].fill(0);
                Answer::Done
            }
            Request::Deallocate { ranges } => {
                for (offset, length) in ranges {
                    bytes[offset as usize..][..length as usize].fill(0);
                }
                Answer::Done
            }
            _ => Answer::Failed(Status::INVALID_OPCODE),
        }
    }
}

impl Namespace for MemoryBlocks {
    fn guid(&self) -> [u8; 16] {
        self.guid
    }

    fn description(&self) -> Description {
        Description::Blocks { bytes: self.length, block_bytes_log2: self.block_bytes_log2 }
    }

    fn answer_at_once(&self, request: Request) -> Result<Answer, Request> {
        Ok(self.carry_out(request))
    }
}
