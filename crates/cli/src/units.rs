//! Numbers for people: byte sizes, counts, rates; and sizes as people give them.

/// `bytes` in binary units, three digits or so: `1.50 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would print as four digits belongs to the next unit.
    while size >= 999.5 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let decimals = if size < 9.995 { 2 } else { usize::from(size < 99.95) };
    format!("{size:.decimals$} {}", UNITS[unit])
}

/// `count` with commas: `34,924`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `count` and the noun, in the plural unless it is one: `1 table`, `3 tables`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Something a second, rounded for people.
pub fn per_second(number: u64, seconds: f64) -> String {
    let rate = number as f64 / seconds.max(1e-9);
    let step = 10f64.powf((rate.max(1.0).log10().floor() - 2.0).max(0.0));
    count(((rate / step).round() * step) as u64)
}

/// A size as given: a number, and a unit of powers of 1024 (`K`, `M`, `G`, `T`, each also with `iB`) or none.
/// A fraction of a byte is left out.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
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
    bytes.try_into().map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_about_three_digits() {
        for (size, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (10_240, "10.0 KiB"),
            (1_023_999, "0.98 MiB"),
            (64 << 20, "64.0 MiB"),
            (150 << 30, "150 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }

    #[test]
    fn counts_have_commas() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "run"), "1 run");
        assert_eq!(counted(0, "run"), "0 runs");
        assert_eq!(per_second(123_456, 1.0), "123,000");
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        assert_eq!(parse_bytes("65536"), Ok(65536));
        assert_eq!(parse_bytes("64MiB"), Ok(64 << 20));
        assert_eq!(parse_bytes("2g"), Ok(2 << 30));
        assert_eq!(parse_bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(parse_bytes("1T"), Ok(1 << 40));
        assert_eq!(parse_bytes("0.1k"), Ok(102));
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
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }
}
