//! The keyspace of an index, byte by byte: see `docs/formats/indexes.md`.
//!
//! Inside an index key the bytes 0 and 1 are written as two (`01 01` and `01 02`), and a 0 ends it. So
//! entries sort by index key, then by the key of the row, and a prefix of an index key is a prefix of
//! its entries.

use esker_api::KeyRange;
use esker_base::coding::{put_bytes, put_varint64, take_bool, take_bytes, take_u8, take_varint32};
use esker_base::key::prefix_end;
use smallvec::SmallVec;
use std::ops::Bound;

/// The key of an entry. Most fit without an allocation.
pub(crate) type EntryKey = SmallVec<[u8; 128]>;

/// The first byte of an entry.
const ENTRY: u8 = 0x01;
/// The key of the record.
pub(crate) const RECORD_KEY: &[u8] = &[0x02];

const END: u8 = 0x00;
const ESCAPE: u8 = 0x01;

/// The version of the record's layout.
const RECORD_LAYOUT: u8 = 1;
const BUILDING: u8 = 0;
const READY: u8 = 1;

/// Appends `index_key` so that it keeps its order and prefixes.
fn put_escaped(mut index_key: &[u8], out: &mut EntryKey) {
    out.push(ENTRY);
    // Most have no such byte, which takes a few instructions to see.
    if index_key.iter().fold(u8::MAX, |least, &byte| least.min(byte)) > ESCAPE {
        return out.extend_from_slice(index_key);
    }
    while let Some(plain) = index_key.iter().position(|&byte| byte <= ESCAPE) {
        out.extend_from_slice(&index_key[..plain]);
        out.extend_from_slice(&[ESCAPE, index_key[plain] + 1]);
        index_key = &index_key[plain + 1..];
    }
    out.extend_from_slice(index_key);
}

/// Sets `out` to the key of the entry for `index_key` and the row `key`. A unique index has one row for
/// a key, whose key is the value of the entry, so `key` is empty.
pub(crate) fn entry_key(index_key: &[u8], key: &[u8], out: &mut EntryKey) {
    out.clear();
    out.reserve(index_key.len() + key.len() + 2);
    put_escaped(index_key, out);
    out.push(END);
    out.extend_from_slice(key);
}

/// The index key and the rest of the key of an entry.
pub(crate) fn split_entry_key(entry: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let rest = entry.strip_prefix(&[ENTRY])?;
    let end = rest.iter().position(|&byte| byte == END)?;
    let mut index_key = Vec::with_capacity(end);
    let mut escaped = rest[..end].iter();
    while let Some(&byte) = escaped.next() {
        index_key.push(match byte {
            ESCAPE => escaped.next()?.checked_sub(1).filter(|byte| *byte <= ESCAPE)?,
            byte => byte,
        });
    }
    Some((index_key, &rest[end + 1..]))
}

/// The range of the entries whose index keys are in `range`.
pub(crate) fn entry_range(range: &KeyRange) -> KeyRange {
    let bound = |index_key: &[u8], behind: Option<u8>| {
        let mut out = EntryKey::new();
        put_escaped(index_key, &mut out);
        out.extend(behind);
        out.into_vec()
    };
    // All entries of a key are from its bytes and a 0 up to its bytes and a 1, which begins longer keys.
    let start = match &range.start {
        Bound::Unbounded => vec![ENTRY],
        Bound::Included(key) => bound(key, Some(END)),
        Bound::Excluded(key) => bound(key, Some(ESCAPE)),
    };
    let end = match &range.end {
        Bound::Unbounded => vec![ENTRY + 1],
        Bound::Included(key) => bound(key, Some(ESCAPE)),
        Bound::Excluded(key) => bound(key, Some(END)),
    };
    KeyRange { start: Bound::Included(start), end: Bound::Excluded(end) }
}

/// The range of the entries whose index keys start with `prefix`.
pub(crate) fn prefix_range(prefix: &[u8]) -> KeyRange {
    let mut start = EntryKey::new();
    put_escaped(prefix, &mut start);
    let start = start.into_vec();
    let end = prefix_end(&start).expect("an entry starts with a 1");
    KeyRange { start: Bound::Included(start), end: Bound::Excluded(end) }
}

/// What the keyspace of an index says of the index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IndexRecord {
    /// The version of its function.
    pub(crate) version: u32,
    pub(crate) is_unique: bool,
    pub(crate) progress: BuildProgress,
}

