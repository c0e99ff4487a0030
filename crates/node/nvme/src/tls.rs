//! Pre-shared keys of the NVMe/TCP secure channel (TCP 3.6.1): their text form, the identities that a
//! host names them by, and the keys that TLS 1.3 uses.
//!
//! ```text
//! configured PSK  ── host ──►  retained PSK  ── identity ──►  TLS PSK
//! ```
//!
//! Both steps are HKDF-Expand-Label (RFC 8446, 7.1). libnvme before 1.15 encodes its input in another
//! way ([`Derivation::Libnvme`]), so that a target has to know both.

use crate::Nqn;
use crate::auth::{Digest, Hash};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A configured PSK, as `nvme gen-tls-key` prints it: `NVMeTLSkey-1:hh:base64(key ‖ crc32):`.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsKey {
    key: Vec<u8>,
    /// The hash that makes the retained PSK. None: the configured PSK is the retained one.
    transform: Option<Hash>,
}

/// Why a text is no TLS key. The text itself is not repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}; a TLS key looks like NVMeTLSkey-1:01:…:, as `nvme gen-tls-key` prints it")]
pub struct TlsKeyError(&'static str);

/// How the input of HKDF-Expand is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Derivation {
    /// HkdfLabel of RFC 8446: the length big-endian, label and context with their lengths.
    Rfc8446,
    /// libnvme before 1.15 (Debian 13): the length little-endian, label and context without lengths.
    Libnvme,
}

/// The version of an identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentityVersion {
    /// `NVMe0R01 HOST SUBSYSTEM`, of TCP 1.0c.
    Zero,
    /// `NVMe1R01 HOST SUBSYSTEM DIGEST`, of TCP 1.1. The digest says which key it is.
    One,
}

/// A PSK of TLS 1.3, with the identity that names it.
#[derive(Clone)]
pub struct TlsPsk {
    /// What the host sends.
    pub identity: String,
    /// The hash of the cipher suite: SHA-256 or SHA-384.
    pub hash: Hash,
    /// The key. As long as the hash.
    pub secret: Vec<u8>,
}

impl TlsKey {
    /// What the text form begins with.
    pub const PREFIX: &str = "NVMeTLSkey-1:";

    /// Reads the text form.
    pub fn parse(text: &str) -> Result<Self, TlsKeyError> {
        let rest = text.trim().strip_prefix(Self::PREFIX);
        let rest = rest.ok_or(TlsKeyError("the key does not start with NVMeTLSkey-1:"))?;
        let (hash, rest) =
            rest.split_once(':').ok_or(TlsKeyError("the key's second part is missing"))?;
        let encoded = rest.strip_suffix(':').ok_or(TlsKeyError("the key does not end in :"))?;
        let transform = match hash {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            _ => return Err(TlsKeyError("the key's hash is none of 00, 01 and 02")),
        };
        let bytes = STANDARD.decode(encoded).map_err(|_| TlsKeyError("the key is not base64"))?;
        let (key, crc) = bytes.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
        let is_long_enough = match transform {
            Some(hash) => key.len() == hash.bytes(),
            None => matches!(key.len(), 32 | 48),
        };
        if !is_long_enough {
            return Err(TlsKeyError("the key is not 32 bytes long, or 48 with SHA-384"));
        }
        if crc32fast::hash(key) != u32::from_le_bytes(*crc) {
            return Err(TlsKeyError("the key's checksum does not match: it was not copied whole"));
        }
        Ok(TlsKey { key: key.to_vec(), transform })
    }

    /// The hash of the cipher suite that the key is for.
    pub fn hash(&self) -> Hash {
        if self.key.len() == Hash::Sha384.bytes() { Hash::Sha384 } else { Hash::Sha256 }
    }

