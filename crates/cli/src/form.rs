//! How keys and values are given as arguments, and printed.
//!
//! | flag | given as | printed as |
//! |---|---|---|
//! | none | the argument's own bytes | escaped, or as it is (`get`) |
//! | `--escaped` | text by the escape rule of [`crate::text`] | the same |
//! | `--key-hex`, `--value-hex`, `--hex` for both | hexadecimal digits | the same |

use crate::failure::{Failure, Outcome};
use crate::text::{escape, escape_into, hex, unescape, unhex};
use serde_json::{Map, Value as Json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// How bytes are given and printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notation {
    /// As they are; printed by the escape rule.
    #[default]
    Text,
    /// By the escape rule.
    Escaped,
    /// As hexadecimal digits.
    Hex,
}

/// How keys and values are given and printed.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Form {
    /// The same as --key-hex --value-hex
    #[arg(long, conflicts_with = "escaped")]
    hex: bool,
    /// Keys are hexadecimal digits, given and printed
    #[arg(long)]
    key_hex: bool,
    /// Values are hexadecimal digits, given and printed
    #[arg(long)]
    value_hex: bool,
    /// Keys and values are given as `esker scan` prints them: \xHH is a byte, \n a newline, \\ a backslash
    #[arg(long)]
    escaped: bool,
}

/// How keys are given and printed.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct KeyForm {
    /// Keys are hexadecimal digits, given and printed
    #[arg(long, visible_alias = "hex", conflicts_with = "escaped")]
    key_hex: bool,
    /// Keys are given as `esker scan` prints them: \xHH is a byte, \n a newline, \\ a backslash
    #[arg(long)]
    escaped: bool,
}

fn notation(hex: bool, escaped: bool) -> Notation {
    match (hex, escaped) {
        (true, _) => Notation::Hex,
        (false, true) => Notation::Escaped,
        (false, false) => Notation::Text,
    }
}

impl Form {
    /// The notation of keys.
    pub fn key(self) -> Notation {
        notation(self.hex || self.key_hex, self.escaped)
    }

    /// The notation of values.
    pub fn value(self) -> Notation {
        notation(self.hex || self.value_hex, self.escaped)
    }

    /// Whether values, and values alone, were asked for as hexadecimal digits.
    pub fn is_value_hex(self) -> bool {
        self.value_hex
    }

    /// A JSON object of a key and its value.
    pub fn pair(self, key: &[u8], value: &[u8]) -> Json {
        let mut object = Map::new();
        self.key().insert(&mut object, "key", key);
        self.value().insert(&mut object, "value", value);
        object.into()
    }
}

impl KeyForm {
    /// The notation of keys.
    pub fn key(self) -> Notation {
        notation(self.key_hex, self.escaped)
    }
}

impl Notation {
    /// The bytes that an argument stands for.
    pub fn parse(self, argument: OsString) -> Outcome<Vec<u8>> {
        let bytes = argument.into_vec();
        let parsed = match self {
            Notation::Text => return Ok(bytes),
            Notation::Escaped => unescape(&bytes),
            Notation::Hex => unhex(&bytes),
        };
        parsed.map_err(|what| Failure::Usage(format!("{}: {what}", escape(&bytes))))
    }

    /// Appends `bytes` as they are printed in a field.
    pub fn print_into(self, bytes: &[u8], out: &mut String) {
        match self {
            Notation::Text | Notation::Escaped => escape_into(bytes, out),
            Notation::Hex => out.push_str(&hex(bytes)),
        }
    }

    /// `bytes` as they are printed in a field.
    pub fn print(self, bytes: &[u8]) -> String {
        let mut out = String::new();
        self.print_into(bytes, &mut out);
        out
    }

    /// Adds `bytes` to a JSON object: as `name` if they are UTF-8, else, and as hexadecimal digits, as
    /// `name_hex`.
    pub fn insert(self, object: &mut Map<String, Json>, name: &str, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) if self != Notation::Hex => object.insert(name.to_owned(), text.into()),
            _ => object.insert(format!("{name}_hex"), hex(bytes).into()),
        };
    }

    /// The answer that there is no such key. Names the flag that was forgotten, if one may be.
    pub fn absent(self, key: &[u8]) -> Failure {
        let mut message = format!("key {} not found", self.print(key));
        let is_pasted = |key| unescape(key).is_ok_and(|bytes| bytes != key);
        if self == Notation::Text && is_pasted(key) {
            message += "; use --escaped if the key is as `esker scan` prints it";
        }
        Failure::not_found(message)
    }
}
