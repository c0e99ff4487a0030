//! Changes of settings while a database is open, and their text.
//!
//! The settings of a keyspace belong to the database: a change of one is stored in the manifest. The
//! others belong to the program that opens the database, and a change lasts until it closes.

use super::separation::{parse_separation, separation_text};
use super::settings::{KeyspaceSettings, SyncPolicy};
use super::slow_call;
use super::space_policy::Dedup;
use super::time_text::parse_time;
use super::write_rate::BackgroundWriteRate;
use esker_base::ByteSize;
use esker_table::Compression;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A change of a setting of an open database: see [`Db::set`](crate::Db::set).
///
/// Text is `NAME=VALUE`, or `KEYSPACE.NAME=VALUE` for a setting of a keyspace. Values are written as
/// [`Db::settings`](crate::Db::settings) shows them.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// use esker::options::{BackgroundWriteRate, SettingChange};
///
/// let change: SettingChange = "background_write_rate=20MiB".parse()?;
/// assert_eq!(change, SettingChange::BackgroundWriteRate(BackgroundWriteRate::Fixed(20 << 20)));
///
/// let error = "users.compresion=zstd".parse::<SettingChange>().unwrap_err();
/// assert!(error.ends_with("did you mean \"compression\"?"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SettingChange {
    /// [`Settings::background_threads`](crate::Settings::background_threads), until the database
    /// closes.
    BackgroundThreads(usize),
    /// [`Settings::background_write_rate`](crate::Settings::background_write_rate), until the
    /// database closes.
    BackgroundWriteRate(BackgroundWriteRate),
    /// [`Settings::memory_bytes`](crate::Settings::memory_bytes), until the database closes.
    ///
    /// The block cache grows or shrinks. MemTables, the DRAMTable and the largest batch keep the sizes
    /// of the open.
    MemoryBytes(usize),
    /// [`Settings::slow_call`](crate::Settings::slow_call), until the database closes.
    SlowCall(Duration),
    /// When the log is synced, until the database closes.
    ///
    /// Between [`SyncPolicy::Every`] and [`SyncPolicy::Os`] only: with [`SyncPolicy::Always`], readers
    /// see what is durable, which has to hold from the open on.
    Sync(SyncPolicy),
    /// A setting of a keyspace, stored in the database.
    Keyspace {
        /// The name of the keyspace.
        name: String,
        /// The change.
        change: KeyspaceChange,
    },
}

/// A change of a setting of a keyspace, stored in the database.
///
/// It applies to tables that are written from then on. [`Db::keyspace`](crate::Db::keyspace) opens the
/// keyspace whatever it is given for a setting that was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyspaceChange {
    /// [`KeyspaceSettings::compression`].
    Compression(Compression),
    /// [`KeyspaceSettings::dedup`], of a tiered keyspace.
    ///
    /// With a lower space-amplification limit, tables use more than the limit until compactions have
    /// caught up. Flushes wait for them, and writers for flushes.
    Dedup(Dedup),
    /// [`KeyspaceSettings::filter_bits`].
    FilterBits(u8),
    /// [`KeyspaceSettings::separation_threshold`].
    ///
    /// Compaction moves values that tables hold to value files, and back as it reclaims space there.
    SeparationThreshold(Option<u32>),
}

/// A setting of an open database that [`Db::set`](crate::Db::set) can change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CurrentSetting {
    /// The name, which starts with `KEYSPACE.` for a setting of a keyspace.
    pub name: String,
    /// The value, as [`SettingChange`] reads it.
    pub value: String,
    /// Whether a change is stored in the database, and so outlasts this process.
    pub is_persisted: bool,
}

/// The names of the settings of a database.
const OF_DATABASES: [&str; 5] =
    ["background_threads", "background_write_rate", "memory_bytes", "slow_call", "sync"];
/// The names of the settings of a keyspace.
const OF_KEYSPACES: [&str; 4] = ["compression", "dedup", "filter_bits", "separation_threshold"];

