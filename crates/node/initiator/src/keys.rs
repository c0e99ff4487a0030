//! Keys and values on a node.

use crate::association::Namespace;
use crate::key_encoding::KeyEncoding;
use crate::session::Session;
use crate::sync_connection::unexpected;
use crate::{RemoteError, Settings};
use esker_api::{Kv, Value, WriteBatch};
use esker_base::{Background, Clock, Entropy};
use esker_nvme::command::CommandSet;
use esker_nvme::command::kv::{Condition, Key, KvCommand};
use esker_nvme::{Cqe, Status};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// What a retrieve asks for at first. A longer value is asked for again, with space for all of it: most are shorter,
/// and space that is asked for counts on the node.
pub(crate) const RETRIEVE_BYTES: u32 = 64 << 10;

/// A namespace of keys on a node, of up to 16 bytes or, if it is one of long keys, of up to 65,535. Shared between threads.
///
/// In a namespace of long keys, [`delete`](Self::delete) and [`exist`](Self::exist) go by 128 bits of the key's SHA-256 alone;
/// [`store`](Self::store) and [`retrieve`](Self::retrieve) compare the keys, and the longest value is shorter by the key's
/// length and 4 bytes.
pub struct KeyClient {
    pub(crate) session: Session,
    pub(crate) form: KeyEncoding,
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
                let form =
                    if namespace.has_long_keys { KeyEncoding::Long } else { KeyEncoding::Short };
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
        let stored = self.stored(key, value, deadline)?;
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
        self.retrieve_by(key, name, RETRIEVE_BYTES, self.session.deadline())
    }

    /// The same by its name, with space for `bytes` at first.
    pub(crate) fn retrieve_by(
        &self,
        key: &[u8],
        name: Key,
        mut bytes: u32,
        deadline: Duration,
    ) -> Result<Option<Vec<u8>>, RemoteError> {
        loop {
            let command = KvCommand::Retrieve { key: name, bytes };
            let (cqe, data) = self.read(&command, bytes, deadline)?;
            match self.retrieved(key, cqe, data, bytes)? {
                Retrieved::Value(value) => return Ok(value),
                // It may have become longer in between.
                Retrieved::Longer(longer) => bytes = longer,
            }
        }
    }

    /// What an answer to a retrieve of `bytes` says.
    pub(crate) fn retrieved(
        &self,
        key: &[u8],
        cqe: Cqe,
        data: Vec<u8>,
        bytes: u32,
    ) -> Result<Retrieved, RemoteError> {
        if !found("retrieve", cqe)? {
            return Ok(Retrieved::Value(None));
        }
        if cqe.word() > bytes {
            return Ok(Retrieved::Longer(cqe.word()));
        }
        if data.len() != cqe.word() as usize {
            return Err(unexpected("a value of which it gives only the beginning"));
        }
        Ok(Retrieved::Value(self.form.value(key, data)?))
    }

    /// What a store of `value` stores.
    pub(crate) fn stored<'a>(
        &self,
        key: &[u8],
        value: &'a [u8],
        deadline: Duration,
    ) -> Result<Cow<'a, [u8]>, RemoteError> {
        let limit = self.session.association(deadline)?.namespace.value_bytes_max();
        self.form.stored(key, value, limit)
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

/// What came of a retrieve.
pub(crate) enum Retrieved {
    /// The value, or that the key is not there.
    Value(Option<Vec<u8>>),
    /// The value is of so many bytes: more than were asked for.
    Longer(u32),
}

pub(crate) fn found(action: &'static str, cqe: Cqe) -> Result<bool, RemoteError> {
    match cqe.status() {
        status if status.is_success() => Ok(true),
        status if status.is(Status::KEY_NOT_FOUND) => Ok(false),
        status => Err(RemoteError::Refused { action, status }),
    }
}

/// A batch is not atomic here: a node takes one key at a time. Several of its keys are written at a time, those of one key in their order.
/// Each write of it is as durable as the node promises when this returns. If it fails, each of its writes was done or was not: but none
/// if the batch has an entry that no node takes. [`multi_get`](Kv::multi_get) has several values fetched at a time, and not at one point in time.
impl Kv for KeyClient {
    fn get(&self, key: &[u8]) -> esker_base::Result<Option<Value>> {
        Ok(self.retrieve(key)?.map(Value::from))
    }

    fn multi_get(&self, keys: &[&[u8]]) -> esker_base::Result<Vec<Option<Value>>> {
        let values = self.retrieve_many(keys)?;
        Ok(values.into_iter().map(|value| value.map(Value::from)).collect())
    }

    fn write(&self, batch: &WriteBatch) -> esker_base::Result<()> {
        if batch.has_empty_key() {
            return Err(esker_base::Error::EmptyKey);
        }
        Ok(self.change_many(batch)?)
    }
}
