//! The limit for slow calls, and its text.

use super::time_text::parse_time;
use esker_base::{Error, Result};
use std::time::Duration;

const LEAST: Duration = Duration::from_micros(1);

/// Checks the range of the limit.
pub(crate) fn validate_slow_call(limit: Duration) -> Result<()> {
    if limit >= LEAST {
        return Ok(());
    }
    Err(Error::InvalidSetting {
        setting: "slow_call",
        value: format!("{limit:?}"),
        reason: "it must be at least 1 us".into(),
    })
}

/// The limit as text: `off`, or a number of microseconds or milliseconds as `500us` or `10ms`.
pub(super) fn text_of(limit: Duration) -> String {
    let micros = limit.as_micros();
    match limit {
        Duration::MAX => "off".to_owned(),
        _ if micros.is_multiple_of(1_000) => format!("{}ms", micros / 1_000),
        _ => format!("{micros}us"),
    }
}

/// Reads what [`text_of`] writes, and other times such as `2s`.
pub(super) fn parse(text: &str) -> std::result::Result<Duration, String> {
    let limit = if text == "off" { Some(Duration::MAX) } else { parse_time(text) };
    limit.ok_or_else(|| format!("{text:?} is neither off nor a time such as 500us, 10ms or 2s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_are_shown() {
        for (text, limit) in [
            ("off", Duration::MAX),
            ("500us", Duration::from_micros(500)),
            ("10ms", Duration::from_millis(10)),
            ("2000ms", Duration::from_secs(2)),
        ] {
            assert_eq!((text_of(limit), parse(text)), (text.to_owned(), Ok(limit)));
        }
        assert_eq!(parse("2s"), Ok(Duration::from_secs(2)));
        for text in ["", "10", "ms", "-1ms", "1.5ms", "10 ms", "99999999999999999s", "Off"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(validate_slow_call(Duration::ZERO).is_err());
        assert!(validate_slow_call(LEAST).is_ok());
    }
}