impl SettingChange {
    /// Whether the change is stored in the database, and so outlasts this process.
    pub fn is_persisted(&self) -> bool {
        matches!(self, SettingChange::Keyspace { .. })
    }

    /// The setting as it is after this change.
    pub(crate) fn current(&self) -> CurrentSetting {
        let text = self.to_string();
        let (name, value) = text.rsplit_once('=').unwrap_or_default();
        CurrentSetting {
            name: name.to_owned(),
            value: value.to_owned(),
            is_persisted: self.is_persisted(),
        }
    }
}

impl KeyspaceChange {
    /// The changes that make a keyspace have these settings.
    pub(crate) fn all_of(settings: &KeyspaceSettings) -> [KeyspaceChange; 4] {
        [
            KeyspaceChange::Compression(settings.compression),
            KeyspaceChange::Dedup(settings.dedup),
            KeyspaceChange::FilterBits(settings.filter_bits),
            KeyspaceChange::SeparationThreshold(settings.separation_threshold),
        ]
    }

    /// Returns `settings` with the change.
    pub(crate) fn of(self, settings: KeyspaceSettings) -> KeyspaceSettings {
        match self {
            KeyspaceChange::Compression(compression) => settings.compression(compression),
            KeyspaceChange::Dedup(dedup) => settings.dedup(dedup),
            KeyspaceChange::FilterBits(bits) => settings.filter_bits(bits),
            KeyspaceChange::SeparationThreshold(bytes) => settings.separation_threshold(bytes),
        }
    }

    pub(crate) fn changed(self) -> ChangedSettings {
        ChangedSettings(match self {
            KeyspaceChange::Compression(_) => 1,
            KeyspaceChange::Dedup(_) => 2,
            KeyspaceChange::FilterBits(_) => 4,
            KeyspaceChange::SeparationThreshold(_) => 8,
        })
    }
}

/// Which settings of a keyspace were changed since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChangedSettings(u8);

impl ChangedSettings {
    /// None of them.
    pub const NONE: ChangedSettings = ChangedSettings(0);

    /// The set with this number. `None` if it names a setting that is not known here.
    pub(crate) fn of_bits(bits: u8) -> Option<Self> {
        (bits < 16).then_some(ChangedSettings(bits))
    }

    /// The set as a number.
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// The names of the settings.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        OF_KEYSPACES
            .into_iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 >> bit & 1 == 1)
            .map(|it| it.1)
    }

    /// Those of both.
    pub(crate) fn with(self, other: Self) -> Self {
        ChangedSettings(self.0 | other.0)
    }

    /// Returns `asked` with the `stored` value of each setting of this set.
    pub(crate) fn kept(
        self,
        asked: KeyspaceSettings,
        stored: &KeyspaceSettings,
    ) -> KeyspaceSettings {
        let changes = KeyspaceChange::all_of(stored).into_iter();
        let kept = changes.filter(|change| self.0 & change.changed().0 != 0);
        kept.fold(asked, |settings, change| change.of(settings))
    }
}

/// Formats as text that is read as the same change.
impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingChange::BackgroundThreads(threads) => write!(f, "background_threads={threads}"),
            SettingChange::BackgroundWriteRate(rate) => write!(f, "background_write_rate={rate}"),
            SettingChange::MemoryBytes(bytes) => {
                write!(f, "memory_bytes={}", ByteSize(*bytes as u64))
            }
            SettingChange::SlowCall(limit) => write!(f, "slow_call={}", slow_call::text_of(*limit)),
            SettingChange::Sync(sync) => write!(f, "sync={sync}"),
            SettingChange::Keyspace { name, change } => write!(f, "{name}.{change}"),
        }
    }
}

impl fmt::Display for KeyspaceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyspaceChange::Compression(compression) => write!(f, "compression={compression}"),
            KeyspaceChange::Dedup(dedup) => write!(f, "dedup={dedup}"),
            KeyspaceChange::FilterBits(bits) => write!(f, "filter_bits={bits}"),
            KeyspaceChange::SeparationThreshold(bytes) => {
                write!(f, "separation_threshold={}", separation_text(*bytes))
            }
        }
    }
}

