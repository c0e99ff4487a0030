//! Storages: files, names, faults, power loss. What forks is on its own.

mod blocks_crash;
mod blocks_faults;
mod conformance;
mod fault_crash;
mod fault_plan;
mod file_cache;
mod wide_reads;
