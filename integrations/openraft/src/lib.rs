//! Log and state machine of [`openraft`] in one Esker database.
//!
//! [`open`] returns a [`LogStore`] and a [`StateMachine`] for `openraft::Raft::new`. The program
//! implements [`Application`]: what a command does to the entries of the state machine.
//!
//! # One log, one sync
//!
//! The Raft log, the vote and the state machine are keyspaces of one database, so they share its log
//! file. Only an append and a vote are synced. Applied commands, truncations and purges are not:
//! after a power loss Esker keeps a prefix of all writes, so none of them survives without what was
//! written before it, and Raft applies again what is missing from the log. A snapshot that is built
//! syncs what is applied before it takes the place of an older one.
//!
//! openraft purges the entries that a snapshot contains while that is still being installed. They are
//! hidden until the batch of the install deletes them.
//!
//! # Snapshots
//!
//! A snapshot is a file with the entries of the state machine in order, which openraft streams. It
//! is no checkpoint of the database: that would have the Raft log and the vote of the sender, which
//! the receiver must not take over. The receiver ingests the entries as tables into a new keyspace,
//! and one batch makes that the state. Before that batch the receiver removes its older snapshot:
//! after a crash openraft builds the one that is missing.
//!
//! # Settings
//!
//! Open the database with a log (`Log::File` or `Log::Pmem`), under any sync policy. Without a log
//! there is no prefix to keep. A log segment takes the largest command: 32 MiB are enough.

#![forbid(unsafe_code)]

mod application;
mod codec;
mod dump;
mod error;
mod log_store;
mod purge;
mod shared;
mod state_machine;

pub use application::{Application, Entries, State, Writes};
pub use error::{Error, LimitError};
pub use log_store::LogStore;
pub use state_machine::{SnapshotBuilder, StateMachine};

use esker::Db;
use openraft::RaftTypeConfig;
use shared::Shared;
use std::path::Path;
use std::sync::Arc;

/// The file of a snapshot: `SnapshotData` of the type configuration.
pub type SnapshotFile = tokio::fs::File;

/// Opens the log and the state machine in `db`, with snapshots as files in the directory `snapshots`.
///
/// `snapshots` is created if it is missing, and belongs to this state machine alone. The database may
/// have keyspaces of the program; those whose names begin with `raft.` are used here.
///
/// # Errors
/// * [`Error::Settings`] if the database has no log, or segments that are too small.
/// * [`Error::InUse`] if the database has a group that is open.
/// * [`Error::Corrupted`] if the keyspace of the state is missing.
/// * An error of the database or the directory.
pub fn open<C, A>(
    db: &Db,
    snapshots: impl AsRef<Path>,
    application: A,
) -> Result<(LogStore<C>, StateMachine<C, A>), Error>
where
    C: RaftTypeConfig<Entry = openraft::Entry<C>, SnapshotData = SnapshotFile>,
    A: Application<C>,
{
    let shared = Arc::new(Shared::open(db, snapshots.as_ref(), &state_machine::UNFINISHED)?);
    Ok((LogStore::new(shared.clone()), StateMachine::new(shared, application)))
}
