//! Reading a segment back: which frames hold, where they end, and what is beyond.
//!
//! Frames are accepted from the front while each one is whole, of this use of the segment, as its mark
//! and its checksum say, and takes up the seqnos where the one before left off. At the first that is
//! invalid, the scan looks on for frames that do, at every multiple of the alignment: a later frame
//! says what was durable when it was written, and so distinguishes damage from the torn end of the last write.
//!
//! A value may hold bytes that look like a frame, and memory that is used again is full of values. An
//! accepted frame is stepped over as a whole, so they are only ever met past the end; and there they
//! do not start with the mark, which who makes a value does not know. So what does is inspected as a
//! frame, down to its checksum, and the look past the end takes time proportional to what is there.
//! Only frames beyond the expected seqno count, because an older one says nothing about what is
//! missing.
//!
//! Nothing follows the end only if nothing was ever written there. Where the segment began as zeros,
//! all of the rest must be zero. A recycled segment holds frames of earlier uses, so there the rest may
//! be anything but a whole frame with a damaged mark.

use crate::frame::{
    FRAME_HEADER_BYTES, FrameHeader, GROUPS, MIN_ENTRY_BYTES, SegmentHeader, frame_checksum,
};
use esker_base::coding::u32_at;
use esker_base::{Entry, MAX_SEQNO, Seqno};

/// An accepted frame of a log segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FrameInfo {
    /// The offset in the segment, in bytes.
    pub offset: u64,
    /// The length in bytes, including header and padding.
    pub bytes: u32,
    /// The sequence number of the first entry.
    pub first_seqno: Seqno,
    /// The number of entries.
    pub count: u32,
    /// The last sequence number known to be durable when the frame was written.
    pub durable_through: Seqno,
    /// Whether the next frame belongs to the same batch.
    pub continues: bool,
}

impl FrameInfo {
    /// Returns the sequence number after that of the last entry.
    pub fn next_seqno(&self) -> Seqno {
        self.first_seqno + u64::from(self.count)
    }
}

/// The frames of a log segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ScanResult {
    /// The accepted frames: whole, adjacent, and without gaps in their sequence numbers.
    pub frames: Vec<FrameInfo>,
    /// The offset after the last accepted frame.
    pub end: u64,
    /// Why the scan ended there.
    pub stop: ScanEnd,
    /// The valid frames beyond `end`, if there are any.
    pub later: Option<FramesPastGap>,
}

impl ScanResult {
    /// Leaves out the frames at the end whose batch goes on in a frame that is not here. The caller knows
    /// whether that frame is in the next segment. Returns the seqno of the first entry that is left out,
    /// if there is one.
    pub fn leave_out_unfinished(&mut self) -> Option<Seqno> {
        let whole = self.frames.iter().rposition(|frame| !frame.continues).map_or(0, |at| at + 1);
        let FrameInfo { offset, first_seqno, .. } = *self.frames.get(whole)?;
        self.end = offset;
        self.frames.truncate(whole);
        Some(first_seqno)
    }

    /// Where the first accepted frame starts that was not known durable when a later accepted one was
    /// written, if there is one: the last always is.
    pub fn first_unverified(&self) -> Option<u64> {
        let known = self.frames.iter().map(|frame| frame.durable_through).max()?;
        let doubtful = self.frames.partition_point(|frame| frame.next_seqno() - 1 <= known);
        Some(self.frames[doubtful].offset)
    }
}

/// Why a scan accepted no further frame.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ScanEnd {
    /// No further frame header fits the segment.
    Full,
    /// No frame of this use of the segment starts here, and no valid one follows.
    #[default]
    Blank,
    /// An invalid frame is here; or no frame is here although valid frames follow.
    Bad {
        /// The offset in the segment, in bytes.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
}

/// Valid frames of this use of the segment beyond the accepted ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FramesPastGap {
    /// The offset of the first of them, in bytes.
    pub offset: u64,
    /// The sequence number of its first entry.
    pub first_seqno: Seqno,
    /// The highest `durable_through` among them.
    pub durable_through: Seqno,
    /// The number of them.
    pub frames: u64,
    /// The offset after the last of them.
    pub end: u64,
}

/// Why bytes are no frame.
pub(crate) enum FrameError {
    /// They do not start with the mark.
    NotHere,
    /// They do, but then something is wrong.
    Bad(String),
}

