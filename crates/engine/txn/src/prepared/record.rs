//! The record of a prepared transaction: what the store keeps of it until it is decided.
//!
//! A record is one or several entries of a keyspace that has nothing else in it. See
//! `docs/formats/prepared.md`.
//!
//! ```text
//! key   = id_bytes u8 | id | part u32, big-endian
//! value = a part of: version u8 | flags u8 | parts varint | locks varint
//!                    | locks × (keyspace varint | key_bytes varint | key)
//!                    | writes, encoded as in a batch
//! ```

use esker_api::WriteBatch;
use esker_base::coding::{put_bytes, put_varint64, take_bytes, take_u8, take_varint32};
use esker_base::{Entry, KeyspaceId, Kind, split_expiry};
use std::ops::Range;
use std::time::Duration;

/// The longest id of a prepared transaction, in bytes.
pub const MAX_ID_BYTES: usize = 255;

const VERSION: u8 = 1;
/// The flag of a transaction whose reads were checked when it was prepared.
const READS_CHECKED: u8 = 1;
/// What an entry of a record has in addition to its part, in bytes, at most.
const ENTRY_OVERHEAD: usize = 1 + MAX_ID_BYTES + 4 + 32;

/// A key that a prepared transaction has locked, and does not write.
pub(crate) type LockedKey = (KeyspaceId, Box<[u8]>);

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its puts and deletes.
    pub(crate) writes: WriteBatch,
    /// Keys that it has locked in addition.
    pub(crate) locks: Vec<LockedKey>,
    /// Whether others may not change what it read before it is decided.
    pub(crate) reads_checked: bool,
    /// Entries of the record.
    pub(crate) parts: u32,
}

/// The key of a part of the record of `id`.
pub(crate) fn part_key(id: &[u8], part: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + id.len() + 4);
    key.push(u8::try_from(id.len()).expect("ids are checked"));
    key.extend_from_slice(id);
    key.extend_from_slice(&part.to_be_bytes());
    key
}

/// The id and the part that `key` is for. `None` if it is for none.
pub(crate) fn read_part_key(key: &[u8]) -> Option<(&[u8], u32)> {
    let (&id_bytes, rest) = key.split_first()?;
    let (id, part) = rest.split_at_checked(usize::from(id_bytes))?;
    Some((id, u32::from_be_bytes(part.try_into().ok()?)))
}

/// The values of the record of a transaction with these writes and locks, for entries of at most
/// `entry_bytes`.
pub(crate) fn encode(
    writes: &WriteBatch,
    locks: &[LockedKey],
    reads_checked: bool,
    entry_bytes: usize,
) -> Vec<Vec<u8>> {
    let mut rest = Vec::with_capacity(writes.encoded().len() + 16);
    put_varint64(&mut rest, locks.len() as u64);
    for (keyspace, key) in locks {
        put_varint64(&mut rest, u64::from(keyspace.0));
        put_bytes(&mut rest, key);
    }
    rest.extend_from_slice(writes.encoded());
    // The first part has the version, the flags and the number of parts, of ten bytes at most.
    let part_bytes = entry_bytes.saturating_sub(ENTRY_OVERHEAD).max(1);
    let parts = rest.len().div_ceil(part_bytes).max(1);
    let mut values: Vec<Vec<u8>> = Vec::with_capacity(parts);
    for part in 0..parts {
        let mut value = Vec::new();
        if part == 0 {
            value.extend([VERSION, if reads_checked { READS_CHECKED } else { 0 }]);
            put_varint64(&mut value, parts as u64);
        }
        value.extend_from_slice(&rest[place(part, part_bytes, rest.len())]);
        values.push(value);
    }
    values
}

fn place(part: usize, part_bytes: usize, all: usize) -> Range<usize> {
    part * part_bytes..((part + 1) * part_bytes).min(all)
}

