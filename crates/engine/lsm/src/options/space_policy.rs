//! How a tiered keyspace removes obsolete versions, and the ratio of each policy.

use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// How a tiered keyspace removes obsolete versions, in addition to compacting full levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Dedup {
    /// Does nothing more: obsolete versions are dropped when their levels are compacted.
    #[default]
    None,
    /// Compacts a level when its runs hold `threshold` keys per distinct key.
    ///
    /// This is the level deduplication compaction of PlexDB.
    PerLevel {
        /// Keys per distinct key, 1.05 to 100.
        threshold: Ratio,
    },
    /// Keeps the tables within a space-amplification limit.
    ///
    /// Table files use at most `amp` times the bytes of live data, plus four segments, plus what
    /// snapshots pin. The limit includes the output of compactions in progress.
    SpaceGoal {
        /// Bytes of table files per byte of live data, 1.05 to 100.
        amp: Ratio,
    },
}

impl Dedup {
    /// Returns the ratio of the policy, or `None` if it has none.
    pub fn ratio(self) -> Option<Ratio> {
        match self {
            Dedup::None => None,
            Dedup::PerLevel { threshold } => Some(threshold),
            Dedup::SpaceGoal { amp } => Some(amp),
        }
    }

    /// Checks the range of the ratio.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if it is not between [`Ratio::LEAST`] and [`Ratio::MOST`].
    pub fn validate(self) -> Result<()> {
        let (setting, ratio) = match self {
            Dedup::None => return Ok(()),
            Dedup::PerLevel { threshold } => ("threshold", threshold),
            Dedup::SpaceGoal { amp } => ("amp", amp),
        };
        if (Ratio::LEAST..=Ratio::MOST).contains(&ratio) {
            return Ok(());
        }
        let (least, most) = (Ratio::LEAST, Ratio::MOST);
        Err(Error::InvalidSetting {
            setting,
            value: ratio.to_string(),
            reason: format!("it must be between {least} and {most}"),
        })
    }
}

/// Formats as `none`, `per-level:1.6` or `space-goal:1.2`.
impl fmt::Display for Dedup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dedup::None => f.write_str("none"),
            Dedup::PerLevel { threshold } => write!(f, "per-level:{threshold}"),
            Dedup::SpaceGoal { amp } => write!(f, "space-goal:{amp}"),
        }
    }
}

/// Reads what [`Dedup`] formats as; without a ratio, `per-level` has 1.6 and `space-goal` 1.2.
impl FromStr for Dedup {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("{text:?} is not none, nor such as per-level:1.6 or space-goal:1.2");
        let (name, ratio) = match text.split_once(':') {
            Some((name, ratio)) => (name, Some(ratio.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        match (name, ratio) {
            ("none", None) => Ok(Dedup::None),
            ("per-level", threshold) => {
                Ok(Dedup::PerLevel { threshold: threshold.unwrap_or(Ratio::of_hundredths(160)) })
            }
            ("space-goal", amp) => {
                Ok(Dedup::SpaceGoal { amp: amp.unwrap_or(Ratio::of_hundredths(120)) })
            }
            _ => Err(wrong()),
        }
    }
}

/// A ratio with two decimal places, exact on disk and in comparisons.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// use esker::options::Ratio;
///
/// let ratio: Ratio = "1.5".parse()?;
/// assert_eq!(ratio, Ratio::of_hundredths(150));
/// assert_eq!(ratio.get(), 1.5);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "f64", try_from = "f64")
)]
pub struct Ratio {
    hundredths: u32,
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> f64 {
        ratio.get()
    }
}

/// Rounds to two decimal places.
impl TryFrom<f64> for Ratio {
    type Error = String;

    fn try_from(ratio: f64) -> std::result::Result<Self, String> {
        let hundredths = (ratio * 100.0).round();
        match (0.0..=f64::from(u32::MAX)).contains(&hundredths) {
            true => Ok(Ratio { hundredths: hundredths as u32 }),
            false => Err(format!("{ratio} is not a ratio")),
        }
    }
}

impl Ratio {
    /// The smallest ratio of a policy: 1.05. Below it, the 1.6% error of the key counters would
    /// look like duplicates.
    pub const LEAST: Ratio = Ratio { hundredths: 105 };
    /// The largest ratio of a policy: 100. Beyond it, a policy has no effect.
    pub const MOST: Ratio = Ratio { hundredths: 10_000 };

    /// Returns the ratio `hundredths` / 100.
    pub const fn of_hundredths(hundredths: u32) -> Self {
        Ratio { hundredths }
    }

    /// Returns 100 times the ratio.
    pub const fn hundredths(self) -> u32 {
        self.hundredths
    }

    /// Returns the ratio as a number.
    pub fn get(self) -> f64 {
        f64::from(self.hundredths) / 100.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.get())
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number: Option<f64> = text.parse().ok().filter(|number| (0.0..=1e6).contains(number));
        let hundredths = number.map(|number| (number * 100.0).round() as u32);
        hundredths.map(Ratio::of_hundredths).ok_or_else(|| format!("{text:?} is no ratio"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read_as_they_are_shown() {
        for hundredths in [105, 110, 120, 199, 200, 1050] {
            let ratio = Ratio::of_hundredths(hundredths);
            assert_eq!(ratio.to_string().parse(), Ok(ratio));
        }
        assert_eq!("1.6".parse(), Ok(Ratio::of_hundredths(160)));
        for bad in ["", "x", "-1", "nan", "inf"] {
            assert!(bad.parse::<Ratio>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_ratio_out_of_range_is_named() {
        let too_low = Dedup::PerLevel { threshold: Ratio::of_hundredths(104) };
        assert!(too_low.validate().unwrap_err().to_string().contains("threshold"));
        let too_high = Dedup::SpaceGoal { amp: Ratio::of_hundredths(10_001) };
        assert!(too_high.validate().unwrap_err().to_string().contains("amp"));
        Dedup::SpaceGoal { amp: Ratio::LEAST }.validate().unwrap();
    }
}
