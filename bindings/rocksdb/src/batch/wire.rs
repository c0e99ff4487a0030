//! RocksDB's form of a write batch as bytes: a sequence number and a count, then the records.
//!
//! Programs read these bytes, store them, and make batches of them, so a batch has this form in memory.

use crate::border::{Code, Result, Status};

/// 8 bytes of sequence number, 4 of count.
const HEADER: usize = 12;

const DELETE: u8 = 0;
const PUT: u8 = 1;
const MERGE: u8 = 2;
const LOG_DATA: u8 = 3;
const FAMILY_DELETE: u8 = 4;
const FAMILY_PUT: u8 = 5;
const FAMILY_MERGE: u8 = 6;
const SINGLE_DELETE: u8 = 7;
const FAMILY_SINGLE_DELETE: u8 = 8;
const NOOP: u8 = 13;
const FAMILY_RANGE_DELETE: u8 = 14;
const RANGE_DELETE: u8 = 15;

/// A record of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// Sets a key.
    Put(&'a [u8], &'a [u8]),
    /// Deletes a key.
    Delete(&'a [u8]),
    /// Deletes a key that was put once.
    SingleDelete(&'a [u8]),
    /// Merges an operand into a key.
    Merge(&'a [u8], &'a [u8]),
    /// Deletes the keys from a start to an end.
    DeleteRange(&'a [u8], &'a [u8]),
    /// Bytes that only the log has, which no reader applies.
    LogData(&'a [u8]),
}

impl<'a> Record<'a> {
    /// The key. `None` if it has none, or two.
    pub fn key(&self) -> Option<&'a [u8]> {
        match self {
            Record::Put(key, _) | Record::Merge(key, _) => Some(key),
            Record::Delete(key) | Record::SingleDelete(key) => Some(key),
            Record::DeleteRange(..) | Record::LogData(_) => None,
        }
    }

    /// The same with `stamp` at the end of its key, which is copied to `key`.
    pub fn with_stamp<'b>(self, stamp: &[u8], key: &'b mut Vec<u8>) -> Record<'b>
    where
        'a: 'b,
    {
        key.extend(self.key().unwrap_or_default());
        key.extend(stamp);
        match self {
            Record::Put(_, value) => Record::Put(key, value),
            Record::Merge(_, operand) => Record::Merge(key, operand),
            Record::Delete(_) => Record::Delete(key),
            Record::SingleDelete(_) => Record::SingleDelete(key),
            Record::DeleteRange(..) | Record::LogData(_) => self,
        }
    }

    /// The bytes of its parts.
    pub fn bytes(&self) -> usize {
        match self {
            Record::Put(one, other)
            | Record::Merge(one, other)
            | Record::DeleteRange(one, other) => one.len() + other.len(),
            Record::Delete(key) | Record::SingleDelete(key) | Record::LogData(key) => key.len(),
        }
    }
}

/// The bytes of a batch, and places to go back to.
#[derive(Clone)]
pub struct Wire {
    bytes: Vec<u8>,
    savepoints: Vec<(usize, u32)>,
    /// The length of the timestamps of the default family, as the program that created the batch says.
    pub default_stamps: usize,
    /// Whether a key of the default family has no timestamp.
    pub has_plain_default: bool,
    /// Whether a key of a family with timestamps still needs one.
    pub lacks_stamps: bool,
}

impl Default for Wire {
    fn default() -> Self {
        Wire::of(vec![0; HEADER])
    }
}

