//! The log as it is, for copies that are kept elsewhere: frames of one segment in a row, checked.
//!
//! Unlike `changes`, which yields batches, this yields the bytes of log segments. Next to the tables of a
//! copy they are the log that a recovery reads: see [`LogSegments`](crate::LogSegments).

use super::frames::{self, Cursor, LogPiece, Source};
use crate::engine::Engine;
use crate::manifest::feed_changes::{FeedChange, KeyspaceEvent};
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use esker_base::{ChangesError, Result, Seqno};
use std::sync::Arc;

/// The pieces of the log of an open database that survive a power loss, in order.
pub struct LogPieces {
    engine: Arc<Engine>,
    next: Seqno,
    cursor: Option<Cursor>,
}

impl LogPieces {
    /// The pieces from the seqno `from` on, with which a batch starts.
    pub(crate) fn new(engine: Arc<Engine>, from: Seqno) -> Result<LogPieces> {
        engine.tree.check_usable()?;
        frames::refuse_follower(&engine, "the log")?;
        let last = engine.commit.visible();
        if from > last + 1 {
            return Err(ChangesError::NotYet { wanted: from, last }.into());
        }
        Ok(LogPieces { engine, next: from, cursor: None })
    }

    /// Returns the sequence number that the next piece starts with.
    pub fn next_seqno(&self) -> Seqno {
        self.next
    }

    /// Returns the next piece, or `None` if there is none at present. The last one before `None` ends with a batch.
    ///
    /// # Errors
    /// The errors of [`Changes::try_next`](crate::Changes::try_next).
    pub fn try_next(&mut self) -> Result<Option<LogPiece>> {
        let commit = &self.engine.commit;
        let limit = commit.visible().min(commit.synced());
        const TRIES: usize = 3;
        let mut tries = 0;
        while self.next <= limit {
            let Some(source) = Source::of(&self.engine, self.next)? else {
                tries += 1;
                if tries == TRIES {
                    return Err(frames::gone(&self.engine, None, self.next));
                }
                continue;
            };
            let is_there = self.cursor.as_ref().is_some_and(|cursor| cursor.is_in(&source));
            let mut cursor = match self.cursor.take().filter(|_| is_there) {
                Some(cursor) => cursor,
                None => source.cursor(&self.engine)?,
            };
            let skip = (!is_there).then_some(self.next);
            let read = cursor
                .chunk(&source, limit, skip)
                .and_then(|(chunk, _)| chunk.into_piece(source.epoch(), self.next));
            self.cursor = Some(cursor);
            match read {
                Ok(Some(piece)) => {
                    self.next = piece.last_seqno + 1;
                    return Ok(Some(piece));
                }
                // All of it was before.
                Ok(None) => {}
                Err(_) if source.is_gone(&self.engine) => {
                    return Err(frames::gone(&self.engine, None, self.next));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl std::fmt::Debug for LogPieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogPieces").field("next_seqno", &self.next).finish_non_exhaustive()
    }
}

/// The keyspaces that were created and dropped after the writes up to `after`, encoded as an edit of the manifest; and
/// from where on all of them are known.
pub(crate) fn keyspace_events(engine: &Engine, after: Seqno) -> (Vec<u8>, Seqno) {
    let (_, known_from) = engine.history.position_after(after);
    let mut events: Vec<KeyspaceEvent> = Vec::new();
    engine.history.for_each(|event| events.extend((event.at >= after).then(|| event.clone())));
    let changes = events.into_iter().map(|event| VersionChange::Feed(FeedChange::Keyspace(event)));
    (VersionEdit::of(changes).encode(), known_from)
}
