//! What can be asked of the graph, over any store with transactions.
//!
//! A link's row is read for update first, its count after it, always in that order, so that two that
//! change links of one node wait for each other but never in a circle.

use super::Options;
use super::graph::NODE_TYPE;
use super::rows::{
    Count, Keyspaces, LIST_KEY_BYTES, Link, Node, link_key, list_key, node_key, time_key,
};
use crate::Transactions;
use crate::attempts::{Ending, attempt};
use esker_api::{KeyRange, Transaction, TransactionOptions, Transactional, WriteBatch};
use esker_base::Result;

/// The longest list that is given at once: `DEFAULT_LIMIT` of the published program.
pub(super) const LIST_LIMIT: usize = 10_000;

/// The ends and the type of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ends {
    pub(super) id1: u64,
    pub(super) link_type: u32,
    pub(super) id2: u64,
}

impl Ends {
    fn key(&self) -> [u8; 20] {
        link_key(self.id1, self.link_type, self.id2)
    }

    fn time_key(&self, time: u64) -> [u8; 28] {
        time_key(self.id1, self.link_type, time, self.id2)
    }
}

/// What was read: how many rows, of how many bytes with their keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Read {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// The time and the other end of the last link of a list.
    pub(super) oldest: (u64, u64),
}

impl Read {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }
}