impl Wire {
    /// A batch of these bytes. They are checked when they are read.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().max(HEADER), 0);
        Wire::of(bytes)
    }

    fn of(bytes: Vec<u8>) -> Self {
        let (savepoints, default_stamps) = (Vec::new(), 0);
        Wire { bytes, savepoints, default_stamps, has_plain_default: false, lacks_stamps: false }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of records, log data left out.
    pub fn count(&self) -> u32 {
        u32::from_le_bytes(self.bytes[8..HEADER].try_into().unwrap_or_default())
    }

    fn set_count(&mut self, count: u32) {
        self.bytes[8..HEADER].copy_from_slice(&count.to_le_bytes());
    }

    /// Sets the sequence number of the first record.
    pub fn set_seqno(&mut self, seqno: u64) {
        self.bytes[..8].copy_from_slice(&seqno.to_le_bytes());
    }

    /// Removes all records and savepoints.
    pub fn clear(&mut self) {
        *self = Wire { default_stamps: self.default_stamps, ..Wire::default() };
    }

    /// Adds a record for the column family with this id.
    pub fn push(&mut self, family: u32, record: Record<'_>) {
        self.has_plain_default |= family == 0 && !matches!(record, Record::LogData(_));
        self.push_stamped(family, record);
    }

    /// Adds a record for the column family with this id, whose key has a timestamp at its end if the
    /// family has timestamps.
    pub fn push_stamped(&mut self, family: u32, record: Record<'_>) {
        let (plain, of_family, parts): (u8, u8, [Option<&[u8]>; 2]) = match record {
            Record::Put(key, value) => (PUT, FAMILY_PUT, [Some(key), Some(value)]),
            Record::Delete(key) => (DELETE, FAMILY_DELETE, [Some(key), None]),
            Record::SingleDelete(key) => (SINGLE_DELETE, FAMILY_SINGLE_DELETE, [Some(key), None]),
            Record::Merge(key, operand) => (MERGE, FAMILY_MERGE, [Some(key), Some(operand)]),
            Record::DeleteRange(start, end) => {
                (RANGE_DELETE, FAMILY_RANGE_DELETE, [Some(start), Some(end)])
            }
            Record::LogData(data) => (LOG_DATA, LOG_DATA, [Some(data), None]),
        };
        if family == 0 || plain == LOG_DATA {
            self.bytes.push(plain);
        } else {
            self.bytes.push(of_family);
            push_varint(&mut self.bytes, family);
        }
        for part in parts.into_iter().flatten() {
            push_varint(&mut self.bytes, u32::try_from(part.len()).unwrap_or(u32::MAX));
            self.bytes.extend_from_slice(part);
        }
        if plain != LOG_DATA {
            self.set_count(self.count() + 1);
        }
    }

    /// The records with the ids of their column families.
    pub fn records(&self) -> impl Iterator<Item = Result<(u32, Record<'_>)>> {
        let mut rest = &self.bytes[HEADER..];
        std::iter::from_fn(move || {
            while let [NOOP, after @ ..] = rest {
                rest = after;
            }
            if rest.is_empty() {
                return None;
            }
            let record = read(&mut rest);
            if record.is_none() {
                // No more can be read after a damaged record.
                rest = &[];
            }
            Some(record.ok_or_else(damaged))
        })
    }

    /// Replaces the timestamps at the ends of keys. `size` returns how long those of a family are.
    ///
    /// # Errors
    /// If the timestamp or a key has another length, or the bytes are damaged. Then nothing is changed.
    pub fn set_stamps(&mut self, stamp: &[u8], size: impl Fn(u32) -> usize) -> Result<()> {
        let mut changed = self.bytes.clone();
        for record in self.records() {
            let (family, record) = record?;
            let Some(key) = record.key() else { continue };
            match size(family) {
                0 => continue,
                length if length == stamp.len() && length <= key.len() => {}
                _ => return Err(Status::invalid("Timestamp size mismatch")),
            }
            let end = key.as_ptr().addr() - self.bytes.as_ptr().addr() + key.len();
            changed[end - stamp.len()..end].copy_from_slice(stamp);
        }
        (self.bytes, self.lacks_stamps) = (changed, false);
        Ok(())
    }

    /// Sets a savepoint.
    pub fn set_savepoint(&mut self) {
        self.savepoints.push((self.bytes.len(), self.count()));
    }

    /// Removes the records since the last savepoint, and the savepoint.
    ///
    /// # Errors
    /// If there is none.
    pub fn rollback_to_savepoint(&mut self) -> Result<()> {
        let (bytes, count) = self.savepoints.pop().ok_or_else(no_savepoint)?;
        self.bytes.truncate(bytes);
        self.set_count(count);
        if count == 0 {
            (self.has_plain_default, self.lacks_stamps) = (false, false);
        }
        Ok(())
    }

    /// Removes the last savepoint.
    ///
    /// # Errors
    /// If there is none.
    pub fn pop_savepoint(&mut self) -> Result<()> {
        self.savepoints.pop().map(|_| ()).ok_or_else(no_savepoint)
    }
}

