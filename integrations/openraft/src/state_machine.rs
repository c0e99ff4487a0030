//! The state machine and its snapshots.

use crate::SnapshotFile;
use crate::application::{Application, State, Writes, is_full};
use crate::codec;
use crate::dump;
use crate::error::{Error, Result as Outcome};
use crate::shared::{Shared, Snapshots, blocking, meta, remove_if_there, state_name};
use esker::{IndexedBatch, Snapshot as View, WriteBatch};
use openraft::storage::RaftStateMachine;
use openraft::{
    Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, RaftTypeConfig, Snapshot,
    SnapshotMeta, StorageError, StorageIOError, StoredMembership,
};
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

type Meta<C> = SnapshotMeta<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>;
type Membership<C> = StoredMembership<<C as RaftTypeConfig>::NodeId, <C as RaftTypeConfig>::Node>;

/// The state machine of an [`Application`] in a keyspace of the database.
pub struct StateMachine<C, A> {
    shared: Arc<Shared>,
    application: Arc<A>,
    config: PhantomData<C>,
}

/// Builds snapshots of a [`StateMachine`].
pub struct SnapshotBuilder<C> {
    shared: Arc<Shared>,
    config: PhantomData<C>,
}

// Files of the directory of snapshots. Only `CURRENT` outlives a call.
const CURRENT: &str = "current";
const BUILDING: &str = "building";
const INCOMING: &str = "incoming";
const INSTALLING: &str = "installing";
/// What a crash can leave.
pub const UNFINISHED: [&str; 3] = [BUILDING, INCOMING, INSTALLING];

impl<C, A> StateMachine<C, A> {
    pub(crate) fn new(shared: Arc<Shared>, application: A) -> Self {
        StateMachine { shared, application: Arc::new(application), config: PhantomData }
    }

    /// Returns a handle for reads, also after openraft has taken the state machine.
    pub fn state(&self) -> State {
        State { shared: self.shared.clone() }
    }
}

/// openraft drops it when it has failed, too. Then no snapshot is installed any more.
impl<C, A> Drop for StateMachine<C, A> {
    fn drop(&mut self) {
        self.shared.purges.abandon();
    }
}

impl<C, A> RaftStateMachine<C> for StateMachine<C, A>
where
    C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotFile>,
    A: Application<C>,
{
    type SnapshotBuilder = SnapshotBuilder<C>;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<C::NodeId>>, Membership<C>), StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let state = blocking(move || {
            let membership = shared.get(meta::MEMBERSHIP)?.unwrap_or_default();
            Ok((shared.get(meta::APPLIED)?, membership))
        });
        state.await.map_err(|error| StorageIOError::read_state_machine(&error).into())
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<C::R>, StorageError<C::NodeId>>
    where
        I: IntoIterator<Item = Entry<C>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let (shared, application) = (self.shared.clone(), self.application.clone());
        let applied = blocking(move || apply(&shared, &*application, entries));
        applied.await.map_err(|error| StorageIOError::write_state_machine(&error).into())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder<C> {
        SnapshotBuilder { shared: self.shared.clone(), config: PhantomData }
    }

    async fn begin_receiving_snapshot(
        &mut self,
    ) -> Result<Box<SnapshotFile>, StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let file = blocking(move || create(&shared.snapshots.lock().unwrap().dir, INCOMING)).await;
        file.map(|file| Box::new(SnapshotFile::from_std(file))).map_err(write_error)
    }

    async fn install_snapshot(
        &mut self,
        meta: &Meta<C>,
        snapshot: Box<SnapshotFile>,
    ) -> Result<(), StorageError<C::NodeId>> {
        let (shared, meta) = (self.shared.clone(), meta.clone());
        // Waits for writes that are in progress.
        let file = snapshot.into_std().await;
        let installed = blocking(move || install::<C>(&shared, &meta, file)).await;
        let ask_again = |error| match error {
            Error::Corrupted(why) => {
                Error::Corrupted(format!("{why}; start the node again, and it is sent again"))
            }
            other => other,
        };
        installed.map_err(ask_again).map_err(write_error)
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<C>>, StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        let current = blocking(move || current_or_new::<C>(&shared)).await;
        current.map_err(|error| StorageIOError::read_snapshot(None, &error).into())
    }
}

