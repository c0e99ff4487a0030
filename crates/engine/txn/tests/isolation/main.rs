//! Random histories of concurrent transactions over a real database in memory, judged by the checker;
//! and that the checker would find out if a test for conflicts were missing.

mod histories;
mod in_flight;
mod store;
