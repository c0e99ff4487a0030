//! The program from outside: what it prints, to where, and its exit status.

mod backing_up;
mod bench;
mod browsing;
mod damage;
mod demo;
mod describing;
mod encrypting;
mod expiring;
mod exporting;
mod flashing;
mod following;
mod importing;
mod indexes;
mod keyspace_ttl;
mod killing;
mod merging;
mod migrate;
mod objects;
mod opening;
mod points;
mod pooled;
mod pools;
mod preparing;
mod repairing;
mod scanning;
mod scratch;
mod serving;
mod setting;
mod shell;
mod shipping;
mod showing;
mod showing_pages;
mod tailing;
mod topping;

use scratch::{Done, Scratch, names};

/// The program that is tested, and how its messages begin.
const PROGRAM: &str = env!("CARGO_BIN_EXE_esker");
const PREFIX: &str = "esker: ";
