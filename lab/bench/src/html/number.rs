//! Numbers as people read them: three digits that matter, separators, and a unit of fitting size.

/// What a number counts. It decides the unit and how the number is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Quantity {
    /// Operations a second.
    Rate,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Mebibytes.
    Mebibytes,
    /// How many times something.
    Ratio,
    /// How many of something there are for each of something else: a number without a unit.
    Mean,
    /// A part of one, shown as a percentage.
    Share,
    /// A number of things.
    Count,
    /// Anything else: shown as it is, with the unit that the results name elsewhere.
    Plain,
}

/// No space to break a line at between a number and its unit.
const NARROW: char = '\u{202f}';

const THOUSANDS: [(f64, &str); 4] = [(1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
const TIMES: [(f64, &str); 4] = [(1e6, "s"), (1e3, "ms"), (1.0, "µs"), (1e-3, "ns")];
const SIZES: [(f64, &str); 5] = [
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "B"),
];
const MEBI: f64 = 1_048_576.0;

impl Quantity {
    /// What `metric` counts, whose rows name `unit`. Rows call every quotient a ratio: what a ratio of
    /// two unlike things counts, and what is a part of a whole, is known by the name.
    pub(super) fn of(metric: &str, unit: &str) -> Quantity {
        match unit {
            "ratio" if metric.contains("_per_") => Quantity::Mean,
            "ratio" if ["segments_above_goal", "runs"].contains(&metric) => Quantity::Mean,
            "ratio" if ["found", "rate_reached", "reclaims_within_tenth"].contains(&metric) => {
                Quantity::Share
            }
            "ops/s" => Quantity::Rate,
            "us" | "µs" => Quantity::Micros,
            "ms" => Quantity::Millis,
            "s" => Quantity::Seconds,
            "bytes" | "B" => Quantity::Bytes,
            "MiB" => Quantity::Mebibytes,
            "ratio" => Quantity::Ratio,
            "share" => Quantity::Share,
            "ops" => Quantity::Count,
            _ => Quantity::Plain,
        }
    }

    /// The unit to write numbers up to `most` in: what one of it is worth, and its name.
    pub(super) fn unit(self, most: f64) -> (f64, &'static str) {
        let (units, worth): (&[(f64, &str)], f64) = match self {
            Quantity::Rate | Quantity::Count => (&THOUSANDS, 1.0),
            Quantity::Micros => (&TIMES, 1.0),
            Quantity::Millis => (&TIMES, 1e3),
            Quantity::Seconds if most.abs() < 1.0 => (&TIMES, 1e6),
            Quantity::Seconds => return (1.0, "s"),
            Quantity::Bytes => (&SIZES, 1.0),
            Quantity::Mebibytes => (&SIZES, MEBI),
            Quantity::Ratio => return (1.0, "×"),
            Quantity::Share => return (0.01, "%"),
            Quantity::Mean | Quantity::Plain => return (1.0, ""),
        };
        let fits = units.iter().find(|(size, _)| most.abs() * worth >= *size);
        let (size, name) = *fits.unwrap_or(&units[units.len() - 1]);
        (size / worth, name)
    }

    /// What an axis of it is called: what it counts, and in which unit if its numbers have none.
    pub(super) fn axis_title(self) -> &'static str {
        match self {
            Quantity::Rate => "operations per second",
            Quantity::Micros | Quantity::Millis | Quantity::Seconds => "time",
            Quantity::Bytes | Quantity::Mebibytes => "bytes",
            Quantity::Ratio => "ratio (×)",
            Quantity::Share => "share (%)",
            Quantity::Count => "number",
            Quantity::Mean => "number, mean",
            Quantity::Plain => "",
        }
    }

    /// The number with about three digits and its unit: `412k`, `1.24 ms`, `3.20 GiB`.
    pub(super) fn short(self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        // Rounded first, so that 999.9 µs is 1.00 ms rather than 1,000 µs.
        let rounded = three_digits(value);
        let (size, name) = self.unit(rounded);
        if self == Quantity::Ratio {
            return format!("{}{name}", ratio(value));
        }
        joined(&digits(rounded / size), name)
    }

    /// The number as a table shows it: whole where it is large, else like [`Self::short`].
    pub(super) fn full(self, value: f64) -> String {
        match self {
            Quantity::Rate | Quantity::Count => grouped(value),
            _ => self.short(value),
        }
    }

    /// A mark on an axis whose steps are `step` and whose unit is `(size, name)`.
    pub(super) fn tick(value: f64, step: f64, (size, name): (f64, &str)) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let decimals = (-(step / size).log10().floor()).clamp(0.0, 6.0) as usize;
        joined(&format!("{:.decimals$}", value / size), name)
    }

    /// A mark on an axis with marks of many sizes: in its own unit, with no digit too many.
    pub(super) fn lone_tick(self, value: f64) -> String {
        let (size, name) = self.unit(value * (1.0 + 1e-9));
        let scaled = value / size;
        let text = if scaled < 1.0 { format!("{scaled:.6}") } else { format!("{scaled:.1}") };
        joined(text.trim_end_matches('0').trim_end_matches('.'), name)
    }
}

