//! MemTables, segments and the DRAMTable; under loom, their protocols.

mod common;
mod concurrency;
mod dram_table;
mod dram_table_eviction;
mod dram_table_loom;
mod dram_table_random;
mod dram_world;
mod golden;
mod growth;
mod limits;
mod loom;
mod model;
mod order;
mod recover;
mod scan;
