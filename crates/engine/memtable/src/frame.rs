//! The bytes of a log segment: its header, and the header of each frame in it.
//!
//! The byte-level description is `docs/formats/frame.md`; writer and reader share this file.
//! All integers are little-endian.

use esker_base::checksum::{crc32c, crc32c_append};
use esker_base::coding::{u32_at, u64_at};
use esker_base::{Error, Result, Seqno};

/// The bytes that open a segment.
pub const SEGMENT_HEADER_BYTES: usize = 64;

/// The bytes that open a frame.
pub const FRAME_HEADER_BYTES: usize = 32;

/// The newest segment format that this code reads. A header without flags is written as version 2, and
/// one without a salt as version 1, which are otherwise the same.
pub const SEGMENT_VERSION: u32 = 3;

/// A flag of a segment: every byte behind its last frame is zero, unless it is torn or damaged. A
/// segment in a recycled file or extent holds frames of an earlier use there.
pub const ZEROS_BEYOND: u32 = 1;

/// A flag of a segment: its frames may belong to groups. The frames of a group are one batch.
pub const GROUPS: u32 = 2;

/// The flags that this code knows.
const FLAGS_KNOWN: u32 = ZEROS_BEYOND | GROUPS;

/// In the number of entries of a frame: the next frame belongs to the same batch.
const CONTINUES: u32 = 1 << 31;

/// The shortest encoding of an entry: four one-byte fields and a key of one byte.
pub(crate) const MIN_ENTRY_BYTES: usize = 5;

const MAGIC: [u8; 8] = *b"ESKRSEG1";
const CHECKSUM_AT: usize = 60;
const SALT_AT: usize = 32;
const FLAGS_AT: usize = 40;
const RESERVED: std::ops::Range<usize> = 44..CHECKSUM_AT;

/// The alignments that a segment may have. Frames start at multiples of it.
const ALIGNMENTS: std::ops::RangeInclusive<u32> = 8..=4096;

/// The header of a log segment: its first 64 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The number of this use of the segment.
    ///
    /// It is never zero and unique in the database, so frames of an earlier use are distinguished.
    pub epoch: u32,
    /// The size of the segment in bytes, including this header. Below 4 GiB.
    pub capacity: u64,
    /// The alignment of frame offsets in bytes: 8 in files, 64 in persistent memory.
    pub alignment: u32,
    /// The id of the encryption key. Always 0, for none, at present.
    pub key_id: u32,
    /// A random number that keeps values from passing for frames: see [`SegmentHeader::mark`].
    ///
    /// Zero, for none, in version 1.
    pub salt: u64,
    /// Flags such as `ZEROS_BEYOND`. Zero before version 3.
    pub flags: u32,
}

impl SegmentHeader {
    /// Returns the number that each frame of the segment starts with, which is never zero.
    ///
    /// A value that is read as frames does not have it.
    #[inline]
    pub fn mark(&self) -> u32 {
        self.epoch ^ self.salt as u32
    }

    /// What the checksum of each frame begins with.
    #[inline]
    pub(crate) fn checksum_start(&self) -> u32 {
        (self.salt >> 32) as u32
    }

    /// Which version the header is of.
    fn version(&self) -> u32 {
        match (self.salt, self.flags) {
            (0, _) => 1,
            (_, 0) => 2,
            _ => SEGMENT_VERSION,
        }
    }

    /// Whether every byte after the last frame is zero, unless the segment is torn or damaged.
    pub fn has_zeros_beyond(&self) -> bool {
        self.flags & ZEROS_BEYOND != 0
    }

