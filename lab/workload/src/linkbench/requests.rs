//! The request phase.

use super::Options;
use super::graph::{Access, Graph, any_node};
use super::load::first_time;
use super::mix::Request;
use super::operations::{Client, Ends, LIST_LIMIT, Read};
use super::payload::{LINK, NODE, Payloads};
use super::rows::Keyspaces;
use crate::worker::share_of;
use crate::{Step, Transactions, Worker, Workload};
use esker_api::{KeyRange, Ordered, Transactional};
use esker_base::{Result, Rng};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How likely a link that is asked for, changed, deleted or added was loaded: `ID2Chooser` of the
/// published program.
const GET: f64 = 0.5;
const UPDATE: f64 = 0.9;
const DELETE: f64 = 0.9;
const ADD: f64 = 0.05;

/// `getlinklist_history`, which is a percentage: the part of the lists that go on where an earlier one was
/// truncated.
const HISTORY: f64 = 0.003;

/// `link_multiget_dist_prob` and `…_max`: links that are asked for at once, geometric.
const MORE_LINKS: f64 = 0.382;
const MOST_LINKS: u64 = 128;

/// Lists that were truncated, of which a client remembers so many: `listTailHistoryLimit`.
const REMEMBERED: usize = 2_048;

/// Requests to a graph that [`Load`](super::Load) has made.
pub struct Requests<'s> {
    store: &'s dyn Transactional,
    keyspaces: Keyspaces,
    options: Options,
    graph: Graph,
    nodes: Payloads,
    links: Payloads,
    next_id: AtomicU64,
    /// Counted instead of measured by a clock, so that a run follows from its seed. It goes on from an earlier
    /// run's, so that what is newer is listed first.
    time: AtomicU64,
}

impl<'s> Requests<'s> {
    /// The requests of `options` to the graph in `store`. Nodes that are added go on from the last id.
    pub fn new(options: &Options, store: &'s dyn Transactional) -> Result<Self> {
        options.check()?;
        let keyspaces = Keyspaces::of(store)?;
        let mut cursor = store.cursor(keyspaces.nodes, KeyRange::all())?;
        cursor.seek_last()?;
        let last = cursor.current().and_then(|(key, _)| key.try_into().ok());
        let last = last.map_or(0, u64::from_be_bytes).max(options.nodes);
        Ok(Requests {
            store,
            keyspaces,
            graph: Graph::new(options),
            nodes: Payloads::new(NODE, options.seed, "nodes"),
            links: Payloads::new(LINK, options.seed, "links"),
            next_id: AtomicU64::new(last + 1),
            time: AtomicU64::new(first_time(last)),
            options: options.clone(),
        })
    }
}

impl Workload for Requests<'_> {
    fn worker<'a>(
        &'a self,
        _store: &'a dyn Ordered,
        _thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        let (options, graph) = (&self.options, &self.graph);
        Ok(Box::new(Requester {
            requests: self,
            client: Client::new(self.store, self.keyspaces, options),
            rng,
            link_reads: Access::link_reads(options, graph),
            link_writes: Access::link_writes(options, graph),
            node_reads: Access::node_reads(options, graph),
            node_updates: Access::node_updates(options, graph),
            cut_off: Vec::new(),
            data: Vec::new(),
        }))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        share_of(self.options.requests, self.options.threads, thread)
    }

    fn endless(&self) -> bool {
        true
    }

    fn looks_up(&self) -> bool {
        false
    }

    fn writes(&self) -> bool {
        true
    }
}

/// A list that was longer than what one request gives, and the last link that was given.
#[derive(Clone, Copy)]
struct CutOff {
    id1: u64,
    link_type: u32,
    oldest: (u64, u64),
}

struct Requester<'a> {
    requests: &'a Requests<'a>,
    client: Client<'a>,
    rng: Rng,
    link_reads: Access,
    link_writes: Access,
    node_reads: Access,
    node_updates: Access,
    cut_off: Vec<CutOff>,
    data: Vec<u8>,
}

