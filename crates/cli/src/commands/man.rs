//! `esker man`: manual pages.

use crate::arguments::command;
use crate::failure::{Failure, Outcome};
use crate::output::raw_stdout;
use std::io::Write;
use std::path::PathBuf;

/// Print the manual page, or write one for each command to a directory
///
/// For example: esker man --dir ~/.local/share/man/man1
#[derive(clap::Args)]
pub struct Man {
    /// The directory, which must exist
    #[arg(long)]
    dir: Option<PathBuf>,
}

impl Man {
    pub fn run(self) -> Outcome {
        if let Some(dir) = self.dir {
            return clap_mangen::generate_to(command(), &dir)
                .map_err(|error| Failure::io("write to", dir.display().to_string(), error));
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        let mut out = raw_stdout();
        out.write_all(&page)?;
        Ok(out.flush()?)
    }
}
