//! `esker completions`: completion of the command line by the shell.

use crate::arguments::command;
use crate::failure::Outcome;
use crate::output::raw_stdout;
use clap_complete::Shell;
use std::io::Write;

/// Print a script with which a shell completes commands of this program
///
/// For example, in bash: esker completions bash > ~/.local/share/bash-completion/completions/esker
#[derive(clap::Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command(), "esker", &mut script);
        let mut out = raw_stdout();
        out.write_all(&script)?;
        Ok(out.flush()?)
    }
}
