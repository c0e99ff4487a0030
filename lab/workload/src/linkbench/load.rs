//! The load phase: all nodes with their links and counts, in plain batches.

use super::Options;
use super::graph::{FIRST_LINK_TYPE, Graph, LINK_TYPES, NODE_TYPE};
use super::payload::{LINK, NODE, Payloads};
use super::rows::{Count, Keyspaces, Link, Node, link_key, list_key, node_key, time_key};
use crate::worker::share_of;
use crate::{OperationKind, Step, Transactions, Worker, Workload};
use esker_api::{KeyspaceRef, Ordered, Transactional, WriteBatch};
use esker_base::{Result, Rng};
use std::ops::Range;

/// When a batch is written, in bytes: large enough to make its own cost small, and far from the limit of
/// any store.
const BATCH_BYTES: usize = 64 << 10;

/// The first time after the load's, or after those of the requests that added nodes up to `last_id`: there are
/// a dozen times for each node that is added, far fewer than this leaves space for.
pub(super) fn first_time(last_id: u64) -> u64 {
    last_id << 20
}

/// The load of a graph into a store, each thread a range of ids.
pub struct Load<'s> {
    store: &'s dyn Transactional,
    keyspaces: Keyspaces,
    options: Options,
    graph: Graph,
    nodes: Payloads,
    links: Payloads,
}

impl<'s> Load<'s> {
    /// The load of `options` into an empty `store`.
    pub fn new(options: &Options, store: &'s dyn Transactional) -> Result<Self> {
        options.check()?;
        Ok(Load {
            store,
            keyspaces: Keyspaces::of(store)?,
            graph: Graph::new(options),
            nodes: Payloads::new(NODE, options.seed, "nodes"),
            links: Payloads::new(LINK, options.seed, "links"),
            options: options.clone(),
        })
    }

    /// The ids of a thread.
    fn ids(&self, thread: usize) -> Range<u64> {
        let start = 1 + (0..thread).map(|before| self.share(before)).sum::<u64>();
        start..start + self.share(thread)
    }
}

impl Workload for Load<'_> {
    fn worker<'a>(
        &'a self,
        _store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        let ids = self.ids(thread);
        let batch = WriteBatch::new();
        Ok(Box::new(Loader { load: self, rng, ids, batch, value: Vec::new(), data: Vec::new() }))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        share_of(self.options.nodes, self.options.threads, thread)
    }

    fn endless(&self) -> bool {
        false
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        true
    }
}

struct Loader<'a> {
    load: &'a Load<'a>,
    rng: Rng,
    ids: Range<u64>,
    batch: WriteBatch,
    value: Vec<u8>,
    data: Vec<u8>,
}

impl Loader<'_> {
    /// Adds a node and all that belongs to it.
    fn add(&mut self, id: u64, done: &mut Step) -> Result<()> {
        let Load { keyspaces, graph, nodes, .. } = self.load;
        self.data.clear();
        nodes.append(&mut self.data, &mut self.rng);
        let node = Node { node_type: NODE_TYPE.into(), version: 1, time: 0, data: &self.data };
        node.encode(&mut self.value);
        self.put(keyspaces.nodes, &node_key(id), done)?;
        for link_type in (FIRST_LINK_TYPE..).take(LINK_TYPES as usize) {
            let links = graph.links(id, link_type);
            (0..links).try_for_each(|at| self.add_link(id, link_type, at, done))?;
            if links > 0 {
                Count { count: links, ..Count::default() }.encode(&mut self.value);
                self.put(keyspaces.counts, &list_key(id, link_type), done)?;
            }
        }
        Ok(())
    }

    /// Adds link number `at` of its list. As published, its time has nothing to do with its other end.
    fn add_link(&mut self, id: u64, link_type: u32, at: u64, done: &mut Step) -> Result<()> {
        let Load { keyspaces, links, .. } = self.load;
        self.data.clear();
        links.append(&mut self.data, &mut self.rng);
        let (id2, time) = (id + at, self.rng.below(first_time(self.load.options.nodes)));
        let data = std::mem::take(&mut self.data);
        let link = Link { visible: true, version: 0, time, data: &data };
        link.encode(&mut self.value);
        self.put(keyspaces.links, &link_key(id, link_type, id2), done)?;
        link.encode_listed(&mut self.value);
        self.put(keyspaces.links_by_time, &time_key(id, link_type, time, id2), done)?;
        self.data = data;
        Ok(())
    }

    /// Puts the value that was encoded.
    fn put(&mut self, keyspace: KeyspaceRef, key: &[u8], done: &mut Step) -> Result<()> {
        self.batch.put(keyspace, key, &self.value);
        done.bytes += (key.len() + self.value.len()) as u64;
        if self.batch.encoded().len() >= BATCH_BYTES { self.write(done) } else { Ok(()) }
    }

    fn write(&mut self, done: &mut Step) -> Result<()> {
        self.load.store.write(&self.batch)?;
        self.batch.clear();
        done.transactions.commits += 1;
        Ok(())
    }
}

impl Worker for Loader<'_> {
    /// Writes about one batch; its nodes are the operations.
    fn step(&mut self) -> Result<Step> {
        let kind = OperationKind::Named("load_nodes");
        let mut done = Step { kind, transactions: Transactions::NONE, ..Step::END };
        while done.transactions.commits == 0
            && let Some(id) = self.ids.next()
        {
            self.add(id, &mut done)?;
            done.operations += 1;
        }
        if self.ids.is_empty() && !self.batch.is_empty() {
            self.write(&mut done)?;
        }
        Ok(done)
    }
}
