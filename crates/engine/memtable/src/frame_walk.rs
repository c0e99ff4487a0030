//! Reading the frames of a segment one by one, from a copy of a part of it.
//!
//! Unlike [`scan`](crate::scan), which decides where a log ends, this is for readers of frames that
//! are known to be there.

use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, SegmentHeader};
use crate::log_reader::{FrameError, FrameInfo, read_frame};
use esker_base::coding::u32_at;

/// Reads the header of the frame at the start of `bytes`, without a check of its content. `None` if no
/// frame of the segment starts here.
pub fn peek_frame(bytes: &[u8], segment: &SegmentHeader) -> Option<FrameInfo> {
    let head = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
    let (header, _) = FrameHeader::decode(head);
    let whole = segment.frame_bytes(header.bytes as usize);
    let fits = (whole as u64) < segment.capacity && header.count > 0;
    (u32_at(head, 0) == segment.mark() && fits).then_some(FrameInfo {
        offset: 0,
        bytes: whole as u32,
        first_seqno: header.first_seqno,
        count: header.count,
        durable_through: header.durable_through,
        continues: header.continues,
    })
}

/// Reads the frame at the start of `bytes` and checks everything that it alone can show. Returns it with
/// its encoded entries, or what is wrong with it.
pub fn frame_at<'a>(
    bytes: &'a [u8],
    segment: &SegmentHeader,
) -> Result<(FrameInfo, &'a [u8]), String> {
    let frame = read_frame(bytes, 0, segment).map_err(|error| match error {
        FrameError::NotHere => "a frame does not start with the segment's mark".to_owned(),
        FrameError::Bad(what) => what,
    })?;
    let (head, rest) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>().expect("it was just read");
    let (header, _) = FrameHeader::decode(head);
    Ok((frame, &rest[..header.bytes as usize]))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{FrameMode, HeapMemory, MemTable};
    use esker_base::{Entry, KeyspaceId, Kind};

    const SEGMENT: SegmentHeader = SegmentHeader {
        epoch: 5,
        capacity: 4096,
        alignment: 8,
        key_id: 0,
        salt: 1 << 63,
        flags: 0,
    };

    /// The frames of two batches of one entry.
    fn frames() -> Vec<u8> {
        let memtable = MemTable::new(HeapMemory::new(4096), SEGMENT, FrameMode::Logged);
        let mut tail = memtable.activate(10);
        for value in [b"one", b"two"] {
            let mut batch = Vec::new();
            let (keyspace, kind) = (KeyspaceId(0), Kind::Put);
            Entry { keyspace, kind, key: b"k", value }.encode(&mut batch);
            let reservation = memtable.reserve(&mut tail, batch.len(), 1).unwrap();
            memtable.insert(&memtable.fill(reservation, 9, &batch).fence());
        }
        let start = memtable.start();
        memtable.bytes(start, memtable.completed(start)).to_vec()
    }

    #[test]
    fn frames_are_read_one_after_another() {
        let bytes = frames();
        let (first, entries) = frame_at(&bytes, &SEGMENT).unwrap();
        assert_eq!(peek_frame(&bytes, &SEGMENT), Some(first));
        assert_eq!((first.first_seqno, first.count), (10, 1));
        assert_eq!(Entry::decode(&mut &entries[..]).unwrap().value, b"one");
        let (second, entries) = frame_at(&bytes[first.bytes as usize..], &SEGMENT).unwrap();
        assert_eq!(second.first_seqno, 11);
        assert_eq!(Entry::decode(&mut &entries[..]).unwrap().value, b"two");
    }

    #[test]
    fn every_flipped_bit_of_a_frame_is_seen() {
        let sound = frames();
        let (frame, _) = frame_at(&sound, &SEGMENT).unwrap();
        for bit in 0..frame.bytes as usize * 8 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(frame_at(&bytes, &SEGMENT).is_err(), "bit {bit}");
        }
    }
}
