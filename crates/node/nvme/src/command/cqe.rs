//! The completion queue entry (Base 3.3.3.2): 16 bytes.
//!
//! ```text
//! 0  DW0   4  DW1   8  SQ head   10  SQ id   12  command id   14  status
//! ```

use crate::Status;
use crate::le_fields::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// The length of a completion queue entry.
pub const CQE_BYTES: usize = 16;

/// A completion as it travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cqe(pub [u8; CQE_BYTES]);

impl Cqe {
    /// The completion of command `command_id`.
    pub fn new(command_id: u16, status: Status) -> Self {
        let mut bytes = [0; CQE_BYTES];
        put_u16(&mut bytes, 12, command_id);
        put_u16(&mut bytes, 14, status.to_field());
        Cqe(bytes)
    }

    /// With a result in DW0.
    pub fn with_word(mut self, word: u32) -> Self {
        put_u32(&mut self.0, 0, word);
        self
    }

    /// With a result in DW0 and DW1.
    pub fn with_double_word(mut self, value: u64) -> Self {
        put_u64(&mut self.0, 0, value);
        self
    }

    /// With the queue's place: how far its entries were taken, and which it is.
    pub fn with_queue(mut self, head: u16, queue: u16) -> Self {
        put_u16(&mut self.0, 8, head);
        put_u16(&mut self.0, 10, queue);
        self
    }

    /// DW0.
    pub fn word(&self) -> u32 {
        u32_at(&self.0, 0)
    }

    /// DW0 and DW1.
    pub fn double_word(&self) -> u64 {
        u64_at(&self.0, 0)
    }

    /// SQHD: the entry that the controller takes next.
    pub fn queue_head(&self) -> u16 {
        u16_at(&self.0, 8)
    }

    /// Which command has ended.
    pub fn command_id(&self) -> u16 {
        u16_at(&self.0, 12)
    }

    /// How.
    pub fn status(&self) -> Status {
        Status::from_field(u16_at(&self.0, 14))
    }
}
