//! Keys and values on a node.

use crate::association::Namespace;
use crate::key_form::KeyForm;
use crate::link::unexpected;
use crate::session::Session;
use crate::{RemoteError, Settings};
use esker_api::{Kv, Value, WriteBatch};
use esker_base::{Background, Clock, Entropy, Kind};
use esker_nvme::command::CommandSet;
use esker_nvme::command::kv::{Condition, KvCommand};
use esker_nvme::{Cqe, Status};
use std::sync::Arc;
use std::time::Duration;

/// What a retrieve asks for at first. A longer value is asked for again, with room for all of it: most are shorter,
/// and room that is asked for counts on the node.
const RETRIEVE_BYTES: u32 = 64 << 10;

/// A namespace of keys on a node, of up to 16 bytes or, if it is one of long keys, of up to 65,535. Shared between threads.
///
/// In a namespace of long keys, [`delete`](Self::delete) and [`exist`](Self::exist) go by 128 bits of the key's SHA-256 alone;
/// [`store`](Self::store) and [`retrieve`](Self::retrieve) compare the keys, and the longest value is shorter by the key's
/// length and 4 bytes.
pub struct KeyClient {
    pub(crate) session: Session,
    pub(crate) form: KeyForm,
}

impl KeyClient {
    /// Connects. A thread of `background` keeps the connection alive.
    pub fn connect(
        settings: Settings,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        background: Arc<dyn Background>,
    ) -> Result<Self, RemoteError> {
        let set = CommandSet::KeyValue;
        match Session::connect(settings, set, clock, entropy, background)? {
            (session, Namespace::Keys(namespace, _)) => {
                let form = if namespace.has_long_keys { KeyForm::Long } else { KeyForm::Short };
                Ok(KeyClient { session, form })
            }
            _ => Err(unexpected("blocks where keys were asked for")),
        }
    }

    /// Makes safe what was acknowledged, if the node has a volatile cache; otherwise it is so already. Fails as unknown if
    /// something was acknowledged, and not flushed, before the connection was lost: the node may have lost it, too.
    ///
    /// A connection that was lost is made anew first, to see whether there is a cache. So this fails, once the deadline has passed, while the
    /// node is down, also if it has none.
    pub fn flush(&self) -> Result<(), RemoteError> {
        self.session.flush(KvCommand::Flush.encode(self.session.namespace()))
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
        let name = self.form.name(key)?;
        let deadline = self.session.deadline();
        let limit = self.session.association(deadline)?.namespace.value_bytes_max();
        let stored = self.form.stored(key, value, limit)?;
        let command = KvCommand::Store { key: name, bytes: stored.len() as u32, condition };
        let cqe = self.change("store", &command, &stored, deadline)?;
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
        let command = KvCommand::Delete { key: self.form.name(key)? };
        found("delete", self.change("delete", &command, &[], self.session.deadline())?)
    }

    /// Says whether `key` is there.
    pub fn exist(&self, key: &[u8]) -> Result<bool, RemoteError> {
        let command = KvCommand::Exist { key: self.form.name(key)? };
        found("look for a key", self.read(&command, 0, self.session.deadline())?.0)
    }

    /// The value of `key`. One that is longer than the node gives at a time, stored there by other means than this, is an
    /// error.
    pub fn retrieve(&self, key: &[u8]) -> Result<Option<Vec<u8>>, RemoteError> {
        let name = self.form.name(key)?;
        let deadline = self.session.deadline();
        let mut bytes = RETRIEVE_BYTES;
        loop {
            let command = KvCommand::Retrieve { key: name, bytes };
            let (cqe, data) = self.read(&command, bytes, deadline)?;
            if !found("retrieve", cqe)? {
                return Ok(None);
            }
            // The value may have become longer in between.
            if cqe.word() <= bytes {
                if data.len() != cqe.word() as usize {
                    return Err(unexpected("a value of which it gives only the beginning"));
                }
                return self.form.value(key, data);
            }
            bytes = cqe.word();
        }
    }

    pub(crate) fn read(
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

pub(crate) fn found(action: &'static str, cqe: Cqe) -> Result<bool, RemoteError> {
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
        if batch.has_empty_key() {
            return Err(esker_base::Error::EmptyKey);
        }
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