/// Why a record cannot be read.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum BadRecord {
    /// A later release may have written it.
    Unknown(&'static str),
    /// A part of it is lost.
    Damaged(&'static str),
}

/// Reads the record whose parts, in their order, have these values.
pub(crate) fn decode(values: &[Vec<u8>]) -> Result<Record, BadRecord> {
    const MALFORMED: BadRecord = BadRecord::Damaged("its record is malformed");
    let mut first = values.first().ok_or(MALFORMED)?.as_slice();
    if take_u8(&mut first).ok_or(MALFORMED)? != VERSION {
        return Err(BadRecord::Unknown("its record has a version that is not known here"));
    }
    let reads_checked = match take_u8(&mut first).ok_or(MALFORMED)? {
        0 => false,
        READS_CHECKED => true,
        _ => return Err(BadRecord::Unknown("its record has flags that are not known here")),
    };
    let parts = take_varint32(&mut first).ok_or(MALFORMED)?;
    if parts as usize != values.len() {
        return Err(BadRecord::Damaged("parts of its record are missing"));
    }
    let mut bytes = first.to_vec();
    values[1..].iter().for_each(|value| bytes.extend_from_slice(value));
    let mut rest = &bytes[..];
    let (writes, locks) = decode_rest(&mut rest).ok_or(MALFORMED)?;
    Ok(Record { writes, locks, reads_checked, parts })
}

fn decode_rest(rest: &mut &[u8]) -> Option<(WriteBatch, Vec<LockedKey>)> {
    let mut locks = Vec::new();
    for _ in 0..take_varint32(rest)? {
        let keyspace = KeyspaceId(take_varint32(rest)?);
        locks.push((keyspace, take_bytes(rest)?.into()));
    }
    let mut writes = WriteBatch::new();
    while !rest.is_empty() {
        let entry = Entry::decode_unstored(rest)?;
        match entry.kind {
            Kind::Put => writes.put(entry.keyspace, entry.key, entry.value),
            Kind::Delete => writes.delete(entry.keyspace, entry.key),
            Kind::ExpiringPut => {
                let (ttl, value) = split_expiry(entry.value)?;
                let ttl = Duration::from_millis(ttl);
                writes.put_with_ttl(entry.keyspace, entry.key, value, ttl);
            }
            _ => return None,
        }
    }
    Some((writes, locks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (WriteBatch, Vec<LockedKey>) {
        let mut writes = WriteBatch::new();
        writes.put(KeyspaceId(1), b"a", [7; 500]);
        writes.delete(KeyspaceId(300), b"");
        writes.put_with_ttl(KeyspaceId(1), b"b", b"c", Duration::from_secs(5));
        (writes, vec![(KeyspaceId(2), b"locked"[..].into()), (KeyspaceId(0), b""[..].into())])
    }

    #[test]
    fn a_record_comes_back_however_many_parts_it_has() {
        let (writes, locks) = sample();
        for entry_bytes in [0, ENTRY_OVERHEAD + 100, 4096] {
            for reads_checked in [false, true] {
                let values = encode(&writes, &locks, reads_checked, entry_bytes);
                let fits = |value: &Vec<u8>| value.len() + 1 + MAX_ID_BYTES + 4 <= entry_bytes;
                assert!(entry_bytes == 0 || values.iter().all(fits));
                let record = decode(&values).unwrap();
                assert_eq!(record.writes.encoded(), writes.encoded());
                assert!(record.writes.has_ttl());
                assert_eq!(record.locks, locks);
                assert_eq!(record.reads_checked, reads_checked);
                assert_eq!(record.parts as usize, values.len());
            }
        }
        assert_eq!(encode(&writes, &locks, false, ENTRY_OVERHEAD + 100).len(), 6);
    }

    #[test]
    fn a_record_of_nothing_has_one_part() {
        let values = encode(&WriteBatch::new(), &[], false, 4096);
        assert_eq!(values.len(), 1);
        assert!(decode(&values).unwrap().writes.is_empty());
    }

    #[test]
    fn what_is_cut_off_or_missing_is_refused() {
        let (writes, locks) = sample();
        let whole = encode(&writes, &locks, true, 4096).concat();
        // Cut where no entry ends.
        let mut ends = vec![whole.len() - writes.encoded().len()];
        writes.iter().for_each(|entry| ends.push(ends[ends.len() - 1] + entry.encoded_bytes()));
        for bytes in (0..whole.len()).filter(|at| !ends.contains(at)) {
            let cut = decode(&[whole[..bytes].to_vec()]);
            assert!(cut.is_err(), "{bytes} of {}: {cut:?}", whole.len());
        }
        let values = encode(&writes, &locks, true, ENTRY_OVERHEAD + 100);
        let missing = BadRecord::Damaged("parts of its record are missing");
        assert_eq!(decode(&values[..5]).unwrap_err(), missing);
        assert!(decode(&values[1..]).is_err());
    }

    #[test]
    fn other_versions_and_flags_are_refused() {
        let [mut record] = <[_; 1]>::try_from(encode(&sample().0, &[], true, 4096)).unwrap();
        record[1] = 2;
        let is_unknown = |record: &[u8], what: &str| match decode(&[record.to_vec()]) {
            Err(BadRecord::Unknown(why)) => why.contains(what),
            _ => false,
        };
        assert!(is_unknown(&record, "flags"));
        record[0] = 2;
        assert!(is_unknown(&record, "version"));
    }

    #[test]
    fn keys_of_parts_come_back_in_order() {
        for id in [&b""[..], b"x", &[0xff; MAX_ID_BYTES]] {
            assert!(part_key(id, 1) < part_key(id, 256));
            assert_eq!(read_part_key(&part_key(id, 256)), Some((id, 256)));
        }
        for key in [&b""[..], b"\x02a\0\0\0", b"\x01a\0\0\0", b"\x01a\0\0\0\0\0"] {
            assert_eq!(read_part_key(key), None);
        }
    }
}