    /// The PSK of `host` and `subsystem`, with its identity.
    pub fn psk(
        &self,
        host: &Nqn,
        subsystem: &Nqn,
        version: IdentityVersion,
        derivation: Derivation,
    ) -> TlsPsk {
        let hash = self.hash();
        let retained = match self.transform {
            None => self.key.clone(),
            Some(_) => {
                let context = host.as_str().as_bytes();
                expand(hash, hash.extract(&self.key), derivation, "HostNQN", context)
            }
        };
        let (host, subsystem) = (host.as_str(), subsystem.as_str());
        let number = hash as u8;
        let (identity, context) = match version {
            IdentityVersion::Zero => {
                let identity = format!("NVMe0R{number:02} {host} {subsystem}");
                (identity.clone(), identity)
            }
            IdentityVersion::One => {
                let named = format!("{host} {subsystem} NVMe-over-Fabrics");
                let digest = hash.hmac(&retained, &[named.as_bytes()]);
                let digest = STANDARD.encode(digest.as_bytes());
                let identity = format!("NVMe1R{number:02} {host} {subsystem} {digest}");
                (identity, format!("{number:02} {digest}"))
            }
        };
        let context = context.as_bytes();
        let secret = expand(hash, hash.extract(&retained), derivation, "nvme-tls-psk", context);
        TlsPsk { identity, hash, secret }
    }
}

impl std::fmt::Debug for TlsKey {
    /// Never the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TlsKey({} bytes)", self.key.len())
    }
}

impl std::fmt::Debug for TlsPsk {
    /// Never the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TlsPsk({})", self.identity)
    }
}

impl TlsPsk {
    /// The binder that proves, at the end of a ClientHello, that the host knows the key: over all of
    /// the handshake message before its binders (RFC 8446, 4.2.11.2).
    pub fn binder(&self, truncated_hello: &[u8]) -> Digest {
        let hash = self.hash;
        let nothing = hash.digest(&[]);
        let label = |prk: Digest, label, context: &[u8]| {
            expand(hash, prk, Derivation::Rfc8446, label, context)
        };
        let early = hash.extract(&self.secret);
        let binder_key = label(early, "ext binder", nothing.as_bytes());
        let finished_key = label(Digest::of(&binder_key), "finished", &[]);
        hash.hmac(&finished_key, &[hash.digest(truncated_hello).as_bytes()])
    }
}

