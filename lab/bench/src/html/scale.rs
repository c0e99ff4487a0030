//! From numbers to places on an axis, and the numbers to mark: 1, 2 and 5 times powers of ten.
//!
//! Invariant: [`Scale::at`] gives a finite place within the axis whatever it is asked, so that no
//! number can break a path.

/// An axis: which numbers it spans, how, and from where to where it runs on the page.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Scale {
    kind: Kind,
    /// The ends, as [`Kind::transformed`] gives them.
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    /// One unit in which steps of 1, 2 and 5 are round: 1024 times something for bytes.
    unit: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Linear,
    Log,
    /// Logarithmic in what is above 1: 1.1, 1.2, 1.5, 2, 3, 6.
    AboveOne,
    /// For shares of a whole: every step further is ten times closer to 1.
    Nines,
}

/// Numbers beyond these are no measurements, and would leave the range of powers of ten.
const TINY: f64 = 1e-12;
const HUGE: f64 = 1e24;

impl Kind {
    fn transformed(self, value: f64) -> f64 {
        match self {
            Kind::Linear => value,
            Kind::Log => value.log10(),
            Kind::AboveOne => (value - 1.0).log10(),
            Kind::Nines => -(1.0 - value).log10(),
        }
    }
}

/// No store takes so little more than what is alive that it would matter.
const LEAST_ABOVE_ONE: f64 = 0.02;

/// Shares that [`Scale::nines`] marks.
const NINES: [f64; 7] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.999_9, 0.999_99];

impl Scale {
    /// From zero to `high`, in steps that are round in `unit`s.
    pub(super) fn linear(high: f64, unit: f64, (from, to): (f64, f64)) -> Scale {
        let high = if high.is_finite() && high > TINY { high } else { unit };
        Scale { kind: Kind::Linear, low: 0.0, high, from, to, unit }
    }

    /// From `low` or less to `high` or more, both marked. Everything below `low` is at `low`.
    pub(super) fn log(low: f64, high: f64, (from, to): (f64, f64)) -> Scale {
        let low = if low.is_finite() && low > 0.0 { low.clamp(TINY, HUGE) } else { 1.0 };
        let high = if high.is_finite() { high.clamp(low, HUGE) } else { low };
        let (low, mut high) = (round_down(low), round_up(high));
        if high <= low {
            high = round_up(low * 1.5);
        }
        Scale { kind: Kind::Log, low: low.log10(), high: high.log10(), from, to, unit: 1.0 }
    }

    /// Ratios from `low` or less to `high` or more, equal factors of what is above 1 at equal distances.
    /// What is 1 or less is at the start.
    pub(super) fn above_one(low: f64, high: f64, ends: (f64, f64)) -> Scale {
        let low = (low - 1.0).max(LEAST_ABOVE_ONE);
        Scale { kind: Kind::AboveOne, ..Scale::log(low, (high - 1.0).max(low), ends) }
    }

    /// Shares of a whole up to `most`, the part close to 1 spread out: 0, 90%, 99%, 99.9%.
    pub(super) fn nines(most: f64, (from, to): (f64, f64)) -> Scale {
        let most = if most.is_finite() { most.clamp(0.9, 0.999_99) } else { 0.9 };
        // A little beyond, so that what has reached 1 lies above the last mark.
        let high = (Kind::Nines.transformed(most) - 1e-9).ceil() + 0.2;
        Scale { kind: Kind::Nines, low: 0.0, high, from, to, unit: 1.0 }
    }

    /// Where `value` is, within the axis.
    pub(super) fn at(&self, value: f64) -> f64 {
        let part = (self.kind.transformed(value) - self.low) / (self.high - self.low);
        // Zero on a logarithmic axis is infinitely far down, and a share of 1 infinitely far up:
        // both lie at the end. What is no number at all lies at the start.
        let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self.from + part * (self.to - self.from)
    }

    /// Whether `value` is between its ends.
    pub(super) fn spans(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&self.kind.transformed(value))
    }

    /// Where the axis starts.
    pub(super) fn start(&self) -> f64 {
        self.from
    }

    /// Where it ends.
    pub(super) fn end(&self) -> f64 {
        self.to
    }

    /// Whether equal distances are equal differences.
    pub(super) fn is_linear(&self) -> bool {
        self.kind == Kind::Linear
    }

    /// The largest number.
    pub(super) fn most(&self) -> f64 {
        match self.kind {
            Kind::Linear => self.high,
            Kind::Log => 10f64.powf(self.high),
            Kind::AboveOne => 1.0 + 10f64.powf(self.high),
            Kind::Nines => 1.0,
        }
    }

    /// The step between the marks of a linear axis with at most `most` of them in addition to zero.
    pub(super) fn step(&self, most: usize) -> f64 {
        // A little less than what divides the axis evenly, so that its end may be a mark.
        round_up(self.high / self.unit / most.max(1) as f64 * (1.0 - 1e-9)) * self.unit
    }

    /// The numbers to mark, about `most`.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = self.step(most);
                let count = (self.high / step * (1.0 + 1e-9)).floor() as usize;
                (0..=count.min(100)).map(|n| n as f64 * step).collect()
            }
            Kind::Log => self.log_ticks(most),
            Kind::AboveOne => self.log_ticks(most).into_iter().map(|above| 1.0 + above).collect(),
            Kind::Nines => {
                let is_within = |share: &f64| Kind::Nines.transformed(*share) <= self.high;
                NINES.into_iter().filter(is_within).collect()
            }
        }
    }

    /// Numbers that have a faint line and no text: those on a logarithmic axis whose distance grows.
    pub(super) fn between(&self) -> Vec<f64> {
        match self.kind {
            Kind::Log if self.high - self.low < 4.5 => self.log_ticks(usize::MAX),
            _ => Vec::new(),
        }
    }

    /// Marks at 1, 2, 5; or at powers of ten; or at every second, third ... of those.
    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let within = |mark: &f64| {
            let at = mark.log10();
            at > self.low - 1e-9 && at < self.high + 1e-9
        };
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let fine = decades.clone().flat_map(|n| [1.0, 2.0, 5.0].map(|m| m * 10f64.powi(n)));
        let fine: Vec<f64> = fine.filter(within).collect();
        if fine.len() <= most {
            return fine;
        }
        let coarse: Vec<f64> = decades.map(|n| 10f64.powi(n)).filter(within).collect();
        let every = coarse.len().div_ceil(most.max(1)).max(1);
        coarse.into_iter().step_by(every).collect()
    }
}

