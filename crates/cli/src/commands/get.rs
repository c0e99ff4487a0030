//! `esker get`: one value.

use crate::failure::{Failure, Outcome};
use crate::form::{Form, Notation};
use crate::limits;
use crate::output::{raw_stdout, show};
use crate::place::Place;
use crate::text::readable;
use esker::large_value::ValueReader;
use esker::merge::decode_i64;
use std::ffi::OsString;
use std::io::{Read, Write};

/// So many bytes of a value are printed at once.
const PIECE_BYTES: usize = 256 << 10;

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
        if self.raw {
            let value = db.get_reader(&keyspace, &key)?;
            return print_raw(value.ok_or_else(|| self.form.key().absent(&key))?);
        }
        let Some(value) = db.get(&keyspace, &key)? else {
            return Err(self.form.key().absent(&key));
        };
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

/// Prints a value without holding all of it.
fn print_raw(mut value: ValueReader) -> Outcome {
    let (mut out, mut piece) = (raw_stdout(), vec![0; PIECE_BYTES]);
    loop {
        let bytes = value.read(&mut piece).map_err(|error| {
            let source = error.get_ref().and_then(|source| source.downcast_ref::<esker::Error>());
            match source {
                Some(source) => source.clone().into(),
                None => Failure::io("read", "the value", error),
            }
        })?;
        if bytes == 0 {
            return Ok(out.flush()?);
        }
        out.write_all(&piece[..bytes])?;
    }
}
