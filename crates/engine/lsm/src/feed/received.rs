//! Checks frames that another process sent, before anything of them is applied.

use crate::manifest::feed_changes::{FeedChange, KeyspaceEvent};
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use esker_base::stored_key::MAX_STORED_KEY_BYTES;
use esker_base::{Entry, Kind, Seqno};
use esker_memtable::{FRAME_HEADER_BYTES, SegmentHeader, frame_at};
use std::ops::Range;

/// A frame that can be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReceivedFrame {
    pub(crate) first_seqno: Seqno,
    pub(crate) count: u32,
    /// Whether its batch goes on with the next frame.
    pub(crate) continues: bool,
    /// Where its encoded entries are.
    pub(crate) entries: Range<usize>,
}

/// The frames in `bytes`, which are of a segment with this header. The first starts with the seqno `next`. An error
/// says what is wrong.
///
/// `keyspaces`: ids below this one are in use or were used.
pub(crate) fn frames(
    header: &[u8],
    bytes: &[u8],
    mut next: Seqno,
    keyspaces: u32,
) -> Result<Vec<ReceivedFrame>, String> {
    let header = SegmentHeader::decode(header, "a segment").map_err(|error| error.fact())?;
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        let place = |what: String| format!("byte {at} of its frames: {what}");
        let (info, entries) = frame_at(&bytes[at..], &header).map_err(place)?;
        if info.first_seqno != next {
            let starts = info.first_seqno;
            return Err(place(format!("a frame starts at seqno {starts}, not at {next}")));
        }
        check_entries(entries, keyspaces).map_err(place)?;
        let start = at + FRAME_HEADER_BYTES;
        let entries = start..start + entries.len();
        let (first_seqno, count, continues) = (info.first_seqno, info.count, info.continues);
        found.push(ReceivedFrame { first_seqno, count, continues, entries });
        next = info.next_seqno();
        at += info.bytes as usize;
    }
    Ok(found)
}

fn check_entries(mut entries: &[u8], keyspaces: u32) -> Result<(), String> {
    while !entries.is_empty() {
        let entry = Entry::decode(&mut entries).ok_or("an entry does not decode")?;
        let longest = match entry.kind {
            Kind::RangeDelete => entry.key.len().max(entry.value.len()),
            _ => entry.key.len(),
        };
        if longest > MAX_STORED_KEY_BYTES {
            return Err(format!("a key has {longest} bytes"));
        }
        if entry.keyspace.0 >= keyspaces {
            return Err(format!("no keyspace with id {} was created", entry.keyspace));
        }
        if entry.kind == Kind::RangeDelete && entry.key >= entry.value {
            return Err("there is an ingest, whose entries are not in the log".to_owned());
        }
    }
    Ok(())
}

/// The keyspaces that were created and dropped, of an encoded edit of a manifest.
pub(crate) fn events(edit: &[u8]) -> Result<Vec<KeyspaceEvent>, String> {
    let changes = VersionEdit::decode(edit)?.changes.into_iter();
    let event = |change| match change {
        VersionChange::Feed(FeedChange::Keyspace(event)) => Ok(event),
        _ => Err("an edit has more than keyspaces".to_owned()),
    };
    changes.map(event).collect()
}

/// The settings of keyspaces that can be changed, of an encoded edit of a manifest.
pub(crate) fn settings(edit: &[u8]) -> Result<Vec<VersionChange>, String> {
    let changes = VersionEdit::decode(edit)?.changes;
    let is_one = |change: &VersionChange| match change {
        VersionChange::ChangeSettings { settings, .. } => settings.validate().is_ok(),
        VersionChange::Ttl { .. } => true,
        _ => false,
    };
    match changes.iter().all(is_one) {
        true => Ok(changes),
        false => Err("an edit has more than settings, or invalid ones".to_owned()),
    }
}

