//! `esker scan`: the entries of a range.

use crate::failure::{Failure, Outcome};
use crate::form::Form;
use crate::output::{is_json, json_line, raw_stdout};
use crate::place::{Place, Stretch, for_each, for_each_around};
use serde_json::{Map, Value as Json};
use std::io::Write;

/// Print the keys and values of a range, in key order
///
/// A line is key, tab, value, both escaped: text as it is, except \\ \t \n \r, and \xHH for bytes
/// that are not printable. With --json it is {"key": …, "value": …}.
#[derive(clap::Args)]
pub struct Scan {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    stretch: Stretch,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Stop after this many keys
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print no values
    #[arg(long)]
    keys_only: bool,
    /// Skip damaged blocks, report them, and end with status 1 if there were any. No other process may
    /// have the database open
    #[arg(long, conflicts_with = "reverse")]
    skip_damaged: bool,
    #[command(flatten)]
    form: Form,
}

impl Scan {
    pub fn run(self) -> Outcome {
        let form = self.form;
        let range = self.stretch.range(form.key())?;
        // Both kinds of lines are escaped.
        let mut out = raw_stdout();
        let (mut line, is_json) = (String::new(), is_json());
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut read = Ok(());
        if left > 0 {
            let visit = |key: &[u8], value: &[u8]| {
                line.clear();
                let value = (!self.keys_only).then_some(value);
                if is_json {
                    line.push_str(&json_line(&object(form, key, value))?);
                } else {
                    text_line(form, key, value, &mut line);
                }
                out.write_all(line.as_bytes())?;
                left -= 1;
                Ok(left > 0)
            };
            read = if self.skip_damaged {
                for_each_around(&self.place, &range, visit)
            } else {
                let (db, keyspace) = self.place.open_for_reading()?;
                for_each(&db, &keyspace, range, self.reverse, visit)
            };
        } else {
            self.place.open_for_reading()?;
        }
        Failure::after_output(out.flush().map_err(Failure::from), read)
    }
}

fn text_line(form: Form, key: &[u8], value: Option<&[u8]>, line: &mut String) {
    form.key().print_into(key, line);
    if let Some(value) = value {
        line.push('\t');
        form.value().print_into(value, line);
    }
    line.push('\n');
}

fn object(form: Form, key: &[u8], value: Option<&[u8]>) -> Map<String, Json> {
    let mut object = Map::new();
    form.key().insert(&mut object, "key", key);
    if let Some(value) = value {
        form.value().insert(&mut object, "value", value);
    }
    object
}
