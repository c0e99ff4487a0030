//! `esker pmem info`: what a pool says of itself.

use super::{TO_LOOK_AT, header_json, identity};
use crate::failure::Outcome;
use crate::output::show;
use crate::units;
use esker_pmem::Pool;
use std::path::PathBuf;

/// Show a pool's kind of memory, size, database, and the extents in use
///
/// Another process may have the pool open.
#[derive(clap::Args)]
pub struct Info {
    /// The pool's file
    path: PathBuf,
}

impl Info {
    pub fn run(self) -> Outcome {
        let pool = Pool::open_read_only(&self.path, TO_LOOK_AT)?;
        show(|| header_json(&pool).into(), || describe(&pool))
    }
}

/// A pool in a few lines.
pub fn describe(pool: &Pool) -> String {
    let owner = pool.owner().map_or("none yet".to_owned(), identity);
    let stores = pool.describe_ways().unwrap_or_else(|| "none here".to_owned());
    let used: Vec<_> = pool.used().iter().map(u32::to_string).collect();
    let used = match used.len() {
        0 => "none in use".to_owned(),
        number => format!("{} in use, for segments {}", number, used.join(", ")),
    };
    format!(
        "pool      {}\nmemory    {}\nstores    {stores}\nidentity  {}\ndatabase  {owner}\nsize      {}\nextents   {} of {}; {used}\n",
        pool.describe(),
        pool.domain(),
        identity(pool.identity()),
        units::bytes(pool.bytes()),
        pool.extents(),
        units::bytes(pool.extent_bytes() as u64),
    )
}
