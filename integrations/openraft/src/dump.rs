//! The file of a snapshot.
//!
//! ```text
//! magic    8 bytes   "ESKRAFT1"
//! meta     u32 length, u32 CRC-32C, MessagePack of openraft's `SnapshotMeta`
//! entry    u32 length of the key, u32 length of the value, key, value; in order of the keys
//! end      u32 0xFFFFFFFF, u64 number of entries, u32 CRC-32C of all entries
//! ```
//!
//! Numbers are little-endian. The checksum is verified before anything is made visible.

use crate::codec;
use crate::error::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"ESKRAFT1";
const END: u32 = u32::MAX;
/// Above the limits of keys and values, so that damage does not allocate much.
const LENGTH_MAX: u32 = 1 << 30;

pub struct Writer<W> {
    out: W,
    crc: u32,
    entries: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, meta: &impl Serialize) -> Result<Self> {
        let meta = codec::encode(meta)?;
        out.write_all(MAGIC)?;
        out.write_all(&length(&meta)?)?;
        out.write_all(&crc32c::crc32c(&meta).to_le_bytes())?;
        out.write_all(&meta)?;
        Ok(Writer { out, crc: 0, entries: 0 })
    }

    pub fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        for bytes in [&length(key)?[..], &length(value)?, key, value] {
            self.crc = crc32c::crc32c_append(self.crc, bytes);
            self.out.write_all(bytes)?;
        }
        self.entries += 1;
        Ok(())
    }

    pub fn finish(mut self) -> Result<W> {
        self.out.write_all(&END.to_le_bytes())?;
        self.out.write_all(&self.entries.to_le_bytes())?;
        self.out.write_all(&self.crc.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }
}

fn length(bytes: &[u8]) -> Result<[u8; 4]> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length <= LENGTH_MAX);
    let error = || Error::Corrupted("an entry is too large for a snapshot".to_owned());
    Ok(length.ok_or_else(error)?.to_le_bytes())
}

/// Reads a file from its beginning.
pub struct Reader<R, M> {
    pub meta: M,
    input: R,
    crc: u32,
    entries: u64,
}

type KeyValue = (Vec<u8>, Vec<u8>);

impl<R: Read, M: DeserializeOwned> Reader<R, M> {
    pub fn new(mut input: R) -> Result<Self> {
        if bytes(&mut input, MAGIC.len() as u32)? != MAGIC {
            return Err(damaged("it does not begin as one"));
        }
        let (length, crc) = (number(&mut input)?, number(&mut input)?);
        let meta = bytes(&mut input, length)?;
        if crc32c::crc32c(&meta) != crc {
            return Err(damaged("the checksum of its head is wrong"));
        }
        Ok(Reader { meta: codec::decode(&meta)?, input, crc: 0, entries: 0 })
    }

    /// The next entry. `None` is returned only if the file is complete and its checksum right.
    fn entry(&mut self) -> Result<Option<KeyValue>> {
        let key_length = number(&mut self.input)?;
        if key_length == END {
            let entries = u64::from_le_bytes(array(&mut self.input)?);
            if (entries, number(&mut self.input)?) != (self.entries, self.crc) {
                return Err(damaged("the checksum of its entries is wrong"));
            }
            return Ok(None);
        }
        let value_length = number(&mut self.input)?;
        let key = bytes(&mut self.input, key_length)?;
        let value = bytes(&mut self.input, value_length)?;
        for part in [&key_length.to_le_bytes()[..], &value_length.to_le_bytes(), &key, &value] {
            self.crc = crc32c::crc32c_append(self.crc, part);
        }
        self.entries += 1;
        Ok(Some((key, value)))
    }
}

impl<R: Read, M: DeserializeOwned> Iterator for Reader<R, M> {
    type Item = Result<KeyValue>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entry().transpose()
    }
}

fn damaged(why: &str) -> Error {
    Error::Corrupted(format!("snapshot is corrupted: {why}"))
}

fn array<const N: usize>(input: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match input.read_exact(&mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(damaged("it ends early")),
        read => Ok(read.map(|()| bytes)?),
    }
}

fn number(input: &mut impl Read) -> Result<u32> {
    Ok(u32::from_le_bytes(array(input)?))
}

fn bytes(input: &mut impl Read, length: u32) -> Result<Vec<u8>> {
    if length > LENGTH_MAX {
        return Err(damaged("a length is out of range"));
    }
    let mut bytes = Vec::new();
    input.take(u64::from(length)).read_to_end(&mut bytes)?;
    match bytes.len() == length as usize {
        true => Ok(bytes),
        false => Err(damaged("it ends early")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &7_u64).unwrap();
        writer.entry(b"ada", b"analyst").unwrap();
        writer.entry(b"grace", b"").unwrap();
        writer.finish().unwrap()
    }

    fn read(file: &[u8]) -> Result<Vec<KeyValue>> {
        let reader = Reader::<_, u64>::new(file)?;
        assert_eq!(reader.meta, 7);
        reader.collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let expected = [(b"ada".to_vec(), b"analyst".to_vec()), (b"grace".to_vec(), vec![])];
        assert_eq!(read(&file()).unwrap(), expected);
    }

    #[test]
    fn a_truncated_file_is_rejected() {
        let file = file();
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "{length} of {} bytes", file.len());
        }
    }

    #[test]
    fn each_flipped_bit_is_detected() {
        let file = file();
        for bit in 0..file.len() * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged).is_err(), "bit {bit}");
        }
    }
}