impl FromStr for SettingChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A name of a keyspace may have both characters, a value has neither.
        let (name, value) = text
            .rsplit_once('=')
            .ok_or_else(|| format!("{text:?} is no change of a setting; write NAME=VALUE"))?;
        let bad = |reason: String| format!("{name}: {reason}");
        let number = || value.parse::<usize>().map_err(|_| bad(format!("{value:?} is no number")));
        if let Some((keyspace, setting)) = name.rsplit_once('.') {
            let change =
                match setting {
                    "compression" => KeyspaceChange::Compression(value.parse().map_err(|_| {
                        bad(format!("{value:?} is neither none, nor lz4, nor zstd"))
                    })?),
                    "dedup" => KeyspaceChange::Dedup(value.parse().map_err(bad)?),
                    "filter_bits" => KeyspaceChange::FilterBits(
                        number()?.try_into().map_err(|_| bad(format!("{value} is above 32")))?,
                    ),
                    "separation_threshold" => {
                        KeyspaceChange::SeparationThreshold(parse_separation(value).map_err(bad)?)
                    }
                    _ => return Err(unknown(setting, &OF_KEYSPACES, "a keyspace")),
                };
            return Ok(SettingChange::Keyspace { name: keyspace.to_owned(), change });
        }
        Ok(match name {
            "background_threads" => SettingChange::BackgroundThreads(number()?),
            "background_write_rate" => {
                SettingChange::BackgroundWriteRate(value.parse().map_err(bad)?)
            }
            "memory_bytes" => {
                let ByteSize(bytes) = value.parse().map_err(bad)?;
                let bytes = bytes.try_into();
                SettingChange::MemoryBytes(bytes.map_err(|_| bad(format!("{value} is too much")))?)
            }
            "slow_call" => SettingChange::SlowCall(slow_call::parse(value).map_err(bad)?),
            "sync" => SettingChange::Sync(value.parse().map_err(bad)?),
            name if OF_KEYSPACES.contains(&name) => {
                return Err(format!(
                    "{name} is a setting of a keyspace; write KEYSPACE.{name}={value}"
                ));
            }
            name => return Err(unknown(name, &OF_DATABASES, "a database")),
        })
    }
}

/// The message for a name that no setting of `of` has. It proposes one that begins so, or is nearly the same.
pub(super) fn unknown(name: &str, known: &[&str], of: &str) -> String {
    let begins_so = |known: &str| name.len() > 2 && known.starts_with(name);
    let nearest = known.iter().min_by_key(|known| (!begins_so(known), distance(name, known)));
    let nearest = nearest.unwrap_or(&"");
    match begins_so(nearest) || distance(name, nearest) <= nearest.len() / 2 {
        true => format!("{of} has no setting {name:?}; did you mean {nearest:?}?"),
        false => format!("{of} has no setting {name:?}; it has {}", known.join(", ")),
    }
}

/// How many bytes have to be added, removed or replaced to make one text the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, byte) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(byte != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

/// Formats as `always`, `os`, or the interval as `100ms` or `1500us`.
impl fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyncPolicy::Always => f.write_str("always"),
            SyncPolicy::Every(interval) => f.write_str(&slow_call::text_of(*interval)),
            SyncPolicy::Os => f.write_str("os"),
        }
    }
}

