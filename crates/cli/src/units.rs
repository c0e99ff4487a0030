//! Numbers for people: byte sizes, counts, rates; and sizes as people give them.

use esker_base::ByteSize;

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

/// A size as given: see [`ByteSize`].
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let ByteSize(bytes) = text.parse()?;
    bytes.try_into().map_err(|_| format!("{text} is more than this machine can address"))
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
}
