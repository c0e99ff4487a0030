//! `esker migrate`: from another engine.

use crate::failure::{Failure, Outcome};
use crate::output::is_json;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Copy a database of another engine to a new database
///
/// `esker migrate rocksdb DIR NEW` copies a database of RocksDB. The program esker-migrate-rocksdb
/// does it, which contains RocksDB. It is looked for next to this program and in PATH.
///
/// Esker's sources have it: `scripts/install-peers` installs what RocksDB needs, and
/// `cargo install --path crates/migrate-rocksdb` builds it.
#[derive(clap::Args)]
pub struct Migrate {
    /// The engine
    #[arg(value_parser = ["rocksdb"])]
    engine: String,
    /// The directory of its database, that of the new one, and options: see
    /// `esker migrate rocksdb -- --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

impl Migrate {
    pub fn run(self) -> Outcome {
        let name = format!("esker-migrate-{}", self.engine);
        let neighbour = std::env::current_exe().map(|program| program.with_file_name(&name));
        let neighbour = neighbour.ok().filter(|program| program.is_file());
        let mut program = Command::new(neighbour.unwrap_or_else(|| PathBuf::from(&name)));
        // This program's own flag, or one behind it that was not parsed.
        if is_json() && !self.arguments.iter().any(|argument| argument == "--json") {
            program.arg("--json");
        }
        // It returns only if the program cannot be started.
        let error = program.args(&self.arguments).exec();
        Err(match error.kind() {
            std::io::ErrorKind::NotFound => Failure::new(format!(
                "the program {name} is neither next to this one nor in PATH; in Esker's sources, run \
                 `scripts/install-peers` and `cargo install --path crates/migrate-{}`",
                self.engine
            )),
            _ => Failure::io("run", name, error),
        })
    }
}
