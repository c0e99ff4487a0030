//! A database to which the writes of another one are applied.

use super::Db;
use crate::engine::Engine;
use crate::feed::keyspace_notes::KeyspaceNotes;
use crate::feed::received::{self, ReceivedFrame};
use crate::history::lineage::{self, Lineage, Origin};
use crate::manifest::feed_changes::KeyspaceEvent;
use crate::manifest::manifest_state::ManifestState;
use crate::manifest::version_edit::{VersionChange, VersionEdit};
use crate::options::settings::{Log, Settings};
use crate::recovery::env::{Env, posix_env};
use crate::recovery::open::{self, CreateMode, existing_directory};
use crate::stats::cumulative::CumulativeStats;
use esker_api::WriteBatch;
use esker_base::{ChangesError, Entry, Error, Kind, Result, Seqno};
use esker_memtable::MemTable;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

/// The most keyspaces that wait for the write after which they are created or dropped.
const EVENTS_MAX: usize = 1 << 16;

/// About how many bytes of small batches are written at once.
const GROUP_BYTES: usize = 256 << 10;

impl Db {
    /// Returns the openings of the database for writing, for copies that go on from where they are. From the first
    /// call on, they are noted in the database.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Closed`], [`Error::Forked`] if the handle cannot write; [`Error::Io`] if the
    /// file cannot be read or written.
    pub fn lineage(&self) -> Result<Lineage> {
        let inner = self.upkeep()?;
        inner.check_writable()?;
        inner.lineage()
    }
}

impl Engine {
    /// The openings of the database for writing, which are noted from now on.
    pub(crate) fn lineage(&self) -> Result<Lineage> {
        let identity = self.tree.installer.identity();
        let (chance, visible) = (self.salt ^ identity, self.commit.visible());
        lineage::lineage(&*self.tree.storage, identity, chance, visible)
    }
}

/// A database that follows another one: its writes are applied here, with their sequence numbers, and nothing else
/// is written.
///
/// It is a copy of the other database, such as [`LiveFiles`](crate::LiveFiles) are, with an [`Origin`] next to its
/// files. [`promote`](crate::promote) makes it a database of its own.
pub struct Replica {
    db: Db,
    origin: Origin,
    /// Keyspaces that are created or dropped after writes that are still to come.
    events: VecDeque<KeyspaceEvent>,
    /// The settings of keyspaces of the other database, which hold for keyspaces that are created here later, too.
    settings: Vec<VersionChange>,
    /// The entries of a batch of several frames whose last frame is still to come.
    part: Option<WriteBatch>,
}

impl Replica {
    /// Opens the database in `dir`, which follows another one.
    ///
    /// # Errors
    /// * [`ChangesError::NoCopy`] if it follows none, as after it was promoted.
    /// * [`Error::InvalidSetting`] if the settings put the log elsewhere, or have none.
    /// * The errors of [`Db::open_existing`].
    pub fn open(dir: impl AsRef<Path>, settings: Settings) -> Result<Replica> {
        settings.validate()?;
        check_log(&settings)?;
        let storage = existing_directory(dir.as_ref())?.with_direct_reads(settings.direct_reads);
        Replica::open_with(posix_env(Arc::new(storage), &settings, true)?, settings)
    }

    /// Opens a database that follows another one with a custom [`Env`].
    ///
    /// # Errors
    /// The errors of [`Replica::open`].
    pub fn open_with(env: Env, settings: Settings) -> Result<Replica> {
        settings.validate()?;
        check_log(&settings)?;
        let handle = open::open(env, settings, CreateMode::Replica)?;
        let db = Db { handle };
        let origin = Origin::read(&*db.inner().tree.storage)?;
        let dir = || db.inner().tree.storage.describe();
        let origin = origin.ok_or_else(|| ChangesError::NoCopy { dir: dir() })?;
        Ok(Replica { db, origin, events: VecDeque::new(), settings: Vec::new(), part: None })
    }

    /// Returns the database, for reading.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns what it follows.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the sequence number of the last write that was applied.
    pub fn applied(&self) -> Seqno {
        self.db.inner().visible()
    }

    /// Goes on with what the original says from now on: all that was applied is a part of the history of `origin`. Drops
    /// what was received in part.
    ///
    /// # Errors
    /// [`Error::Io`] if that cannot be noted durably.
    pub fn go_on(&mut self, origin: Origin) -> Result<()> {
        self.events.clear();
        self.part = None;
        if self.origin != origin {
            origin.write(&*self.db.upkeep()?.tree.storage)?;
            self.origin = origin;
        }
        Ok(())
    }

    /// Takes keyspaces that were created and dropped, as [`LogPieces::keyspace_events`](crate::LogPieces::keyspace_events)
    /// returned them. They come before the frames that are applied next.
    ///
    /// # Errors
    /// [`ChangesError::Misfit`] if the edit is malformed; [`Error::Io`] if the manifest cannot be written.
    pub fn take_events(&mut self, edit: &[u8]) -> Result<()> {
        let events = received::events(edit).map_err(|what| self.misfit(what))?;
        self.events.extend(events);
        self.apply_events(self.applied() + 1)?;
        match self.events.len() > EVENTS_MAX {
            true => Err(self.misfit(format!("more than {EVENTS_MAX} keyspaces wait for a write"))),
            false => Ok(()),
        }
    }