fn damaged() -> Status {
    Status::new(Code::Corruption, "bad WriteBatch")
}

fn no_savepoint() -> Status {
    Status::new(Code::NotFound, "")
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_varint(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u64;
    for shift in (0..35).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

fn read_part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_varint(rest)? as usize;
    let (part, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

fn read<'a>(rest: &mut &'a [u8]) -> Option<(u32, Record<'a>)> {
    let (&tag, after) = rest.split_first()?;
    *rest = after;
    let has_family = matches!(
        tag,
        FAMILY_DELETE | FAMILY_PUT | FAMILY_MERGE | FAMILY_SINGLE_DELETE | FAMILY_RANGE_DELETE
    );
    let family = if has_family { read_varint(rest)? } else { 0 };
    let record = match tag {
        PUT | FAMILY_PUT => Record::Put(read_part(rest)?, read_part(rest)?),
        DELETE | FAMILY_DELETE => Record::Delete(read_part(rest)?),
        SINGLE_DELETE | FAMILY_SINGLE_DELETE => Record::SingleDelete(read_part(rest)?),
        MERGE | FAMILY_MERGE => Record::Merge(read_part(rest)?, read_part(rest)?),
        RANGE_DELETE | FAMILY_RANGE_DELETE => {
            Record::DeleteRange(read_part(rest)?, read_part(rest)?)
        }
        LOG_DATA => Record::LogData(read_part(rest)?),
        _ => return None,
    };
    Some((family, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_as_they_were_added() {
        let long = vec![7; 300];
        let records = [
            (0, Record::Put(b"a", b"1")),
            (300, Record::Put(b"", &long)),
            (1, Record::Delete(b"b")),
            (0, Record::SingleDelete(b"c")),
            (2, Record::Merge(b"d", b"2")),
            (0, Record::LogData(b"note")),
            (4, Record::DeleteRange(b"e", b"f")),
        ];
        let mut batch = Wire::default();
        records.iter().for_each(|&(family, record)| batch.push(family, record));
        assert_eq!(batch.count(), 6);
        let copy = Wire::from_bytes(batch.bytes());
        assert_eq!(copy.records().collect::<Result<Vec<_>>>().unwrap(), records);
    }

    #[test]
    fn the_bytes_are_those_of_rocksdb() {
        let mut batch = Wire::default();
        batch.push(0, Record::Put(b"k", b"v11"));
        assert_eq!(batch.bytes(), b"\0\0\0\0\0\0\0\0\x01\0\0\0\x01\x01k\x03v11");
        batch.clear();
        batch.push(2, Record::Delete(b"k"));
        batch.set_seqno(5);
        assert_eq!(batch.bytes(), b"\x05\0\0\0\0\0\0\0\x01\0\0\0\x04\x02\x01k");
    }

    #[test]
    fn damaged_bytes_are_an_error_and_not_a_panic() {
        for bytes in [&b""[..], b"short"] {
            assert_eq!(Wire::from_bytes(bytes).records().count(), 0);
        }
        for records in [&b"\x01\x05ab"[..], b"\x63", b"\x05\xff\xff\xff\xff\xff\x01", b"\x01\x01a"]
        {
            let batch = Wire::from_bytes(&[&[0; HEADER], records].concat());
            let read: Vec<_> = batch.records().collect();
            assert!(read.len() == 1 && read[0].is_err(), "{records:?}");
        }
    }

    #[test]
    fn savepoints_nest() {
        let mut batch = Wire::default();
        batch.push(0, Record::Delete(b"a"));
        let before = batch.bytes().to_vec();
        batch.set_savepoint();
        batch.push(0, Record::Delete(b"b"));
        batch.set_savepoint();
        batch.push(0, Record::Delete(b"c"));
        batch.pop_savepoint().unwrap();
        batch.rollback_to_savepoint().unwrap();
        assert_eq!(batch.bytes(), before);
        assert!(batch.rollback_to_savepoint().is_err() && batch.pop_savepoint().is_err());
    }
}
