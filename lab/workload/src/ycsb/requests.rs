//! Which record an operation asks for.

use super::Options;
use crate::Distribution;
use crate::distributions::{Exponential, HotSpot, Latest, ScrambledZipfian, Uniform};
use esker_base::{Error, Result, Rng};
use std::ops::RangeInclusive;

/// The parameters of the exponential distribution. Beyond these its ages all round to zero or to the
/// oldest record, or are no numbers at all.
const PERCENTILES: RangeInclusive<f64> = 0.001..=99.999;
const FRACTIONS: RangeInclusive<f64> = 1e-9..=1e9;

/// How often a record that is not there yet is drawn again. Where nearly all are still to come, more
/// draws would be charged to the store as latency.
const MOST_DRAWS: u32 = 64;

/// How requests spread over the records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Requests {
    /// Evenly over the records that were loaded.
    Uniform,
    /// Few records often, scattered over all. The hot ones stay the same while records are added,
    /// because they are drawn among twice as many new records as are expected, and drawn again
    /// where there is none yet: so the odd hot record is a new one. As in YCSB, the numbers drawn
    /// among include the one after the last.
    Zipfian,
    /// The newest records most often, those inserted meanwhile included.
    Latest,
    /// A fraction of the loaded records gets a fraction of the requests.
    HotSpot {
        /// The hot fraction of the records.
        records: f64,
        /// The fraction of the requests that go there.
        requests: f64,
    },
    /// The newest records most often, falling off exponentially.
    Exponential {
        /// How many percent of the requests go to the newest `fraction` of the records.
        percentile: f64,
        /// That fraction.
        fraction: f64,
    },
    /// One loaded record after the other, threads taking turns.
    Sequential,
}

impl Requests {
    /// The hot spot of YCSB's defaults: 80% of the requests to a fifth of the records.
    pub const HOT_SPOT: Requests = Requests::HotSpot { records: 0.2, requests: 0.8 };

    /// The exponential distribution of YCSB's defaults.
    pub const EXPONENTIAL: Requests =
        Requests::Exponential { percentile: 95.0, fraction: 0.857_142_857_1 };

