//! The range tombstones of a table as bytes.
//!
//! ```text
//! number of fragments varint | fragments
//! fragment:  start | end | number of seqnos varint | seqnos varint, newest first
//! ```
//!
//! Start and end are length-prefixed. Fragments are disjoint and in order.

use esker_base::coding::{put_bytes, put_varint64, take_bytes, take_varint64};
use esker_base::{FragmentedTombstones, MAX_SEQNO, RangeTombstone};

pub(crate) fn encode(tombstones: &FragmentedTombstones) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint64(&mut out, tombstones.fragments().len() as u64);
    for fragment in tombstones.fragments() {
        put_bytes(&mut out, &fragment.start);
        put_bytes(&mut out, &fragment.end);
        put_varint64(&mut out, fragment.seqnos.len() as u64);
        fragment.seqnos.iter().for_each(|&seqno| put_varint64(&mut out, seqno));
    }
    out
}

/// `None` if the bytes are no fragments, or the fragments not in order.
pub(crate) fn decode(mut input: &[u8]) -> Option<FragmentedTombstones> {
    let mut tombstones = Vec::new();
    let mut last_end: &[u8] = &[];
    for _ in 0..take_varint64(&mut input)? {
        let start = take_bytes(&mut input)?;
        let end = take_bytes(&mut input)?;
        if start < last_end || start >= end {
            return None;
        }
        last_end = end;
        let seqnos = take_varint64(&mut input).filter(|&seqnos| seqnos > 0)?;
        let mut limit = MAX_SEQNO + 1;
        for _ in 0..seqnos {
            let seqno = take_varint64(&mut input).filter(|&seqno| seqno < limit)?;
            limit = seqno;
            tombstones.push(RangeTombstone { start: start.to_vec(), end: end.to_vec(), seqno });
        }
    }
    input.is_empty().then(|| FragmentedTombstones::new(tombstones))
}

/// Bytes of memory that the fragments take.
pub(crate) fn memory_bytes(tombstones: &FragmentedTombstones) -> usize {
    tombstones
        .fragments()
        .iter()
        .map(|fragment| {
            size_of_val(fragment)
                + fragment.start.capacity()
                + fragment.end.capacity()
                + 8 * fragment.seqnos.capacity()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FragmentedTombstones {
        let tombstone = |start: &[u8], end: &[u8], seqno| RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seqno,
        };
        FragmentedTombstones::new([
            tombstone(b"a", b"m", 5),
            tombstone(b"c", b"k", MAX_SEQNO),
            tombstone(b"x", b"z", 0),
        ])
    }

    #[test]
    fn tombstones_round_trip() {
        assert_eq!(sample().fragments().len(), 4);
        assert_eq!(decode(&encode(&sample())), Some(sample()));
        assert_eq!(decode(&[0]), Some(FragmentedTombstones::default()));
    }

    #[test]
    fn damaged_bytes_never_panic_and_truncation_is_refused() {
        let bytes = encode(&sample());
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None);
            let mut bad = bytes.clone();
            bad[len] ^= 0xff;
            decode(&bad);
        }
    }

    #[test]
    fn overlapping_and_empty_fragments_are_refused() {
        assert_eq!(decode(&[1, 1, b'b', 1, b'b', 1, 1]), None);
        assert_eq!(decode(&[2, 1, b'a', 1, b'c', 1, 1, 1, b'b', 1, b'd', 1, 1]), None);
        assert_eq!(decode(&[1, 1, b'a', 1, b'b', 0]), None);
    }
}
