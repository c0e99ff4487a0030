//! Keys and values on a node.

use crate::association::Association;
use crate::queue_pair::QueuePair;
use crate::{RemoteError, Settings};
use esker_api::{Kv, Value, WriteBatch};
use esker_base::{Clock, Entropy, Kind};
use esker_nvme::command::kv::{Condition, Key, KvCommand, listed};
use esker_nvme::{Cqe, Sqe, Status};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// What a retrieve asks for at first. A longer value is asked for again, with room for all of it: most are shorter,
/// and room that is asked for counts on the node.
const RETRIEVE_BYTES: u32 = 64 << 10;

/// What a list asks for at a time.
const LIST_BYTES: u32 = 64 << 10;

/// Between two attempts to connect.
const CONNECT_AGAIN: Duration = Duration::from_millis(50);

/// A namespace of keys on a node. Shared between threads.
pub struct KeyClient {
    settings: Settings,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// None after it failed, until somebody connects again.
    association: Mutex<Option<Arc<Association>>>,
    /// Whose turn it is among the queues.
    turn: AtomicUsize,
}

impl KeyClient {
    /// Connects.
    pub fn connect(
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, RemoteError> {
        let association = Association::connect(&settings, &clock, entropy.as_ref())?;
        let association = Mutex::new(Some(Arc::new(association)));
        Ok(KeyClient { settings, clock, entropy, association, turn: AtomicUsize::new(0) })
    }

    /// Sets `key` to `value`. When this returns, the node's promise of durability holds.
    pub fn store(&self, key: &[u8], value: &[u8]) -> Result<(), RemoteError> {
        self.store_if(key, value, Condition::Always).map(drop)
    }

    /// Sets `key` to `value` if `condition` holds, and says whether it did.
    pub fn store_if(
        &self,
        key: &[u8],
        value: &[u8],
        condition: Condition,
    ) -> Result<bool, RemoteError> {
        let key = key_of(key)?;
        let deadline = self.deadline();
        let association = self.association(deadline)?;
        let limit = association.value_bytes_max;
        if value.len() > limit {
            return Err(RemoteError::Value { bytes: value.len(), limit });
        }
        let command = KvCommand::Store { key, bytes: value.len() as u32, condition };
        let cqe = self.change("store", &command, value, deadline)?;
        match cqe.status() {
            status if status.is_success() => Ok(true),
            status if status.is(Status::KEY_EXISTS) || status.is(Status::KEY_NOT_FOUND) => {
                Ok(false)
            }
            status => Err(RemoteError::Refused { action: "store", status }),
        }
    }

    /// Removes `key`, and says whether it was there.
    pub fn delete(&self, key: &[u8]) -> Result<bool, RemoteError> {
        let command = KvCommand::Delete { key: key_of(key)? };
        found("delete", self.change("delete", &command, &[], self.deadline())?)
    }

    /// Says whether `key` is there.
    pub fn exist(&self, key: &[u8]) -> Result<bool, RemoteError> {
        let command = KvCommand::Exist { key: key_of(key)? };
        found("look for a key", self.read(&command, 0, self.deadline())?.0)
    }

    /// The value of `key`.
    pub fn retrieve(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RemoteError> {
        let key = key_of(key)?;
        let deadline = self.deadline();
        let mut bytes = RETRIEVE_BYTES;
        loop {
            let (cqe, data) = self.read(&KvCommand::Retrieve { key, bytes }, bytes, deadline)?;
            if !found("retrieve", cqe)? {
                return Ok(None);
            }
            // The value may have become longer in between.
            if cqe.word() <= bytes {
                return Ok(Some(data));
            }
            bytes = cqe.word();
        }
    }

    /// Up to `count` keys from `from` on, in the node's order. An empty `from` is the beginning. To go on, ask from the
    /// last key, and leave that one out.
    pub fn list(&self, from: &[u8], count: usize) -> Result<Vec<Vec<u8>>, RemoteError> {
        let mut from = if from.is_empty() { None } else { Some(key_of(from)?) };
        let deadline = self.deadline();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let command = KvCommand::List { from, bytes: LIST_BYTES };
            let (cqe, data) = self.read(&command, LIST_BYTES, deadline)?;
            if !cqe.status().is_success() {
                return Err(RemoteError::Refused { action: "list keys", status: cqe.status() });
            }
            let before = keys.len();
            for key in listed(&data) {
                let cut = || RemoteError::Protocol { what: "a list that is cut off".to_owned() };
                let key = key.ok_or_else(cut)?;
                if keys.last().is_none_or(|last| last != key) {
                    keys.push(key.to_vec());
                }
            }
            keys.truncate(count);
            if keys.len() == before || keys.len() == count {
                return Ok(keys);
            }
            from = keys.last().and_then(|key| Key::new(key));
        }
    }

    fn deadline(&self) -> Duration {
        self.clock.now() + self.settings.deadline
    }

    /// The association in force, or a new one.
    fn association(&self, deadline: Duration) -> Result<Arc<Association>, RemoteError> {
        // Held while connecting: others wait for the same connection.
        let mut association = self.association.lock();
        if let Some(association) = association.as_ref().filter(|a| !has_failed(a)) {
            return Ok(association.clone());
        }
        *association = None;
        loop {
            match Association::connect(&self.settings, &self.clock, self.entropy.as_ref()) {
                Ok(new) => return Ok(association.insert(Arc::new(new)).clone()),
                Err(error) if !error.is_of_connection() => return Err(error),
                Err(error) if self.clock.now() + CONNECT_AGAIN >= deadline => return Err(error),
                Err(_) => self.clock.sleep(CONNECT_AGAIN),
            }
        }
    }

    /// Sends what changes nothing, and again after a lost connection, until the deadline.
    fn read(
        &self,
        command: &KvCommand,
        reads: u32,
        deadline: Duration,
    ) -> Result<(Cqe, Vec<u8>), RemoteError> {
        let sqe = command.encode(self.settings.namespace);
        loop {
            let association = self.association(deadline)?;
            let queue = self.queue(&association);
            let answer = queue
                .begin(sqe, &[], reads, deadline)
                .and_then(|ticket| queue.finish(ticket, &[], deadline));
            match answer {
                Err(error) if error.is_of_connection() && self.clock.now() < deadline => {}
                answer => return answer,
            }
        }
    }

    /// Sends what changes something. What was not sent whole was not done, and is sent again; what was, is not.
    fn change(
        &self,
        what: &'static str,
        command: &KvCommand,
        data: &[u8],
        deadline: Duration,
    ) -> Result<Cqe, RemoteError> {
        let sqe: Sqe = command.encode(self.settings.namespace);
        loop {
            let association = self.association(deadline)?;
            let queue = self.queue(&association);
            match queue.begin(sqe, data, 0, deadline) {
                Err(error) if error.is_of_connection() && self.clock.now() < deadline => {}
                Err(error) => return Err(error),
                Ok(ticket) => {
                    let answer = queue.finish(ticket, data, deadline);
                    return answer.map(|(cqe, _)| cqe).map_err(|_| RemoteError::Unknown { what });
                }
            }
        }
    }

    fn queue<'a>(&self, association: &'a Association) -> &'a QueuePair {
        let turn = self.turn.fetch_add(1, Relaxed);
        &association.queues[turn % association.queues.len()]
    }
}

