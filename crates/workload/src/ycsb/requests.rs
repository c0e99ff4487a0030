//! Which record an operation asks for.

use super::Options;
use crate::Distribution;
use crate::distributions::{Exponential, HotSpot, Latest, ScrambledZipfian, Uniform};
use esker_base::{Error, Result, Rng};

/// How requests spread over the records.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Requests {
    /// Evenly over the records that were loaded.
    Uniform,
    /// Few records often, scattered over all. The hot ones stay the same while records are added,
    /// because they are drawn among twice as many new records as are expected, and drawn again
    /// where there is none yet: so the odd hot record is a new one.
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
                if !(percentile > 0.0 && percentile < 100.0) {
                    let reason = "it is a number between 0 and 100";
                    return refuse("exponential.percentile", percentile, reason);
                }
                if !(fraction > 0.0 && fraction.is_finite()) {
                    return refuse("exponential.frac", fraction, "it is a number greater than 0");
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
    /// How many records, from the first on, there may be in the end.
    expected: u64,
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
            expected: options.expected_records() - loaded.start,
        }
    }

    /// The number of a record below `limit`.
    #[inline]
    pub(super) fn next(&mut self, rng: &mut Rng, limit: u64) -> u64 {
        match &mut self.order {
            Order::Uniform => self.start + Uniform.next(rng, self.loaded),
            Order::Zipfian(zipfian) => loop {
                let number = self.start + zipfian.next(rng, self.expected);
                if number < limit {
                    return number;
                }
            },
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
