//! LinkBench: the requests that a social graph sends to its database.
//!
//! After Armstrong, Ponnekanti, Borthakur and Callaghan, *LinkBench: a Database Benchmark Based on the
//! Facebook Social Graph*, SIGMOD 2013, with the figures of the program published with it
//! (`config/FBWorkload.properties`). A graph of nodes and typed links is loaded; then clients ask for it
//! and change it, seven times of ten for the newest links of a node. The store keeps, in addition to every link,
//! how many visible ones a node has of each type, and must keep that right: a link and its count change
//! in one transaction. [`check`] looks whether they agree, whenever no client writes.
//!
//! * [`Options`]: how large the graph is.
//! * [`Load`]: the graph, in plain batches, each client a range of ids.
//! * [`Requests`]: the requests, in the published mix.
//!
//! Where this differs from the published program: the times of links are counted, not taken from a
//! clock; ids are shuffled by another permutation; several links that are asked for at once are 2.6 in
//! the mean, as the published settings want it, where the program has one more; out-degrees beyond ten
//! are drawn from a curve through some points of the published table rather than from all 2,900 of it.

mod check;
mod graph;
mod load;
mod mix;
mod operations;
mod options;
mod out_degree;
mod payload;
mod permutation;
mod requests;
mod rows;
#[cfg(test)]
mod tests;

pub use check::check;
pub use load::Load;
pub use options::Options;
pub use requests::Requests;
