//! Background work: what is compacted, deleted and dropped, and what happens if a part of it fails.

#[path = "../support/killed.rs"]
mod killed;

mod arrival;
mod background_errors;
mod damaged_tables;
mod deleted_space;
mod duplicate_rates;
mod lifetimes;
mod old_deletes;
mod shared_merges;
mod small_keyspaces;
