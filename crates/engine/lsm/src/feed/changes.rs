//! The reader of a change feed.

use super::batch::{ChangeBatch, ChangeEvent, KeyspaceNames};
use super::frames::{self, Chunk, Cursor, Source};
use crate::engine::Engine;
use crate::reserved::is_reserved;
use esker_base::{ChangesError, Error, Result, Seqno};
use std::sync::Arc;
use std::time::Duration;

/// How long a reader that has caught up pauses before it looks again. A writer wakes it only if nothing was
/// written for that long, so that a steady writer pays for no wake-ups.
const PAUSE: Duration = Duration::from_millis(1);

/// The longest wait without a look.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// A feed of the committed changes of a database, in the order of their sequence numbers.
///
/// [`Db::changes`](crate::Db::changes) starts one, and [`ChangeConsumer`](crate::ChangeConsumer) has one
/// that goes on where it stopped, also after a restart.
///
/// * Each batch is yielded once, whole, and only after it is visible to readers. With
///   [`SyncPolicy::Always`](crate::SyncPolicy::Always) and in a pool it is durable then. With other
///   policies a power failure may take back batches that were yielded:
///   [`Changes::synced_only`] leaves them until they are durable.
/// * Sequence numbers have no gap. If the logs that a reader needs are gone, it fails with
///   [`ChangesError::Gone`]; it never skips a batch.
/// * What bypasses the log is an event of its own: see [`ChangeEvent`].
///
/// A feed does not keep the database open.
pub struct Changes {
    engine: Arc<Engine>,
    consumer: Option<Arc<str>>,
    /// The first seqno that was not yielded.
    next: Seqno,
    /// The first seqno that was not read from a chunk, and the same for what was copied to chunks.
    read_next: Seqno,
    copied_next: Seqno,
    synced_only: bool,
    chunk: Option<Chunk>,
    cursor: Option<Cursor>,
    /// The frames of a batch whose last frame was not read yet.
    part: Option<Part>,
    /// A batch that was read and comes next, unless an event comes before it.
    ready: Option<ChangeBatch>,
    names: Arc<KeyspaceNames>,
    /// The number of the next event of keyspaces.
    event: u64,
    unknown: Option<Seqno>,
}

/// A batch of several frames, as far as it was read.
struct Part {
    first_seqno: Seqno,
    count: u32,
    entries: Vec<u8>,
    /// Whether its first frames are missing.
    lacks_start: bool,
}

impl Changes {
    /// A feed from the seqno `from` on.
    pub(crate) fn new(
        engine: Arc<Engine>,
        from: Seqno,
        consumer: Option<Arc<str>>,
    ) -> Result<Changes> {
        engine.tree.check_usable()?;
        frames::refuse_follower(&engine, "changes")?;
        let (from, last) = (from.max(1), engine.commit.visible());
        if from > last + 1 {
            return Err(ChangesError::NotYet { wanted: from, last }.into());
        }
        let (event, known_from) = engine.history.position_after(from - 1);
        let mut names = KeyspaceNames::new();
        engine.history.for_each(|event| {
            names.insert(event.keyspace, event.name.as_str().into());
        });
        // After the history: what is created from now on is an event that is still to come.
        let version = engine.tree.view.load().version.clone();
        names.extend(version.keyspaces.values().map(|it| (it.id, it.name.as_str().into())));
        Ok(Changes {
            consumer,
            next: from,
            read_next: from,
            copied_next: from,
            synced_only: false,
            chunk: None,
            cursor: None,
            part: None,
            ready: None,
            names: Arc::new(names),
            event,
            unknown: (from <= known_from).then_some(known_from),
            engine,
        })
    }

    /// Yields batches only once they survive power loss by the log alone.
    ///
    /// With [`SyncPolicy::Os`](crate::SyncPolicy::Os) that is after [`Db::sync`](crate::Db::sync), a
    /// batch that asks for it, or the flush of the batch.
    #[must_use]
    pub fn synced_only(mut self) -> Self {
        self.synced_only = true;
        self
    }

    /// Returns the sequence number that the next batch starts with.
    pub fn next_seqno(&self) -> Seqno {
        self.next
    }

