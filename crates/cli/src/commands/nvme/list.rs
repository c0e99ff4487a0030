//! `esker nvme list`: keys.

use super::Node;
use crate::failure::Outcome;
use crate::form::KeyForm;
use crate::output::{is_json, put_json, stdout};
use serde_json::Map;
use std::ffi::OsString;
use std::io::Write;

/// List keys, in the node's order; with --json, {"key": …} on each line
#[derive(clap::Args)]
pub struct List {
    /// The key to start at
    #[arg(long, value_name = "KEY", default_value = "")]
    from: OsString,
    /// At most this many keys
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
            if is_json() {
                let mut object = Map::new();
                form.insert(&mut object, "key", &key);
                put_json(&mut out, &object)?;
            } else {
                writeln!(out, "{}", form.print(&key))?;
            }
        }
        Ok(out.flush()?)
    }
}
