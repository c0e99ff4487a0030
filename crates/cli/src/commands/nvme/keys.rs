//! `esker nvme store|retrieve|delete|exist`: one key.

use super::Node;
use crate::failure::{Answer, Failure, Outcome};
use crate::form::{Form, KeyForm, Notation};
use crate::limits;
use crate::output::{is_json, raw_stdout, show};
use crate::text::readable;
use esker_nvme::command::kv::Condition;
use esker_nvme::limits::VALUE_BYTES;
use serde_json::json;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};

/// Set a key to a value
///
/// The key has 1 to 16 bytes, or up to 65,535 in a namespace of long keys.
#[derive(clap::Args)]
pub struct Store {
    /// The key
    key: OsString,
    /// The value; - for the bytes of standard input
    value: OsString,
    #[command(flatten)]
    form: Form,
    /// Only if the key does not exist
    #[arg(long)]
    if_absent: bool,
    /// Only if the key exists
    #[arg(long, conflicts_with = "if_absent")]
    if_exists: bool,
    #[command(flatten)]
    node: Node,
}

/// Write the exact bytes of a key's value; with --value-hex or --escaped, as text with a newline
#[derive(clap::Args)]
pub struct Retrieve {
    /// The key
    key: OsString,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    node: Node,
}

/// Remove a key; exit status 1 if it does not exist
#[derive(clap::Args)]
pub struct Delete {
    /// The key
    key: OsString,
    #[command(flatten)]
    form: KeyForm,
    #[command(flatten)]
    node: Node,
}

/// Exit status 0 if a key exists, 1 if not
#[derive(clap::Args)]
pub struct Exist {
    /// The key
    key: OsString,
    #[command(flatten)]
    form: KeyForm,
    #[command(flatten)]
    node: Node,
}

impl Store {
    pub fn run(self) -> Outcome {
        let key = self.form.key().parse(self.key)?;
        let value = limits::value(
            self.value,
            self.form.value(),
            VALUE_BYTES as usize,
            "which a node takes at most",
        )?;
        let condition = match (self.if_absent, self.if_exists) {
            (true, _) => Condition::IfAbsent,
            (_, true) => Condition::IfExists,
            _ => Condition::Always,
        };
        match (self.node.connect()?.store_if(&key, &value, condition)?, condition) {
            (true, _) => show(|| json!({ "stored": true }), String::new),
            (false, Condition::IfAbsent) => {
                let key = self.form.key().print(&key);
                Err(Failure::No(Answer::Exists, format!("key {key} exists already")))
            }
            (false, _) => Err(self.form.key().absent(&key)),
        }
    }
}

impl Retrieve {
    pub fn run(self) -> Outcome {
        let key = self.form.key().parse(self.key)?;
        let value =
            self.node.connect()?.retrieve(&key)?.ok_or_else(|| self.form.key().absent(&key))?;
        if is_json() {
            return show(|| self.form.pair(&key, &value), String::new);
        }
        let mut out = raw_stdout();
        match self.form.value() {
            // Not onto a terminal, which would take a control character for a command.
            Notation::Text if std::io::stdout().is_terminal() => {
                writeln!(out, "{}", readable(&value))?;
            }
            Notation::Text => out.write_all(&value)?,
            form => writeln!(out, "{}", form.print(&value))?,
        }
        Ok(out.flush()?)
    }
}

impl Delete {
    pub fn run(self) -> Outcome {
        let key = self.form.key().parse(self.key)?;
        match self.node.connect()?.delete(&key)? {
            true => show(|| json!({ "deleted": true }), String::new),
            false => Err(self.form.key().absent(&key)),
        }
    }
}

impl Exist {
    pub fn run(self) -> Outcome {
        let key = self.form.key().parse(self.key)?;
        match self.node.connect()?.exist(&key)? {
            true => show(|| json!({ "exists": true }), String::new),
            false => Err(self.form.key().absent(&key)),
        }
    }
}