fn has_failed(association: &Arc<Association>) -> bool {
    association.queues.iter().any(QueuePair::has_failed)
}

fn key_of(key: &[u8]) -> Result<Key, RemoteError> {
    Key::new(key).ok_or(RemoteError::Key { bytes: key.len() })
}

fn found(action: &'static str, cqe: Cqe) -> Result<bool, RemoteError> {
    match cqe.status() {
        status if status.is_success() => Ok(true),
        status if status.is(Status::KEY_NOT_FOUND) => Ok(false),
        status => Err(RemoteError::Refused { action, status }),
    }
}

/// A batch is not atomic here: a node takes one key at a time. Each write of it is as durable as the node promises when
/// this returns.
impl Kv for KeyClient {
    fn get(&self, key: &[u8]) -> esker_base::Result<Option<Value>> {
        Ok(self.retrieve(key)?.map(Value::from))
    }

    fn write(&self, batch: &WriteBatch) -> esker_base::Result<()> {
        for entry in batch.iter() {
            match entry.kind {
                Kind::Put => self.store(entry.key, entry.value)?,
                Kind::Delete => drop(self.delete(entry.key)?),
                _ => {
                    let status = Status::INVALID_OPCODE;
                    return Err(RemoteError::Refused { action: "delete a range", status }.into());
                }
            }
        }
        Ok(())
    }
}
