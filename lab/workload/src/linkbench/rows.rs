//! How the graph is in the store.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `nodes` | id | type, version, time, data |
//! | `links` | id1, type, id2 | visibility, version, time, data |
//! | `links_by_time` | id1, type, !time, id2 | version, data |
//! | `counts` | id1, type | count, version, time |
//!
//! Numbers in keys are big-endian, ids and times 8 bytes and types 4, so that keys are ordered as numbers
//! are; `!time` is the time's complement, so that the newest link comes first. In values they are
//! varints, and data is the rest.
//!
//! A link is wanted by its ends (to change it, and to get some links of a node) and by its time (the list
//! of a node's newest links, half of all requests). So it is in both orders, as it does in the published
//! schema with its primary key and its covering index: `links` holds all of them, `links_by_time` the
//! visible ones with all that a list shows, so that a list is one scan of neighbours. Links are short, 8 B
//! of data in the middle, so that the copy costs less than a second inspect each link would.

use esker_api::{KeyspaceRef, Transactional};
use esker_base::coding::{put_varint64, take_u8, take_varint64};
use esker_base::{Error, Result};

/// Where the graph is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keyspaces {
    pub(super) nodes: KeyspaceRef,
    pub(super) links: KeyspaceRef,
    pub(super) links_by_time: KeyspaceRef,
    pub(super) counts: KeyspaceRef,
}

impl Keyspaces {
    /// Those of `store`, made if need be.
    pub(super) fn of(store: &dyn Transactional) -> Result<Self> {
        Ok(Keyspaces {
            nodes: store.keyspace("nodes")?,
            links: store.keyspace("links")?,
            links_by_time: store.keyspace("links_by_time")?,
            counts: store.keyspace("counts")?,
        })
    }
}

/// The bytes of a [`list_key`]: what all keys of a node's links of one type begin with.
pub(super) const LIST_KEY_BYTES: usize = 12;

pub(super) fn node_key(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

/// The key of a count, and the beginning of the keys of the links that it counts.
pub(super) fn list_key(id1: u64, link_type: u32) -> [u8; LIST_KEY_BYTES] {
    let mut key = [0; LIST_KEY_BYTES];
    key[..8].copy_from_slice(&id1.to_be_bytes());
    key[8..].copy_from_slice(&link_type.to_be_bytes());
    key
}

pub(super) fn link_key(id1: u64, link_type: u32, id2: u64) -> [u8; 20] {
    let mut key = [0; 20];
    key[..12].copy_from_slice(&list_key(id1, link_type));
    key[12..].copy_from_slice(&id2.to_be_bytes());
    key
}

pub(super) fn time_key(id1: u64, link_type: u32, time: u64, id2: u64) -> [u8; 28] {
    let mut key = [0; 28];
    key[..12].copy_from_slice(&list_key(id1, link_type));
    key[12..20].copy_from_slice(&(!time).to_be_bytes());
    key[20..].copy_from_slice(&id2.to_be_bytes());
    key
}

/// A node without its id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node<'a> {
    pub(super) node_type: u64,
    pub(super) version: u64,
    pub(super) time: u64,
    pub(super) data: &'a [u8],
}

/// A link without its ends and its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Link<'a> {
    pub(super) visible: bool,
    pub(super) version: u64,
    pub(super) time: u64,
    pub(super) data: &'a [u8],
}

/// How many visible links a node has of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Count {
    pub(super) count: u64,
    pub(super) version: u64,
    pub(super) time: u64,
}

impl<'a> Node<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        for number in [self.node_type, self.version, self.time] {
            put_varint64(out, number);
        }
        out.extend_from_slice(self.data);
    }

    pub(super) fn decode(key: &[u8], mut value: &'a [u8]) -> Result<Self> {
        let numbers = [(); 3].map(|()| take_varint64(&mut value));
        match numbers {
            [Some(node_type), Some(version), Some(time)] => {
                Ok(Node { node_type, version, time, data: value })
            }
            _ => Err(malformed("node", key)),
        }
    }
}

impl<'a> Link<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.push(u8::from(self.visible));
        for number in [self.version, self.time] {
            put_varint64(out, number);
        }
        out.extend_from_slice(self.data);
    }

    /// What the list by time holds of it.
    pub(super) fn encode_listed(&self, out: &mut Vec<u8>) {
        out.clear();
        put_varint64(out, self.version);
        out.extend_from_slice(self.data);
    }

    pub(super) fn decode(key: &[u8], mut value: &'a [u8]) -> Result<Self> {
        let visible = take_u8(&mut value);
        let numbers = [(); 2].map(|()| take_varint64(&mut value));
        match (visible, numbers) {
            (Some(visible @ 0..=1), [Some(version), Some(time)]) => {
                Ok(Link { visible: visible == 1, version, time, data: value })
            }
            _ => Err(malformed("link", key)),
        }
    }
}

impl Count {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        for number in [self.count, self.version, self.time] {
            put_varint64(out, number);
        }
    }

    pub(super) fn decode(key: &[u8], mut value: &[u8]) -> Result<Self> {
        let numbers = [(); 3].map(|()| take_varint64(&mut value));
        match (numbers, value) {
            ([Some(count), Some(version), Some(time)], []) => Ok(Count { count, version, time }),
            _ => Err(malformed("count", key)),
        }
    }
}

fn malformed(row: &str, key: &[u8]) -> Error {
    Error::WrongAnswer {
        key: key.escape_ascii().to_string(),
        what: format!("its value is no {row}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_they_went_in() {
        let mut out = Vec::new();
        let node = Node { node_type: 2048, version: 1, time: 300, data: b"node" };
        node.encode(&mut out);
        assert_eq!(Node::decode(b"k", &out).unwrap(), node);
        let link = Link { visible: true, version: 7, time: 1 << 40, data: b"" };
        link.encode(&mut out);
        assert_eq!(Link::decode(b"k", &out).unwrap(), link);
        let count = Count { count: 3, version: 9, time: 5 };
        count.encode(&mut out);
        assert_eq!(Count::decode(b"k", &out).unwrap(), count);
        let error = Count::decode(b"k", &[1, 2]).unwrap_err();
        assert!(error.to_string().contains("is no count"));
    }

    #[test]
    fn newer_links_come_first_in_the_list() {
        assert!(time_key(1, 2, 9, 5) < time_key(1, 2, 8, 1));
        assert!(time_key(1, 2, 0, 5) < time_key(1, 3, 9, 5));
        assert!(time_key(1, 2, 9, 5).starts_with(&list_key(1, 2)));
    }
}
