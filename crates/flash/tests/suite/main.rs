//! Files and databases on flash devices: full, damaged, read-only, shared.

mod engine;
mod files;
mod full;
mod golden;
mod lost_tables;
mod names;
mod raced;
mod reading;
mod repair;
mod unreadable;