impl<C> RaftSnapshotBuilder<C> for SnapshotBuilder<C>
where
    C: RaftTypeConfig<Entry = Entry<C>, SnapshotData = SnapshotFile>,
{
    async fn build_snapshot(&mut self) -> Result<Snapshot<C>, StorageError<C::NodeId>> {
        let shared = self.shared.clone();
        blocking(move || build::<C>(&shared)).await.map_err(write_error)
    }
}

fn write_error<NID: openraft::NodeId>(error: Error) -> StorageError<NID> {
    StorageIOError::write_snapshot(None, &error).into()
}

fn apply<C, A>(shared: &Shared, application: &A, entries: Vec<Entry<C>>) -> Outcome<Vec<C::R>>
where
    C: RaftTypeConfig<Entry = Entry<C>>,
    A: Application<C>,
{
    let state = shared.state.read().unwrap();
    let mut batch = shared.db.indexed_batch();
    let mut responses = Vec::with_capacity(entries.len());
    let mut applied = None;
    for entry in entries {
        responses.push(match &entry.payload {
            EntryPayload::Normal(command) => {
                application.apply(command, &mut Writes::begin(&mut batch, &state.keyspace))?
            }
            EntryPayload::Membership(membership) => {
                let stored = Membership::<C>::new(Some(entry.log_id.clone()), membership.clone());
                batch.put(&shared.meta, meta::MEMBERSHIP, codec::encode(&stored)?);
                application.no_command()
            }
            EntryPayload::Blank => application.no_command(),
        });
        applied = Some(entry.log_id);
        if is_full(&batch) {
            write_applied(shared, batch, applied.take())?;
            batch = shared.db.indexed_batch();
        }
    }
    write_applied(shared, batch, applied)?;
    Ok(responses)
}

/// Without a sync: what is lost is in the Raft log, and is applied again.
fn write_applied<NID: openraft::NodeId>(
    shared: &Shared,
    mut batch: IndexedBatch,
    applied: Option<LogId<NID>>,
) -> Outcome<()> {
    if let Some(applied) = applied {
        batch.put(&shared.meta, meta::APPLIED, codec::encode(&applied)?);
        batch.write()?;
    }
    Ok(())
}

fn build<C>(shared: &Shared) -> Outcome<Snapshot<C>>
where
    C: RaftTypeConfig<SnapshotData = SnapshotFile>,
{
    // One build at a time, and no install meanwhile: it drops the keyspace that is read here. The
    // directory is free, so that a follower can be sent the current snapshot.
    let _one = shared.builds.lock().unwrap();
    let dir = shared.snapshots.lock().unwrap().dir.clone();
    let view = shared.db.snapshot();
    let last_log_id: Option<LogId<C::NodeId>> = get(shared, &view, meta::APPLIED)?;
    let last_membership = get(shared, &view, meta::MEMBERSHIP)?.unwrap_or_default();
    // Entries depend on the log alone, so the same ID means the same bytes, whichever node built them.
    let snapshot_id = last_log_id.as_ref().map_or("empty".to_owned(), LogId::to_string);
    let meta = Meta::<C> { last_log_id, last_membership, snapshot_id };

    let mut writer = dump::Writer::new(BufWriter::new(create(&dir, BUILDING)?), &meta)?;
    let generation = get(shared, &view, meta::GENERATION)?.unwrap_or(0);
    let state = shared.db.open_keyspace(&state_name(generation))?;
    for entry in view.iter(&state) {
        let (key, value) = entry?;
        writer.entry(&key, &value)?;
    }
    writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    // A power loss must not leave a snapshot that is newer than what the database has applied.
    shared.db.sync()?;
    replace(&mut shared.snapshots.lock().unwrap(), BUILDING)?;
    let snapshot = Box::new(SnapshotFile::from_std(File::open(dir.join(CURRENT))?));
    Ok(Snapshot { meta, snapshot })
}

fn get<T: DeserializeOwned>(shared: &Shared, view: &View, key: &str) -> Outcome<Option<T>> {
    view.get(&shared.meta, key)?.map(|value| codec::decode(&value)).transpose()
}

