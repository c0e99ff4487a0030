//! The hashes that a host and a controller may agree on.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

/// The longest hash, in bytes.
pub const HASH_BYTES_MAX: usize = 64;

/// A hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Hash {
    /// 32 bytes.
    Sha256 = 1,
    /// 48 bytes.
    Sha384 = 2,
    /// 64 bytes.
    Sha512 = 3,
}

/// A hash's output. Compares in constant time.
#[derive(Clone, Copy, Debug)]
pub struct Digest {
    bytes: [u8; HASH_BYTES_MAX],
    length: usize,
}

impl Hash {
    /// The hash of this number.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Hash::Sha256),
            2 => Some(Hash::Sha384),
            3 => Some(Hash::Sha512),
            _ => None,
        }
    }

    /// The length of its output.
    pub const fn bytes(self) -> usize {
        match self {
            Hash::Sha256 => 32,
            Hash::Sha384 => 48,
            Hash::Sha512 => 64,
        }
    }

    /// The hash of `data`.
    pub fn digest(self, data: &[u8]) -> Digest {
        match self {
            Hash::Sha256 => Digest::of(&Sha256::digest(data)),
            Hash::Sha384 => Digest::of(&Sha384::digest(data)),
            Hash::Sha512 => Digest::of(&Sha512::digest(data)),
        }
    }

    /// HKDF-Extract without a salt (RFC 5869, 2.2).
    pub fn extract(self, key: &[u8]) -> Digest {
        self.hmac(&[0; HASH_BYTES_MAX][..self.bytes()], &[key])
    }

    /// The HMAC of `parts`, one behind the other, under `key`.
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Digest {
        fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Digest {
            let mut mac =
                <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
            parts.iter().for_each(|part| mac.update(part));
            Digest::of(&mac.finalize().into_bytes())
        }
        match self {
            Hash::Sha256 => mac::<Hmac<Sha256>>(key, parts),
            Hash::Sha384 => mac::<Hmac<Sha384>>(key, parts),
            Hash::Sha512 => mac::<Hmac<Sha512>>(key, parts),
        }
    }
}

impl Digest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut digest = Digest { bytes: [0; HASH_BYTES_MAX], length: bytes.len() };
        digest.bytes[..bytes.len()].copy_from_slice(bytes);
        digest
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Whether these are `bytes`, in a time that does not depend on where they differ.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.as_bytes().ct_eq(bytes).into()
    }
}
