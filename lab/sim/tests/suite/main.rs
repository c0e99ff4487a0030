//! The simulation, and damage of every kind. Tests that kill processes are on their own.

mod bit_flips;
mod common;
mod damage;
mod decoders;
mod derived_crash;
mod disk_full;
mod histories;
mod linkbench_crash;
mod pool_claim;
mod pool_crash;
mod prepared_crash;
mod recovery;
mod repair;
mod settings_agree;
mod tpcc_crash;
