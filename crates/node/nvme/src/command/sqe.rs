//! The submission queue entry (Base 3.3.3.1): 64 bytes, the same frame for all commands.
//!
//! ```text
//!  0  opcode   1  flags   2  command id   4  namespace   8  CDW2, CDW3   16  metadata pointer
//! 24  SGL     40  CDW10 … CDW15
//! ```

use super::sgl::Sgl;
use crate::Status;
use crate::le_fields::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// The length of a submission queue entry.
pub const SQE_BYTES: usize = 64;

/// A command as it travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sqe(pub [u8; SQE_BYTES]);

/// PSDT in the flags: the data pointer is an SGL. Fabrics know no other.
const USES_SGL: u8 = 1 << 6;

impl Sqe {
    /// A command without data, for namespace `namespace` (0: none).
    pub fn new(opcode: u8, namespace: u32) -> Self {
        let mut bytes = [0; SQE_BYTES];
        bytes[0] = opcode;
        bytes[1] = USES_SGL;
        put_u32(&mut bytes, 4, namespace);
        Sqe(bytes)
    }

    /// What to do.
    pub const fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// The host's name for this command, to be repeated in its completion.
    pub fn command_id(&self) -> u16 {
        u16_at(&self.0, 2)
    }

    /// Gives the command its name.
    pub fn set_command_id(&mut self, id: u16) {
        put_u16(&mut self.0, 2, id);
    }

    /// NSID.
    pub fn namespace(&self) -> u32 {
        u32_at(&self.0, 4)
    }

    /// A command word: CDW0 to CDW15.
    pub fn word(&self, number: usize) -> u32 {
        u32_at(&self.0, number * 4)
    }

    /// Two command words, the lower one first.
    pub fn double_word(&self, number: usize) -> u64 {
        u64_at(&self.0, number * 4)
    }

    /// Sets a command word.
    pub fn set_word(&mut self, number: usize, value: u32) {
        put_u32(&mut self.0, number * 4, value);
    }

    /// Sets two command words.
    pub fn set_double_word(&mut self, number: usize, value: u64) {
        put_u64(&mut self.0, number * 4, value);
    }

    /// Where the command's data is.
    pub fn sgl(&self) -> Result<Sgl, Status> {
        Sgl::parse(&self.0[24..40])
    }

    /// Says where the command's data is.
    pub fn set_sgl(&mut self, sgl: Sgl) {
        sgl.put(&mut self.0[24..40]);
    }

    /// Whether two commands must be done as one, which nothing here offers.
    pub const fn is_fused(&self) -> bool {
        self.0[1] & 3 != 0
    }
}
