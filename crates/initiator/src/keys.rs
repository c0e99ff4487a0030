//! Keys and values on a node.

use crate::session::Session;
use crate::{RemoteError, Settings};
use esker_api::{Kv, Value, WriteBatch};
use esker_base::{Clock, Entropy, Kind};
use esker_nvme::command::CommandSet;
use esker_nvme::command::kv::{Condition, Key, KvCommand, listed};
use esker_nvme::{Cqe, Status};
use std::sync::Arc;
use std::time::Duration;

/// What a retrieve asks for at first. A longer value is asked for again, with room for all of it: most are shorter,
/// and room that is asked for counts on the node.
const RETRIEVE_BYTES: u32 = 64 << 10;

/// What a list asks for at a time.
const LIST_BYTES: u32 = 64 << 10;

/// A namespace of keys on a node. Shared between threads.
pub struct KeyClient {
    session: Session,
}

impl KeyClient {
    /// Connects.
    pub fn connect(
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, RemoteError> {
        let session = Session::connect(settings, CommandSet::KeyValue, clock, entropy)?;
        Ok(KeyClient { session })
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
        let deadline = self.session.deadline();
        let limit = self.session.association(deadline)?.namespace.value_bytes_max();
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
        found("delete", self.change("delete", &command, &[], self.session.deadline())?)
    }

    /// Says whether `key` is there.
    pub fn exist(&self, key: &[u8]) -> Result<bool, RemoteError> {
        let command = KvCommand::Exist { key: key_of(key)? };
        found("look for a key", self.read(&command, 0, self.session.deadline())?.0)
    }

    /// The value of `key`.
    pub fn retrieve(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RemoteError> {
        let key = key_of(key)?;
        let deadline = self.session.deadline();
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
        let deadline = self.session.deadline();
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

    fn read(
        &self,
        command: &KvCommand,
        reads: u32,
        deadline: Duration,
    ) -> Result<(Cqe, Vec<u8>), RemoteError> {
        self.session.read(command.encode(self.session.namespace()), reads, deadline)
    }

    fn change(
        &self,
        what: &'static str,
        command: &KvCommand,
        data: &[u8],
        deadline: Duration,
    ) -> Result<Cqe, RemoteError> {
        self.session.change(what, command.encode(self.session.namespace()), data, deadline)
    }
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