/// For fuzzing: what arrives at one that follows.
#[doc(hidden)]
pub fn fuzz_received(header: &[u8], bytes: &[u8]) {
    let next = bytes.get(16..24).and_then(|it| it.try_into().ok()).map_or(1, u64::from_le_bytes);
    if let Ok(found) = frames(header, bytes, next, 16) {
        let mut expected = next;
        for frame in found {
            assert!(frame.first_seqno == expected && frame.entries.end <= bytes.len());
            expected += u64::from(frame.count);
        }
    }
    let _ = (events(bytes), settings(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_api::WriteBatch;
    use esker_base::KeyspaceId;
    use esker_memtable::{FrameMode, HeapMemory, MemTable};
    use std::ops::Bound;

    const HEADER: SegmentHeader = SegmentHeader {
        epoch: 5,
        capacity: 64 << 10,
        alignment: 8,
        key_id: 0,
        salt: 1 << 63 | 9,
        flags: 0,
    };

    /// The frames of `batches`, from the seqno 10 on.
    fn log(batches: &[WriteBatch]) -> Vec<u8> {
        let memory = HeapMemory::new(HEADER.capacity as usize);
        let memtable = MemTable::new(memory, HEADER, FrameMode::Logged);
        let mut writer = memtable.activate(10);
        let start = memtable.start();
        for batch in batches {
            let (bytes, count) = (batch.encoded().len(), batch.len() as u32);
            let reserved = memtable.reserve(&mut writer, bytes, count).unwrap();
            memtable.insert(&memtable.fill(reserved, 0, batch.encoded()).fence());
        }
        memtable.bytes(start, memtable.completed(start)).to_vec()
    }

    fn put(keyspace: u32) -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(KeyspaceId(keyspace), b"key", b"value");
        batch.delete(KeyspaceId(0), b"other");
        batch
    }

    #[test]
    fn whole_frames_in_a_row_are_accepted() {
        let bytes = log(&[put(0), put(1)]);
        let found = frames(&HEADER.encode(), &bytes, 10, 2).unwrap();
        let seqnos: Vec<_> = found.iter().map(|frame| (frame.first_seqno, frame.count)).collect();
        assert_eq!(seqnos, [(10, 2), (12, 2)]);
        assert_eq!(&bytes[found[1].entries.clone()], put(1).encoded());
    }

    #[test]
    fn every_changed_or_missing_byte_is_refused() {
        let (header, bytes) = (HEADER.encode(), log(&[put(0), put(1)]));
        let accepts = |header: &[u8], bytes: &[u8]| frames(header, bytes, 10, 2).is_ok();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(!accepts(&header, &bad), "byte {at}");
            let is_whole = at == 0 || at == bytes.len() / 2;
            assert_eq!(accepts(&header, &bytes[..at]), is_whole, "truncated at {at}");
        }
        for at in 0..header.len() {
            let mut bad = header;
            bad[at] ^= 1;
            assert!(!accepts(&bad, &bytes), "byte {at} of the header");
            assert!(!accepts(&header[..at], &bytes));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let header = HEADER.encode();
        let refused = |batch: WriteBatch, next, keyspaces| {
            frames(&header, &log(&[batch]), next, keyspaces).unwrap_err()
        };
        assert!(refused(put(0), 11, 2).contains("starts at seqno 10, not at 11"));
        assert!(refused(put(2), 10, 2).contains("no keyspace with id 2"));
        let mut mark = WriteBatch::new();
        let empty = (Bound::Included(&[0][..]), Bound::Excluded(&[0][..]));
        mark.delete_range(KeyspaceId(0), empty);
        assert!(refused(mark, 10, 2).contains("an ingest"));
        let mut long = WriteBatch::new();
        long.put(KeyspaceId(0), vec![1; MAX_STORED_KEY_BYTES + 1], b"");
        let long = {
            let header = SegmentHeader { capacity: 1 << 20, ..HEADER };
            let memory = HeapMemory::new(header.capacity as usize);
            let memtable = MemTable::new(memory, header, FrameMode::Logged);
            let mut writer = memtable.activate(10);
            let start = memtable.start();
            let reserved = memtable.reserve(&mut writer, long.encoded().len(), 1).unwrap();
            memtable.insert(&memtable.fill(reserved, 0, long.encoded()).fence());
            let bytes = memtable.bytes(start, memtable.completed(start)).to_vec();
            frames(&header.encode(), &bytes, 10, 2).unwrap_err()
        };
        assert!(long.contains("a key has"), "{long}");
    }

    #[test]
    fn an_edit_may_have_keyspaces_only() {
        let other = VersionEdit::of([VersionChange::RemoveLog(4)]).encode();
        assert!(events(&other).unwrap_err().contains("more than keyspaces"));
        assert!(events(&[200]).is_err() && events(&[]).unwrap().is_empty());
    }
}