/// HKDF-Expand-Label, with an output as long as the hash: one block.
fn expand(hash: Hash, prk: Digest, derivation: Derivation, label: &str, context: &[u8]) -> Vec<u8> {
    const BEGIN: &str = "tls13 ";
    let bytes = hash.bytes() as u16;
    let mut info = Vec::new();
    match derivation {
        Derivation::Rfc8446 => {
            info.extend(bytes.to_be_bytes());
            info.push((BEGIN.len() + label.len()) as u8);
            info.extend([BEGIN, label].concat().as_bytes());
            info.push(u8::try_from(context.len()).unwrap_or(u8::MAX));
        }
        Derivation::Libnvme => {
            info.extend(bytes.to_le_bytes());
            info.extend([BEGIN, label].concat().as_bytes());
        }
    }
    info.extend(context);
    hash.hmac(prk.as_bytes(), &[&info, &[1]]).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text form of the bytes 0, 1, 2 and so on.
    fn text(hash: u8, bytes: u8) -> String {
        let mut key: Vec<u8> = (0..bytes).collect();
        key.extend_from_slice(&crc32fast::hash(&key).to_le_bytes());
        format!("NVMeTLSkey-1:{hash:02}:{}:", STANDARD.encode(key))
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn psk(text: &str, version: IdentityVersion, derivation: Derivation) -> TlsPsk {
        let nqn = |name| Nqn::new(name).unwrap();
        TlsKey::parse(text).unwrap().psk(&nqn("nqn.host"), &nqn("nqn.sub"), version, derivation)
    }

    /// What nvme-cli 2.13 with libnvme 1.13 puts into the kernel's keyring.
    #[test]
    fn keys_of_nvme_cli_are_derived_as_it_does() {
        use IdentityVersion::{One, Zero};
        for (hash, bytes, version, identity, secret) in [
            (
                0,
                32,
                Zero,
                "NVMe0R01 nqn.host nqn.sub",
                "d82dd0760fc274afa145a45fdf18df44d485f7b04c188fa355dc0e6e51377c01",
            ),
            (
                0,
                32,
                One,
                "NVMe1R01 nqn.host nqn.sub MlWf+lsOjzW1Q1BjSRZxdf3CB0JLG9SWOvREwHSoFOE=",
                "c049998a6aee663f4bc1270fac89f335f9bf4514b2e851649cf96c4ab653f863",
            ),
            (
                1,
                32,
                Zero,
                "NVMe0R01 nqn.host nqn.sub",
                "d1a79448d09b39cba34ab734db9a72d4abb80cb7dfb168fcce9b256385c355c9",
            ),
            (
                1,
                32,
                One,
                "NVMe1R01 nqn.host nqn.sub a0GofTg9YIYsEBBtbHd3kZG2Xu9iYHBumDqEOh+WXmI=",
                "9c09551defc7ed3738fbd985662eb2e2aeb9430f649379ddfaf09333b97c2fbe",
            ),
            (
                2,
                48,
                Zero,
                "NVMe0R02 nqn.host nqn.sub",
                "116dc354ca52b370ba0f181933bf21a9de0a6ac7ca30fa392f1b61501da5d02a10ad2e69b42bb06e871835391e2cf47a",
            ),
            (
                2,
                48,
                One,
                "NVMe1R02 nqn.host nqn.sub iiaF4s2S+T831oGjzrtvo0S0wxRSa9OLcRrS2fy4f5R3Rx9KgCQQ3nUgPRpvfzqC",
                "8a7ea025b10adf172d2983d3fdbf1d6a6d5beb4fa9d3bf12c68fb43731e8165ceecb462b66087474f13cd15551d73f18",
            ),
        ] {
            let found = psk(&text(hash, bytes), version, Derivation::Libnvme);
            assert_eq!((&found.identity[..], &hex(&found.secret)[..]), (identity, secret));
        }
    }

    /// Computed apart from this code, by the formulas of RFC 5869 and RFC 8446.
    #[test]
    fn keys_are_derived_as_the_specification_has_it() {
        use IdentityVersion::{One, Zero};
        let of_one = psk(&text(1, 32), One, Derivation::Rfc8446);
        let digest = "gEqCzkl04JXNNRhlec5POtT02lIVWjYjIzXBKFW3oOw=";
        assert_eq!(of_one.identity, format!("NVMe1R01 nqn.host nqn.sub {digest}"));
        let expected = "ec9341b612c08e42032cfc8892288692fac1bcd6491aff5b7f68b85b9a41d1c7";
        assert_eq!(hex(&of_one.secret), expected);
        let of_zero = psk(&text(1, 32), Zero, Derivation::Rfc8446);
        let expected = "17d05ed84257cda49b8c6312b97cb4230aa303bbad554b0c994821a385813461";
        assert_eq!(hex(&of_zero.secret), expected);
        let long = psk(&text(2, 48), Zero, Derivation::Rfc8446);
        assert!(hex(&long.secret).starts_with("77c34a4eee1156e5a96189cb8f0f0f18"));
    }

    #[test]
    fn what_is_no_key_is_refused_without_telling_it() {
        let short = text(1, 48);
        let bad_crc = text(1, 32).replace("AAEC", "AAED");
        for text in ["", "DHHC-1:00:x:", "NVMeTLSkey-1:03:x:", "NVMeTLSkey-1:01:geheim:", &short] {
            let error = TlsKey::parse(text).unwrap_err().to_string();
            assert!(!error.contains("geheim"), "{error}");
        }
        assert!(TlsKey::parse(&bad_crc).unwrap_err().to_string().contains("checksum"));
        assert_eq!(format!("{:?}", TlsKey::parse(&text(1, 32)).unwrap()), "TlsKey(32 bytes)");
    }
}