/// Reads the segment `bytes`, its header included, which says `header`. With `expected_first`, the
/// first frame must have that seqno; otherwise it may have any.
pub fn scan(bytes: &[u8], header: &SegmentHeader, expected_first: Option<Seqno>) -> ScanResult {
    let capacity = usize::try_from(header.capacity).unwrap_or(usize::MAX);
    let bytes = &bytes[..bytes.len().min(capacity)];
    let mut frames: Vec<FrameInfo> = Vec::new();
    let mut expected = expected_first;
    let mut end = header.first_frame();
    let refused = loop {
        if capacity < end + FRAME_HEADER_BYTES {
            return ScanResult { frames, end: end as u64, stop: ScanEnd::Full, later: None };
        }
        match read_frame(bytes, end, header) {
            Ok(frame) if expected.is_none_or(|seqno| seqno == frame.first_seqno) => {
                frames.push(frame);
                expected = Some(frame.next_seqno());
                end += frame.bytes as usize;
            }
            Ok(frame) => {
                let (found, wanted) = (frame.first_seqno, expected.unwrap_or_default());
                break FrameError::Bad(format!("a frame starts at seqno {found}, not at {wanted}"));
            }
            Err(refused) => break refused,
        }
    };
    let later = find_later_frames(bytes, end, header, expected);
    let stop = match (refused, later) {
        (FrameError::NotHere, None) => match remains(bytes, end, header, expected) {
            None => ScanEnd::Blank,
            Some(what) => bad(end, what),
        },
        (FrameError::NotHere, Some(_)) => {
            bad(end, "no frame starts here, yet there are frames later")
        }
        (FrameError::Bad(what), _) => ScanEnd::Bad { offset: end as u64, what },
    };
    ScanResult { frames, end: end as u64, stop, later }
}

fn bad(offset: usize, what: &str) -> ScanEnd {
    ScanEnd::Bad { offset: offset as u64, what: what.to_owned() }
}

/// What shows that something was written at `end`, though no frame starts there or later. `None` if
/// nothing does.
fn remains(
    bytes: &[u8],
    end: usize,
    header: &SegmentHeader,
    expected: Option<Seqno>,
) -> Option<&'static str> {
    let rest = bytes.get(end..).unwrap_or_default();
    if header.has_zeros_beyond() && rest.iter().fold(0, |all, byte| all | byte) != 0 {
        return Some("no frame starts here, yet not all bytes to the end are zero");
    }
    // With the mark that it should have, so that all the rest of it is tested.
    let (head, entries) = rest.split_first_chunk::<FRAME_HEADER_BYTES>()?;
    let mut marked = *head;
    marked[..4].copy_from_slice(&header.mark().to_le_bytes());
    let frame = check_frame(&marked, entries, end, header).ok()?;
    let follows = expected.is_none_or(|seqno| seqno == frame.first_seqno);
    follows.then_some("a frame's mark does not match")
}

/// Finds the valid frames from `start` on whose seqnos are beyond `expected`.
fn find_later_frames(
    bytes: &[u8],
    start: usize,
    header: &SegmentHeader,
    expected: Option<Seqno>,
) -> Option<FramesPastGap> {
    let mut later: Option<FramesPastGap> = None;
    let mut at = start;
    while let Some(offset) = next_mark(bytes, at, header) {
        at = match read_frame(bytes, offset, header) {
            Ok(frame) => {
                if expected.is_none_or(|seqno| frame.first_seqno > seqno) {
                    let found = later.get_or_insert(FramesPastGap {
                        offset: offset as u64,
                        first_seqno: frame.first_seqno,
                        durable_through: 0,
                        frames: 0,
                        end: 0,
                    });
                    found.frames += 1;
                    found.end = offset as u64 + u64::from(frame.bytes);
                    found.durable_through = found.durable_through.max(frame.durable_through);
                }
                offset + frame.bytes as usize
            }
            Err(_) => offset + header.alignment as usize,
        };
    }
    later
}

/// The first multiple of the alignment, from `start` on, where a frame of the segment could start.
fn next_mark(bytes: &[u8], start: usize, header: &SegmentHeader) -> Option<usize> {
    let mark = header.mark().to_le_bytes();
    let step = header.alignment as usize;
    let found = bytes.get(start..)?.chunks_exact(step).position(|chunk| chunk[..4] == mark)?;
    Some(start + found * step)
}