/// Reads `always`, `os`, a time such as `100ms` or `2s`, or a number of milliseconds.
impl FromStr for SyncPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let millis = || text.parse().ok().map(Duration::from_millis);
        match text {
            "always" => Ok(SyncPolicy::Always),
            "os" => Ok(SyncPolicy::Os),
            _ => match parse_time(text).or_else(millis) {
                Some(interval) => Ok(SyncPolicy::Every(interval)),
                None => {
                    Err(format!("{text:?} is neither always, nor os, nor a time such as 100ms"))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::space_policy::Ratio;
    use super::*;

    #[test]
    fn changes_are_read_as_they_are_shown() {
        let in_keyspace =
            |name: &str, change| SettingChange::Keyspace { name: name.to_owned(), change };
        let ratio = Ratio::of_hundredths(130);
        for change in [
            SettingChange::BackgroundThreads(4),
            SettingChange::BackgroundWriteRate(BackgroundWriteRate::Auto {
                least: 1 << 20,
                most: 1 << 30,
            }),
            SettingChange::MemoryBytes(3 << 30),
            SettingChange::MemoryBytes(1_000_000_001),
            SettingChange::SlowCall(Duration::MAX),
            SettingChange::SlowCall(Duration::from_micros(1_500)),
            SettingChange::Sync(SyncPolicy::Always),
            SettingChange::Sync(SyncPolicy::Os),
            SettingChange::Sync(SyncPolicy::Every(Duration::from_millis(250))),
            SettingChange::Sync(SyncPolicy::Every(Duration::from_micros(1500))),
            in_keyspace("users", KeyspaceChange::Compression(Compression::Zstd)),
            in_keyspace("a.b=c d", KeyspaceChange::Dedup(Dedup::SpaceGoal { amp: ratio })),
            in_keyspace("x", KeyspaceChange::Dedup(Dedup::PerLevel { threshold: ratio })),
            in_keyspace("x", KeyspaceChange::Dedup(Dedup::None)),
            in_keyspace("x", KeyspaceChange::FilterBits(32)),
        ] {
            assert_eq!(change.to_string().parse(), Ok(change));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_answered_with_what_can() {
        for (text, answer) in [
            ("x", "NAME=VALUE"),
            ("backgroundthreads=2", "did you mean \"background_threads\"?"),
            ("bakground_write_rate=2M", "did you mean \"background_write_rate\"?"),
            ("Sync=os", "did you mean \"sync\"?"),
            (
                "zzzzzzzz=1",
                "it has background_threads, background_write_rate, memory_bytes, slow_call",
            ),
            ("users.filters=1", "did you mean \"filter_bits\"?"),
            ("users.zzzzzzzz=1", "it has compression, dedup, filter_bits"),
            ("compression=zstd", "write KEYSPACE.compression=zstd"),
            ("background_threads=two", "background_threads: \"two\" is no number"),
            ("memory_bytes=big", "memory_bytes: \"big\" is not a size"),
            ("slow_call=10", "slow_call: \"10\" is neither off"),
            ("sync=soon", "sync: \"soon\" is neither"),
            ("users.compression=gzip", "users.compression: \"gzip\" is neither"),
            ("users.filter_bits=300", "300 is above 32"),
            ("users.dedup=much", "users.dedup: \"much\" is not none"),
        ] {
            let error = text.parse::<SettingChange>().unwrap_err();
            assert!(error.ends_with(answer) || error.contains(answer), "{text}: {error}");
        }
    }

    #[test]
    fn a_setting_that_was_changed_keeps_its_stored_value() {
        let asked = KeyspaceSettings::default();
        let stored = asked.compression(Compression::Zstd).filter_bits(3);
        let kept = |changed: ChangedSettings| changed.kept(asked, &stored);
        assert_eq!(kept(ChangedSettings::NONE), asked);
        let bits = KeyspaceChange::FilterBits(3).changed();
        assert_eq!(kept(bits), asked.filter_bits(3));
        let both = bits.with(KeyspaceChange::Compression(Compression::None).changed());
        assert_eq!(kept(both), stored);
        assert_eq!(ChangedSettings::of_bits(both.bits()), Some(both));
        assert_eq!(ChangedSettings::of_bits(16), None);
        for change in KeyspaceChange::all_of(&stored) {
            let text = change.to_string();
            let names: Vec<_> = change.changed().names().collect();
            assert_eq!(Some(names), text.split_once('=').map(|(name, _)| vec![name]));
        }
    }

    #[test]
    fn the_distance_of_texts_is_the_number_of_changed_bytes() {
        for (from, to, bytes) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("sync", "snyc", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), bytes, "{from} {to}");
        }
    }
}