fn joined(number: &str, unit: &str) -> String {
    match unit {
        "" | "k" | "M" | "G" | "%" | "×" => format!("{number}{unit}"),
        _ => format!("{number}{NARROW}{unit}"),
    }
}

fn three_digits(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// How many times something: hundredths, since what is close to 1 is distinguished from it by the same
/// distance above and below.
pub(super) fn ratio(value: f64) -> String {
    if (0.095..9.995).contains(&value) { format!("{value:.2}") } else { digits(value) }
}

/// About three digits.
pub(super) fn digits(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => "–".to_owned(),
        size if size >= 999.5 => grouped(value),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 => format!("{value:.2}"),
        size if size >= 0.0005 => format!("{value:.3}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.1e}"),
    }
}

/// A whole number with separators: `1,234,567`.
pub(super) fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let whole = format!("{:.0}", value.abs());
    let mut out = String::new();
    if value <= -0.5 {
        out.push('−');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_have_three_digits_and_a_fitting_unit() {
        let cases = [
            (Quantity::Rate, 412_345.0, "412k"),
            (Quantity::Rate, 999_900.0, "1.00M"),
            (Quantity::Rate, 12.0, "12.0"),
            (Quantity::Micros, 1_240.0, "1.24\u{202f}ms"),
            (Quantity::Millis, 0.25, "250\u{202f}µs"),
            (Quantity::Micros, 0.35, "350\u{202f}ns"),
            (Quantity::Seconds, 0.002, "2.00\u{202f}ms"),
            (Quantity::Seconds, 61.0, "61.0\u{202f}s"),
            (Quantity::Bytes, 3_435_973_837.0, "3.20\u{202f}GiB"),
            (Quantity::Mebibytes, 2048.0, "2.00\u{202f}GiB"),
            (Quantity::Ratio, 1.5, "1.50×"),
            (Quantity::Ratio, 0.5664, "0.57×"),
            (Quantity::Share, 0.632, "63.2%"),
            (Quantity::Micros, 0.0, "0"),
        ];
        for (quantity, value, expected) in cases {
            assert_eq!(quantity.short(value), expected);
        }
    }

    #[test]
    fn a_count_has_no_sign_of_a_ratio() {
        let of = |metric| Quantity::of(metric, "ratio");
        assert_eq!(of("write_amp").short(2.5), "2.50×");
        for metric in ["table_reads_per_hit", "read_settled_table_runs_per_get", "commits_per_sync"]
        {
            assert_eq!(of(metric).short(2.5), "2.50", "{metric}");
            assert_eq!(of(metric).lone_tick(2.0), "2", "{metric}");
        }
        assert_eq!(of("found").short(0.5), "50.0%");
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        assert_eq!(grouped(f64::NAN), "–");
        assert_eq!(digits(f64::INFINITY), "–");
    }

    #[test]
    fn whole_numbers_have_separators() {
        let shown = [0.0, 999.0, 1_000.0, -1_234_567.0].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "−1,234,567"]);
    }

    #[test]
    fn ticks_have_no_digit_too_many() {
        let unit = Quantity::Rate.unit(400_000.0);
        assert_eq!(Quantity::tick(200_000.0, 100_000.0, unit), "200k");
        let unit = Quantity::Bytes.unit(2.0 * 1_073_741_824.0);
        assert_eq!(Quantity::tick(536_870_912.0, 536_870_912.0, unit), "0.5\u{202f}GiB");
        let marks = [0.2, 5.0, 100.0, 1_000.0, 2e6];
        let shown = marks.map(|mark| Quantity::Micros.lone_tick(mark));
        let expected =
            ["200\u{202f}ns", "5\u{202f}µs", "100\u{202f}µs", "1\u{202f}ms", "2\u{202f}s"];
        assert_eq!(shown, expected);
        assert_eq!([0.5, 1.0, 20.0].map(|m| Quantity::Ratio.lone_tick(m)), ["0.5×", "1×", "20×"]);
    }
}
