//! Settings by their names, for programs that get them as text: from a file, from the command line, or
//! from another language.

use super::change::unknown;
use super::separation::parse_separation;
use super::settings::{KeyspaceSettings, Log, Recovery, Settings, SyncPolicy};
use super::slow_call;
use super::time_text::parse_time;
use crate::fold::operators::OperatorName;
use esker_base::ByteSize;
use esker_memtable::Forwarding;
use std::time::Duration;

impl Settings {
    /// The names that [`Settings::set_by_name`] takes.
    pub const NAMES: [&str; 15] = [
        "log",
        "sync",
        "recovery",
        "segment_bytes",
        "sealed_segments",
        "memory_bytes",
        "dram_table_bytes",
        "forwarding",
        "background_threads",
        "max_open_files",
        "background_write_rate",
        "delete_age_max",
        "slow_call",
        "direct_reads",
        "answers_requests",
    ];

    /// Sets the setting `name` to the value that `value` has as text. The value is checked when the
    /// database is opened.
    ///
    /// Names are those of the fields; `sync` is the sync policy of a log in files. `default.NAME` is a
    /// setting of the default keyspace: see [`KeyspaceSettings::set_by_name`].
    ///
    /// | name | values |
    /// |---|---|
    /// | `log` | `files`, `files:DIR`, `none`, `pmem:FILE`, `emulated-pmem:FILE` |
    /// | `sync` | `always`, `os`, an interval such as `100ms` |
    /// | `recovery` | `prefix`, `strict` |
    /// | names with `bytes` | a size such as `65536`, `512K`, `64MiB`; `dram_table_bytes` also `auto` |
    /// | `sealed_segments`, `background_threads` | a number |
    /// | `max_open_files` | `auto`, a number |
    /// | `forwarding` | `on-flush`, `always`, `adaptive` |
    /// | `background_write_rate` | `unlimited`, `20MiB`, `5MiB..100MiB` |
    /// | `delete_age_max`, `slow_call` | `off`, a time such as `500us`, `10ms`, `2s`, `30d` |
    /// | `direct_reads`, `answers_requests` | `true`, `false` |
    ///
    /// # Errors
    /// A message that names the setting, if there is none of this name or the value is no value of it.
    /// Nothing is changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// # extern crate esker_lsm as esker;
    /// use esker::Settings;
    ///
    /// let mut settings = Settings::default();
    /// settings.set_by_name("memory_bytes", "256MiB")?;
    /// settings.set_by_name("default.compression", "zstd")?;
    /// assert_eq!(settings.memory_bytes, 256 << 20);
    ///
    /// let error = settings.set_by_name("memory", "1GiB").unwrap_err();
    /// assert!(error.contains("memory_bytes"), "{error}");
    /// # Ok::<(), String>(())
    /// ```
    pub fn set_by_name(&mut self, name: &str, value: &str) -> Result<(), String> {
        let bad = |reason: String| format!("{name}: {reason}");
        if let Some(setting) = name.strip_prefix("default.") {
            return self.default_keyspace.set_by_name(setting, value).map_err(
                |why| match setting {
                    _ if KeyspaceSettings::NAMES.contains(&setting) => format!("default.{why}"),
                    _ => why,
                },
            );
        }
        match name {
            "log" => self.log = log(value, &self.log).map_err(bad)?,
            "sync" => self.set_sync(value).map_err(bad)?,
            "recovery" => {
                self.recovery =
                    one_of(value, &[("prefix", Recovery::Prefix), ("strict", Recovery::Strict)])
                        .map_err(bad)?;
            }
            "segment_bytes" => self.segment_bytes = bytes(value).map_err(bad)?,
            "sealed_segments" => self.sealed_segments = number(value).map_err(bad)?,
            "memory_bytes" => self.memory_bytes = bytes(value).map_err(bad)?,
            "dram_table_bytes" => {
                self.dram_table_bytes = match value {
                    "auto" => None,
                    _ => Some(bytes(value).map_err(bad)?),
                };
            }
            "forwarding" => {
                let ways = [
                    ("on-flush", Forwarding::OnFlush),
                    ("always", Forwarding::Always),
                    ("adaptive", Forwarding::Adaptive),
                ];
                self.forwarding = one_of(value, &ways).map_err(bad)?;
            }
            "background_threads" => self.background_threads = number(value).map_err(bad)?,
            "max_open_files" => {
                self.max_open_files = match value {
                    "auto" => None,
                    _ => Some(number(value).map_err(bad)?),
                };
            }
            "background_write_rate" => self.background_write_rate = value.parse().map_err(bad)?,
            "delete_age_max" => {
                self.delete_age_max = match value {
                    "off" => Duration::MAX,
                    _ => time(value).map_err(bad)?,
                };
            }
            "slow_call" => self.slow_call = slow_call::parse(value).map_err(bad)?,
            "direct_reads" => self.direct_reads = flag(value).map_err(bad)?,
            "answers_requests" => self.answers_requests = flag(value).map_err(bad)?,
            _ if KeyspaceSettings::NAMES.contains(&name) => {
                return Err(format!(
                    "{name} is a setting of a keyspace; default.{name} is that of the default keyspace"
                ));
            }
            _ => return Err(unknown(name, &Self::NAMES, "a database")),
        }
        Ok(())
    }