/// Reads the frame at `offset` and checks everything about it that it alone can show.
pub(crate) fn read_frame(
    bytes: &[u8],
    offset: usize,
    segment: &SegmentHeader,
) -> Result<FrameInfo, FrameError> {
    let rest = bytes.get(offset..).unwrap_or_default();
    match rest.split_first_chunk::<FRAME_HEADER_BYTES>() {
        Some((head, rest)) if u32_at(head, 0) == segment.mark() => {
            check_frame(head, rest, offset, segment)
        }
        _ => Err(FrameError::NotHere),
    }
}

/// Checks the frame at `offset` with the header `head`, which starts with the mark, and what follows
/// that in the segment.
fn check_frame(
    head: &[u8; FRAME_HEADER_BYTES],
    rest: &[u8],
    offset: usize,
    segment: &SegmentHeader,
) -> Result<FrameInfo, FrameError> {
    let refuse = |what: &str| Err(FrameError::Bad(what.to_owned()));
    let (header, checksum) = FrameHeader::decode(head);
    let whole = segment.frame_bytes(header.bytes as usize);
    let Some(body) = rest.get(..whole - FRAME_HEADER_BYTES) else {
        return refuse("a frame reaches past the end of the segment");
    };
    let (entries, padding) = body.split_at(header.bytes as usize);
    if header.count == 0 || entries.len() / MIN_ENTRY_BYTES < header.count as usize {
        return refuse("a frame's number of entries does not fit its length");
    }
    if header.continues && segment.flags & GROUPS == 0 {
        return refuse("a frame is one of several, which its segment does not have");
    }
    if header.first_seqno > MAX_SEQNO - u64::from(header.count)
        || header.durable_through >= header.first_seqno
    {
        return refuse("a frame's seqnos are out of bounds");
    }
    if frame_checksum(segment, head, entries) != checksum {
        return refuse("a frame's checksum does not match");
    }
    // To the end, whatever is met: so the compiler looks at many bytes at once.
    if padding.iter().fold(0, |all, byte| all | byte) != 0 {
        return refuse("a frame's padding is not zero");
    }
    if !decodes_to(entries, header.count) {
        return refuse("a frame's entries do not decode");
    }
    Ok(FrameInfo {
        offset: offset as u64,
        bytes: whole as u32,
        first_seqno: header.first_seqno,
        count: header.count,
        durable_through: header.durable_through,
        continues: header.continues,
    })
}

/// Whether `entries` is exactly `count` entries.
fn decodes_to(mut entries: &[u8], count: u32) -> bool {
    (0..count).all(|_| Entry::decode(&mut entries).is_some()) && entries.is_empty()
}

