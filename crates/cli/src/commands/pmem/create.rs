//! `esker pmem create`: a new pool.

use super::header_json;
use super::info::describe;
use crate::failure::Outcome;
use crate::output::show;
use crate::units;
use esker_pmem::{Accept, Pool};
use std::path::PathBuf;

/// Create a pool, and allocate all its blocks
#[derive(clap::Args)]
pub struct Create {
    /// The pool's file, which must not exist
    path: PathBuf,
    /// The pool's size; a log segment is a sixteenth of it, up to 1 GiB
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    bytes: usize,
    /// Accept a file on tmpfs in place of persistent memory: it survives no power loss
    #[arg(long)]
    emulated: bool,
}

impl Create {
    pub fn run(self) -> Outcome {
        let accept = if self.emulated { Accept::Emulated } else { Accept::Persistent };
        let pool = Pool::create(&self.path, self.bytes as u64, accept)?;
        show(|| header_json(&pool).into(), || describe(&pool))
    }
}
