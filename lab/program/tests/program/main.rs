//! The program from outside: what it prints, to where, and its exit status.

mod benching;
mod crashing;
mod db_bench;
mod scaling;
#[path = "../../../../crates/cli/tests/program/scratch.rs"]
#[allow(dead_code, reason = "it serves the tests of both programs")]
mod scratch;

use scratch::{Done, Scratch, names};

/// The program that is tested, and how its messages begin.
const PROGRAM: &str = env!("CARGO_BIN_EXE_esker-lab");
const PREFIX: &str = "esker-lab: ";
