//! A skiplist of versions in a [`Memory`], ordered by key and then newest first. In persistent memory
//! it is right after a crash at any time, without any repair.
//!
//! An insert appends the node with its links in it, durably: the first fence. Then it stores the link
//! to it at the lowest level, which makes it part of the list: the second fence. The links above make
//! searches shorter and nothing else: a list that misses some finds the same. So they are flushed, and
//! no fence waits for them. That makes two fences a put, whatever the height, and fewer can't be right
//! without a checksum in every node and a scan of all nodes after a crash.
//!
//! Thread safety: one thread at a time inserts; any number read meanwhile.

use super::key::KeyWords;
use super::memory::{Memory, WORD_BYTES};
use super::node::{HEIGHT_MAX, Node, Version, link_at, put_together};
use esker_base::{Kind, Result, Rng, Seqno};
use std::cmp::Ordering::{Equal, Less};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One node in so many of a level is in the next, too.
const BRANCHING: u64 = 4;

/// Nodes met at this level or above are taken to be in a cache, where their reading costs no access
/// to memory: they are one node in 16, so a few hundred KiB of a MemTable of 64 MiB.
const CACHED_FROM_LEVEL: usize = 2;

/// The bytes of a node that a search touches.
const TOUCHED_BYTES: usize = 64;

/// What a list says of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Value(Vec<u8>),
    Deleted,
}

/// Takes the key, the kind and the value of a version.
pub(super) type Sink<'a> = dyn FnMut(&[u8], Kind, &[u8]) -> Result<()> + 'a;

/// Memory of the writer's that is used again and again.
pub(super) struct Scratch {
    rng: Rng,
    piece: Vec<u8>,
}

impl Scratch {
    pub(super) fn new(seed: u64) -> Scratch {
        Scratch { rng: Rng::new(seed), piece: Vec::new() }
    }

    fn height(&mut self) -> usize {
        let mut height = 1;
        while height < HEIGHT_MAX && self.rng.one_in(BRANCHING) {
            height += 1;
        }
        height
    }
}

/// See the module's text.
pub(super) struct SkipList<M> {
    memory: M,
    /// The place of the node before all others, of which there are links only.
    head: usize,
    /// Of the highest node.
    height: AtomicUsize,
}

/// At each level, the node before a place and the one after it.
type Neighbours = [(usize, usize); HEIGHT_MAX];

impl<M: Memory> SkipList<M> {
    /// An empty list.
    pub(super) fn new(memory: M) -> SkipList<M> {
        let links = memory.append(&[0; HEIGHT_MAX * WORD_BYTES]);
        let head = links.expect("a memory has room for a list") + HEIGHT_MAX * WORD_BYTES;
        SkipList { memory, head, height: AtomicUsize::new(1) }
    }

    /// The first node that is not before `key` at `seqno`, and the neighbours of that place.
    fn seek(&self, key: &KeyWords, seqno: Seqno, mut neighbours: Option<&mut Neighbours>) -> usize {
        let (mut node, mut level) = (self.head, self.height.load(Ordering::Acquire) - 1);
        // Known not to be before the key, from the level above.
        let mut after = 0;
        loop {
            let next = self.memory.load(link_at(node, level)) as usize;
            if next != 0 && next != after && self.is_before(next, level, key, seqno) {
                node = next;
                continue;
            }
            if let Some(neighbours) = &mut neighbours {
                neighbours[level] = (node, next);
            }
            if level == 0 {
                return next;
            }
            (after, level) = (next, level - 1);
        }
    }

    #[inline]
    fn is_before(&self, node: usize, level: usize, key: &KeyWords, seqno: Seqno) -> bool {
        if level < CACHED_FROM_LEVEL {
            self.memory.before_read(TOUCHED_BYTES);
        }
        let node = self.node(node);
        match node.order_of(key) {
            Equal => node.seqno() > seqno,
            order => order == Less,
        }
    }

    #[inline]
    fn node(&self, at: usize) -> Node<'_, M> {
        Node::new(&self.memory, at)
    }
}

/// A list, wherever it is.
pub(super) trait List: Send + Sync {
    /// Bytes that are left.
    fn room(&self) -> usize;

    /// Inserts a version that is newer than all others of its key; there is space for
    /// [`node_bytes_max`](super::node::node_bytes_max). As durable as the memory when this returns. One call at a time.
    fn insert(&self, version: &Version<'_>, scratch: &mut Scratch);

    /// The newest version of `key` at `seqno`.
    fn get(&self, key: &KeyWords, seqno: Seqno) -> Option<Found>;

    /// Gives the newest version of each key to `sink`, in order.
    fn for_each_newest(&self, sink: &mut Sink<'_>) -> Result<()>;

    /// Whether nothing was inserted.
    fn is_empty(&self) -> bool;
}

impl<M: Memory> List for SkipList<M> {
    fn room(&self) -> usize {
        self.memory.room()
    }

    fn insert(&self, version: &Version<'_>, scratch: &mut Scratch) {
        let key = KeyWords::new(version.key);
        let mut neighbours = [(self.head, 0); HEIGHT_MAX];
        self.seek(&key, version.seqno, Some(&mut neighbours));
        let height = scratch.height();
        let next = neighbours[..height].iter().map(|(_, next)| *next);
        put_together::<M>(&mut scratch.piece, version, &key, next);
        let place = self.memory.append(&scratch.piece).expect("there was room");
        let node = place + height * WORD_BYTES;
        self.memory.link(link_at(neighbours[0].0, 0), node as u64);
        for (level, (before, _)) in neighbours[..height].iter().enumerate().skip(1) {
            self.memory.hint(link_at(*before, level), node as u64);
        }
        if height > self.height.load(Ordering::Relaxed) {
            self.height.store(height, Ordering::Release);
        }
    }

    fn get(&self, key: &KeyWords, seqno: Seqno) -> Option<Found> {
        let at = self.seek(key, seqno, None);
        let node = self.node(at);
        if at == 0 || node.order_of(key) != Equal {
            return None;
        }
        if node.kind() == Kind::Delete {
            return Some(Found::Deleted);
        }
        let mut value = Vec::new();
        self.memory.before_read(node.lengths().1);
        node.copy_value(&mut value);
        Some(Found::Value(value))
    }

    fn for_each_newest(&self, sink: &mut Sink<'_>) -> Result<()> {
        let (mut key, mut value, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = self.node(self.head).next();
        while at != 0 {
            let node = self.node(at);
            let (key_bytes, value_bytes) = node.lengths();
            self.memory.before_read(TOUCHED_BYTES.max(key_bytes + value_bytes));
            node.copy_key(&mut key);
            if key != last {
                node.copy_value(&mut value);
                sink(&key, node.kind(), &value)?;
                std::mem::swap(&mut key, &mut last);
            }
            at = node.next();
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.node(self.head).next() == 0
    }
}