    /// Takes the settings of keyspaces that can be changed, as [`LogPieces::settings`](crate::LogPieces::settings)
    /// returned them.
    ///
    /// # Errors
    /// [`ChangesError::Misfit`] if the edit is malformed; [`Error::Io`] if the manifest cannot be written.
    pub fn take_settings(&mut self, edit: &[u8]) -> Result<()> {
        self.settings = received::settings(edit).map_err(|what| self.misfit(what))?;
        self.apply_settings()
    }

    /// Applies frames: those of a [`LogPiece`](crate::LogPiece), which start with the first sequence number that was
    /// not applied. `header` is that of their segment. Returns the last sequence number that is applied then.
    ///
    /// All of them are checked first. Small batches become visible together. What is applied is as durable as a write.
    ///
    /// # Errors
    /// * [`ChangesError::Misfit`] if the frames are damaged or others are missing before them. Then none was applied.
    /// * [`ChangesError::Misfit`] if a keyspace that was created between them does not fit. Then the frames before its
    ///   creation were applied.
    /// * [`Error::BatchTooLarge`] if a batch is too large for these settings; the errors of a write.
    pub fn apply(&mut self, header: &[u8], frames: &[u8]) -> Result<Seqno> {
        let received = self.part.as_ref().map_or(0, |part| part.len() as u64);
        let next = self.applied() + 1 + received;
        let created = self.events.iter().map(|event| event.keyspace.0 + 1).max();
        let known = self.db.inner().tree.installer.next_keyspace();
        let keyspaces = created.map_or(known, |created| known.max(created));
        let checked = received::frames(header, frames, next, keyspaces);
        let checked = checked.map_err(|what| self.misfit(what))?;
        let mut group = WriteBatch::new();
        for frame in &checked {
            self.add(frame, &frames[frame.entries.clone()], &mut group)?;
        }
        self.write(&mut group)?;
        self.apply_events(self.applied() + 1)?;
        Ok(self.applied())
    }

    /// Closes the database.
    ///
    /// # Errors
    /// The errors of [`Db::close`].
    pub fn close(self) -> Result<()> {
        self.db.close()
    }

    /// Adds a frame to the group, or to the part of its batch.
    fn add(&mut self, frame: &ReceivedFrame, entries: &[u8], group: &mut WriteBatch) -> Result<()> {
        if self.part.is_none() {
            // The next batch begins here.
            let comes_before = |event: &KeyspaceEvent| event.at < frame.first_seqno;
            if self.events.front().is_some_and(comes_before) {
                self.write(group)?;
                self.apply_events(frame.first_seqno)?;
            }
            if !self.takes(group, entries, frame.count) {
                self.write(group)?;
            }
        }
        if frame.continues || self.part.is_some() {
            self.write(group)?;
            let mut part = self.part.take().unwrap_or_default();
            push(&mut part, entries);
            // A batch that never ends would take more and more memory.
            self.db.inner().check_fits_in_part(&part)?;
            match frame.continues {
                true => self.part = Some(part),
                false => self.write(&mut part)?,
            }
            return Ok(());
        }
        push(group, entries);
        Ok(())
    }

    /// Whether a batch still fits the group, so that both are written as one.
    fn takes(&self, group: &WriteBatch, entries: &[u8], count: u32) -> bool {
        let bytes = group.encoded().len() + entries.len();
        let (segment, count) =
            (self.db.inner().tree.settings.segment_bytes, group.len() as u32 + count);
        // Each has few of them, and its own limit.
        let has_ranges = group.has_range_delete() || has_range_delete(entries);
        group.is_empty()
            || bytes <= GROUP_BYTES && MemTable::batch_fits(segment, bytes, count) && !has_ranges
    }

    /// Writes a batch with stored keys, and empties it.
    fn write(&self, batch: &mut WriteBatch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let inner = self.db.inner();
        inner.write_received(batch)?;
        batch.clear();
        Ok(())
    }

    /// Creates and drops the keyspaces that come before the write `next`.
    fn apply_events(&mut self, next: Seqno) -> Result<()> {
        while let Some(event) = self.events.front().filter(|event| event.at < next) {
            apply_event(self.db.inner(), event).map_err(|error| match error {
                Applied::Misfit(what) => self.misfit(what),
                Applied::Failed(error) => error,
            })?;
            let is_new = event.created.is_some();
            self.events.pop_front();
            if is_new {
                self.apply_settings()?;
            }
        }
        Ok(())
    }

    /// Changes settings that differ.
    fn apply_settings(&self) -> Result<()> {
        let inner = self.db.upkeep()?;
        let differ = |state: &ManifestState| {
            let changes = self.settings.iter();
            changes
                .filter_map(|change| differing(state, change, self.applied()))
                .collect::<Vec<_>>()
        };
        if differ(&inner.tree.installer.state()).is_empty() {
            return Ok(());
        }
        inner.tree.installer.install(
            &inner.tree.view,
            |state| Ok(VersionEdit::of(differ(state))),
            |_| {},
        )
    }

