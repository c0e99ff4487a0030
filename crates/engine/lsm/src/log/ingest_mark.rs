//! What the log has of an ingest: a batch of one entry that deletes an empty range, and so nothing.
//!
//! Tables bypass the log. Their seqno is that of the mark, and the mark names their keyspaces.

use esker_api::WriteBatch;
use esker_base::coding::{put_varint64, take_varint32};
use esker_base::{Entry, KeyspaceId, Kind};
use std::ops::Bound;

/// What the mark of an ingest says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum IngestMark {
    /// It was into these keyspaces.
    Into(Vec<KeyspaceId>),
    /// It was into more keyspaces than a mark names.
    IntoMany,
}

/// A mark names so many keyspaces. So it fits a segment of any size.
const NAMED_MOST: usize = 100;

/// The end of the range of a mark, whose start is not before it.
const END: &[u8] = &[0];

/// The start if not all keyspaces are named.
const MANY: &[u8] = &[1];

impl IngestMark {
    /// That of a batch of `count` entries, of which `first` is the first. `None` if the batch is another. Users
    /// delete no empty range.
    pub(crate) fn of(first: &Entry<'_>, count: u32) -> Option<IngestMark> {
        let is_empty = first.kind == Kind::RangeDelete && first.key >= first.value;
        if !is_empty || count != 1 {
            return None;
        }
        if first.key == MANY {
            return Some(IngestMark::IntoMany);
        }
        // Of older marks, the first byte is all there is. They name one of the keyspaces.
        let mut rest = first.key.get(1..).unwrap_or_default();
        let others = std::iter::from_fn(|| take_varint32(&mut rest).map(KeyspaceId));
        Some(IngestMark::Into(std::iter::once(first.keyspace).chain(others).collect()))
    }
}

/// A batch of one entry that changes nothing: it deletes an empty range of the first of `keyspaces`. The start of
/// the range has a byte 0 and the IDs of the others as varints, or [`MANY`].
pub(crate) fn batch_of(keyspaces: &[KeyspaceId]) -> WriteBatch {
    let (first, others) = keyspaces.split_first().expect("an ingest is into some keyspace");
    let mut start = END.to_vec();
    if others.len() < NAMED_MOST {
        others.iter().for_each(|other| put_varint64(&mut start, other.0.into()));
    } else {
        start = MANY.to_vec();
    }
    let mut mark = WriteBatch::new();
    mark.delete_range(*first, (Bound::Included(&start[..]), Bound::Excluded(END)));
    mark
}
