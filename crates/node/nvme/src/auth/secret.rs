//! A secret, and its text form `DHHC-1:hh:base64(key ‖ crc32):`, as `nvme gen-dhchap-key` writes it (Base 8.3.4.5.8).

use super::hash::{Digest, Hash};
use crate::Nqn;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The secret of a host or of a controller.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: Vec<u8>,
    transform: Option<Hash>,
}

/// Why a text is no secret. The text itself is not repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}; a secret looks like DHHC-1:00:…:, as `nvme gen-dhchap-key` prints it")]
pub struct SecretError(&'static str);

impl Secret {
    /// What its text form begins with.
    pub const PREFIX: &str = "DHHC-1:";

    /// Reads the text form.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let rest = text.trim().strip_prefix(Self::PREFIX);
        let rest = rest.ok_or(SecretError("the secret does not start with DHHC-1:"))?;
        let (transform, rest) =
            rest.split_once(':').ok_or(SecretError("the secret's second part is missing"))?;
        let encoded = rest.strip_suffix(':').ok_or(SecretError("the secret does not end in :"))?;
        let transform = match transform {
            "00" => None,
            "01" => Some(Hash::Sha256),
            "02" => Some(Hash::Sha384),
            "03" => Some(Hash::Sha512),
            _ => return Err(SecretError("the secret's hash is none of 00, 01, 02 and 03")),
        };
        let bytes = STANDARD.decode(encoded);
        let bytes = bytes.map_err(|_| SecretError("the secret's key is not base64"))?;
        let key = checked(&bytes)?;
        Ok(Secret { key: key.to_vec(), transform })
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut bytes = self.key.clone();
        bytes.extend_from_slice(&crc32fast::hash(&self.key).to_le_bytes());
        let transform = self.transform.map_or(0, |hash| hash as u8);
        format!("DHHC-1:{transform:02x}:{}:", STANDARD.encode(bytes))
    }

    /// The key that `owner` computes with.
    pub(super) fn transformed(&self, owner: &Nqn) -> TransformedKey {
        match self.transform {
            None => TransformedKey::Plain(self.key.clone()),
            Some(hash) => TransformedKey::Hashed(
                hash.hmac(&self.key, &[owner.as_str().as_bytes(), b"NVMe-over-Fabrics"]),
            ),
        }
    }
}

/// The key without the checksum at its end.
fn checked(bytes: &[u8]) -> Result<&[u8], SecretError> {
    let (key, crc) =
        bytes.split_last_chunk::<4>().map(|(key, crc)| (key, *crc)).unwrap_or((&[], [0; 4]));
    if !matches!(key.len(), 32 | 48 | 64) {
        return Err(SecretError("the secret's key is not 32, 48 or 64 bytes long"));
    }
    if crc32fast::hash(key) != u32::from_le_bytes(crc) {
        return Err(SecretError("the secret's checksum does not match: it was not copied whole"));
    }
    Ok(key)
}

/// A key bound to who owns it.
pub(super) enum TransformedKey {
    Plain(Vec<u8>),
    Hashed(Digest),
}

impl TransformedKey {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            TransformedKey::Plain(key) => key,
            TransformedKey::Hashed(digest) => digest.as_bytes(),
        }
    }
}

impl std::fmt::Debug for Secret {
    /// Never the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.key.len())
    }
}