impl Requester<'_> {
    fn time(&self) -> u64 {
        self.requests.time.fetch_add(1, Relaxed)
    }

    /// A link to change, and what it will carry. How many bytes that is.
    fn draw_link(&mut self, loaded: f64) -> Ends {
        let graph = &self.requests.graph;
        let id1 = self.link_writes.next(graph, &mut self.rng);
        let link_type = Graph::link_type(&mut self.rng);
        let id2 = graph.other_end(id1, link_type, loaded, &mut self.rng);
        self.data.clear();
        self.requests.links.append(&mut self.data, &mut self.rng);
        Ends { id1, link_type, id2 }
    }

    fn draw_node_data(&mut self) {
        self.data.clear();
        self.requests.nodes.append(&mut self.data, &mut self.rng);
    }

    /// A node whose links are to be read, and their type.
    fn draw_list(&mut self) -> (u64, u32) {
        let id1 = self.link_reads.next(&self.requests.graph, &mut self.rng);
        (id1, Graph::link_type(&mut self.rng))
    }

    /// Does `request`. Gives the bytes that went in or came out.
    fn run(&mut self, request: Request) -> Result<u64> {
        Ok(match request {
            Request::AddLink | Request::UpdateLink => {
                let ends = self.draw_link(if request == Request::AddLink { ADD } else { UPDATE });
                self.client.put_link(ends, self.time(), &self.data)?;
                self.data.len() as u64
            }
            Request::DeleteLink => {
                let ends = self.draw_link(DELETE);
                self.client.delete_link(ends, self.time())?;
                0
            }
            Request::CountLinks => {
                let (id1, link_type) = self.draw_list();
                self.client.count_links(id1, link_type)?.1.bytes
            }
            Request::GetLinks => self.get_links()?.bytes,
            Request::GetLinkList => self.get_link_list()?.bytes,
            Request::GetNode => {
                let id = self.node_reads.next(&self.requests.graph, &mut self.rng);
                self.client.get_node(id)?.bytes
            }
            Request::AddNode => {
                self.draw_node_data();
                let id = self.requests.next_id.fetch_add(1, Relaxed);
                self.client.add_node(id, self.time(), &self.data)?;
                self.data.len() as u64
            }
            Request::UpdateNode => {
                let id = self.node_updates.next(&self.requests.graph, &mut self.rng);
                self.draw_node_data();
                self.client.update_node(id, self.time(), &self.data)?;
                self.data.len() as u64
            }
            Request::DeleteNode => {
                let id = any_node(&self.requests.graph, &mut self.rng);
                self.client.delete_node(id)?;
                0
            }
        })
    }

    fn get_links(&mut self) -> Result<Read> {
        let (id1, link_type) = self.draw_list();
        let mut count = 1;
        while count < MOST_LINKS && self.rng.unit() >= MORE_LINKS {
            count += 1;
        }
        let graph = &self.requests.graph;
        let id2s = graph.other_ends(id1, link_type, GET, count, &mut self.rng);
        self.client.get_links(id1, link_type, &id2s)
    }

    fn get_link_list(&mut self) -> Result<Read> {
        let goes_on = self.rng.unit() < HISTORY && !self.cut_off.is_empty();
        let (id1, link_type, after) = if goes_on {
            let at = self.rng.below(self.cut_off.len() as u64) as usize;
            let CutOff { id1, link_type, oldest } = self.cut_off.swap_remove(at);
            (id1, link_type, Some(oldest))
        } else {
            let (id1, link_type) = self.draw_list();
            (id1, link_type, None)
        };
        let read = self.client.get_link_list(id1, link_type, after)?;
        let is_known = |cut: &CutOff| (cut.id1, cut.link_type) == (id1, link_type);
        if read.rows == LIST_LIMIT as u64
            && self.cut_off.len() < REMEMBERED
            && !self.cut_off.iter().any(is_known)
        {
            self.cut_off.push(CutOff { id1, link_type, oldest: read.oldest });
        }
        Ok(read)
    }
}

impl Worker for Requester<'_> {
    fn step(&mut self) -> Result<Step> {
        let request = Request::next(&mut self.rng);
        let bytes = self.run(request)?;
        let transactions = std::mem::replace(&mut self.client.transactions, Transactions::NONE);
        Ok(Step { kind: request.kind(), operations: 1, bytes, transactions, ..Step::END })
    }
}
