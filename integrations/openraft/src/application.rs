//! What a program implements: the effect of its commands on the state.

use crate::shared::Shared;
use esker::transaction::TransactionRange;
use esker::{IndexedBatch, KeyRange, Keyspace, Value};
use openraft::RaftTypeConfig;
use std::sync::Arc;

/// A deterministic state machine: the same commands in the same order give the same entries on all
/// nodes. So `apply` reads no clock, no random numbers and nothing outside of `writes`.
pub trait Application<C: RaftTypeConfig>: Send + Sync + 'static {
    /// Applies a command that is committed. What it writes becomes visible together with the record
    /// that it was applied.
    ///
    /// A command that cannot be carried out is an answer, for `C::R`.
    ///
    /// # Errors
    /// An error of the database. openraft then stops the node.
    fn apply(&self, command: &C::D, writes: &mut Writes<'_>) -> esker::Result<C::R>;

    /// Returns the response to an entry of the log that has no command: a change of membership or
    /// the first entry of a leader.
    fn no_command(&self) -> C::R;
}

/// The entries of the state machine while commands are applied. Reads see earlier writes.
pub struct Writes<'a> {
    pub(crate) batch: &'a mut IndexedBatch,
    pub(crate) state: &'a Keyspace,
}

impl Writes<'_> {
    /// Returns the value of `key`.
    ///
    /// # Errors
    /// An error of the database.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> esker::Result<Option<Value>> {
        self.batch.get(self.state, key)
    }

    /// Iterates over the entries with keys in `range`.
    pub fn range(&mut self, range: impl Into<KeyRange>) -> TransactionRange<'_> {
        self.batch.range(self.state, range)
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.batch.put(self.state, key, value);
    }

    /// Deletes `key`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.batch.delete(self.state, key);
    }

    /// Deletes all keys in `range`.
    pub fn delete_range(&mut self, range: impl Into<KeyRange>) {
        self.batch.delete_range(self.state, range);
    }
}

/// Reads the applied state. Clones share it, and threads may.
///
/// A read sees what this node has applied. For a linearizable read, await
/// `Raft::ensure_linearizable` first.
#[derive(Clone)]
pub struct State {
    pub(crate) shared: Arc<Shared>,
}

impl State {
    /// Returns the value of `key`.
    ///
    /// # Errors
    /// An error of the database.
    pub fn get(&self, key: impl AsRef<[u8]>) -> esker::Result<Option<Value>> {
        self.read(|state| state.get(key))
    }

    /// Runs `read` on the keyspace of the state. No snapshot is installed meanwhile.
    ///
    /// `read` should be short: an install waits for it, and later reads and `apply` wait for the
    /// install. It must not call this state again, which would wait for itself behind an install. A
    /// clone of the keyspace must not be used after `read`: the next install drops it.
    pub fn read<T>(&self, read: impl FnOnce(&Keyspace) -> T) -> T {
        read(&self.shared.state.read().unwrap().keyspace)
    }
}
