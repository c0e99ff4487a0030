//! A part of the log in a repository: one file.
//!
//! ```text
//! esker-frames 1 CHECKSUM
//! {"database":"…","made":…,"first":…,"last":…,"pieces":[…], …}
//! frames of the first piece, frames of the second, …
//! ```
//!
//! The checksum is of the second line with its newline. Each piece has one of its own.

use esker_base::Seqno;
use esker_base::checksum::crc32c;
use serde::{Deserialize, Serialize};

const MAGIC: &str = "esker-frames 1 ";
const SUFFIX: &str = ".frames";

/// The first two lines of a shipment are no longer than this.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 20;

/// A part of the log of a database in a repository.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Shipment {
    /// The identity of the database, in hexadecimal digits.
    pub database: String,
    /// When it was made, in milliseconds since 1970 in UTC: its writes were committed by then.
    pub made: u64,
    /// The sequence number of the first entry, with which a batch starts.
    pub first: Seqno,
    /// The sequence number of the last entry, with which a batch ends.
    pub last: Seqno,
    /// Ingests among the writes, whose tables are not in the log: a backup after them has them.
    pub ingests: Vec<Seqno>,
    /// Keyspaces that were created or dropped meanwhile: an edit of a manifest, in hexadecimal digits.
    pub keyspaces: String,
    /// The frames, in order.
    pub pieces: Vec<Piece>,
    /// The openings of the database that were known then, as in a record of a backup.
    #[serde(default)]
    pub openings: Vec<(String, Seqno)>,
}

/// Frames of one segment of the log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Piece {
    /// The epoch of the segment.
    pub epoch: u32,
    /// The header of the segment, in hexadecimal digits.
    pub header: String,
    /// Where the frames are in the segment, in bytes.
    pub offset: u64,
    /// The length of the frames, in bytes.
    pub bytes: u64,
    /// The CRC-32C of the frames.
    pub crc32c: u32,
    /// The sequence number of the first entry.
    pub first: Seqno,
    /// The sequence number of the last entry.
    pub last: Seqno,
    /// Where batches end: the offset in the segment, and the last sequence number.
    pub ends: Vec<(u64, Seqno)>,
}

impl Shipment {
    /// The name of the shipment that starts with the seqno `first`.
    pub(crate) fn name(first: Seqno) -> String {
        format!("{first:020}{SUFFIX}")
    }

    /// The seqno in a name that [`Shipment::name`] made.
    pub(crate) fn first_in(name: &str) -> Option<Seqno> {
        let digits = name.strip_suffix(SUFFIX)?;
        let first = (digits.len() == 20).then(|| digits.parse().ok()).flatten()?;
        (Shipment::name(first) == name).then_some(first)
    }

    /// Returns the length of all its frames, in bytes.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).fold(0, u64::saturating_add)
    }

    pub(crate) fn encode_head(&self) -> String {
        let json = serde_json::to_string(self).expect("numbers and strings") + "\n";
        format!("{MAGIC}{:08x}\n{json}", crc32c(json.as_bytes()))
    }

    /// Reads the two lines at the start of `bytes`. Returns the shipment and where its frames start; an error says what
    /// is wrong.
    pub(crate) fn decode_head(bytes: &[u8], first: Seqno) -> Result<(Shipment, usize), String> {
        let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or("it is not of this version")?;
        let line_end = |bytes: &[u8]| bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        let crc_end = line_end(rest).ok_or("it is truncated")?;
        let (crc, rest) = rest.split_at(crc_end);
        let json_end = line_end(rest).ok_or("it is truncated")?;
        let json = &rest[..json_end];
        if crc != format!("{:08x}\n", crc32c(json)).as_bytes() {
            return Err("its checksum does not match".into());
        }
        let found: Shipment = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let start = MAGIC.len() + crc_end + json_end;
        match found.first == first && found.is_in_order() {
            true => Ok((found, start)),
            false => Err("its writes are not those that its name and its head say".into()),
        }
    }

    fn is_in_order(&self) -> bool {
        let mut next = self.first;
        let mut follows = |piece: &Piece| {
            let is_next = piece.first == next && piece.last >= piece.first;
            next = piece.last.saturating_add(1);
            is_next && piece.is_in_place()
        };
        self.pieces.iter().all(&mut follows) && Some(self.last) == next.checked_sub(1)
    }
}