    /// Returns the next event, or `None` if there is none at present.
    ///
    /// # Errors
    /// * [`Error::Changes`] if the logs with the next batch are gone.
    /// * [`Error::Corruption`] if a log is damaged, [`Error::Io`] if it cannot be read.
    /// * [`Error::Closed`] once the database is closed, [`Error::Forked`] in a forked child.
    pub fn try_next(&mut self) -> Result<Option<ChangeEvent>> {
        self.engine.tree.check_usable()?;
        if let Some(through) = self.unknown.take() {
            return Ok(Some(ChangeEvent::KeyspacesUnknown { through }));
        }
        while self.ready.is_none() {
            self.ready = self.read_batch()?;
            if self.ready.is_none() && !self.copy_chunk()? {
                break;
            }
        }
        if let Some(event) = self.next_keyspace_event() {
            return Ok(Some(event));
        }
        let Some(batch) = self.ready.take() else { return Ok(None) };
        self.next = batch.last_seqno() + 1;
        Ok(Some(match batch.ingested() {
            None => ChangeEvent::Batch(batch),
            Some(keyspaces) => ChangeEvent::Ingested { seqno: batch.last_seqno(), keyspaces },
        }))
    }

    /// Waits for the next event, for `timeout` at most. Returns `None` if there was none until then.
    ///
    /// # Errors
    /// The errors of [`Changes::try_next`], and [`Error::LogFailed`] once all is yielded and the log
    /// failed.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<ChangeEvent>> {
        let deadline = self.engine.tree.clock.now().saturating_add(timeout);
        let mut has_paused = false;
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(Some(event));
            }
            if let Some(cause) = self.engine.commit.failure() {
                return Err(Error::LogFailed { cause: Arc::new(cause) });
            }
            let left = deadline.saturating_sub(self.engine.tree.clock.now());
            if left.is_zero() || self.engine.tree.read_only {
                return Ok(None);
            }
            if has_paused {
                let is_due = || {
                    self.limit() >= self.copied_next
                        || self.engine.history.count() > self.event
                        || self.engine.commit.failure().is_some()
                        || self.engine.tree.check_usable().is_err()
                };
                self.engine.commit.signal.wait(left.min(WAIT_MAX), is_due);
            } else {
                self.engine.tree.clock.sleep(left.min(PAUSE));
                has_paused = true;
            }
        }
    }

    /// The last seqno that may be yielded.
    fn limit(&self) -> Seqno {
        let commit = &self.engine.commit;
        let visible = commit.visible();
        let visible = visible.min(self.engine.history.held_at());
        if self.synced_only { visible.min(commit.synced()) } else { visible }
    }

    /// The next event of keyspaces, if its place is before the next batch.
    fn next_keyspace_event(&mut self) -> Option<ChangeEvent> {
        while self.event < self.engine.history.count() {
            let (number, event) = self.engine.history.event(self.event)?;
            if number > self.event {
                // Some of them were forgotten meanwhile.
                self.event = number;
                return Some(ChangeEvent::KeyspacesUnknown { through: event.at });
            }
            if event.at >= self.next {
                return None;
            }
            self.event += 1;
            let name: Arc<str> = event.name.into();
            Arc::make_mut(&mut self.names).insert(event.keyspace, name.clone());
            if let Some(batch) = &mut self.ready {
                batch.names = self.names.clone();
            }
            if is_reserved(&name) {
                continue;
            }
            let (at, keyspace) = (event.at, event.keyspace);
            return Some(match event.created {
                Some(settings) => ChangeEvent::KeyspaceCreated { at, keyspace, name, settings },
                None => ChangeEvent::KeyspaceDropped { at, keyspace, name },
            });
        }
        None
    }

    /// Reads the next batch from the chunk. `None`: the chunk is empty.
    fn read_batch(&mut self) -> Result<Option<ChangeBatch>> {
        while let Some(chunk) = &mut self.chunk {
            let frame = match chunk.next_frame(self.read_next) {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    self.chunk = None;
                    break;
                }
                Err(_) if chunk.is_gone(&self.engine) => {
                    let consumer = self.consumer.as_deref();
                    return Err(frames::gone(&self.engine, consumer, self.read_next));
                }
                Err(error) => return Err(error),
            };
            self.read_next = frame.first_seqno + u64::from(frame.count);
            let bytes = chunk.bytes.clone();
            if let Some(part) = &mut self.part {
                part.count += frame.count;
                part.entries.extend_from_slice(&bytes[frame.entries.clone()]);
            } else if frame.continues {
                let entries = bytes[frame.entries.clone()].to_vec();
                let (first_seqno, count, lacks_start) = (frame.first_seqno, frame.count, false);
                self.part = Some(Part { first_seqno, count, entries, lacks_start });
            }
            if frame.continues || self.leaves_out()? {
                continue;
            }
            let (names, keys) = (self.names.clone(), self.engine.tree.keys);
            let batch = match self.part.take() {
                Some(Part { first_seqno, count, entries, .. }) => {
                    let range = 0..entries.len();
                    let bytes = Arc::new(entries);
                    ChangeBatch { first_seqno, count, bytes, entries: range, names, keys }
                }
                None => {
                    let (first_seqno, count, entries) =
                        (frame.first_seqno, frame.count, frame.entries);
                    ChangeBatch { first_seqno, count, bytes, entries, names, keys }
                }
            };
            return Ok(Some(batch));
        }
        Ok(None)
    }

    /// Whether the batch that was just read to its end is before what is wanted. Fails if it is wanted and its
    /// start is missing.
    fn leaves_out(&mut self) -> Result<bool> {
        let is_before = self.read_next <= self.next;
        let lacks_start = self.part.as_ref().is_some_and(|part| part.lacks_start);
        if lacks_start && !is_before {
            let (wanted, next) = (self.next, self.read_next);
            return Err(ChangesError::InsideBatch { wanted, next }.into());
        }
        if is_before {
            self.part = None;
        }
        Ok(is_before)
    }

    /// Copies the next chunk, unless all that may be yielded was copied.
    fn copy_chunk(&mut self) -> Result<bool> {
        let limit = self.limit();
        if self.copied_next > limit {
            return Ok(false);
        }
        // A flush may come between the look at the MemTables and the one at the manifest.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let Some(source) = Source::of(&self.engine, self.copied_next)? else { continue };
            match self.copy_from(&source, limit) {
                Err(_) if source.is_gone(&self.engine) => break,
                copied => return copied.map(|()| true),
            }
        }
        Err(frames::gone(&self.engine, self.consumer.as_deref(), self.copied_next))
    }

    fn copy_from(&mut self, source: &Source, limit: Seqno) -> Result<()> {
        let is_there = self.cursor.as_ref().is_some_and(|cursor| cursor.is_in(source));
        if !is_there {
            self.cursor = Some(source.cursor(&self.engine)?);
            let first = source.first_seqno();
            if first < self.copied_next {
                // The start of the feed is somewhere in it.
                (self.copied_next, self.read_next) = (first, first);
                if source.begins_in_batch() {
                    let (count, entries, lacks_start) = (0, Vec::new(), true);
                    self.part = Some(Part { first_seqno: first, count, entries, lacks_start });
                }
            }
        }
        let cursor = self.cursor.as_mut().expect("it was just set");
        let skip_before =
            (self.part.is_none() && self.copied_next < self.next).then_some(self.next);
        let (chunk, skipped) = cursor.chunk(source, limit, skip_before)?;
        self.copied_next += skipped;
        self.read_next += skipped;
        self.copied_next = chunk.next_seqno;
        self.chunk = Some(chunk);
        Ok(())
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (next, consumer) = (self.next, &self.consumer);
        f.debug_struct("Changes")
            .field("next_seqno", &next)
            .field("consumer", consumer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Db, Env, Settings};
    use esker_storage::MemoryStorage;

    /// The file was used again while a chunk was copied.
    #[test]
    fn a_torn_chunk_of_a_log_that_is_gone_is_gone_and_of_one_that_is_kept_is_damage() {
        let env = Env::over(Arc::new(MemoryStorage::new()));
        let db = Db::open_with(env, Settings::default()).unwrap();
        let consumer = db.change_consumer("c", 1 << 30).unwrap();
        (0..9_u8).for_each(|key| db.default_keyspace().put([key], "value").unwrap());
        db.flush().unwrap();
        let torn = || {
            let mut changes = db.changes(1).unwrap();
            changes.try_next().unwrap().unwrap();
            let bytes = &mut changes.chunk.as_mut().unwrap().bytes;
            *Arc::make_mut(bytes).last_mut().unwrap() ^= 1;
            changes
        };
        let error = first_error(torn());
        assert!(matches!(error, Error::Corruption { .. }), "{error}");
        let torn = torn();
        consumer.acknowledge(9).unwrap();
        let error = first_error(torn);
        let Error::Changes(error) = error else { panic!("{error}") };
        assert!(matches!(*error, ChangesError::Gone { wanted: 9, .. }), "{error}");
    }

    fn first_error(mut changes: Changes) -> Error {
        (0..20).find_map(|_| changes.try_next().err()).expect("the chunk is torn")
    }
}
