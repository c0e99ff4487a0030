//! Identify Namespace of the Key Value command set (CNS 05h, CSI 1; KV 4.1.5.1), and the little that is in
//! Identify Controller (CNS 06h, CSI 1).

use super::{SHARED, Structure};
use crate::le_fields::{put_u16, put_u32, put_u64, u16_at, u32_at, u64_at};

/// A namespace of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvNamespace {
    /// NSZE: bytes that it holds.
    pub capacity_bytes: u64,
    /// NUSE: bytes in use.
    pub used_bytes: u64,
    /// The longest key.
    pub key_bytes_max: u16,
    /// The longest value.
    pub value_bytes_max: u32,
    /// How many keys fit; 0 is no limit but the capacity.
    pub keys_max: u32,
    /// NGUID: the namespace's permanent identifier.
    pub guid: [u8; 16],
    /// Whether its keys are digests of longer ones ([`long_key`](crate::command::long_key)): in the first byte that is the vendor's.
    pub has_long_keys: bool,
}

/// Where the vendor's own bytes start.
const VENDOR: usize = 3840;

/// Where formats start. There is one.
const FORMATS: usize = 72;

/// The version that Identify Controller of this command set names.
const VERSION: u32 = 0x0001_0300;

impl KvNamespace {
    /// Writes the structure.
    pub fn encode(&self, out: &mut Structure) {
        out.fill(0);
        put_u64(out, 0, self.capacity_bytes);
        put_u64(out, 16, self.used_bytes);
        out[26] = SHARED;
        out[48..64].copy_from_slice(&self.guid);
        put_u16(out, FORMATS, self.key_bytes_max);
        put_u32(out, FORMATS + 4, self.value_bytes_max);
        put_u32(out, FORMATS + 8, self.keys_max);
        out[VENDOR] = u8::from(self.has_long_keys);
    }

    /// Reads the structure.
    pub fn parse(data: &Structure) -> Self {
        KvNamespace {
            capacity_bytes: u64_at(data, 0),
            used_bytes: u64_at(data, 16),
            guid: data[48..64].try_into().expect("a slice of 16 bytes"),
            key_bytes_max: u16_at(data, FORMATS),
            value_bytes_max: u32_at(data, FORMATS + 4),
            keys_max: u32_at(data, FORMATS + 8),
            has_long_keys: data[VENDOR] == 1,
        }
    }

    /// Writes Identify Controller of this command set.
    pub fn encode_controller(out: &mut Structure) {
        out.fill(0);
        put_u32(out, 0, VERSION);
    }
}