/// Checks the frame at `offset` of a segment again. What is invalid, if anything.
pub(crate) fn recheck(bytes: &[u8], offset: usize, segment: &SegmentHeader) -> Option<String> {
    match read_frame(bytes, offset, segment) {
        Ok(_) => None,
        Err(FrameError::NotHere) => {
            Some("a frame does not start with the segment's mark".to_owned())
        }
        Err(FrameError::Bad(what)) => Some(what),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::frame::ZEROS_BEYOND;
    use esker_base::{KeyspaceId, Kind};

    const SALT: u64 = 0x8765_4321_89ab_cdef;

    const SEGMENT: SegmentHeader =
        SegmentHeader { epoch: 5, capacity: 256, alignment: 8, key_id: 0, salt: SALT, flags: 0 };

    fn entries() -> Vec<u8> {
        let mut bytes = Vec::new();
        let entry = Entry { keyspace: KeyspaceId(0), kind: Kind::Put, key: b"k", value: b"val" };
        entry.encode(&mut bytes);
        entry.encode(&mut bytes);
        bytes
    }

    fn sound() -> FrameHeader {
        let bytes = entries().len() as u32;
        let (first_seqno, durable_through, continues) = (10, 9, false);
        FrameHeader {
            mark: SEGMENT.mark(),
            bytes,
            count: 2,
            first_seqno,
            durable_through,
            continues,
        }
    }

    /// Scans a segment that starts with this frame, whose checksum is right.
    fn scan_frame(header: FrameHeader, entries: &[u8], padding: u8) -> ScanResult {
        let mut bytes = vec![0; 256];
        bytes[..64].copy_from_slice(&SEGMENT.encode());
        let frame = [&header.encode(&SEGMENT, entries)[..], entries].concat();
        bytes[64..64 + frame.len()].copy_from_slice(&frame);
        let padded = frame.len().next_multiple_of(8);
        bytes[64 + frame.len()..64 + padded].fill(padding);
        scan(&bytes, &SEGMENT, None)
    }

    #[test]
    fn a_sound_frame_is_accepted() {
        let found = scan_frame(sound(), &entries(), 0);
        assert_eq!((found.frames.len(), found.stop), (1, ScanEnd::Blank));
    }

    #[test]
    fn frames_that_no_writer_makes_are_refused_though_their_checksum_is_right() {
        let unsound = [
            (FrameHeader { count: 0, ..sound() }, "number of entries"),
            (FrameHeader { count: u32::MAX, ..sound() }, "number of entries"),
            (FrameHeader { count: 1, ..sound() }, "do not decode"),
            (FrameHeader { count: 3, ..sound() }, "do not decode"),
            (FrameHeader { first_seqno: 0, durable_through: 0, ..sound() }, "seqnos"),
            (FrameHeader { first_seqno: MAX_SEQNO, ..sound() }, "seqnos"),
            (FrameHeader { first_seqno: u64::MAX, ..sound() }, "seqnos"),
            (FrameHeader { durable_through: 10, ..sound() }, "seqnos"),
            (FrameHeader { bytes: 200, ..sound() }, "past the end"),
            (FrameHeader { bytes: u32::MAX, ..sound() }, "past the end"),
            (FrameHeader { bytes: 15, ..sound() }, "checksum"),
            (FrameHeader { continues: true, ..sound() }, "one of several"),
        ];
        for (header, reason) in unsound {
            let found = scan_frame(header, &entries(), 0);
            assert!(found.frames.is_empty() && found.later.is_none(), "{header:?}");
            let ScanEnd::Bad { offset: 64, what } = found.stop else { panic!("{header:?}") };
            assert!(what.contains(reason), "{header:?}: {what}");
        }
    }

    /// A frame with the bytes of a sound one, made for another salt.
    fn made_for(salt: u64) -> Vec<u8> {
        let segment = SegmentHeader { salt, ..SEGMENT };
        let header = FrameHeader { mark: segment.mark(), ..sound() };
        [&header.encode(&segment, &entries())[..], &entries()].concat()
    }

    #[test]
    fn a_frame_is_accepted_only_with_both_halves_of_the_salt() {
        let found = |salt| {
            let mut bytes = SEGMENT.encode().to_vec();
            bytes.extend(made_for(salt));
            bytes.resize(256, 0);
            scan(&bytes, &SEGMENT, None)
        };
        assert_eq!(found(SALT).frames.len(), 1);
        assert_eq!(found(0).stop, ScanEnd::Blank, "as version 1 has it");
        assert_eq!(found(SALT ^ 1).stop, ScanEnd::Blank, "another mark, under the checksum");
        let ScanEnd::Bad { offset: 64, what } = found(SALT ^ 1 << 32).stop else { panic!() };
        assert!(what.contains("checksum"), "{what}");
    }

    /// Each that is costs a checksum, over as many bytes as it claims to have.
    #[test]
    fn of_values_made_of_frames_none_is_looked_at() {
        let looked_at = |bytes: &[u8]| {
            let mut at = 0;
            std::iter::from_fn(|| {
                let found = next_mark(bytes, at, &SEGMENT)?;
                at = found + 8;
                Some(found)
            })
            .count()
        };
        assert_eq!(looked_at(&made_for(0).repeat(100)), 0);
        assert_eq!(looked_at(&made_for(SALT).repeat(100)), 100, "frames of the segment are");
    }

    #[test]
    fn frames_that_a_later_one_calls_durable_are_not_doubtful() {
        let frame = |number: u64, durable_through| FrameInfo {
            offset: 64 * number,
            bytes: 64,
            first_seqno: 10 * number,
            count: 10,
            durable_through,
            continues: false,
        };
        let scan = |frames: Vec<FrameInfo>| ScanResult {
            frames,
            end: 0,
            stop: ScanEnd::Full,
            later: None,
        };
        assert_eq!(scan(Vec::new()).first_unverified(), None);
        assert_eq!(scan(vec![frame(1, 5)]).first_unverified(), Some(64));
        // The first ends at 19, the second at 29.
        let both = |durable| scan(vec![frame(1, 9), frame(2, durable), frame(3, 12)]);
        assert_eq!(both(18).first_unverified(), Some(64));
        assert_eq!(both(19).first_unverified(), Some(128));
        let known = scan(vec![frame(1, 9), frame(2, 9), frame(3, 29)]);
        assert_eq!(known.first_unverified(), Some(192));
    }

    /// The same frame in a segment that began as zeros, and in a recycled one.
    #[test]
    fn every_flipped_bit_of_the_last_frame_is_told() {
        for (flags, behind) in [(0, 0), (0, 0xab), (ZEROS_BEYOND, 0)] {
            let segment = SegmentHeader { flags, ..SEGMENT };
            let frame = [&sound().encode(&segment, &entries())[..], &entries()].concat();
            let mut bytes = [&segment.encode()[..], &frame].concat();
            let end = bytes.len().next_multiple_of(8);
            bytes.resize(end, 0);
            bytes.resize(256, behind);
            assert_eq!(scan(&bytes, &segment, Some(10)).stop, ScanEnd::Blank);
            for bit in 64 * 8..end * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                for expected in [None, Some(10)] {
                    let found = scan(&bytes, &segment, expected);
                    assert!(matches!(found.stop, ScanEnd::Bad { offset: 64, .. }), "bit {bit}");
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn only_zeros_are_blank_in_a_segment_that_began_as_zeros() {
        let stop = |flags, at: usize, byte| {
            let segment = SegmentHeader { flags, ..SEGMENT };
            let mut bytes = [&segment.encode()[..], &[0; 192]].concat();
            bytes[at] = byte;
            scan(&bytes, &segment, Some(10)).stop
        };
        for at in 64..256 {
            assert!(
                matches!(stop(ZEROS_BEYOND, at, 1), ScanEnd::Bad { offset: 64, .. }),
                "byte {at}"
            );
            assert_eq!(stop(ZEROS_BEYOND, at, 0), ScanEnd::Blank);
            assert_eq!(stop(0, at, 1), ScanEnd::Blank, "an earlier use may have left it");
        }
    }

    #[test]
    fn an_unfinished_batch_is_left_out_whole() {
        let frame = |number: u64, continues| FrameInfo {
            offset: 64 * number,
            bytes: 64,
            first_seqno: number,
            count: 1,
            durable_through: 0,
            continues,
        };
        let left = |continues: &[bool]| {
            let frames = (1..).zip(continues).map(|(number, &it)| frame(number, it)).collect();
            let end = 64 * (continues.len() as u64 + 1);
            let mut scan = ScanResult { frames, end, stop: ScanEnd::Full, later: None };
            (scan.leave_out_unfinished(), scan.frames.len(), scan.end)
        };
        assert_eq!(left(&[]), (None, 0, 64));
        assert_eq!(left(&[true, false, false]), (None, 3, 256));
        assert_eq!(left(&[false, true]), (Some(2), 1, 128));
        assert_eq!(left(&[false, true, true]), (Some(2), 1, 128));
        assert_eq!(left(&[true, true]), (Some(1), 0, 64));
    }

    #[test]
    fn padding_must_be_zero() {
        let mut longer = entries();
        Entry { keyspace: KeyspaceId(0), kind: Kind::Delete, key: b"d", value: b"" }
            .encode(&mut longer);
        let header = FrameHeader { bytes: longer.len() as u32, count: 3, ..sound() };
        assert_eq!(longer.len() % 8, 5, "there is padding");
        assert_eq!(scan_frame(header, &longer, 0).frames.len(), 1);
        assert!(scan_frame(header, &longer, 1).frames.is_empty());
    }

    #[test]
    fn entries_of_a_kind_that_only_tables_have_are_refused() {
        let mut bytes = entries();
        bytes[1] = Kind::Separated as u8;
        assert!(scan_frame(sound(), &bytes, 0).frames.is_empty());
    }
}
