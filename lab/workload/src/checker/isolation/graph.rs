//! Who depends on whom, and the circles in that.
//!
//! Edges go from what has to come first to what has to come after it:
//!
//! * `ww`: the second replaced a version of the first's;
//! * `wr`: the second read a version of the first's;
//! * `rw`: the first read a version that the second replaced;
//! * `time`: the first had ended when the second began. So that these are not as many as there are entries
//!   of transactions, they go over a chain of instants, one for each end.

use super::check::{ExternalRead, Replaced};
use super::{Anomaly, History, Isolation, Key, Outcome, WriteId};
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    WriteWrite(Key),
    WriteRead(Key),
    ReadWrite(Key),
    Time,
}

impl Kind {
    fn is_anti(self) -> bool {
        matches!(self, Kind::ReadWrite(_))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::WriteWrite(key) => write!(f, "ww {key}"),
            Kind::WriteRead(key) => write!(f, "wr {key}"),
            Kind::ReadWrite(key) => write!(f, "rw {key}"),
            Kind::Time => f.write_str("time"),
        }
    }
}

#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    kind: Kind,
}

/// See the file's head. Nodes are transactions, and after them instants.
pub(super) struct Graph<'a> {
    history: &'a History,
    edges: Vec<Vec<Edge>>,
}

impl<'a> Graph<'a> {
    /// The graph of `history`, in which `writer_of` says who wrote what.
    pub(super) fn new(
        history: &'a History,
        reads: &[ExternalRead],
        replaced: &Replaced,
        writer_of: impl Fn(WriteId) -> Option<usize>,
    ) -> Self {
        let edges = vec![Vec::new(); 2 * history.transactions.len()];
        let mut graph = Graph { history, edges };
        for (&(key, version), writers) in replaced {
            let Some(before) = version.and_then(&writer_of) else { continue };
            for &after in writers {
                graph.add(before, after, Kind::WriteWrite(key));
            }
        }
        for &ExternalRead { reader, key, version } in reads {
            if let Some(writer) = version.and_then(&writer_of) {
                graph.add(writer, reader, Kind::WriteRead(key));
            }
            for &after in replaced.get(&(key, version)).into_iter().flatten() {
                graph.add(reader, after, Kind::ReadWrite(key));
            }
        }
        graph.add_time();
        graph
    }

    fn add(&mut self, from: usize, to: usize, kind: Kind) {
        if from != to {
            self.edges[from].push(Edge { to, kind });
        }
    }

    fn add_time(&mut self) {
        let transactions = &self.history.transactions;
        let committed = |&at: &usize| transactions[at].outcome == Outcome::Committed;
        let mut by_end: Vec<usize> = (0..transactions.len()).filter(committed).collect();
        by_end.sort_by_key(|&at| transactions[at].ended);
        let instant = |n: usize| transactions.len() + n;
        for (n, &at) in by_end.iter().enumerate() {
            self.add(at, instant(n), Kind::Time);
            if n > 0 {
                self.add(instant(n - 1), instant(n), Kind::Time);
            }
            let over =
                by_end.partition_point(|&one| transactions[one].ended < transactions[at].begun);
            if let Some(last) = over.checked_sub(1) {
                self.add(instant(last), at, Kind::Time);
            }
        }
    }

    /// One circle for each level that has one it excludes, weakest level first.
    pub(super) fn circles(&self) -> Vec<Anomaly> {
        Isolation::ALL.into_iter().filter_map(|level| self.circle(level)).collect()
    }

    /// A circle among the transactions of `level` and above that it excludes.
    fn circle(&self, level: Isolation) -> Option<Anomaly> {
        let mut search = Search { graph: self, level, marks: Vec::new(), path: Vec::new() };
        search.marks = vec![Mark::New; 2 * self.edges.len()];
        (0..2 * self.edges.len()).find_map(|state| search.from(state))
    }

    /// Whether the node counts at `level`.
    fn is_member(&self, node: usize, level: Isolation) -> bool {
        self.history.transactions.get(node).is_none_or(|one| one.isolation >= level)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Done,
}

/// A search, depth first, for a circle. A state is a node and whether it was come to by an `rw` edge:
/// under snapshot isolation two of those in a row lead out of every circle that is excluded.
struct Search<'a> {
    graph: &'a Graph<'a>,
    level: Isolation,
    marks: Vec<Mark>,
    /// States, each with the number of its next edge, and the kind of the edge taken from it.
    path: Vec<(usize, usize, Option<Kind>)>,
}

impl Search<'_> {
    fn from(&mut self, start: usize) -> Option<Anomaly> {
        let came_by_anti = start % 2 == 1;
        if self.marks[start] != Mark::New || came_by_anti || !self.counts(start / 2) {
            return None;
        }
        self.enter(start);
        while let Some((state, next, taken)) = self.path.last_mut() {
            let Some(&edge) = self.graph.edges[*state / 2].get(*next) else {
                self.marks[*state] = Mark::Done;
                self.path.pop();
                continue;
            };
            *next += 1;
            *taken = Some(edge.kind);
            let state = *state;
            let Some(to) = self.follow(state, edge) else { continue };
            match self.marks[to] {
                Mark::New => self.enter(to),
                Mark::OnPath => return Some(self.describe(to)),
                Mark::Done => {}
            }
        }
        None
    }

    fn enter(&mut self, state: usize) {
        self.marks[state] = Mark::OnPath;
        self.path.push((state, 0, None));
    }

    fn counts(&self, node: usize) -> bool {
        self.graph.is_member(node, self.level)
    }

    /// The state that `edge` leads to, if the level lets it count.
    fn follow(&self, state: usize, edge: Edge) -> Option<usize> {
        let anti = edge.kind.is_anti();
        let came_by_anti = state % 2 == 1;
        let counts = match self.level {
            Isolation::ReadCommitted => !anti,
            Isolation::Snapshot => !(anti && came_by_anti),
            Isolation::Serializable => true,
        };
        let remembers = self.level == Isolation::Snapshot && anti;
        (counts && self.counts(edge.to)).then_some(2 * edge.to + usize::from(remembers))
    }

    /// The circle from `start` along the path.
    fn describe(&self, start: usize) -> Anomaly {
        let from = self.path.iter().position(|(state, ..)| *state == start).unwrap_or(0);
        let circle = &self.path[from..];
        let kinds = || circle.iter().filter_map(|(_, _, kind)| *kind);
        let name = match kinds().filter(|kind| kind.is_anti()).count() {
            0 if kinds().any(|kind| matches!(kind, Kind::WriteRead(_))) => "G1c",
            0 => "G0",
            1 => "G-single",
            _ => "G2",
        };
        let mut path = String::new();
        for (state, _, kind) in circle {
            let node = state / 2;
            if node < self.graph.history.transactions.len() {
                path.push_str(&format!("T{node} "));
            }
            if let Some(kind) = kind {
                path.push_str(&format!("-{kind}-> "));
            }
        }
        Anomaly::Circle { name, path: format!("{path}T{}", start / 2) }
    }
}
