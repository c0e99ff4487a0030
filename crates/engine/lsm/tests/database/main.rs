//! The database as a user meets it: reads, writes, batches, cursors, memory, a pool as its log.

#[path = "../support/killed.rs"]
mod killed;
#[path = "../support/pool_place.rs"]
mod pool_place;
mod support;

mod account;
mod aging;
mod check_beside;
mod clock;
mod cursor_pins;
mod cursors;
mod directory;
mod dram_table;
mod edge_keys;
mod events;
mod expired_space;
mod expiry;
mod expiry_begins;
mod filters;
mod filters_model;
mod foreign_handles;
mod indexed_batches;
mod large_batches;
mod log_space;
mod merges;
mod operation_cost;
mod parts;
mod pool;
mod pool_full;
mod prepared;
mod reads_and_writes;
mod reads_of_many_runs;
mod requests;
mod resources;
mod settings;
mod slow_calls;
mod small;
mod visibility;
mod wide_reads;
mod windows;
mod write_rate;