    fn set_sync(&mut self, value: &str) -> Result<(), String> {
        let policy = value.parse()?;
        match &mut self.log {
            Log::File { sync, .. } => *sync = policy,
            _ => return Err("only a log in files is synced; set log to files first".to_owned()),
        }
        Ok(())
    }
}

impl KeyspaceSettings {
    /// The names that [`KeyspaceSettings::set_by_name`] takes.
    pub const NAMES: [&str; 8] = [
        "shape",
        "dedup",
        "compression",
        "filter_bits",
        "merge",
        "compaction_filter",
        "ttl",
        "separation_threshold",
    ];

    /// Sets the setting `name` to the value that `value` has as text. The value is checked when the
    /// keyspace is created.
    ///
    /// | name | values |
    /// |---|---|
    /// | `shape` | `leveled`, `leveled:10`, `tiered:8`, `windowed:1h`, `windowed:1h:BYTES` |
    /// | `dedup` | `none`, `per-level:1.6`, `space-goal:1.2` |
    /// | `compression` | `none`, `lz4`, `zstd` |
    /// | `filter_bits` | a number |
    /// | `merge`, `compaction_filter` | `none`, a name such as `add_i64` |
    /// | `ttl` | `none`, a time such as `90s`, `12h`, `7d` |
    /// | `separation_threshold` | `none`, a size such as `4KiB` |
    ///
    /// # Errors
    /// Those of [`Settings::set_by_name`].
    pub fn set_by_name(&mut self, name: &str, value: &str) -> Result<(), String> {
        let bad = |reason: String| format!("{name}: {reason}");
        let operator = || (value != "none").then(|| OperatorName::new(value));
        match name {
            "shape" => self.shape = value.parse().map_err(bad)?,
            "dedup" => self.dedup = value.parse().map_err(bad)?,
            "compression" => {
                let wrong = |_| bad(format!("{value:?} is neither none, nor lz4, nor zstd"));
                self.compression = value.parse().map_err(wrong)?;
            }
            "filter_bits" => {
                let bits = number(value).map_err(bad)?;
                self.filter_bits =
                    bits.try_into().map_err(|_| bad(format!("{value} is above 32")))?;
            }
            "merge" => self.merge = operator(),
            "compaction_filter" => self.compaction_filter = operator(),
            "ttl" => {
                self.ttl = match value {
                    "none" => None,
                    _ => Some(time(value).map_err(bad)?),
                };
            }
            "separation_threshold" => {
                self.separation_threshold = parse_separation(value).map_err(bad)?;
            }
            _ => return Err(unknown(name, &Self::NAMES, "a keyspace")),
        }
        Ok(())
    }
}

fn log(value: &str, now: &Log) -> Result<Log, String> {
    let sync = match now {
        Log::File { sync, .. } => *sync,
        _ => SyncPolicy::Os,
    };
    let (kind, place) = match value.split_once(':') {
        Some((kind, place)) if !place.is_empty() => (kind, Some(place)),
        Some(_) => ("", None),
        None => (value, None),
    };
    match (kind, place) {
        ("files", dir) => Ok(Log::File { dir: dir.map(Into::into), sync }),
        ("none", None) => Ok(Log::None),
        ("pmem", Some(pool)) => Ok(Log::Pmem { pool: pool.into(), emulated: false }),
        ("emulated-pmem", Some(pool)) => Ok(Log::Pmem { pool: pool.into(), emulated: true }),
        _ => Err(format!(
            "{value:?} is not a log; write files, files:DIR, none, pmem:FILE or emulated-pmem:FILE"
        )),
    }
}

fn one_of<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(name, _)| *name == value).map(|it| it.1);
    found.ok_or_else(|| {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        format!("{value:?} is none of {}", names.join(", "))
    })
}

fn flag(value: &str) -> Result<bool, String> {
    one_of(value, &[("true", true), ("false", false)])
}

fn number(value: &str) -> Result<usize, String> {
    value.parse().map_err(|_| format!("{value:?} is no number"))
}

fn bytes(value: &str) -> Result<usize, String> {
    let ByteSize(bytes) = value.parse()?;
    bytes.try_into().map_err(|_| format!("{value} is too much"))
}

fn time(value: &str) -> Result<Duration, String> {
    parse_time(value).ok_or_else(|| format!("{value:?} is no time such as 90s, 12h or 7d"))
}

#[cfg(test)]
mod tests {
    use super::super::shape::Shape;
    use super::super::space_policy::{Dedup, Ratio};
    use super::super::write_rate::BackgroundWriteRate;
    use super::*;
    use esker_table::Compression;

    fn set(name: &str, value: &str) -> Settings {
        let mut settings = Settings::default();
        settings.set_by_name(name, value).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_ne!(settings, Settings::default(), "{name} changes something");
        settings
    }

    fn refused(name: &str, value: &str) -> String {
        let mut settings = Settings::default();
        let error = settings.set_by_name(name, value).unwrap_err();
        assert_eq!(settings, Settings::default(), "{name}={value} changed something");
        error
    }

