//! `esker nvme list`: keys.

use super::Node;
use crate::failure::Outcome;
use crate::form::KeyForm;
use crate::output::stdout;
use std::ffi::OsString;
use std::io::Write;

/// List keys, in the node's order
#[derive(clap::Args)]
pub struct List {
    /// The key to start at
    #[arg(long, value_name = "KEY", default_value = "")]
    from: OsString,
    /// So many at most
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    form: KeyForm,
    #[command(flatten)]
    node: Node,
}

impl List {
    pub fn run(self) -> Outcome {
        let form = self.form.key();
        let from = form.parse(self.from)?;
        let keys = self.node.connect()?.list(&from, self.limit.unwrap_or(usize::MAX))?;
        let mut out = stdout();
        for key in keys {
            writeln!(out, "{}", form.print(&key))?;
        }
        Ok(out.flush()?)
    }
}
