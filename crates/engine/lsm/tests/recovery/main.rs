//! Opening and repairing: after a kill, a power loss, and damage to any file.

#[path = "../support/killed.rs"]
mod killed;
#[path = "../support/pool_place.rs"]
mod pool_place;
#[path = "../support/replaced_file.rs"]
mod replaced_file;
mod support;

mod few_files;
mod logs_elsewhere;
mod lost_tables;
mod manifest_cuts;
mod opening;
mod pool_age;
mod pool_forged;
mod pool_repair;
mod power_loss_beside_writers;
mod rebuilding;
mod sync_every;
mod torn_log;
