//! What is done about stale versions, and the ratio that each way of doing it goes by.

use esker_base::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// What a tiered keyspace does about versions that newer ones have replaced, beyond merging full
/// levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dedup {
    /// Nothing: they go when their levels happen to be merged.
    #[default]
    None,
    /// A level is merged when it has `threshold` keys, counted in each run, for each distinct one:
    /// PlexDB's level deduplication compaction.
    PerLevel {
        /// 1.05 to 100.
        threshold: Ratio,
    },
    /// Tables are kept within `amp` times the bytes that what is live takes in tables, and four
    /// segments, compactions under way included. What snapshots pin is beside that.
    SpaceGoal {
        /// 1.05 to 100.
        amp: Ratio,
    },
}

impl Dedup {
    /// The ratio that it goes by, if it is not none.
    pub fn ratio(self) -> Option<Ratio> {
        match self {
            Dedup::None => None,
            Dedup::PerLevel { threshold } => Some(threshold),
            Dedup::SpaceGoal { amp } => Some(amp),
        }
    }

    /// Checks the ratio's range.
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
            reason: format!("it must lie between {least} and {most}"),
        })
    }
}

/// `none`, `per-level:1.6` or `space-goal:1.2`.
impl fmt::Display for Dedup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dedup::None => f.write_str("none"),
            Dedup::PerLevel { threshold } => write!(f, "per-level:{threshold}"),
            Dedup::SpaceGoal { amp } => write!(f, "space-goal:{amp}"),
        }
    }
}

/// A ratio to two decimal places: exact on disk and in comparisons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ratio {
    hundredths: u32,
}

impl Ratio {
    /// Below this the counters' own error, 1.6%, would look like duplicates.
    pub const LEAST: Ratio = Ratio { hundredths: 105 };
    /// Beyond this the setting does nothing.
    pub const MOST: Ratio = Ratio { hundredths: 10_000 };

    /// The ratio `hundredths` / 100.
    pub const fn of_hundredths(hundredths: u32) -> Self {
        Ratio { hundredths }
    }

    /// 100 times the ratio.
    pub const fn hundredths(self) -> u32 {
        self.hundredths
    }

    /// The ratio as a number.
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
