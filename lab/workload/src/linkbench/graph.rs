//! The graph as it is loaded, without a table of it: which links a node has follows from its id.
//!
//! Ids are 1 to the number of nodes. A node's rank by out-degree is a permutation of its id; its links
//! go to the ids from its own on, and are shared out among the types.

use super::Options;
use super::out_degree;
use super::permutation::Permutation;
use crate::distributions::{Distribution, Uniform, Zipfian};
use crate::stream;
use esker_base::Rng;

/// Types of links, which are numbered from [`FIRST_LINK_TYPE`] on: `link_type_count` of the published
/// settings.
pub(super) const LINK_TYPES: u32 = 2;

/// As in the published program.
pub(super) const FIRST_LINK_TYPE: u32 = 123_456_789;

/// The type of all nodes, as in the published program.
pub(super) const NODE_TYPE: u32 = 2048;

/// Which nodes have many links.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) nodes: u64,
    by_degree: Permutation,
}

impl Graph {
    pub(super) fn new(options: &Options) -> Self {
        let mut rng = stream(options.seed, "out-degree", 0);
        Graph { nodes: options.nodes, by_degree: Permutation::new(options.nodes, &mut rng) }
    }

    /// How many links node `id` was loaded with.
    pub(super) fn degree(&self, id: u64) -> u64 {
        let rank = self.by_degree.back(id - 1);
        out_degree::of_share(1.0 - (rank as f64 + 0.5) / self.nodes as f64)
    }

    /// How many of them are of type `link_type`: the first types have one more if they can't be shared
    /// out evenly.
    pub(super) fn links(&self, id: u64, link_type: u32) -> u64 {
        let (degree, number) = (self.degree(id), u64::from(link_type - FIRST_LINK_TYPE));
        degree / u64::from(LINK_TYPES) + u64::from(number < degree % u64::from(LINK_TYPES))
    }

    /// The other end of a link that is drawn so that it was loaded with about this probability.
    pub(super) fn other_end(&self, id: u64, link_type: u32, loaded: f64, rng: &mut Rng) -> u64 {
        id + rng.below(self.range(id, link_type, loaded))
    }

    /// The same for several different links. Fewer if there are not so many to choose from.
    pub(super) fn other_ends(
        &self,
        id: u64,
        link_type: u32,
        loaded: f64,
        count: u64,
        rng: &mut Rng,
    ) -> Vec<u64> {
        let range = self.range(id, link_type, loaded);
        if range <= count {
            return (id..id + range).collect();
        }
        let mut ends: Vec<u64> = Vec::new();
        while (ends.len() as u64) < count {
            let end = id + rng.below(range);
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
        ends
    }

    fn range(&self, id: u64, link_type: u32, loaded: f64) -> u64 {
        ((self.links(id, link_type) as f64 / loaded).round() as u64).max(1)
    }

    pub(super) fn link_type(rng: &mut Rng) -> u32 {
        FIRST_LINK_TYPE + rng.below(u64::from(LINK_TYPES)) as u32
    }
}

/// Which nodes requests are for. Reads and writes of links have the same hot nodes, and so have those of
/// nodes, but others (`getShuffler` in `RealDistribution`); and a part of the requests for links are for
/// nodes that have many.
#[derive(Debug)]
pub(super) struct Access {
    zipfian: Zipfian,
    own: Permutation,
    by_degree: Permutation,
    /// The part of all draws whose hot nodes are those with many links.
    correlated: f64,
}

impl Access {
    /// `read_shape` and `read_uncorr_blend`: half a percent follows the out-degree.
    pub(super) fn link_reads(options: &Options, graph: &Graph) -> Self {
        Access::new(options, graph, "links", 0.8, 0.005)
    }

    /// `write_shape` and `write_uncorr_blend`: five percent follow the out-degree.
    pub(super) fn link_writes(options: &Options, graph: &Graph) -> Self {
        Access::new(options, graph, "links", 0.741, 0.05)
    }

    /// `node_read_shape`.
    pub(super) fn node_reads(options: &Options, graph: &Graph) -> Self {
        Access::new(options, graph, "nodes", 0.625, 0.0)
    }

    /// `node_update_shape`.
    pub(super) fn node_updates(options: &Options, graph: &Graph) -> Self {
        Access::new(options, graph, "nodes", 0.606, 0.0)
    }