/// One client's way to the graph.
pub(super) struct Client<'a> {
    store: &'a dyn Transactional,
    keyspaces: Keyspaces,
    options: TransactionOptions,
    /// How its transactions ended so far.
    pub(super) transactions: Transactions,
    value: Vec<u8>,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        store: &'a dyn Transactional,
        keyspaces: Keyspaces,
        options: &Options,
    ) -> Self {
        let options = options.transaction();
        let transactions = Transactions::NONE;
        Client { store, keyspaces, options, transactions, value: Vec::new() }
    }

    pub(super) fn add_node(&mut self, id: u64, time: u64, data: &[u8]) -> Result<()> {
        let node = Node { node_type: NODE_TYPE.into(), version: 1, time, data };
        node.encode(&mut self.value);
        let mut batch = WriteBatch::new();
        batch.put(self.keyspaces.nodes, node_key(id), &self.value);
        self.store.write(&batch)?;
        self.transactions.commits += 1;
        Ok(())
    }

    /// Changes a node if it is there. Whether it was.
    pub(super) fn update_node(&mut self, id: u64, time: u64, data: &[u8]) -> Result<bool> {
        let Client { store, keyspaces, options, transactions, value } = self;
        let key = node_key(id);
        attempt(*store, options, transactions, |transaction| {
            let Some(old) = transaction.get_for_update(keyspaces.nodes, &key)? else {
                return Ok((Ending::Nothing, false));
            };
            let old = Node::decode(&key, &old)?;
            Node { version: old.version + 1, time, data, ..old }.encode(value);
            transaction.put(keyspaces.nodes, &key, value)?;
            Ok((Ending::Commit, true))
        })
    }

    /// Removes a node if it is there. Its links and counts stay, as published. Whether it was.
    pub(super) fn delete_node(&mut self, id: u64) -> Result<bool> {
        let Client { store, keyspaces, options, transactions, .. } = self;
        let key = node_key(id);
        attempt(*store, options, transactions, |transaction| {
            if transaction.get_for_update(keyspaces.nodes, &key)?.is_none() {
                return Ok((Ending::Nothing, false));
            }
            transaction.delete(keyspaces.nodes, &key)?;
            Ok((Ending::Commit, true))
        })
    }

    pub(super) fn get_node(&self, id: u64) -> Result<Read> {
        let key = node_key(id);
        let mut read = Read::default();
        if let Some(value) = self.store.get(self.keyspaces.nodes, &key)? {
            Node::decode(&key, &value)?;
            read.add(&key, &value);
        }
        Ok(read)
    }

    /// Adds a visible link, or makes the one between these ends so. Whether there was a visible one.
    pub(super) fn put_link(&mut self, ends: Ends, time: u64, data: &[u8]) -> Result<bool> {
        let Client { store, keyspaces, options, transactions, value } = self;
        let key = ends.key();
        attempt(*store, options, transactions, |transaction| {
            let old = transaction.get_for_update(keyspaces.links, &key)?;
            let old = old.as_ref().map(|old| Link::decode(&key, old)).transpose()?;
            let was_visible = old.as_ref().is_some_and(|old| old.visible);
            let version = old.as_ref().map_or(0, |old| old.version + 1);
            let link = Link { visible: true, version, time, data };
            link.encode(value);
            transaction.put(keyspaces.links, &key, value)?;
            if let Some(old) = old.filter(|old| old.visible) {
                transaction.delete(keyspaces.links_by_time, &ends.time_key(old.time))?;
            }
            link.encode_listed(value);
            transaction.put(keyspaces.links_by_time, &ends.time_key(time), value)?;
            if !was_visible {
                change_count(transaction, keyspaces, ends, 1, time, value)?;
            }
            Ok((Ending::Commit, was_visible))
        })
    }

    /// Hides a link if it is visible. Whether it was.
    pub(super) fn delete_link(&mut self, ends: Ends, time: u64) -> Result<bool> {
        let Client { store, keyspaces, options, transactions, value } = self;
        let key = ends.key();
        attempt(*store, options, transactions, |transaction| {
            let old = transaction.get_for_update(keyspaces.links, &key)?;
            let old = old.as_ref().map(|old| Link::decode(&key, old)).transpose()?;
            let Some(old) = old.filter(|old| old.visible) else {
                return Ok((Ending::Nothing, false));
            };
            Link { visible: false, ..old }.encode(value);
            transaction.put(keyspaces.links, &key, value)?;
            transaction.delete(keyspaces.links_by_time, &ends.time_key(old.time))?;
            change_count(transaction, keyspaces, ends, -1, time, value)?;
            Ok((Ending::Commit, true))
        })
    }

    pub(super) fn count_links(&self, id1: u64, link_type: u32) -> Result<(u64, Read)> {
        let key = list_key(id1, link_type);
        let mut read = Read::default();
        let Some(value) = self.store.get(self.keyspaces.counts, &key)? else {
            return Ok((0, read));
        };
        read.add(&key, &value);
        Ok((Count::decode(&key, &value)?.count, read))
    }

    /// The visible ones of the links to these ends.
    pub(super) fn get_links(&self, id1: u64, link_type: u32, id2s: &[u64]) -> Result<Read> {
        let mut read = Read::default();
        for &id2 in id2s {
            let key = link_key(id1, link_type, id2);
            if let Some(value) = self.store.get(self.keyspaces.links, &key)?
                && Link::decode(&key, &value)?.visible
            {
                read.add(&key, &value);
            }
        }
        Ok(read)
    }

    /// The newest links of a node, those after the one that is named alone, up to [`LIST_LIMIT`].
    pub(super) fn get_link_list(
        &self,
        id1: u64,
        link_type: u32,
        after: Option<(u64, u64)>,
    ) -> Result<Read> {
        let prefix = list_key(id1, link_type);
        let range = KeyRange::prefix(prefix);
        let mut cursor = self.store.cursor(self.keyspaces.links_by_time, range)?;
        match after {
            Some((time, id2)) => cursor.seek(&time_key(id1, link_type, time, id2 + 1))?,
            None => cursor.seek_first()?,
        }
        let mut read = Read::default();
        while let Some((key, value)) = cursor.current() {
            read.add(key, value);
            read.oldest = time_and_end(key);
            if read.rows == LIST_LIMIT as u64 {
                break;
            }
            cursor.next()?;
        }
        Ok(read)
    }
}

/// The time and the other end in a key of the list.
fn time_and_end(key: &[u8]) -> (u64, u64) {
    let number = |at: usize| {
        let bytes = key.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_be_bytes)
    };
    (!number(LIST_KEY_BYTES), number(LIST_KEY_BYTES + 8))
}

fn change_count(
    transaction: &mut (dyn Transaction + '_),
    keyspaces: &Keyspaces,
    ends: Ends,
    by: i64,
    time: u64,
    value: &mut Vec<u8>,
) -> Result<()> {
    let key = list_key(ends.id1, ends.link_type);
    let old = match transaction.get_for_update(keyspaces.counts, &key)? {
        Some(old) => Count::decode(&key, &old)?,
        None => Count::default(),
    };
    // A count that would fall below zero is wrong already; the check at the end tells.
    let count = old.count.saturating_add_signed(by);
    Count { count, version: old.version + 1, time }.encode(value);
    transaction.put(keyspaces.counts, &key, value)
}
