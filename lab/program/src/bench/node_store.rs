//! Keys on a storage node as the benchmark sees them: puts and gets. What a node has no commands for is refused.

use esker::api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Entry, Error, KeyspaceId, Kind, Result};
use esker_initiator::KeyClient;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A namespace of keys, through one controller or several.
pub struct NodeStore {
    clients: Vec<KeyClient>,
    turn: AtomicUsize,
    user_bytes: AtomicU64,
}

impl NodeStore {
    pub fn new(clients: Vec<KeyClient>) -> Self {
        NodeStore { clients, turn: AtomicUsize::new(0), user_bytes: AtomicU64::new(0) }
    }

    /// Bytes of keys and values that were put.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes.load(Relaxed)
    }

    fn client(&self) -> &KeyClient {
        match &self.clients[..] {
            [client] => client,
            clients => &clients[self.turn.fetch_add(1, Relaxed) % clients.len()],
        }
    }
}

fn refused<T>(what: &str) -> Result<T> {
    Err(Error::InvalidSetting {
        setting: "engine",
        value: "a storage node".to_owned(),
        reason: format!("it has no {what}; take another load"),
    })
}

impl Kv for NodeStore {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.client().get(key)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.client().store(key, value)?;
        // As the others count: what a batch of it takes.
        let entry = Entry { keyspace: KeyspaceId::DEFAULT, kind: Kind::Put, key, value };
        self.user_bytes.fetch_add(entry.encoded_bytes() as u64, Relaxed);
        Ok(())
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        self.client().write(batch)?;
        self.user_bytes.fetch_add(batch.encoded().len() as u64, Relaxed);
        Ok(())
    }
}

impl Ordered for NodeStore {
    fn cursor(&self, _range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        refused("cursors")
    }

    fn cursor_at<'a>(
        &'a self,
        _range: KeyRange,
        _snapshot: &'a dyn Snapshot,
    ) -> Result<Box<dyn Cursor + 'a>> {
        refused("cursors")
    }

    fn get_at(&self, _key: &[u8], _snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        refused("snapshots")
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        refused("snapshots")
    }
}
