//! Settings of a keyspace as flags, and how settings are written.

use crate::failure::Outcome;
use crate::output::tell;
use clap::Args;
use esker::merge::OperatorName;
use esker::options::{Compression, Dedup, Shape};
use esker::{DEFAULT_KEYSPACE, Db, Keyspace, KeyspaceSettings, Settings, SyncPolicy};
use esker_base::ByteSize;
use std::time::Duration;

/// Settings of a keyspace.
#[derive(Args, Default)]
#[command(next_help_heading = "Settings of the keyspace, if it is new")]
pub struct KeyspaceOptions {
    /// How tables are arranged [default: leveled:10]
    #[arg(long, value_name = "leveled[:RATIO]|tiered[:RUNS]|windowed:TIME[:BYTES]", value_parser = parse_shape)]
    pub shape: Option<Shape>,
    /// How a tiered keyspace removes obsolete versions [default: none]
    #[arg(long, value_name = "none|per-level[:THRESHOLD]|space-goal[:AMP]", value_parser = parse_dedup)]
    pub dedup: Option<Dedup>,
    /// How blocks are compressed [default: lz4]
    #[arg(long, value_name = "none|lz4|zstd", value_parser = parse_compression)]
    pub compression: Option<Compression>,
    /// Filter bits per key, on average over all tables, 0 to 32 [default: 10]
    #[arg(long, value_name = "BITS")]
    pub filter_bits: Option<u8>,
    /// The merge operator, such as add_i64, max, min, append, set_union or hyper_log_log [default: none]
    #[arg(long = "merge", value_name = "OPERATOR")]
    pub merge: Option<OperatorName>,
    /// How long entries live after they were written, such as 12h or 7d [default: until they are deleted]
    #[arg(long = "keyspace-ttl", value_name = "TIME", value_parser = parse_ttl)]
    pub keyspace_ttl: Option<Duration>,
}

impl KeyspaceOptions {
    /// The settings, in their ranges, for a keyspace that may be called `name`.
    pub fn settings(&self, name: &str) -> Outcome<KeyspaceSettings> {
        Keyspace::check_name(name)?;
        let default = KeyspaceSettings::default();
        let mut settings = default
            .shape(self.shape.unwrap_or(default.shape))
            .dedup(self.dedup.unwrap_or(default.dedup))
            .compression(self.compression.unwrap_or(default.compression))
            .filter_bits(self.filter_bits.unwrap_or(default.filter_bits));
        settings.merge = self.merge;
        settings.ttl = self.keyspace_ttl;
        settings.validate()?;
        Ok(settings)
    }

    /// The keyspace `name`, made with `settings` if need be. Says so if other settings were asked
    /// for than an existing one has.
    pub fn open(&self, db: &Db, name: &str, settings: KeyspaceSettings) -> Outcome<Keyspace> {
        let asked = self.shape.is_some()
            || self.dedup.is_some()
            || self.compression.is_some()
            || self.filter_bits.is_some()
            || self.merge.is_some()
            || self.keyspace_ttl.is_some();
        let existing = db.keyspaces().into_iter().find(|keyspace| keyspace.name == name);
        if let Some(existing) = existing
            && asked
            && existing.settings != settings
        {
            let kept = describe(existing.settings);
            tell(format_args!("keyspace {name} exists already and stays as it is: {kept}"));
        }
        match db.open_keyspace(name) {
            Err(esker::Error::UnknownKeyspace { .. }) => Ok(db.keyspace(name, settings)?),
            existing => Ok(existing?),
        }
    }
}

/// The settings for a database in which the keyspace `name` is made with its own: the default keyspace is
/// made with the database.
pub fn with_default(settings: Settings, name: &str, own: KeyspaceSettings) -> Settings {
    match name == DEFAULT_KEYSPACE {
        true => settings.default_keyspace(own),
        false => settings,
    }
}

/// `always`, `os`, or a number of milliseconds.
pub fn parse_sync(text: &str) -> Result<SyncPolicy, String> {
    text.parse()
}

/// A number with its unit, such as `10m`.
pub fn parse_ttl(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_millis: Option<u64> = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let millis = number.parse::<u64>().ok().zip(unit_millis);
    let millis = millis.and_then(|(number, unit)| number.checked_mul(unit));
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is not a number with ms, s, m, h or d, such as 10m"))
}

/// `leveled`, `tiered`, each with a number after a colon or without. Or `windowed` with the length of
/// a window, and with the most bytes or without.
pub fn parse_shape(text: &str) -> Result<Shape, String> {
    text.parse()
}

/// `none`, or `per-level` or `space-goal`, each with a ratio after a colon or without.
pub fn parse_dedup(text: &str) -> Result<Dedup, String> {
    text.parse()
}

fn parse_compression(text: &str) -> Result<Compression, String> {
    text.parse().map_err(|_| format!("{text:?} is neither none, nor lz4, nor zstd"))
}

/// All settings of a keyspace, in words.
pub fn describe(settings: KeyspaceSettings) -> String {
    let KeyspaceSettings {
        compression,
        filter_bits,
        merge,
        compaction_filter,
        ttl,
        separation_threshold,
        ..
    } = settings;
    let merge = merge.map_or_else(String::new, |operator| format!(", merge operator {operator}"));
    let filter = compaction_filter
        .map_or_else(String::new, |filter| format!(", compaction filter {filter}"));
    let ttl = ttl.map_or_else(String::new, |ttl| format!(", time to live {ttl:?}"));
    let separated = separation_threshold.map_or_else(String::new, |bytes| {
        format!(", values of {} and more separated", ByteSize(u64::from(bytes)))
    });
    let more = merge + &filter + &ttl + &separated;
    format!("{}, {compression}, {filter_bits} filter bits{more}", arrangement(settings))
}

/// How tables are arranged, in words: the shape, and the deduplication if there is some.
pub fn arrangement(settings: KeyspaceSettings) -> String {
    let shape = settings.shape;
    match settings.dedup {
        Dedup::None => shape.to_string(),
        dedup => format!("{shape}, {dedup}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_as_they_are_shown() {
        let window = Duration::from_secs(86_400);
        let windowed = |max_bytes| Shape::Windowed { window, max_bytes };
        let others = [Shape::Leveled { ratio: 4 }, Shape::Tiered { runs: 12 }];
        for shape in others.into_iter().chain([None, Some(9 << 20)].map(windowed)) {
            assert_eq!(parse_shape(&shape.to_string()), Ok(shape));
        }
        for bad in ["", "flat", "leveled:", "tiered:x", "windowed:1", "windowed:1h:", "windowed"] {
            assert!(parse_shape(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ways_to_deduplicate_are_read_as_they_are_shown() {
        for text in ["none", "per-level:1.6", "space-goal:1.25"] {
            assert_eq!(parse_dedup(text).unwrap().to_string(), text);
        }
        for bad in ["", "some", "none:1.2", "per-level:", "space-goal:x"] {
            assert!(parse_dedup(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sync_is_a_word_or_an_interval() {
        assert_eq!(parse_sync("always"), Ok(SyncPolicy::Always));
        assert_eq!(parse_sync("250"), Ok(SyncPolicy::Every(Duration::from_millis(250))));
        assert_eq!(parse_ttl("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_ttl("10m"), Ok(Duration::from_secs(600)));
        for wrong in ["", "10", "m", "-1s", "1.5h", "1w", "99999999999999999999s"] {
            assert!(parse_ttl(wrong).is_err(), "{wrong}");
        }
        assert!(parse_sync("sometimes").is_err());
    }
}