impl Piece {
    /// Whether its frames have an end, and batches end among them and its writes, in order.
    fn is_in_place(&self) -> bool {
        let Some(end) = self.offset.checked_add(self.bytes) else { return false };
        let (mut before, mut seqno) = (self.offset, self.first.saturating_sub(1));
        let mut is_next = |&(at, last): &(u64, Seqno)| {
            let is_in_order = before < at && at <= end && seqno < last && last <= self.last;
            (before, seqno) = (at, last);
            is_in_order
        };
        self.first > 0 && self.last < Seqno::MAX && self.ends.iter().all(&mut is_next)
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads what [`hex`] wrote.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipment() -> Shipment {
        let piece = |first, last| Piece {
            epoch: 7,
            header: hex(&[1; 64]),
            offset: 64,
            bytes: 10,
            crc32c: 5,
            first,
            last,
            ends: vec![(74, last)],
        };
        Shipment {
            database: "00ff".into(),
            made: 12,
            first: 5,
            last: 20,
            ingests: vec![],
            keyspaces: String::new(),
            pieces: vec![piece(5, 9), piece(10, 20)],
            openings: vec![("000000000000000a".into(), 4)],
        }
    }

    /// The bytes are a format on disk: `docs/formats/backup.md`.
    #[test]
    fn heads_are_read_for_ever() {
        let text = include_str!("../tests/golden/version_1_openings.frames");
        assert_eq!(Shipment::decode_head(text.as_bytes(), 5), Ok((shipment(), text.len())));
        assert_eq!(shipment().encode_head(), text);
        // From before openings were recorded.
        let earlier = Shipment { openings: Vec::new(), ..shipment() };
        let text = include_str!("../tests/golden/version_1.frames");
        assert_eq!(Shipment::decode_head(text.as_bytes(), 5), Ok((earlier, text.len())));
    }

    #[test]
    fn a_head_reads_back_and_no_changed_byte_passes() {
        let text = shipment().encode_head();
        let head = text.clone().into_bytes();
        let with_frames = [&head[..], b"frames"].concat();
        assert_eq!(Shipment::decode_head(&with_frames, 5), Ok((shipment(), head.len())));
        for at in 0..head.len() {
            let mut bytes = with_frames.clone();
            bytes[at] ^= 1;
            assert!(Shipment::decode_head(&bytes, 5).is_err(), "byte {at}");
            assert!(Shipment::decode_head(&head[..at], 5).is_err(), "truncated at {at}");
        }
    }

    #[test]
    fn writes_that_do_not_follow_each_other_are_refused() {
        assert!(Shipment::decode_head(shipment().encode_head().as_bytes(), 6).is_err());
        let change: [fn(&mut Shipment); 7] = [
            |bad| bad.pieces[1].first = 11,
            |bad| bad.last = 21,
            |bad| drop(bad.pieces.pop()),
            |bad| bad.pieces[1].bytes = u64::MAX,
            |bad| bad.pieces[0].ends[0].0 = 75,
            |bad| bad.pieces[0].ends[0].1 = 10,
            |bad| bad.pieces[0].ends.push((74, 9)),
        ];
        for change in change {
            let mut bad = shipment();
            change(&mut bad);
            assert!(Shipment::decode_head(bad.encode_head().as_bytes(), 5).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn hexadecimal_digits_read_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!([unhex("0"), unhex("0x"), unhex("é")], [None, None, None]);
    }
}