/// The largest of 1, 2, 5 times a power of ten that is at most `value`.
fn round_down(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let fits = |factor: &f64| factor * decade <= value * (1.0 + 1e-9);
    [5.0, 2.0, 1.0].into_iter().find(fits).unwrap_or(1.0) * decade
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `value`.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let fits = |factor: &f64| factor * decade >= value * (1.0 - 1e-9);
    [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: (f64, f64) = (100.0, 200.0);

    fn close(found: &[f64], expected: &[f64]) -> bool {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= b.abs() * 1e-9;
        found.len() == expected.len() && found.iter().zip(expected).all(near)
    }

    #[test]
    fn linear_marks_are_1_2_or_5_times_a_power_of_ten() {
        let ticks = |high| Scale::linear(high, 1.0, RANGE).ticks(5);
        assert!(close(&ticks(1000.0), &[0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]));
        assert!(close(&ticks(0.3), &[0.0, 0.1, 0.2, 0.3]));
        assert!(close(&ticks(23.0), &[0.0, 5.0, 10.0, 15.0, 20.0]));
    }

    #[test]
    fn linear_marks_are_round_in_their_unit() {
        let mib = 1_048_576.0;
        let ticks = Scale::linear(3.1 * mib, mib, RANGE).ticks(4);
        assert!(close(&ticks, &[0.0, mib, 2.0 * mib, 3.0 * mib]));
    }

    #[test]
    fn log_marks_thin_out_as_decades_grow() {
        let ticks = |low, high| Scale::log(low, high, RANGE).ticks(6);
        assert!(close(&ticks(3.0, 40.0), &[2.0, 5.0, 10.0, 20.0, 50.0]));
        assert!(close(&ticks(3.0, 9_000.0), &[10.0, 100.0, 1e3, 1e4]));
        assert!(close(&ticks(1.0, 1e8), &[1.0, 100.0, 1e4, 1e6, 1e8]));
    }

    #[test]
    fn one_number_makes_a_log_axis_too() {
        let scale = Scale::log(10.0, 10.0, RANGE);
        assert!(close(&scale.ticks(6), &[10.0, 20.0]));
        assert_eq!(scale.at(10.0), 100.0);
    }

    #[test]
    fn ratios_above_one_are_spread_out_towards_it() {
        let scale = Scale::above_one(1.1, 3.0, RANGE);
        assert!(close(&scale.ticks(6), &[1.1, 1.2, 1.5, 2.0, 3.0]));
        assert!(scale.spans(1.5) && !scale.spans(1.0) && !scale.spans(4.0));
        let (first, second) = (scale.at(1.2) - scale.at(1.1), scale.at(3.0) - scale.at(2.0));
        assert!((first - second).abs() < 1e-9);
        assert_eq!(scale.at(0.9), 100.0);
    }

    #[test]
    fn nines_spread_out_what_is_close_to_one() {
        let scale = Scale::nines(0.999, RANGE);
        assert_eq!(scale.ticks(9), [0.0, 0.5, 0.9, 0.99, 0.999]);
        assert_eq!(scale.at(0.0), 100.0);
        assert_eq!(scale.at(1.0), 200.0);
        let (first, second) = (scale.at(0.9) - 100.0, scale.at(0.99) - scale.at(0.9));
        assert!((first - second).abs() < 1e-9);
    }

    #[test]
    fn every_number_has_a_finite_place_on_every_axis() {
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e300, 1e-300];
        for low in odd {
            for high in odd {
                let scales = [
                    Scale::linear(high, 1.0, RANGE),
                    Scale::log(low, high, RANGE),
                    Scale::nines(high, RANGE),
                    Scale::above_one(low, high, RANGE),
                ];
                for scale in scales {
                    for value in odd {
                        assert!((100.0..=200.0).contains(&scale.at(value)), "{scale:?} {value}");
                    }
                    assert!(scale.ticks(6).len() <= 101);
                }
            }
        }
    }
}
