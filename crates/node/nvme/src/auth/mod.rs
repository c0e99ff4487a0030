//! DH-HMAC-CHAP: each side proves that it knows a secret, without telling it (Base 8.3.4.4, RFC 1994 and 7919).
//!
//! ```text
//! host                                     controller
//! Negotiate  hashes, groups        ──►
//!                                  ◄──     Challenge  hash, group, C1, g^x
//! Reply      R1, (C2), g^y         ──►                R1 is checked
//!                                  ◄──     Success1   (R2)
//! Success2   only if R2 was asked  ──►
//! ```
//!
//! The host sends by Authentication Send and fetches by Authentication Receive. Random numbers come in from
//! outside; comparing is constant-time. [`message`] holds the bytes, [`response`] the computations, [`Secret`] the
//! secrets and their text form.

mod group;
mod hash;
pub mod message;
mod primes;
pub mod response;
mod secret;

pub use group::{Group, KeyPair};
pub use hash::{Digest, Hash};
pub use response::{Role, Transaction};
pub use secret::{Secret, SecretError};