/// How far the build of an index has got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum BuildProgress {
    /// All rows up to this key, or none, have their entries.
    Through(Option<Vec<u8>>),
    /// All rows have.
    Complete,
}

impl IndexRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![RECORD_LAYOUT];
        put_varint64(&mut out, u64::from(self.version));
        out.push(u8::from(self.is_unique));
        match &self.progress {
            BuildProgress::Complete => out.push(READY),
            BuildProgress::Through(key) => {
                out.push(BUILDING);
                out.push(u8::from(key.is_some()));
                put_bytes(&mut out, key.as_deref().unwrap_or_default());
            }
        }
        out
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<IndexRecord> {
        let input = &mut bytes;
        if take_u8(input)? != RECORD_LAYOUT {
            return None;
        }
        let version = take_varint32(input)?;
        let is_unique = take_bool(input)?;
        let progress = match take_u8(input)? {
            READY => BuildProgress::Complete,
            BUILDING => {
                let has_begun = take_bool(input)?;
                let key = take_bytes(input)?.to_vec();
                BuildProgress::Through(has_begun.then_some(key))
            }
            _ => return None,
        };
        input.is_empty().then_some(IndexRecord { version, is_unique, progress })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&[u8]; 12] = [
        b"",
        &[0],
        &[0, 0],
        &[0, 1],
        &[1],
        &[1, 0],
        &[1, 2],
        &[2],
        b"a",
        b"a\0",
        b"ab",
        &[0xff, 0xff],
    ];

    fn entry(index_key: &[u8], key: &[u8]) -> Vec<u8> {
        let mut out = EntryKey::from_slice(&[7; 3]);
        entry_key(index_key, key, &mut out);
        out.into_vec()
    }

    #[test]
    fn entries_sort_by_index_key_then_by_row_and_come_back() {
        for (index_key, key) in KEYS.iter().flat_map(|a| KEYS.map(|b| (*a, b))) {
            let encoded = entry(index_key, key);
            assert_eq!(split_entry_key(&encoded), Some((index_key.to_vec(), key)));
            for (other_index_key, other) in KEYS.iter().flat_map(|a| KEYS.map(|b| (*a, b))) {
                let ordered = (index_key, key).cmp(&(other_index_key, other));
                assert_eq!(encoded.cmp(&entry(other_index_key, other)), ordered);
            }
        }
    }

    #[test]
    fn a_range_of_index_keys_has_the_entries_of_exactly_these_keys() {
        let bounds = |key: &[u8]| [Bound::Included(key.to_vec()), Bound::Excluded(key.to_vec())];
        let mut all: Vec<Bound<Vec<u8>>> = KEYS.iter().flat_map(|key| bounds(key)).collect();
        all.push(Bound::Unbounded);
        for (start, end) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            let range = KeyRange { start: start.clone(), end: end.clone() };
            for (index_key, key) in KEYS.iter().flat_map(|a| KEYS.map(|b| (*a, b))) {
                let has = entry_range(&range).contains(&entry(index_key, key));
                assert_eq!(has, range.contains(index_key), "{range:?} {index_key:?} {key:?}");
            }
            assert!(!entry_range(&range).contains(RECORD_KEY));
        }
    }

    #[test]
    fn a_prefix_of_index_keys_has_the_entries_of_exactly_these_keys() {
        for (prefix, index_key) in KEYS.iter().flat_map(|a| KEYS.map(|b| (*a, b))) {
            let has = prefix_range(prefix).contains(&entry(index_key, b"row"));
            assert_eq!(has, index_key.starts_with(prefix), "{prefix:?} {index_key:?}");
        }
        assert!(!prefix_range(b"").contains(RECORD_KEY));
    }

    #[test]
    fn records_come_back_and_truncated_ones_are_refused() {
        let through = |key: Option<&[u8]>| BuildProgress::Through(key.map(<[u8]>::to_vec));
        for progress in
            [through(None), through(Some(b"")), through(Some(b"key")), BuildProgress::Complete]
        {
            for is_unique in [false, true] {
                let record = IndexRecord { version: 300, is_unique, progress: progress.clone() };
                let bytes = record.encode();
                assert_eq!(IndexRecord::decode(&bytes), Some(record));
                (0..bytes.len())
                    .for_each(|len| assert!(IndexRecord::decode(&bytes[..len]).is_none()));
                assert_eq!(IndexRecord::decode(&[&bytes[..], &[0]].concat()), None);
            }
        }
    }
}
