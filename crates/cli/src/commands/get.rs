//! `esker get`: one value.

use crate::failure::{Failure, Outcome};
use crate::form::{Form, Notation};
use crate::limits;
use crate::output::{raw_stdout, show};
use crate::place::Place;
use crate::text::readable;
use esker::merge::decode_i64;
use std::ffi::OsString;
use std::io::Write;

/// Print the value of a key
///
/// Text is printed as it is, with a newline after it. A value that is not UTF-8, or holds other
/// control characters, is escaped. Exit status 1 if the key does not exist.
#[derive(clap::Args)]
pub struct Get {
    #[command(flatten)]
    place: Place,
    /// The key
    key: OsString,
    #[command(flatten)]
    form: Form,
    /// Print the exact bytes of the value, and nothing after them
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print a value of eight bytes as the integer that the merge operator add_i64 stores
    #[arg(long, conflicts_with_all = ["json", "raw"])]
    i64: bool,
}

impl Get {
    pub fn run(self) -> Outcome {
        let key = self.form.key().parse(self.key)?;
        limits::check_key(&key)?;
        let (db, keyspace) = self.place.open_for_reading()?;
        let Some(value) = db.get(&keyspace, &key)? else {
            return Err(self.form.key().absent(&key));
        };
        if self.raw {
            let mut out = raw_stdout();
            out.write_all(&value)?;
            return Ok(out.flush()?);
        }
        if self.i64 {
            let number = decode_i64(&value);
            let wrong = || Failure::Failed(format!("the value has {} bytes, not 8", value.len()));
            let number = number.ok_or_else(wrong)?;
            return show(|| number.into(), || format!("{number}\n"));
        }
        let text = || match self.form.value() {
            Notation::Text => readable(&value),
            form => form.print(&value),
        };
        show(|| self.form.pair(&key, &value), || text() + "\n")
    }
}
