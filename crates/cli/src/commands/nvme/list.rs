//! `esker nvme list`: keys.

use super::Node;
use crate::failure::Outcome;
use crate::output::stdout;
use crate::text::{Form, escape, hex};
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
    form: Form,
    #[command(flatten)]
    node: Node,
}

impl List {
    pub fn run(self) -> Outcome {
        let from = self.form.parse(self.from)?;
        let keys = self.node.connect()?.list(&from, self.limit.unwrap_or(usize::MAX))?;
        let mut out = stdout();
        for key in keys {
            match self.form.hex {
                true => writeln!(out, "{}", hex(&key))?,
                false => writeln!(out, "{}", escape(&key))?,
            }
        }
        Ok(out.flush()?)
    }
}