    fn misfit(&self, what: String) -> Error {
        let source_name = format!("the database {:016x}", self.origin.database);
        ChangesError::Misfit { source_name, what }.into()
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let applied = self.applied();
        f.debug_struct("Replica")
            .field("origin", &self.origin)
            .field("applied", &applied)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Writes a batch that another database has written, with stored keys and the entries of its indexes.
    fn write_received(&self, batch: &WriteBatch) -> Result<()> {
        // A replica is written to by this call only.
        self.begin_upkeep()?;
        self.check_fits(batch)?;
        if batch.has_ttl() {
            self.tree.expect_expiring()?;
        }
        self.stall.before_write(batch.encoded().len(), &*self.tree.clock);
        self.write_own(batch).map(|_| ())
    }
}

enum Applied {
    Misfit(String),
    Failed(Error),
}

impl From<Error> for Applied {
    fn from(error: Error) -> Self {
        Applied::Failed(error)
    }
}

/// Creates or drops a keyspace, unless that was done before.
fn apply_event(engine: &Engine, event: &KeyspaceEvent) -> Result<(), Applied> {
    let inner = engine.begin_upkeep()?;
    let KeyspaceEvent { keyspace: id, name, created, .. } = event;
    let notes = KeyspaceNotes::of(&inner);
    let version = inner.tree.view.load().version.clone();
    match created {
        Some(_) if id.0 < inner.tree.installer.next_keyspace() => {
            // It was created before, and may be dropped by now.
            let known = version.keyspaces.get(id).map(|keyspace| keyspace.name.to_string());
            return match known.filter(|known| known != name) {
                None => Ok(()),
                Some(known) => Err(Applied::Misfit(format!(
                    "keyspace {} is called {known:?} here, and {name:?} there",
                    id.0
                ))),
            };
        }
        Some(_) if version.keyspace_named(name).is_some() => {
            return Err(Applied::Misfit(format!("keyspace {name:?} was created, and exists")));
        }
        Some(settings) => {
            settings.validate()?;
            // Before it can be written to.
            settings.compaction_filter.iter().for_each(|_| inner.tree.filters.expect(*id));
            inner.tree.installer.install(
                &inner.tree.view,
                |state| {
                    let create = VersionEdit::of(VersionChange::create(*id, name, *settings));
                    Ok(notes.add_to(state, create))
                },
                |_| notes.publish(),
            )?;
        }
        None if !version.keyspaces.contains_key(id) => return Ok(()),
        None => {
            drop(version);
            inner.tree.install(
                CumulativeStats::default(),
                |state| {
                    let drop = VersionEdit::of([VersionChange::DropKeyspace(*id)]);
                    Ok(notes.add_to(state, drop))
                },
                |_| notes.publish(),
            )?;
            if let Some(dram_table) = &inner.tree.dram_table {
                dram_table.drop_keyspace(*id);
            }
        }
    }
    Ok(())
}

/// The change, if its keyspace is there and it changes anything. `now`: the last write.
fn differing(state: &ManifestState, change: &VersionChange, now: Seqno) -> Option<VersionChange> {
    let of = |id| state.version.keyspaces.get(id);
    match change {
        VersionChange::ChangeSettings { id, settings, changed } => {
            let found = of(id)?;
            let settings = settings.with_separate_changes_of(&found.settings);
            let is_same = found.settings == settings && found.changed == *changed;
            let (id, changed) = (*id, *changed);
            (!is_same).then_some(VersionChange::ChangeSettings { id, settings, changed })
        }
        VersionChange::Ttl { keyspace, millis, .. } => {
            let aging = of(keyspace)?.aging;
            // Which entries have lost their seqnos is a matter of this database's own compactions.
            let zeroed_as = aging.map_or(now, |aging| aging.zeroed_as);
            let (keyspace, millis) = (*keyspace, *millis);
            let is_same = aging.is_some_and(|aging| aging.millis == millis);
            (!is_same).then_some(VersionChange::Ttl { keyspace, millis, zeroed_as })
        }
        _ => None,
    }
}

fn push(batch: &mut WriteBatch, mut entries: &[u8]) {
    while let Some(entry) = Entry::decode(&mut entries) {
        batch.push_stored(entry);
    }
}

fn has_range_delete(mut entries: &[u8]) -> bool {
    let mut decoded = std::iter::from_fn(|| Entry::decode(&mut entries));
    decoded.any(|entry| entry.kind == Kind::RangeDelete)
}

/// Fails unless the log is in files next to the tables.
fn check_log(settings: &Settings) -> Result<()> {
    match settings.log {
        Log::File { dir: None, .. } => Ok(()),
        _ => Err(Error::InvalidSetting {
            setting: "log",
            value: format!("{:?}", settings.log),
            reason: "the log of a database that follows another one is in files in its directory"
                .into(),
        }),
    }
}
