//! Lists of keys. A node lists what commands call its keys; if those are digests, the keys themselves are read from in
//! front of their values, several at a time.

use crate::RemoteError;
use crate::key_encoding::KeyEncoding;
use crate::keys::{KeyClient, found};
use crate::queue_pair::QueuePair;
use crate::split_command::{SubCommand, run};
use crate::sync_connection::unexpected;
use esker_nvme::command::kv::{Key, KvCommand, listed};
use esker_nvme::command::long_key::{HEAD_BYTES, LONG_KEY_BYTES, split};
use std::time::Duration;

/// What a list asks for at a time.
const LIST_BYTES: u32 = 64 << 10;

/// What is read to find a key in front of its value, at first. A longer one is asked for again.
const FRONT_BYTES: usize = 256;

impl KeyClient {
    /// Up to `count` keys from `from` on, in the node's order. An empty `from` is the beginning. To go on, ask from the
    /// last key, and leave that one out. In a namespace of long keys the order is that of digests, and each key costs a
    /// retrieve.
    pub fn list(&self, from: &[u8], count: usize) -> Result<Vec<Vec<u8>>, RemoteError> {
        let mut from = (!from.is_empty()).then(|| self.form.name(from)).transpose()?;
        let deadline = self.session.deadline();
        let mut keys = Vec::new();
        let mut last = None;
        while keys.len() < count {
            let mut names = self.names(from, deadline)?;
            names.retain(|name| last != Some(*name));
            if names.is_empty() {
                break;
            }
            names.truncate(count - keys.len());
            last = names.last().copied();
            from = last;
            match self.form {
                KeyEncoding::Short => {
                    keys.extend(names.iter().map(|name| name.as_bytes().to_vec()))
                }
                KeyEncoding::Long => keys.extend(self.keys_named(&names, deadline)?),
            }
        }
        Ok(keys)
    }

    /// What one command lists.
    fn names(&self, from: Option<Key>, deadline: Duration) -> Result<Vec<Key>, RemoteError> {
        let command = KvCommand::List { from, bytes: LIST_BYTES };
        let (cqe, data) = self.read(&command, LIST_BYTES, deadline)?;
        if !cqe.status().is_success() {
            return Err(RemoteError::Refused { action: "list keys", status: cqe.status() });
        }
        let names = listed(&data).map(|name| name.and_then(Key::new));
        names.collect::<Option<_>>().ok_or(unexpected("a list that is truncated"))
    }

    /// The keys of these digests, without those that are gone.
    fn keys_named(&self, names: &[Key], deadline: Duration) -> Result<Vec<Vec<u8>>, RemoteError> {
        let mut fronts =
            self.session.retry(deadline, |queue| self.fronts(queue, names, deadline))?;
        for (name, front) in names.iter().zip(&mut fronts) {
            if front.as_ref().is_some_and(|front| split(front).is_none()) {
                *front = self.long_front(*name, deadline)?;
            }
        }
        let key = |front: Vec<u8>| split(&front).map(|(key, _)| key.to_vec());
        let keys = fronts.into_iter().flatten().map(key);
        keys.collect::<Option<_>>().ok_or(unexpected("a value without its key"))
    }

    /// The beginnings of what is stored, none for what is gone.
    fn fronts(
        &self,
        queue: &QueuePair,
        names: &[Key],
        deadline: Duration,
    ) -> Result<Vec<Option<Vec<u8>>>, RemoteError> {
        let pieces = names.iter().map(|&key| {
            let retrieve = KvCommand::Retrieve { key, bytes: FRONT_BYTES as u32 };
            let sqe = retrieve.encode(self.session.namespace());
            SubCommand { sqe, data: &[], reads: FRONT_BYTES }
        });
        let mut fronts = Vec::with_capacity(names.len());
        run(queue, &pieces.collect::<Vec<_>>(), deadline, |cqe, data| {
            fronts.push(found("retrieve", cqe)?.then_some(data));
            Ok(())
        })?;
        Ok(fronts)
    }

    fn long_front(&self, key: Key, deadline: Duration) -> Result<Option<Vec<u8>>, RemoteError> {
        let bytes = (HEAD_BYTES + LONG_KEY_BYTES) as u32;
        let (cqe, data) = self.read(&KvCommand::Retrieve { key, bytes }, bytes, deadline)?;
        Ok(found("retrieve", cqe)?.then_some(data))
    }
}