    #[test]
    fn each_setting_of_a_database_has_a_name() {
        let always = Log::File { dir: None, sync: SyncPolicy::Always };
        let elsewhere = Log::File { dir: Some("logs".into()), sync: SyncPolicy::Os };
        let pool = |emulated| Log::Pmem { pool: "a:b".into(), emulated };
        let default = Settings::default;
        let rate = BackgroundWriteRate::Fixed(20 << 20);
        for (name, value, expected) in [
            ("log", "none", default().log(Log::None)),
            ("log", "files:logs", default().log(elsewhere)),
            ("log", "pmem:a:b", default().log(pool(false))),
            ("log", "emulated-pmem:a:b", default().log(pool(true))),
            ("sync", "always", default().log(always)),
            ("recovery", "strict", default().recovery(Recovery::Strict)),
            ("segment_bytes", "1MiB", default().segment_bytes(1 << 20)),
            ("sealed_segments", "5", default().sealed_segments(5)),
            ("memory_bytes", "256M", default().memory_bytes(256 << 20)),
            ("dram_table_bytes", "0", default().dram_table_bytes(0)),
            ("forwarding", "adaptive", default().forwarding(Forwarding::Adaptive)),
            ("background_threads", "4", default().background_threads(4)),
            ("max_open_files", "64", default().max_open_files(64)),
            ("background_write_rate", "20MiB", default().background_write_rate(rate)),
            ("delete_age_max", "1d", default().delete_age_max(Duration::from_secs(86_400))),
            ("slow_call", "10ms", default().slow_call(Duration::from_millis(10))),
            ("direct_reads", "true", default().direct_reads(true)),
            ("answers_requests", "true", default().answers_requests(true)),
        ] {
            assert!(Settings::NAMES.contains(&name), "{name}");
            assert_eq!(set(name, value), expected, "{name}={value}");
        }
        for name in Settings::NAMES {
            assert!(refused(name, "?").starts_with(name), "{name}");
        }
    }

    #[test]
    fn each_setting_of_a_keyspace_has_a_name() {
        let default = KeyspaceSettings::default;
        let limit = Dedup::SpaceGoal { amp: Ratio::of_hundredths(150) };
        for (name, value, expected) in [
            ("shape", "tiered:8", default().shape(Shape::Tiered { runs: 8 })),
            ("dedup", "space-goal:1.5", default().dedup(limit)),
            ("compression", "zstd", default().compression(Compression::Zstd)),
            ("filter_bits", "12", default().filter_bits(12)),
            ("merge", "add_i64", default().merge("add_i64")),
            ("compaction_filter", "old", default().compaction_filter("old")),
            ("ttl", "12h", default().ttl(Duration::from_secs(12 * 3600))),
            ("separation_threshold", "4KiB", default().separation_threshold(4096)),
        ] {
            assert!(KeyspaceSettings::NAMES.contains(&name), "{name}");
            let of_default = set(&format!("default.{name}"), value);
            assert_eq!(of_default.default_keyspace, expected, "{name}={value}");
            let mut settings = of_default.default_keyspace;
            for name in ["merge", "compaction_filter", "ttl", "separation_threshold"] {
                settings.set_by_name(name, "none").unwrap();
            }
            assert_eq!(settings.separation_threshold, None);
            assert_eq!(
                (settings.merge, settings.compaction_filter, settings.ttl),
                (None, None, None)
            );
        }
    }

    #[test]
    fn what_cannot_be_meant_is_answered_with_what_can() {
        for (name, value, answer) in [
            ("memory_byte", "1", "did you mean \"memory_bytes\"?"),
            ("zzzzzzzz", "1", "it has log, sync, recovery"),
            ("compression", "zstd", "default.compression"),
            ("default.compresion", "zstd", "did you mean \"compression\"?"),
            ("default.compression", "gzip", "default.compression: \"gzip\" is neither"),
            ("default.shape", "flat", "default.shape: \"flat\" is not a shape"),
            ("default.filter_bits", "256", "256 is above 32"),
            ("default.ttl", "7w", "\"7w\" is no time"),
            ("log", "pmem", "pmem:FILE"),
            ("log", "files:", "files:DIR"),
            ("sync", "soon", "sync: \"soon\" is neither"),
            ("direct_reads", "yes", "\"yes\" is none of true, false"),
            ("memory_bytes", "much", "\"much\" is not a size"),
        ] {
            let error = refused(name, value);
            assert!(error.contains(answer), "{name}={value}: {error}");
        }
    }

    #[test]
    fn only_a_log_in_files_has_a_sync_policy_and_keeps_it() {
        let mut settings = Settings::default();
        settings.set_by_name("sync", "100ms").unwrap();
        settings.set_by_name("log", "files:elsewhere").unwrap();
        let sync = SyncPolicy::Every(Duration::from_millis(100));
        assert_eq!(settings.log, Log::File { dir: Some("elsewhere".into()), sync });
        settings.set_by_name("log", "none").unwrap();
        let error = settings.set_by_name("sync", "always").unwrap_err();
        assert!(error.contains("set log to files first"), "{error}");
    }
}
