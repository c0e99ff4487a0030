//! The limit of the rate at which flushes and compactions write.

use esker_base::{ByteSize, Error, Result};
use std::fmt;
use std::str::FromStr;

/// The most bytes per second that flushes and compactions write to tables.
///
/// Text is `unlimited`, a rate such as `20MiB`, or two rates such as `5MiB..100MiB`.
///
/// # Examples
///
/// ```
/// # extern crate esker_lsm as esker;
/// use esker::options::BackgroundWriteRate;
///
/// let rate: BackgroundWriteRate = "5MiB..100MiB".parse()?;
/// assert_eq!(rate, BackgroundWriteRate::Auto { least: 5 << 20, most: 100 << 20 });
/// assert_eq!(BackgroundWriteRate::Fixed(20 << 20).to_string(), "20MiB");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "String", try_from = "String")
)]
pub enum BackgroundWriteRate {
    /// No limit.
    #[default]
    Unlimited,
    /// This many bytes per second, at least [`BackgroundWriteRate::LEAST`].
    Fixed(u64),
    /// A rate between two bounds that follows the backlog of flush and compaction.
    ///
    /// Without a backlog it is `least`. It is `most` before the backlog throttles writers.
    Auto {
        /// The rate without a backlog, at least [`BackgroundWriteRate::LEAST`].
        least: u64,
        /// The highest rate, at least `least`.
        most: u64,
    },
}

impl BackgroundWriteRate {
    /// The lowest rate: 64 KiB per second.
    pub const LEAST: u64 = 64 << 10;

    /// Returns the bytes per second for a backlog between 0, none, and 1, one that begins to throttle
    /// writers. `None` if there is no limit.
    pub(crate) fn at(self, backlog: f64) -> Option<u64> {
        match self {
            BackgroundWriteRate::Unlimited => None,
            BackgroundWriteRate::Fixed(rate) => Some(rate),
            BackgroundWriteRate::Auto { least, most } => {
                let factor = most as f64 / least.max(1) as f64;
                let rate = least as f64 * factor.powf(backlog.clamp(0.0, 1.0));
                Some((rate as u64).clamp(least, most))
            }
        }
    }

    /// Checks the range of the rates.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] if one is below [`BackgroundWriteRate::LEAST`], or `most` is below
    /// `least`.
    pub fn validate(self) -> Result<()> {
        let refuse = |reason: String| {
            let setting = "background_write_rate";
            Err(Error::InvalidSetting { setting, value: self.to_string(), reason })
        };
        let (least, most) = match self {
            BackgroundWriteRate::Unlimited => return Ok(()),
            BackgroundWriteRate::Fixed(rate) => (rate, rate),
            BackgroundWriteRate::Auto { least, most } => (least, most),
        };
        if least < Self::LEAST {
            return refuse(format!("a rate is at least {} per second", ByteSize(Self::LEAST)));
        }
        if most < least {
            return refuse("the second rate is below the first".to_owned());
        }
        Ok(())
    }
}

/// Formats as `unlimited`, `20MiB` or `5MiB..100MiB`.
impl fmt::Display for BackgroundWriteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BackgroundWriteRate::Unlimited => f.write_str("unlimited"),
            BackgroundWriteRate::Fixed(rate) => write!(f, "{}", ByteSize(rate)),
            BackgroundWriteRate::Auto { least, most } => {
                write!(f, "{}..{}", ByteSize(least), ByteSize(most))
            }
        }
    }
}

impl FromStr for BackgroundWriteRate {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let rate = |text: &str| {
            let text = text.strip_suffix("/s").unwrap_or(text);
            text.parse()
                .map(|ByteSize(rate)| rate)
                .map_err(|_| format!("{text:?} is no rate; write unlimited, 20MiB or 5MiB..100MiB"))
        };
        if text.eq_ignore_ascii_case("unlimited") {
            return Ok(BackgroundWriteRate::Unlimited);
        }
        match text.split_once("..") {
            Some((least, most)) => {
                Ok(BackgroundWriteRate::Auto { least: rate(least)?, most: rate(most)? })
            }
            None => rate(text).map(BackgroundWriteRate::Fixed),
        }
    }
}

impl From<BackgroundWriteRate> for String {
    fn from(rate: BackgroundWriteRate) -> String {
        rate.to_string()
    }
}

impl TryFrom<String> for BackgroundWriteRate {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_they_are_shown() {
        use BackgroundWriteRate::{Auto, Fixed, Unlimited};
        for rate in
            [Unlimited, Fixed(20_000_000), Fixed(20 << 20), Auto { least: 1 << 20, most: 3 << 20 }]
        {
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        assert_eq!("20M/s".parse(), Ok(Fixed(20 << 20)));
        for bad in ["", "x", "1..", "..1", "1..2..3", "-1", "unlimited..5M"] {
            assert!(bad.parse::<BackgroundWriteRate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_out_of_range_are_named() {
        for bad in ["65535", "0", "1K..1M", "2M..1M"] {
            let rate: BackgroundWriteRate = bad.parse().unwrap();
            let error = rate.validate().unwrap_err().to_string();
            assert!(error.contains("background_write_rate"), "{error}");
        }
        for accepted in ["unlimited", "64K", "1M..1M"] {
            accepted.parse::<BackgroundWriteRate>().unwrap().validate().unwrap();
        }
    }

    #[test]
    fn a_rate_with_bounds_grows_with_the_backlog() {
        let rate = BackgroundWriteRate::Auto { least: 1 << 20, most: 64 << 20 };
        let rates = [-1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 9.0].map(|backlog| rate.at(backlog).unwrap());
        assert_eq!([rates[0], rates[1]], [1 << 20; 2]);
        assert_eq!([rates[5], rates[6]], [64 << 20; 2]);
        assert!(rates[1..6].windows(2).all(|pair| pair[0] < pair[1]), "{rates:?}");
        assert_eq!(BackgroundWriteRate::Unlimited.at(1.0), None);
    }
}
