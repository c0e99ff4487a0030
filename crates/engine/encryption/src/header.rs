//! The header of an encrypted file. See docs/formats/encryption.md.

use crate::key::{FileKey, Purpose, SALT_BYTES, TAG_BYTES};
use crate::keys::Keys;
use crate::record::{OVERHEAD_BYTES, RECORD_BYTES_MAX};
use crate::{Key, KeyId};
use esker_base::checksum::crc32c;
use esker_base::coding::{u32_at, u64_at};
use esker_base::{EncryptionError, Error, Result};
use esker_storage::{ENCRYPTED_MAGIC, ReadableFile};

pub(crate) const HEADER_BYTES: usize = 88;
const VERSION: u32 = 1;
/// What the tag is of.
const SEALED_BYTES: usize = HEADER_BYTES - TAG_BYTES;

/// What the header of a file says, and the key of the file.
#[derive(Clone)]
pub(crate) struct Header {
    /// Each record begins at a multiple of so many bytes behind the header. 0: each begins where the one before
    /// it ends.
    pub(crate) stride: u32,
    /// The length of a log file in decrypted bytes. 0: it is no log file.
    pub(crate) log_bytes: u64,
    pub(crate) key: FileKey,
}

impl Header {
    /// The header of a new file, and its bytes.
    pub(crate) fn new(
        keys: &Keys,
        stride: u32,
        log_bytes: u64,
    ) -> Result<(Header, [u8; HEADER_BYTES])> {
        let key = keys.provider().current()?;
        let mut salt = [0; SALT_BYTES];
        keys.random().fill(&mut salt)?;
        let file_key = key.of_file(&salt);
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&ENCRYPTED_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&stride.to_le_bytes());
        bytes[16..24].copy_from_slice(&key.id().0.to_le_bytes());
        bytes[24..56].copy_from_slice(&salt);
        bytes[56..64].copy_from_slice(&log_bytes.to_le_bytes());
        let crc = crc32c(&bytes[..64]);
        bytes[64..68].copy_from_slice(&crc.to_le_bytes());
        let tag = file_key.seal((Purpose::Header, 0), &bytes[..SEALED_BYTES], &mut []);
        bytes[SEALED_BYTES..].copy_from_slice(&tag);
        Ok((Header { stride, log_bytes, key: file_key }, bytes))
    }

    /// Reads the header of `file`, which `bytes` begins.
    pub(crate) fn decode(bytes: &[u8], keys: &Keys, file: &str) -> Result<Header> {
        let id = check(bytes, file)?;
        let key = keys.provider().find(id)?.ok_or_else(|| {
            let given = keys.provider().describe();
            Error::from(EncryptionError::UnknownKey {
                file: file.to_owned(),
                key: id.to_string(),
                given,
            })
        })?;
        Header::with(bytes, &key, file)
    }

    fn with(bytes: &[u8], key: &Key, file: &str) -> Result<Header> {
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&bytes[24..56]);
        let key = key.of_file(&salt);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&bytes[SEALED_BYTES..HEADER_BYTES]);
        if !key.open((Purpose::Header, 0), &bytes[..SEALED_BYTES], &mut [], &tag) {
            return Err(corruption(file, "the header of an encrypted file fails authentication"));
        }
        let stride = u32_at(bytes, 12);
        if stride > 0 && !(OVERHEAD_BYTES + 1..=RECORD_BYTES_MAX).contains(&(stride as usize)) {
            return Err(corruption(
                file,
                "the header of an encrypted file has an impossible stride",
            ));
        }
        Ok(Header { stride, log_bytes: u64_at(bytes, 56), key })
    }
}

/// The bytes of the header of `file`, as many as there are.
pub(crate) fn header_of(file: &dyn ReadableFile) -> Result<Vec<u8>> {
    let mut bytes = vec![0; file.len()?.min(HEADER_BYTES as u64) as usize];
    file.read_exact_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Checks the header of `file` as far as that is possible without its key. Returns the id of the key.
pub(crate) fn check(bytes: &[u8], file: &str) -> Result<KeyId> {
    if bytes.len() < HEADER_BYTES || bytes[..8] != ENCRYPTED_MAGIC {
        let what = "it is not encrypted, or the header of an encrypted file is damaged";
        return Err(corruption(file, what));
    }
    if crc32c(&bytes[..64]) != u32_at(bytes, 64) {
        return Err(corruption(file, "the header of an encrypted file is damaged"));
    }
    match u32_at(bytes, 8) {
        VERSION => Ok(KeyId(u64_at(bytes, 16))),
        found => Err(Error::NewerVersion { file: file.to_owned(), found, supported: VERSION }),
    }
}

fn corruption(file: &str, what: &str) -> Error {
    Error::corruption(file, 0, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(key: u8) -> Keys {
        Keys::new([Key::new([key; 32])]).unwrap()
    }

    #[test]
    fn a_header_is_read_with_its_key_only_and_each_has_a_salt_of_its_own() {
        let (header, bytes) = Header::new(&keys(1), 4096, 77).unwrap();
        let read = Header::decode(&bytes, &keys(1), "f").unwrap();
        assert_eq!((read.stride, read.log_bytes, read.key.mark), (4096, 77, header.key.mark));
        let Err(error) = Header::decode(&bytes, &keys(2), "f") else { panic!("another key") };
        let shown = error.to_string();
        let id = Key::new([1; 32]).id().to_string();
        assert!(shown.contains(&id) && !error.is_corruption(), "{shown}");
        let (_, other) = Header::new(&keys(1), 4096, 77).unwrap();
        assert_ne!(bytes[24..56], other[24..56]);
    }

    #[test]
    fn a_changed_header_is_damage() {
        let (_, bytes) = Header::new(&keys(1), 0, 0).unwrap();
        for bit in 0..HEADER_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            let Err(error) = Header::decode(&changed, &keys(1), "f") else { panic!("bit {bit}") };
            assert!(error.is_corruption(), "bit {bit}: {error}");
            // With the checksum made right, the tag remains.
            let crc = crc32c(&changed[..64]);
            changed[64..68].copy_from_slice(&crc.to_le_bytes());
            assert!(
                (64 * 8..68 * 8).contains(&bit) || Header::decode(&changed, &keys(1), "f").is_err()
            );
        }
        for len in 0..HEADER_BYTES {
            assert!(check(&bytes[..len], "f").unwrap_err().is_corruption(), "{len} bytes");
        }
    }
}
