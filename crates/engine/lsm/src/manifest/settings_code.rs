//! How settings of keyspaces, and the key format of a database, are encoded in manifests and tables.

use super::version_edit::millis_of;
use crate::fold::operators::OperatorName;
use crate::options::settings::{KeyspaceSettings, Shape};
use crate::options::space_policy::{Dedup, Ratio};
use crate::user_keys::KeyFormat;
use esker_base::coding::{
    put_bytes, put_varint64, take_bytes, take_u8, take_varint32, take_varint64,
};
use esker_table::Compression;
use std::time::Duration;

const KEYS_AS_GIVEN: u8 = 0;
const KEYS_MAPPED: u8 = 1;

const LEVELED: u8 = 1;
const TIERED: u8 = 2;
// What these go by follows as one more number.
const TIERED_PER_LEVEL: u8 = 3;
const TIERED_SPACE_GOAL: u8 = 4;
// The length of a window in seconds, and the most bytes, 0 if there is no limit.
const WINDOWED: u8 = 5;

pub(super) fn key_format_byte(format: KeyFormat) -> u8 {
    match format {
        KeyFormat::AsGiven => KEYS_AS_GIVEN,
        KeyFormat::Mapped => KEYS_MAPPED,
    }
}

pub(super) fn take_key_format(input: &mut &[u8]) -> Option<KeyFormat> {
    match take_u8(input)? {
        KEYS_AS_GIVEN => Some(KeyFormat::AsGiven),
        KEYS_MAPPED => Some(KeyFormat::Mapped),
        _ => None,
    }
}

/// What a table says of its keyspace's settings, and of how the database stores keys.
pub(crate) fn settings_property(settings: &KeyspaceSettings, keys: KeyFormat) -> Vec<u8> {
    let mut out = Vec::new();
    encode_settings(settings, &mut out);
    out.push(key_format_byte(keys));
    // Readers of the first releases stop before it.
    if settings.merge.is_some() || settings.compaction_filter.is_some() {
        put_name(settings.merge, &mut out);
    }
    if settings.compaction_filter.is_some() {
        put_name(settings.compaction_filter, &mut out);
    }
    out
}

/// What [`settings_property`] returns, with the time to live. Readers from before it stop before it.
pub(super) fn aging_settings_property(settings: &KeyspaceSettings, keys: KeyFormat) -> Vec<u8> {
    let mut out = settings_property(settings, keys);
    if let Some(ttl) = settings.ttl {
        // Both names are before it, empty or not.
        if settings.compaction_filter.is_none() {
            let lacks_merge = settings.merge.is_none();
            (0..=u8::from(lacks_merge)).for_each(|_| put_name(None, &mut out));
        }
        put_varint64(&mut out, millis_of(ttl));
    }
    out
}

/// Reads what [`settings_property`] or [`aging_settings_property`] wrote.
pub(crate) fn read_settings_property(mut bytes: &[u8]) -> Option<(KeyspaceSettings, KeyFormat)> {
    let (mut settings, keys) = (decode_settings(&mut bytes)?, take_key_format(&mut bytes)?);
    if !bytes.is_empty() {
        settings.merge = take_name(&mut bytes)?;
    }
    if !bytes.is_empty() {
        settings.compaction_filter = take_name(&mut bytes)?;
    }
    if !bytes.is_empty() {
        settings.ttl = Some(Duration::from_millis(take_varint64(&mut bytes)?));
    }
    Some((settings, keys))
}

/// Appends a name; an empty one if there is none.
pub(super) fn put_name(name: Option<OperatorName>, out: &mut Vec<u8>) {
    put_bytes(out, name.as_ref().map_or(&[], |name| name.as_str().as_bytes()));
}

/// Takes what [`put_name`] appended. The outer option is `None` if no name can be read.
#[allow(clippy::option_option)]
pub(super) fn take_name(input: &mut &[u8]) -> Option<Option<OperatorName>> {
    match take_bytes(input)? {
        b"" => Some(None),
        bytes => {
            let name = OperatorName::new(std::str::from_utf8(bytes).ok()?);
            name.is_valid().then_some(Some(name))
        }
    }
}

/// Appends a keyspace's settings.
pub(super) fn encode_settings(settings: &KeyspaceSettings, out: &mut Vec<u8>) {
    let (shape, parameter) = match (settings.shape, settings.dedup) {
        (Shape::Leveled { ratio }, _) => (LEVELED, ratio),
        (Shape::Tiered { runs }, Dedup::None) => (TIERED, runs),
        (Shape::Tiered { runs }, Dedup::PerLevel { .. }) => (TIERED_PER_LEVEL, runs),
        (Shape::Tiered { runs }, Dedup::SpaceGoal { .. }) => (TIERED_SPACE_GOAL, runs),
        // Validation rejects windows that are longer.
        (Shape::Windowed { window, .. }, _) => (WINDOWED, window.as_secs() as u32),
    };
    out.push(shape);
    put_varint64(out, u64::from(parameter));
    if let Some(ratio) = settings.dedup.ratio() {
        put_varint64(out, u64::from(ratio.hundredths()));
    }
    if let Shape::Windowed { max_bytes, .. } = settings.shape {
        put_varint64(out, max_bytes.unwrap_or(0));
    }
    out.push(settings.compression as u8);
    out.push(settings.filter_bits);
}

/// Takes what [`encode_settings`] appended.
pub(super) fn decode_settings(input: &mut &[u8]) -> Option<KeyspaceSettings> {
    let shape = take_u8(input)?;
    let parameter = take_varint32(input)?;
    let mut ratio = || take_varint32(input).map(Ratio::of_hundredths);
    let dedup = match shape {
        TIERED_PER_LEVEL => Dedup::PerLevel { threshold: ratio()? },
        TIERED_SPACE_GOAL => Dedup::SpaceGoal { amp: ratio()? },
        _ => Dedup::None,
    };
    let settings = KeyspaceSettings::default()
        .shape(match shape {
            LEVELED => Shape::Leveled { ratio: parameter },
            TIERED | TIERED_PER_LEVEL | TIERED_SPACE_GOAL => Shape::Tiered { runs: parameter },
            WINDOWED => Shape::Windowed {
                window: Duration::from_secs(u64::from(parameter)),
                max_bytes: Some(take_varint64(input)?).filter(|bytes| *bytes > 0),
            },
            _ => return None,
        })
        .dedup(dedup)
        .compression(Compression::from_u8(take_u8(input)?)?)
        .filter_bits(take_u8(input)?);
    settings.validate().ok().map(|()| settings)
}