    /// The header as it is stored.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version().to_le_bytes());
        bytes[12..16].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.alignment.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.key_id.to_le_bytes());
        bytes[SALT_AT..FLAGS_AT].copy_from_slice(&self.salt.to_le_bytes());
        bytes[FLAGS_AT..RESERVED.start].copy_from_slice(&self.flags.to_le_bytes());
        let checksum = crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header at the front of `bytes`, which came from `file_name`.
    pub fn decode(bytes: &[u8], file_name: &str) -> Result<SegmentHeader> {
        let bad =
            |offset: usize, what: &str| Err(Error::corruption(file_name, offset as u64, what));
        let Some(bytes) = bytes.get(..SEGMENT_HEADER_BYTES) else {
            return bad(bytes.len(), "the file ends inside the segment header");
        };
        if bytes[..8] != MAGIC {
            return bad(0, "this is no log segment: its first eight bytes are not the magic");
        }
        if u32_at(bytes, CHECKSUM_AT) != crc32c(&bytes[..CHECKSUM_AT]) {
            return bad(CHECKSUM_AT, "the segment header's checksum does not match");
        }
        let version = u32_at(bytes, 8);
        if version > SEGMENT_VERSION {
            return Err(Error::NewerVersion {
                file: file_name.to_owned(),
                found: version,
                supported: SEGMENT_VERSION,
            });
        }
        let header = SegmentHeader {
            epoch: u32_at(bytes, 12),
            capacity: u64_at(bytes, 16),
            alignment: u32_at(bytes, 24),
            key_id: u32_at(bytes, 28),
            salt: u64_at(bytes, SALT_AT),
            flags: u32_at(bytes, FLAGS_AT),
        };
        match header.flaw() {
            Some(what) => bad(8, what),
            None if bytes[RESERVED].iter().any(|&byte| byte != 0) => {
                bad(RESERVED.start, "reserved bytes of the segment header are not zero")
            }
            None if header.version() != version => {
                bad(SALT_AT, "the segment's salt or flags are not what its version says")
            }
            None => Ok(header),
        }
    }

    /// Reads the header at the front of `bytes`, which must be of the segment `epoch`, and fit the
    /// `room` bytes of its file or extent. The file may be shorter than the segment: see
    /// [`SegmentHeader::check_whole`].
    pub fn decode_of(bytes: &[u8], epoch: u32, room: u64, file_name: &str) -> Result<Self> {
        let header = SegmentHeader::decode(bytes, file_name)?;
        if header.epoch == epoch && header.capacity >= room {
            return Ok(header);
        }
        let what = format!(
            "the header is of log {} with {} bytes, where log {epoch} should be with {room}",
            header.epoch, header.capacity
        );
        Err(Error::corruption(file_name, 0, what))
    }

    /// Fails if only `room` bytes of the segment are there. No crash leaves that, because a log has its
    /// whole size before anything is written to it.
    pub fn check_whole(&self, room: u64, file_name: &str) -> Result<()> {
        if room >= self.capacity {
            return Ok(());
        }
        let what = format!(
            "the log is cut short: it ends here, and its header says {} bytes; `esker repair` keeps \
             the writes before this place",
            self.capacity
        );
        Err(Error::corruption(file_name, room, what))
    }

    /// What no segment of this version can say of itself, if this one does.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        if self.epoch == 0 {
            Some("the segment's epoch is zero")
        } else if self.capacity < SEGMENT_HEADER_BYTES as u64 || self.capacity > u64::from(u32::MAX)
        {
            Some("the segment's capacity is out of bounds")
        } else if !self.alignment.is_power_of_two() || !ALIGNMENTS.contains(&self.alignment) {
            Some("the segment's alignment is not a power of two from 8 to 4096")
        } else if self.key_id != 0 {
            Some("the segment is encrypted, which this version can't read")
        } else if self.mark() == 0 {
            Some("the segment's salt and epoch make a mark of zero")
        } else if self.flags & !FLAGS_KNOWN != 0 {
            Some("the segment has flags that this version does not know")
        } else if self.salt == 0 && self.flags != 0 {
            Some("the segment has flags and no salt")
        } else {
            None
        }
    }

    /// Returns the offset of the first frame, in bytes.
    pub fn first_frame_offset(&self) -> u64 {
        self.first_frame() as u64
    }

    /// Where the first frame starts.
    pub(crate) fn first_frame(&self) -> usize {
        SEGMENT_HEADER_BYTES.next_multiple_of(self.alignment as usize)
    }

    /// The bytes that a frame takes whose entries take `entry_bytes`.
    #[inline]
    pub(crate) fn frame_bytes(&self, entry_bytes: usize) -> usize {
        // The alignment is a power of two, which the compiler can't know.
        let mask = self.alignment as usize - 1;
        (FRAME_HEADER_BYTES + entry_bytes + mask) & !mask
    }
}

/// The header of a frame, without its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    /// The mark of the segment.
    pub mark: u32,
    /// The length of the entries, without padding.
    pub bytes: u32,
    /// The number of entries.
    pub count: u32,
    /// The seqno of the first entry; the others follow without gaps.
    pub first_seqno: Seqno,
    /// What was known durable when the frame was written.
    pub durable_through: Seqno,
    /// Whether the next frame belongs to the same batch.
    pub continues: bool,
}

impl FrameHeader {
    /// The header as it is stored before `entries` in `segment`, with the checksum over both.
    #[inline]
    pub fn encode(&self, segment: &SegmentHeader, entries: &[u8]) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = self.encode_unchecked();
        let checksum = frame_checksum(segment, &bytes, entries);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header with zero for the checksum, for frames that are never read back.
    #[inline]
    pub fn encode_unchecked(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.mark.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        let count = if self.continues { self.count | CONTINUES } else { self.count };
        bytes[12..16].copy_from_slice(&count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.first_seqno.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable_through.to_le_bytes());
        bytes
    }

