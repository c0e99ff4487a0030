//! `esker dump-frames`, `dump-table`, `dump-manifest`: what one file says, line by line.
//!
//! With `--json` each line is an object whose field `object` says what it describes, and what comes
//! first describes the file itself; so a file that holds nothing gives output, too.

mod frames;
mod manifest;
mod table;

pub use frames::DumpFrames;
pub use manifest::DumpManifest;
pub use table::DumpTable;

use crate::form::Notation;
use crate::text::shorten;
use esker_base::{Kind, Seqno, ValuePlace, combined, split_expiry};
use serde_json::{Map, Value as Json, json};

/// How much of a key or value is shown; JSON has all of it.
const SHOWN: usize = 40;

/// A JSON object that describes an `object`.
fn object(object: &str) -> Map<String, Json> {
    Map::from_iter([("object".to_owned(), object.into())])
}

fn version(object: &mut Map<String, Json>, seqno: Seqno, kind: Kind, key: &[u8], value: &[u8]) {
    object.insert("seqno".into(), seqno.into());
    object.insert("kind".into(), kind_name(kind).into());
    Notation::Text.insert(object, "key", key);
    match kind {
        Kind::Delete => {}
        Kind::Put => Notation::Text.insert(object, "value", value),
        Kind::ExpiringPut => {
            let (time, value) = split_expiry(value).unwrap_or_default();
            object.insert("expires_ms".into(), time.into());
            Notation::Text.insert(object, "value", value);
        }
        Kind::RangeDelete => Notation::Text.insert(object, "end", value),
        Kind::Merge => Notation::Text.insert(object, "operand", value),
        Kind::Combined => match combined::decode(seqno, value) {
            Some((oldest, operand)) => {
                object.insert("oldest".into(), oldest.into());
                Notation::Text.insert(object, "operand", operand);
            }
            None => Notation::Text.insert(object, "value", value),
        },
        Kind::Separated => match ValuePlace::decode(value) {
            Some(place) => {
                let (file, offset, bytes) = (place.file, place.offset, place.bytes);
                let place = json!({ "file": file, "offset": offset, "bytes": bytes });
                object.insert("place".into(), place);
            }
            None => Notation::Text.insert(object, "value", value),
        },
    }
}

/// The value of a version, as text.
fn value_text(kind: Kind, value: &[u8]) -> String {
    if kind == Kind::Separated
        && let Some(place) = ValuePlace::decode(value)
    {
        let ValuePlace { file, offset, bytes, .. } = place;
        return format!("{bytes} bytes at {offset} of {file:08}.values");
    }
    match (kind, split_expiry(value)) {
        (Kind::ExpiringPut, Some((time, value))) => {
            format!("until {time} ms {}", shorten(value, SHOWN))
        }
        _ => shorten(value, SHOWN),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Delete => "delete",
        Kind::Put => "put",
        Kind::RangeDelete => "range-delete",
        Kind::Merge => "merge",
        Kind::ExpiringPut => "expiring-put",
        Kind::Combined => "combined",
        Kind::Separated => "separated",
    }
}
