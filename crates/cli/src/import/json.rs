//! JSON Lines: an object a line, blank lines passed over.
//!
//! Only the fields asked for are decoded, and values that are taken over keep their very text, so
//! that no number loses a digit.

use super::lines::{Line, Lines};
use super::record::{Bad, Record, Rules, Step};
use crate::text::unhex;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::BufRead;

/// A parser of one file.
pub struct JsonLines {
    rules: Rules,
    line: Vec<u8>,
}

impl JsonLines {
    /// A parser that makes entries by `rules`.
    pub fn new(rules: Rules) -> Self {
        JsonLines { rules, line: Vec::new() }
    }

    /// Reads the next record.
    pub fn next(
        &mut self,
        input: &mut Lines<impl BufRead>,
        record: &mut Record,
    ) -> std::io::Result<Step> {
        loop {
            let read = input.next(&mut self.line)?;
            let line = input.number();
            let text = match read {
                Line::End => return Ok(Step::End),
                Line::TooLong => {
                    let limit = crate::units::bytes(input.limit() as u64);
                    let what = format!("the line is longer than {limit}");
                    return Ok(Step::Bad(Bad::new(line, what)));
                }
                Line::Whole => self.line.trim_ascii(),
            };
            if text.is_empty() {
                continue;
            }
            record.line = line;
            let filled = std::str::from_utf8(text)
                .map_err(|_| "the line is not UTF-8".to_owned())
                .and_then(|text| fill(text, &self.rules, record));
            return Ok(match filled {
                Ok(()) => Step::Record,
                Err(what) => Step::Bad(Bad::new(line, what)),
            });
        }
    }
}

fn fill(text: &str, rules: &Rules, record: &mut Record) -> Result<(), String> {
    record.key.clear();
    record.key.extend_from_slice(&rules.key_prefix);
    record.value.clear();
    let Some(key) = &rules.key else { return fill_from_export(text, record) };
    let found = find(text, key)?.ok_or_else(|| format!("there is no field {key}"))?;
    put_key(key, found, &mut record.key)?;
    match &rules.value {
        None => record.value.extend_from_slice(text.as_bytes()),
        Some(value) => {
            let found = find(text, value)?.ok_or_else(|| format!("there is no field {value}"))?;
            put_value(found, &mut record.value)?;
        }
    }
    Ok(())
}

/// A line that `esker export` wrote.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exported<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    key_hex: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value_hex: Option<Cow<'a, str>>,
}

fn fill_from_export(text: &str, record: &mut Record) -> Result<(), String> {
    let line: Exported<'_> = serde_json::from_str(text).map_err(|error| {
        format!("not a line of an export ({}); name the key's field with --key", describe(&error))
    })?;
    put_exported("key", line.key, line.key_hex, &mut record.key)?;
    put_exported("value", line.value, line.value_hex, &mut record.value)
}

fn put_exported(
    name: &str,
    text: Option<Cow<'_, str>>,
    digits: Option<Cow<'_, str>>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match (text, digits) {
        (Some(text), None) => out.extend_from_slice(text.as_bytes()),
        (None, Some(digits)) => out.extend_from_slice(&unhex(digits.as_bytes())?),
        _ => return Err(format!("one of {name} and {name}_hex was expected")),
    }
    Ok(())
}

/// The field `name` of an object: one of just that name, or else the end of a dotted path.
fn find<'a>(object: &'a str, name: &str) -> Result<Option<&'a str>, String> {
    if let Some(found) = field(object, name)? {
        return Ok(Some(found));
    }
    for (at, _) in name.match_indices('.') {
        let inner = field(object, &name[..at])?;
        if let Some(inner) = inner.filter(|inner| inner.starts_with('{')) {
            return find(inner, &name[at + 1..]);
        }
    }
    Ok(None)
}

/// The text of the field `name` of an object; of the last one, if there are several.
fn field<'a>(object: &'a str, name: &str) -> Result<Option<&'a str>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(object);
    let found = deserializer
        .deserialize_map(FieldNamed(name))
        .and_then(|found| deserializer.end().map(|()| found));
    found.map(|raw| raw.map(RawValue::get)).map_err(|error| describe(&error))
}

/// The message without the line, which is always 1 here.
fn describe(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    match error.column() {
        0 => format!("not a JSON object: {message}"),
        column => format!("not a JSON object: {message}, at column {column}"),
    }
}

struct FieldNamed<'n>(&'n str);

impl<'de> Visitor<'de> for FieldNamed<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(wanted) = map.next_key_seed(IsNamed(self.0))? {
            if wanted {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Whether a field's name is this one, found out without copying it.
struct IsNamed<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for IsNamed<'_> {
    type Value = bool;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsNamed<'_> {
    type Value = bool;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a field name")
    }
    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

fn put_key(name: &str, raw: &str, out: &mut Vec<u8>) -> Result<(), String> {
    match raw.as_bytes().first() {
        Some(b'{') => Err(format!("field {name} is an object and can't be a key")),
        Some(b'[') => Err(format!("field {name} is an array and can't be a key")),
        Some(b'n') => Err(format!("field {name} is null and can't be a key")),
        _ => put_value(raw, out),
    }
}

/// A string's text, anything else's JSON.
fn put_value(raw: &str, out: &mut Vec<u8>) -> Result<(), String> {
    if raw.starts_with('"') {
        let text: Cow<'_, str> = serde_json::from_str(raw).map_err(|error| describe(&error))?;
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(raw.as_bytes());
    }
    Ok(())
}