    /// Reads a header and the checksum stored in it.
    #[inline]
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> (FrameHeader, u32) {
        let count = u32_at(bytes, 12);
        let header = FrameHeader {
            mark: u32_at(bytes, 0),
            bytes: u32_at(bytes, 8),
            count: count & !CONTINUES,
            continues: count & CONTINUES != 0,
            first_seqno: u64_at(bytes, 16),
            durable_through: u64_at(bytes, 24),
        };
        (header, u32_at(bytes, 4))
    }
}

/// The checksum of a frame of `segment`: everything but the checksum field itself and the padding,
/// which is zero. The field's four bytes are left out by moving the mark up to the bytes after it.
#[inline]
pub(crate) fn frame_checksum(
    segment: &SegmentHeader,
    header: &[u8; FRAME_HEADER_BYTES],
    entries: &[u8],
) -> u32 {
    let mut covered = [0; FRAME_HEADER_BYTES - 4];
    covered[..4].copy_from_slice(&header[..4]);
    covered[4..].copy_from_slice(&header[8..]);
    crc32c_append(crc32c_append(segment.checksum_start(), &covered), entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> SegmentHeader {
        SegmentHeader {
            epoch: 7,
            capacity: 4096,
            alignment: 8,
            key_id: 0,
            salt: 0x1234_5678_9abc_def0,
            flags: 0,
        }
    }

    #[test]
    fn a_segment_header_round_trips() {
        let flagged = SegmentHeader { flags: ZEROS_BEYOND, ..sample() };
        for header in [sample(), SegmentHeader { salt: 0, ..sample() }, flagged] {
            assert_eq!(SegmentHeader::decode(&header.encode(), "f").unwrap(), header);
        }
    }

    #[test]
    fn every_flipped_bit_of_a_segment_header_is_seen() {
        for bit in 0..SEGMENT_HEADER_BYTES * 8 {
            let mut bytes = sample().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(SegmentHeader::decode(&bytes, "f").unwrap_err().is_corruption(), "bit {bit}");
        }
    }

    /// A header that says `version`, with a checksum that holds.
    fn of_version(version: u32, header: SegmentHeader) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = header.encode();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let checksum = crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn a_salt_belongs_to_version_2_and_flags_to_version_3() {
        let flagged = SegmentHeader { flags: ZEROS_BEYOND, ..sample() };
        for wrong in [of_version(2, flagged), of_version(3, sample())] {
            assert!(SegmentHeader::decode(&wrong, "f").unwrap_err().is_corruption());
        }
        let salted = of_version(1, sample());
        assert!(SegmentHeader::decode(&salted, "f").unwrap_err().is_corruption());
        let plain = of_version(2, SegmentHeader { salt: 0, ..sample() });
        assert!(SegmentHeader::decode(&plain, "f").unwrap_err().is_corruption());
    }

    #[test]
    fn every_truncated_segment_header_is_refused() {
        for len in 0..SEGMENT_HEADER_BYTES {
            let error = SegmentHeader::decode(&sample().encode()[..len], "f").unwrap_err();
            assert!(error.is_corruption(), "{len} bytes");
        }
    }

    #[test]
    fn a_newer_version_is_named_as_such() {
        assert!(matches!(
            SegmentHeader::decode(&of_version(4, sample()), "f"),
            Err(Error::NewerVersion { found: 4, supported: 3, .. })
        ));
    }

    #[test]
    fn headers_that_no_writer_makes_are_refused() {
        for flawed in [
            SegmentHeader { epoch: 0, ..sample() },
            SegmentHeader { capacity: 63, ..sample() },
            SegmentHeader { capacity: 1 << 32, ..sample() },
            SegmentHeader { alignment: 24, ..sample() },
            SegmentHeader { alignment: 4, ..sample() },
            SegmentHeader { key_id: 1, ..sample() },
            SegmentHeader { salt: 7, ..sample() },
            SegmentHeader { flags: 1 << 31, ..sample() },
            SegmentHeader { flags: ZEROS_BEYOND, salt: 0, ..sample() },
        ] {
            assert!(SegmentHeader::decode(&flawed.encode(), "f").is_err(), "{flawed:?}");
        }
    }

    #[test]
    fn a_frame_header_round_trips_with_its_checksum() {
        for continues in [false, true] {
            let (mark, bytes, count) = (3, 5, 1);
            let (first_seqno, durable_through) = (9, 8);
            let header =
                FrameHeader { mark, bytes, count, first_seqno, durable_through, continues };
            let bytes = header.encode(&sample(), b"entry");
            let checksum = frame_checksum(&sample(), &bytes, b"entry");
            assert_eq!(FrameHeader::decode(&bytes), (header, checksum));
        }
    }
}