    /// Its name, as YCSB's files have it.
    pub fn name(&self) -> &'static str {
        match self {
            Requests::Uniform => "uniform",
            Requests::Zipfian => "zipfian",
            Requests::Latest => "latest",
            Requests::HotSpot { .. } => "hotspot",
            Requests::Exponential { .. } => "exponential",
            Requests::Sequential => "sequential",
        }
    }

    /// Refuses parameters out of their range.
    pub fn check(&self) -> Result<()> {
        let refuse = |setting, value: f64, reason: &str| {
            let (value, reason) = (value.to_string(), reason.to_owned());
            Err(Error::InvalidSetting { setting, value, reason })
        };
        let fraction = "a fraction is a number from 0 to 1";
        match *self {
            Requests::HotSpot { records, requests } => {
                if !(0.0..=1.0).contains(&records) {
                    return refuse("hotspotdatafraction", records, fraction);
                }
                if !(0.0..=1.0).contains(&requests) {
                    return refuse("hotspotopnfraction", requests, fraction);
                }
            }
            Requests::Exponential { percentile, fraction } => {
                if !PERCENTILES.contains(&percentile) {
                    let reason = "it is a number from 0.001 to 99.999";
                    return refuse("exponential.percentile", percentile, reason);
                }
                if !FRACTIONS.contains(&fraction) {
                    let reason = "it is a number from a billionth to a billion";
                    return refuse("exponential.frac", fraction, reason);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl std::str::FromStr for Requests {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let all = [
            Requests::Uniform,
            Requests::Zipfian,
            Requests::Latest,
            Requests::HOT_SPOT,
            Requests::EXPONENTIAL,
            Requests::Sequential,
        ];
        all.into_iter().find(|requests| requests.name() == name).ok_or_else(|| {
            Error::InvalidSetting {
                setting: "requestdistribution",
                value: name.to_owned(),
                reason: format!("there are {}", all.map(|requests| requests.name()).join(", ")),
            }
        })
    }
}

/// One thread's choice of record numbers.
#[derive(Clone, Debug)]
pub(super) struct RecordChooser {
    order: Order,
    /// The first record that was loaded, and how many.
    start: u64,
    loaded: u64,
    /// How many numbers, from the first on, are drawn among: those of all records that there may be
    /// in the end and, because the bound is inclusive in YCSB, one more.
    drawn_among: u64,
}

#[derive(Clone, Debug)]
enum Order {
    Uniform,
    Zipfian(ScrambledZipfian),
    Latest(Latest),
    HotSpot(HotSpot),
    Exponential(Exponential),
    Sequential { next: u64, step: u64 },
}

impl RecordChooser {
    /// For thread number `thread`.
    pub(super) fn new(options: &Options, thread: usize) -> Self {
        let order = match options.requests {
            Requests::Uniform => Order::Uniform,
            Requests::Zipfian => Order::Zipfian(ScrambledZipfian::new()),
            Requests::Latest => Order::Latest(Latest::new()),
            Requests::HotSpot { records, requests } => {
                Order::HotSpot(HotSpot::new(records, requests))
            }
            Requests::Exponential { percentile, fraction } => {
                let range = options.records as f64 * fraction;
                Order::Exponential(Exponential::new(percentile, range))
            }
            Requests::Sequential => {
                Order::Sequential { next: thread as u64, step: options.threads as u64 }
            }
        };
        let loaded = options.loaded();
        RecordChooser {
            order,
            start: loaded.start,
            loaded: loaded.end - loaded.start,
            drawn_among: options.expected_records() - loaded.start + 1,
        }
    }

    /// The number of a record below `limit`.
    #[inline]
    pub(super) fn next(&mut self, rng: &mut Rng, limit: u64) -> u64 {
        match &mut self.order {
            Order::Uniform => self.start + Uniform.next(rng, self.loaded),
            Order::Zipfian(zipfian) => {
                let there = limit - self.start;
                let mut drawn = zipfian.next(rng, self.drawn_among);
                for _ in 1..MOST_DRAWS {
                    if drawn < there {
                        break;
                    }
                    drawn = zipfian.next(rng, self.drawn_among);
                }
                self.start + drawn % there
            }
            Order::Latest(latest) => latest.next(rng, limit),
            Order::HotSpot(spot) => self.start + spot.next(rng, self.loaded),
            Order::Exponential(ages) => ages.next(rng, limit),
            Order::Sequential { next, step } => {
                let number = self.start + *next % self.loaded;
                *next += *step;
                number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Preset;
    use super::*;

    #[test]
    fn a_draw_ends_soon_even_if_nearly_all_records_are_still_to_come() {
        let size = Options { records: 3, operations: 1 << 40, ..Options::default() };
        let options = Preset::H.options(&size);
        options.check().unwrap();
        let mut chooser = RecordChooser::new(&options, 0);
        let mut rng = Rng::new(1);
        let mut hits = [0; 3];
        for _ in 0..300 {
            let mut before = rng.clone();
            hits[chooser.next(&mut rng, 3) as usize] += 1;
            let after = rng.clone().next_u64();
            let draws = (0..=MOST_DRAWS).find(|_| before.next_u64() == after);
            assert!(draws.is_some(), "more than {MOST_DRAWS} draws");
        }
        assert!(hits.iter().all(|&hits| hits > 50), "{hits:?}");
    }

    #[test]
    fn zipfian_draws_reach_up_to_the_inclusive_bound_of_ycsb() {
        let options = Options { records: 10, ..Preset::C.options(&Options::default()) };
        let mut chooser = RecordChooser::new(&options, 0);
        let (mut a, mut b) = (Rng::new(4), Rng::new(4));
        let mut eleven = ScrambledZipfian::new();
        for _ in 0..200 {
            let expected = std::iter::repeat_with(|| eleven.next(&mut b, 11)).find(|&n| n < 10);
            assert_eq!(Some(chooser.next(&mut a, 10)), expected);
        }
    }

    #[test]
    fn exponential_parameters_at_their_bounds_still_draw_and_others_are_refused() {
        for percentile in [0.001, 99.999] {
            for fraction in [1e-9, 1e9] {
                let requests = Requests::Exponential { percentile, fraction };
                for records in [1, 1 << 48] {
                    let options = Options { records, requests, ..Options::default() };
                    options.check().unwrap();
                    let mut chooser = RecordChooser::new(&options, 0);
                    let mut rng = Rng::new(2);
                    assert!((0..100).all(|_| chooser.next(&mut rng, records) < records));
                }
            }
        }
        for (percentile, fraction) in [
            (1e-300, 0.5),
            (99.999_999_999_999_99, 0.5),
            (f64::NAN, 0.5),
            (95.0, 1e-320),
            (95.0, 1e308),
            (95.0, f64::INFINITY),
            (95.0, f64::NAN),
        ] {
            let requests = Requests::Exponential { percentile, fraction };
            assert!(requests.check().is_err(), "{requests:?}");
        }
    }
}
