//! Numbers of bytes as text.

use std::fmt;
use std::str::FromStr;

/// A number of bytes that is written and read as text, such as `64MiB`.
///
/// Text is a number and a unit of powers of 1024 (`K`, `M`, `G`, `T`, each also with `iB`), or no
/// unit. A fraction of a byte is left out. It is shown without loss, in the largest unit that divides
/// it.
///
/// ```
/// use esker_base::ByteSize;
///
/// assert_eq!("1.5G".parse(), Ok(ByteSize(3 << 29)));
/// assert_eq!(ByteSize(64 << 20).to_string(), "64MiB");
/// assert_eq!(ByteSize(1_000).to_string(), "1000");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteSize(pub u64);

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let divides = |shift: u32| self.0 > 0 && self.0.trailing_zeros() >= shift;
        match units.into_iter().find(|(shift, _)| divides(*shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size such as 65536, 512K, 64MiB or 1.5G");
        let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
        let scale: u128 = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let number = |digits: &str| match digits.len() {
            // More digits than any size has would overflow below.
            1..=20 if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
            _ => None,
        };
        let (whole, part): (u128, u128) = number(whole).zip(number(fraction)).ok_or_else(wrong)?;
        if scale == 1 && part > 0 {
            return Err(wrong());
        }
        let bytes = whole * scale + part * scale / 10_u128.pow(fraction.len() as u32);
        bytes.try_into().map(ByteSize).map_err(|_| wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        for (text, bytes) in [
            ("65536", 65536),
            ("64MiB", 64 << 20),
            ("2g", 2 << 30),
            ("1.5GiB", 3 << 29),
            ("1T", 1 << 40),
            ("0.1k", 102),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
        for bad in [
            "",
            "MiB",
            "-1",
            "1.5",
            "1.5B",
            "1.M",
            ".5M",
            "1.5.5M",
            "+1",
            "1e3",
            "64 M",
            "99999999999G",
            "1x",
            "99999999999999999999999T",
        ] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_read_as_they_are_shown() {
        for bytes in [0, 1, 1023, 1024, 1536, 20_000_000, 64 << 20, 3 << 29, 5 << 40, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        assert_eq!(ByteSize(3 << 29).to_string(), "1536MiB");
    }
}
