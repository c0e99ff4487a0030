//! Keys: those that a user keeps, and the key of a file, which is derived from one of them.

use esker_base::{Entropy, Result};
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use sha2::Sha256;
use std::fmt;
use zeroize::Zeroizing;

/// The bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// The bytes of a salt.
pub(crate) const SALT_BYTES: usize = 32;

/// The bytes of a tag, which authenticates a record.
pub(crate) const TAG_BYTES: usize = 16;

/// What a nonce is for, besides a position.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Record = 0,
    Header = 1,
}

/// A key of 256 bits. Keys of files are derived from it.
#[derive(Clone)]
pub struct Key {
    bytes: Zeroizing<[u8; KEY_BYTES]>,
    id: KeyId,
}

/// Names a key without revealing it. It is derived from the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(crate) u64);

impl Key {
    /// Returns the key with these bytes, which must be random.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Key {
        let digest = hmac(&bytes, &[b"esker key id"]);
        let mut id = [0; 8];
        id.copy_from_slice(&digest[..8]);
        Key { bytes: Zeroizing::new(bytes), id: KeyId(u64::from_le_bytes(id)) }
    }

    /// Returns a new random key.
    ///
    /// # Errors
    /// [`Error::Io`](esker_base::Error::Io) if the system has no random bytes.
    pub fn random(entropy: &dyn Entropy) -> Result<Key> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        entropy.fill(&mut *bytes)?;
        Ok(Key::new(*bytes))
    }

    /// Returns the key whose bytes `text` has as 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Key> {
        if text.len() != 2 * KEY_BYTES || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Key::new(*bytes))
    }

    /// Returns the key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * KEY_BYTES));
        for byte in self.bytes.iter() {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(u32::from(digit), 16).expect("below 16"));
            }
        }
        text
    }

    /// Returns the id of the key.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The key of a file with this salt.
    pub(crate) fn of_file(&self, salt: &[u8; SALT_BYTES]) -> FileKey {
        // HKDF-SHA-256 (RFC 5869).
        const INFO: &[u8] = b"esker file 1";
        let secret = hmac(salt, &[&*self.bytes]);
        let first = hmac(&*secret, &[INFO, &[1]]);
        let second = hmac(&*secret, &[&*first, INFO, &[2]]);
        let cipher = cipher(&first);
        let mark = u32::from_le_bytes([second[0], second[1], second[2], second[3]]);
        // Zeros are where nothing was written.
        FileKey { cipher, mark: mark.max(1) }
    }
}

/// Without the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

/// As 16 hexadecimal digits.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("any length will do");
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

/// The key of one file.
#[derive(Clone)]
pub(crate) struct FileKey {
    cipher: LessSafeKey,
    /// The first bytes of each record of the file. It is secret, so that no client can write a value that has
    /// many of them, which would slow down the search for records.
    pub(crate) mark: u32,
}

impl FileKey {
    /// Encrypts `data` in place, and returns the tag that authenticates it and `head`.
    pub(crate) fn seal(
        &self,
        (purpose, position): (Purpose, u64),
        head: &[u8],
        data: &mut [u8],
    ) -> [u8; TAG_BYTES] {
        let nonce = nonce(purpose, position);
        let sealed = self.cipher.seal_in_place_separate_tag(nonce, Aad::from(head), data);
        let tag = sealed.expect("a record is shorter than the cipher allows");
        tag.as_ref().try_into().expect("16 bytes")
    }

    /// Decrypts `data` in place if `tag` authenticates it and `head`. If not, `data` has any bytes.
    pub(crate) fn open(
        &self,
        (purpose, position): (Purpose, u64),
        head: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        let nonce = nonce(purpose, position);
        let (head, tag) = (Aad::from(head), (*tag).into());
        self.cipher.open_in_place_separate_tag(nonce, head, tag, data, 0..).is_ok()
    }
}

/// A position is written once under the key of a file.
fn nonce(purpose: Purpose, position: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&position.to_le_bytes());
    nonce[8] = purpose as u8;
    Nonce::assume_unique_for_key(nonce)
}

fn cipher(key: &[u8; KEY_BYTES]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_256_GCM, key);
    LessSafeKey::new(key.expect("the key has the length of the cipher"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_key(key: u8, salt: u8) -> FileKey {
        Key::new([key; 32]).of_file(&[salt; 32])
    }

    #[test]
    fn hkdf_and_hmac_are_those_of_the_standards() {
        // RFC 4231, test case 2.
        let mac = hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        assert_eq!(mac[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
        // RFC 5869, test case 1: extract, and the first block of expand.
        let salt: Vec<u8> = (0..13).collect();
        let secret = hmac(&salt, &[&[0x0b; 22]]);
        assert_eq!(secret[..4], [0x07, 0x77, 0x09, 0x36]);
        let info: Vec<u8> = (0xf0..0xfa).collect();
        assert_eq!(hmac(&*secret, &[&info, &[1]])[..4], [0x3c, 0xb2, 0x5f, 0x25]);
    }

    #[test]
    fn the_cipher_is_aes_256_gcm() {
        // Test case 14 of the specification of GCM: a key, a nonce and a block of zeros.
        let key = FileKey { cipher: cipher(&[0; 32]), mark: 1 };
        let mut data = [0; 16];
        let tag = key.seal((Purpose::Record, 0), b"", &mut data);
        assert_eq!(data[..4], [0xce, 0xa7, 0x40, 0x3d]);
        assert_eq!(tag[..4], [0xd0, 0xd1, 0xc8, 0xa7]);
    }

    #[test]
    fn a_record_opens_only_with_all_that_it_was_sealed_with() {
        let key = file_key(1, 1);
        let mut sealed = *b"a value";
        let tag = key.seal((Purpose::Record, 80), b"head", &mut sealed);
        let opens = |key: &FileKey, place, head: &[u8], mut data: [u8; 7], tag: [u8; 16]| {
            let opened = key.open(place, head, &mut data, &tag);
            assert!(!opened || data == *b"a value");
            opened
        };
        let place = (Purpose::Record, 80);
        assert!(opens(&key, place, b"head", sealed, tag));
        assert!(!opens(&file_key(2, 1), place, b"head", sealed, tag), "key");
        assert!(!opens(&file_key(1, 2), place, b"head", sealed, tag), "salt");
        assert!(!opens(&key, (Purpose::Record, 88), b"head", sealed, tag), "position");
        assert!(!opens(&key, (Purpose::Header, 80), b"head", sealed, tag), "purpose");
        assert!(!opens(&key, place, b"heap", sealed, tag), "head");
        for bit in 0..7 * 8 {
            let mut data = sealed;
            data[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&key, place, b"head", data, tag), "bit {bit}");
        }
        for bit in 0..16 * 8 {
            let mut tag = tag;
            tag[bit / 8] ^= 1 << (bit % 8);
            assert!(!opens(&key, place, b"head", sealed, tag), "bit {bit} of the tag");
        }
    }

    #[test]
    fn a_key_is_read_as_it_is_shown_and_never_shown_by_accident() {
        let key = Key::new(std::array::from_fn(|at| at as u8 * 7));
        let text = key.to_hex();
        assert_eq!(*Key::parse(&text).unwrap().bytes, *key.bytes);
        assert!(text.starts_with("00070e15"));
        for wrong in ["", &text[1..], &format!("{}g", &text[1..]), &format!("{}é", &text[2..])] {
            assert!(Key::parse(wrong).is_none(), "{wrong}");
        }
        let shown = format!("{key:?}");
        assert!(shown.contains(&key.id().to_string()) && !shown.contains("15"), "{shown}");
    }
}
