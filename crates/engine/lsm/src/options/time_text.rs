//! Times in the text of settings: a number with its unit.

use std::time::Duration;

const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// Reads a number with `us`, `ms`, `s`, `m`, `h` or `d`, such as `10ms` or `7d`.
pub(super) fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let micros = UNITS.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(micros).map(Duration::from_micros)
}

#[test]
fn times_are_numbers_with_a_unit() {
    for (text, micros) in [
        ("500us", 500),
        ("10ms", 10_000),
        ("90s", 90_000_000),
        ("2m", 120_000_000),
        ("12h", 43_200_000_000),
        ("7d", 604_800_000_000),
    ] {
        assert_eq!(parse_time(text), Some(Duration::from_micros(micros)));
    }
    for wrong in ["", "10", "m", "-1s", "1.5h", "1w", "10 ms", "99999999999999999999s", "Off"] {
        assert_eq!(parse_time(wrong), None, "{wrong}");
    }
}
