//! The Diffie-Hellman groups of RFC 7919: a session key that a listener can't compute, so that a secret can't be
//! computed offline from what went over the wire. Arithmetic is constant-time (`crypto-bigint`).

use super::primes;
use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use std::sync::OnceLock;

/// A group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Group {
    /// No exchange: the challenge alone.
    Null = 0,
    /// ffdhe2048.
    Ffdhe2048 = 1,
    /// ffdhe3072.
    Ffdhe3072 = 2,
    /// ffdhe4096.
    Ffdhe4096 = 3,
}

/// One side's part of an exchange.
pub struct KeyPair {
    group: Group,
    private: BoxedUint,
    /// What the other side is sent: the group's length, big-endian. Empty for [`Group::Null`].
    pub public: Vec<u8>,
}

impl Group {
    /// The group of this number, if it is known here.
    pub const fn of(number: u8) -> Option<Self> {
        match number {
            0 => Some(Group::Null),
            1 => Some(Group::Ffdhe2048),
            2 => Some(Group::Ffdhe3072),
            3 => Some(Group::Ffdhe4096),
            _ => None,
        }
    }

    /// The length of a public key, and of a session key.
    pub const fn bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 256,
            Group::Ffdhe3072 => 384,
            Group::Ffdhe4096 => 512,
        }
    }

    /// The length of a private key: twice the group's strength and some (RFC 7919, 5.2).
    pub const PRIVATE_BYTES: usize = 64;

    fn prime(self) -> &'static str {
        match self {
            Group::Null => "",
            Group::Ffdhe2048 => primes::FFDHE2048,
            Group::Ffdhe3072 => primes::FFDHE3072,
            Group::Ffdhe4096 => primes::FFDHE4096,
        }
    }

    /// Computed once: that takes a good part of the time of an exchange.
    fn parameters(self) -> &'static BoxedMontyParams {
        static OF_GROUPS: [OnceLock<BoxedMontyParams>; 4] = [const { OnceLock::new() }; 4];
        OF_GROUPS[self as usize].get_or_init(|| {
            let bits = self.bytes() as u32 * 8;
            let prime = BoxedUint::from_str_radix_with_precision_vartime(self.prime(), 16, bits)
                .expect("the prime is written in hexadecimal");
            BoxedMontyParams::new(Odd::new(prime).expect("the prime is odd"))
        })
    }

    fn power(self, base: BoxedUint, exponent: &BoxedUint) -> Vec<u8> {
        let base = BoxedMontyForm::new(base, self.parameters());
        base.pow(exponent).retrieve().to_be_bytes().to_vec()
    }
}

impl KeyPair {
    /// An entry from a private key that is unpredictable.
    pub fn new(group: Group, private: &[u8; Group::PRIVATE_BYTES]) -> Self {
        let private = BoxedUint::from_be_slice(private, Group::PRIVATE_BYTES as u32 * 8)
            .expect("the precision is that of the bytes");
        let public = match group {
            Group::Null => Vec::new(),
            _ => group.power(BoxedUint::from(2u8).resize(group.bytes() as u32 * 8), &private),
        };
        KeyPair { group, private, public }
    }

    /// The session key with the other side's public key; none if that is not one (RFC 7919, 5.1: 1 < y < p - 1).
    pub fn session(&self, theirs: &[u8]) -> Option<Vec<u8>> {
        if self.group == Group::Null || theirs.len() != self.group.bytes() {
            return None;
        }
        let theirs = BoxedUint::from_be_slice(theirs, self.group.bytes() as u32 * 8).ok()?;
        let prime = self.group.parameters().modulus().as_ref();
        let one = BoxedUint::one_with_precision(theirs.bits_precision());
        let largest = prime.wrapping_sub(&one);
        let in_range = theirs > one && theirs < largest;
        in_range.then(|| self.group.power(theirs, &self.private))
    }
}