    fn new(options: &Options, graph: &Graph, label: &str, theta: f64, correlated: f64) -> Self {
        let own = Permutation::new(options.nodes, &mut stream(options.seed, label, 0));
        Access { zipfian: Zipfian::new(theta), own, by_degree: graph.by_degree, correlated }
    }

    /// A node's id.
    pub(super) fn next(&mut self, graph: &Graph, rng: &mut Rng) -> u64 {
        let rank = self.zipfian.next(rng, graph.nodes);
        let correlated = self.correlated > 0.0 && rng.unit() < self.correlated;
        1 + if correlated { self.by_degree.of(rank) } else { self.own.of(rank) }
    }
}

/// A node to delete: uniform, `node_delete_function`.
pub(super) fn any_node(graph: &Graph, rng: &mut Rng) -> u64 {
    1 + Uniform.next(rng, graph.nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(nodes: u64) -> (Options, Graph) {
        let options = Options { nodes, ..Options::default() };
        let graph = Graph::new(&options);
        (options, graph)
    }

    #[test]
    fn links_of_all_types_add_up_to_the_degree() {
        let (_, graph) = graph(5_000);
        for id in 1..=5_000 {
            let links = (0..LINK_TYPES).map(|number| graph.links(id, FIRST_LINK_TYPE + number));
            assert_eq!(links.sum::<u64>(), graph.degree(id));
        }
    }

    #[test]
    fn a_link_that_is_asked_for_was_loaded_as_often_as_wanted() {
        let (_, graph) = graph(5_000);
        let mut rng = Rng::new(2);
        let id = (1..=5_000).max_by_key(|&id| graph.degree(id)).unwrap();
        let links = graph.links(id, FIRST_LINK_TYPE);
        for wanted in [0.05, 0.5, 0.9] {
            let hit = |_: &u32| graph.other_end(id, FIRST_LINK_TYPE, wanted, &mut rng) < id + links;
            let hits = (0..20_000).filter(hit).count() as f64 / 20_000.0;
            assert!((hits - wanted).abs() < 0.03, "{hits}; {wanted} was wanted");
        }
        let mut ends = graph.other_ends(id, FIRST_LINK_TYPE, 0.5, 20, &mut rng);
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), 20);
    }

    #[test]
    fn the_hottest_node_has_the_share_of_its_shape() {
        let (options, graph) = graph(10_000);
        let mut access = Access::node_reads(&options, &graph);
        let expected = Zipfian::new(0.625).probability(0, 10_000);
        let (hottest, mut rng) = (1 + access.own.of(0), Rng::new(1));
        let hits = (0..200_000).filter(|_| access.next(&graph, &mut rng) == hottest).count();
        let share = hits as f64 / 200_000.0;
        assert!((share / expected - 1.0).abs() < 0.05, "{share}; {expected} was expected");
    }

    #[test]
    fn what_is_read_most_is_written_most() {
        let (options, graph) = graph(10_000);
        let hottest = |access: Access| access.own.of(0);
        let links = hottest(Access::link_reads(&options, &graph));
        let nodes = hottest(Access::node_reads(&options, &graph));
        assert_eq!(links, hottest(Access::link_writes(&options, &graph)));
        assert_eq!(nodes, hottest(Access::node_updates(&options, &graph)));
        assert!(links != nodes && links != graph.by_degree.of(0));
    }

    #[test]
    fn a_link_of_one_is_the_one_that_is_changed() {
        // Nine tenths of the links that are changed were loaded: of a list of one, that one.
        let (_, graph) = graph(5_000);
        let id = (1..).find(|&id| graph.links(id, FIRST_LINK_TYPE) == 1).unwrap();
        let mut rng = Rng::new(1);
        assert!((0..100).all(|_| graph.other_end(id, FIRST_LINK_TYPE, 0.9, &mut rng) == id));
    }

    #[test]
    fn some_link_writes_are_for_the_node_with_the_most_links() {
        let (options, graph) = graph(10_000);
        let mut access = Access::link_writes(&options, &graph);
        let expected = 0.05 * Zipfian::new(0.741).probability(0, 10_000);
        let (most, mut rng) = (1 + graph.by_degree.of(0), Rng::new(1));
        assert_eq!(graph.degree(most), (1..=10_000).map(|id| graph.degree(id)).max().unwrap());
        let hits = (0..400_000).filter(|_| access.next(&graph, &mut rng) == most).count();
        let share = hits as f64 / 400_000.0;
        assert!((0.7..1.4).contains(&(share / expected)), "{share}; {expected} was expected");
    }
}
