//! The log as it is, for copies that are kept elsewhere: frames of one segment in a row, checked.
//!
//! Unlike `changes`, which yields batches, this yields the bytes of log segments. Next to the tables of a
//! copy they are the log that a recovery reads: see [`LogSegments`](crate::LogSegments).

use super::frames::{self, Cursor, LogPiece, Source};
use crate::engine::Engine;
use crate::manifest::feed_changes::{FeedChange, KeyspaceEvent};
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::reserved::is_reserved;
use crate::version::{KeyspaceVersion, Version};
use esker_base::{ChangesError, Result, Seqno};
use std::sync::Arc;
use std::time::Duration;

/// The pieces of the log of an open database that survive a power loss, in order.
pub struct LogPieces {
    engine: Arc<Engine>,
    next: Seqno,
    /// The last seqno that may be returned.
    through: Seqno,
    cursor: Option<Cursor>,
    /// The number of the next event of keyspaces.
    event: u64,
    /// Whether all of them since the start are known.
    knows_keyspaces: bool,
    /// The settings of keyspaces that were returned last, and the edit of the manifest by then.
    settings: Vec<u8>,
    settings_as_of: Option<u64>,
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
        let (event, known_from) = engine.history.position_after(from - 1);
        let knows_keyspaces = known_from < from;
        let (cursor, settings, settings_as_of) = (None, Vec::new(), None);
        Ok(LogPieces {
            engine,
            next: from,
            through: Seqno::MAX,
            cursor,
            event,
            knows_keyspaces,
            settings,
            settings_as_of,
        })
    }

    /// Returns no piece beyond the write `through`, with which a batch ends, of logs that are not flushed.
    #[must_use]
    pub fn through(mut self, through: Seqno) -> Self {
        self.through = through;
        self
    }

    /// Returns the settings of keyspaces that can be changed, encoded for
    /// [`Replica::take_settings`](crate::Replica::take_settings), or `None` if they are as at the last call.
    ///
    /// # Errors
    /// [`Error::Closed`](esker_base::Error::Closed) and [`Error::Forked`](esker_base::Error::Forked) as for every
    /// call.
    pub fn settings(&mut self) -> Result<Option<Vec<u8>>> {
        let tree = &self.engine.tree;
        tree.check_usable()?;
        let edits = tree.installer.edits();
        if self.settings_as_of == Some(edits) {
            return Ok(None);
        }
        let settings = settings_of(&tree.view.load().version);
        let is_first = self.settings_as_of.replace(edits).is_none();
        let is_new = is_first || settings != self.settings;
        self.settings.clone_from(&settings);
        Ok(is_new.then_some(settings))
    }

    /// Returns the keyspaces that were created and dropped since the last call, encoded for
    /// [`Replica::take_events`](crate::Replica::take_events). They come before the next piece.
    ///
    /// Those before the last piece that was returned are among them, and later ones may be.
    ///
    /// # Errors
    /// [`ChangesError::Gone`] if some of them are forgotten; [`Error::Closed`](esker_base::Error::Closed) and
    /// [`Error::Forked`](esker_base::Error::Forked) as for every call.
    pub fn keyspace_events(&mut self) -> Result<Vec<u8>> {
        self.engine.tree.check_usable()?;
        let mut changes = Vec::new();
        while self.knows_keyspaces && self.event < self.engine.history.count() {
            let Some((number, event)) = self.engine.history.event(self.event) else { break };
            self.knows_keyspaces = number == self.event;
            self.event += 1;
            changes.push(VersionChange::Feed(FeedChange::Keyspace(event)));
        }
        match self.knows_keyspaces {
            true => Ok(VersionEdit::of(changes).encode()),
            false => Err(frames::gone(&self.engine, None, self.next)),
        }
    }

    /// Waits until there may be another piece or another keyspace, for `timeout` at most.
    pub fn wait(&self, timeout: Duration) {
        let Engine { commit, history, tree, .. } = &*self.engine;
        if commit.failure().is_some() {
            return tree.clock.sleep(timeout);
        }
        commit.signal.wait(timeout, || {
            commit.visible() >= self.next
                || history.count() > self.event
                || commit.failure().is_some()
                || tree.check_usable().is_err()
        });
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
        let visible = commit.visible().min(self.engine.history.held_at());
        let limit = visible.min(commit.synced()).min(self.through);
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

/// The settings of keyspaces that can be changed, as an edit of the manifest.
fn settings_of(version: &Version) -> Vec<u8> {
    let of_keyspace = |keyspace: &Arc<KeyspaceVersion>| {
        let (id, settings, changed) = (keyspace.id, keyspace.settings, keyspace.changed);
        let change = VersionChange::ChangeSettings { id, settings, changed };
        let ttl = keyspace.aging.map(|aging| VersionChange::Ttl {
            keyspace: id,
            millis: aging.millis,
            zeroed_as: aging.zeroed_as,
        });
        std::iter::once(change).chain(ttl)
    };
    let keyspaces = version.keyspaces.values().filter(|keyspace| !is_reserved(&keyspace.name));
    VersionEdit::of(keyspaces.flat_map(of_keyspace)).encode()
}
