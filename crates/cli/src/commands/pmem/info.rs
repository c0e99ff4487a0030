//! `esker pmem info`: what a pool says of itself.

use super::{TO_LOOK_AT, header_json, identity};
use crate::failure::Outcome;
use crate::output::{print_json, stdout};
use crate::units;
use esker_pmem::Pool;
use std::io::Write;
use std::path::PathBuf;

/// Show a pool's kind of memory, size, database, and the extents in use
///
/// Another process may have the pool open meanwhile.
#[derive(clap::Args)]
pub struct Info {
    /// The pool's file
    path: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Info {
    pub fn run(self) -> Outcome {
        let pool = Pool::open_read_only(&self.path, TO_LOOK_AT)?;
        if self.json {
            return print_json(&header_json(&pool));
        }
        let mut out = stdout();
        out.write_all(describe(&pool).as_bytes())?;
        Ok(out.flush()?)
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
