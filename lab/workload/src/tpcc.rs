//! TPC-C: a wholesale supplier's orders, in five kinds of transaction over nine tables.
//!
//! After the *TPC Benchmark C Standard Specification*, revision 5.11 (2010); the clauses are named where
//! they are followed. Each client is a terminal of one district of one warehouse. It takes orders, books
//! payments, delivers, and looks things up, in the proportions of a deck of cards (clause 5.2.4.2).
//! [`check`] tests the twelve consistency conditions of clause 3.3.2, whenever no client writes; and a run
//! remembers what was acknowledged to its clients, so that [`verify`] can check after a crash whether any
//! of it is missing.
//!
//! * [`Options`]: warehouses, clients, and how much smaller than specified the tables are.
//! * [`Load`]: the initial population.
//! * [`Terminals`]: the transactions.
//!
//! **What this is not:** a TPC-C result. Terminals have no screens and do not think, unless they are asked to
//! ([`Terminals::with_think_times`]); a delivery is done at once by the client that asks for it; nothing is
//! priced or audited. So the rate is called new orders a minute, and tpmC with think times only. Dates are
//! counted, not taken from a clock, so that a run follows from its seed.

mod acknowledged;
mod check;
mod customers;
mod delivery;
mod load;
mod new_order;
mod options;
mod order_status;
mod payment;
mod random;
mod rows;
mod session;
mod stock_level;
mod tables;
mod terminals;
#[cfg(test)]
mod tests;

pub use acknowledged::{Acknowledged, verify};
pub use check::check;
pub use load::Load;
pub use options::Options;
pub use terminals::{Terminals, Witness};
