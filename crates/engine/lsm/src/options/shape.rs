//! How the tables of a keyspace are arranged in runs and levels.

use super::time_text::parse_time;
use crate::fold::operators::OperatorName;
use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How a keyspace arranges its tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Shape {
    /// One sorted run per level; each level is `ratio` times as large as the one above.
    ///
    /// Favors reads and space. Each byte is rewritten about `ratio` / 2 times per level.
    Leveled {
        /// The size ratio of adjacent levels, 2 to 100.
        ratio: u32,
    },
    /// Up to `runs` sorted runs per level; a full level is compacted into one run of the next.
    ///
    /// Favors writes, at the cost of reads and space.
    Tiered {
        /// The most runs per level, 2 to 100.
        runs: u32,
    },
    /// Tables hold the writes of one window of time each, and leave whole, the oldest first.
    ///
    /// For time series. Compaction never merges tables of different windows. A window goes when the
    /// keyspace's time to live ends, or when the keyspace is larger than `max_bytes`.
    Windowed {
        /// The length of a window: a minute or more, in whole seconds.
        window: Duration,
        /// The most bytes that tables may have, at least a mebibyte. `None`: no limit.
        max_bytes: Option<u64>,
    },
}

/// Formats as `leveled:10`, `tiered:8`, `windowed:3600s` or, with the most bytes, `windowed:3600s:1000000`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Leveled { ratio } => write!(f, "leveled:{ratio}"),
            Shape::Tiered { runs } => write!(f, "tiered:{runs}"),
            Shape::Windowed { window, max_bytes } => {
                write!(f, "windowed:{}s", window.as_secs())?;
                max_bytes.map_or(Ok(()), |bytes| write!(f, ":{bytes}"))
            }
        }
    }
}

/// Reads what [`Shape`] formats as. `leveled` and `tiered` without a number have 10 and 8. The length of
/// a window may have any unit, such as `1h`.
impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong =
            || format!("{text:?} is not a shape such as leveled:10, tiered:8 or windowed:1h");
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let number = |rest: &str| rest.parse().map_err(|_| wrong());
        match (name, rest) {
            ("leveled", rest) => Ok(Shape::Leveled { ratio: rest.map_or(Ok(10), number)? }),
            ("tiered", rest) => Ok(Shape::Tiered { runs: rest.map_or(Ok(8), number)? }),
            ("windowed", Some(windows)) => {
                let (window, max_bytes) = match windows.split_once(':') {
                    Some((window, bytes)) => (window, Some(bytes.parse().map_err(|_| wrong())?)),
                    None => (windows, None),
                };
                Ok(Shape::Windowed { window: parse_time(window).ok_or_else(wrong)?, max_bytes })
            }
            _ => Err(wrong()),
        }
    }
}

impl Shape {
    /// The length of a window and the most bytes, if the keyspace has windows.
    pub(crate) fn windows(self) -> Option<(Duration, Option<u64>)> {
        match self {
            Shape::Windowed { window, max_bytes } => Some((window, max_bytes)),
            _ => None,
        }
    }
}

/// The shortest window. A quarter of it may be in the MemTable.
const WINDOW_MIN: Duration = Duration::from_secs(60);

const WINDOWS_BYTES_MIN: u64 = 1 << 20;

/// Checks the windows of a keyspace with this merge operator.
pub(super) fn check_window(
    window: Duration,
    max_bytes: Option<u64>,
    merge: Option<OperatorName>,
) -> Result<()> {
    let is_stored = window.subsec_nanos() == 0 && u32::try_from(window.as_secs()).is_ok();
    let reason = match max_bytes {
        _ if merge.is_some() => "merged operands have no age, so their keyspace has no windows",
        _ if window < WINDOW_MIN || !is_stored => "a window is a number of seconds, 60 or more",
        Some(bytes) if bytes < WINDOWS_BYTES_MIN => "windows may have a mebibyte or more",
        _ => return Ok(()),
    };
    let value = Shape::Windowed { window, max_bytes }.to_string();
    Err(Error::InvalidSetting { setting: "window", value, reason: reason.into() })
}