fn install<C>(shared: &Shared, meta: &Meta<C>, mut received: File) -> Outcome<()>
where
    C: RaftTypeConfig<SnapshotData = SnapshotFile>,
{
    let _no_build = shared.builds.lock().unwrap();
    let mut snapshots = shared.snapshots.lock().unwrap();
    let dir = snapshots.dir.clone();
    // A copy: the file may be one that the caller opened elsewhere.
    received.rewind()?;
    let mut file = create(&dir, INSTALLING)?;
    io::copy(&mut received, &mut file)?;
    file.sync_all()?;
    file.rewind()?;

    let reader = dump::Reader::<_, Meta<C>>::new(BufReader::new(file))?;
    if reader.meta != *meta {
        let text = format!("snapshot {meta} has the content of {}", reader.meta);
        return Err(Error::Corrupted(text));
    }
    let next = shared.next_generation()?;
    shared.db.try_ingest::<_, _, Error>(&next.keyspace, reader)?;

    let mut state = shared.state.write().unwrap();
    // openraft builds a snapshot if it finds none, but takes one that is older than the state and the
    // log as it is. So after a crash below there must be none.
    remove_if_there(&dir.join(CURRENT))?;
    sync_names(&dir)?;
    let mut batch = WriteBatch::new();
    batch.put(&shared.meta, meta::GENERATION, codec::encode(&next.number)?);
    batch.put(&shared.meta, meta::MEMBERSHIP, codec::encode(&meta.last_membership)?);
    let mut left = shared.purges.lock();
    match &meta.last_log_id {
        Some(applied) => {
            batch.put(&shared.meta, meta::APPLIED, codec::encode(applied)?);
            let purged: Option<LogId<C::NodeId>> = shared.get(meta::PURGED)?;
            if purged.is_none_or(|purged| purged < *applied) {
                shared.delete_through(&mut batch, applied)?;
            }
        }
        None => batch.delete(&shared.meta, meta::APPLIED),
    };
    batch.set_sync(true);
    shared.db.write(&batch)?;
    if let Some(applied) = &meta.last_log_id {
        shared.purges.purged(&mut left, applied.index);
    }
    drop(left);
    let old = std::mem::replace(&mut *state, next);
    drop(state);
    replace(&mut snapshots, INSTALLING)?;
    shared.db.drop_keyspace(&old.keyspace)?;
    let _ = std::fs::remove_file(dir.join(INCOMING));
    Ok(())
}

/// The current snapshot. One that is damaged is made anew from the state.
fn current_or_new<C>(shared: &Shared) -> Outcome<Option<Snapshot<C>>>
where
    C: RaftTypeConfig<SnapshotData = SnapshotFile>,
{
    let mut snapshots = shared.snapshots.lock().unwrap();
    match current::<C>(&mut snapshots) {
        Err(Error::Corrupted(why)) => {
            let path = snapshots.dir.join(CURRENT);
            tracing::warn!("{}: {why}: it is built again from the state", path.display());
            // `build` takes it.
            drop(snapshots);
            build::<C>(shared).map(Some)
        }
        current => current,
    }
}

/// The current snapshot. The first call reads all of it: a damaged one would stop each node that it is
/// sent to.
fn current<C>(snapshots: &mut Snapshots) -> Outcome<Option<Snapshot<C>>>
where
    C: RaftTypeConfig<SnapshotData = SnapshotFile>,
{
    let mut file = match File::open(snapshots.dir.join(CURRENT)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut reader = dump::Reader::<_, Meta<C>>::new(BufReader::new(&file))?;
    let meta = reader.meta.clone();
    if !snapshots.is_verified {
        reader.try_for_each(|entry| entry.map(drop))?;
        snapshots.is_verified = true;
    }
    file.rewind()?;
    Ok(Some(Snapshot { meta, snapshot: Box::new(SnapshotFile::from_std(file)) }))
}

/// A new file to write and to read back.
fn create(dir: &Path, name: &str) -> Outcome<File> {
    // The old file, if there is one, may still be read: it is not emptied but unlinked.
    remove_if_there(&dir.join(name))?;
    Ok(File::options().read(true).write(true).create_new(true).open(dir.join(name))?)
}

fn sync_names(dir: &Path) -> Outcome<()> {
    Ok(File::open(dir)?.sync_all()?)
}

/// Makes the synced file `name` the current snapshot.
fn replace(snapshots: &mut Snapshots, name: &str) -> Outcome<()> {
    std::fs::rename(snapshots.dir.join(name), snapshots.dir.join(CURRENT))?;
    snapshots.is_verified = true;
    sync_names(&snapshots.dir)
}
