//! How many keys, and how often each is written.

use crate::KeyBuffer;
use crate::distributions::{Distribution, Uniform, YCSB_THETA, Zipfian};
use crate::worker::check_threads;
use esker_base::limit_line::{LimitLine, RUNS};
use esker_base::{Error, MAX_KEY_BYTES, Result};

/// Which keys are updated how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Heat {
    /// All equally often.
    #[default]
    Uniform,
    /// Few keys often, many seldom, in YCSB's proportions.
    Zipfian,
}

impl Heat {
    /// How keys are chosen, the hottest having the lowest number.
    pub(super) fn distribution(self) -> Box<dyn Distribution> {
        match self {
            Heat::Uniform => Box::new(Uniform),
            Heat::Zipfian => Box::new(Zipfian::new(YCSB_THETA)),
        }
    }
}

impl std::str::FromStr for Heat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "uniform" => Ok(Heat::Uniform),
            "zipfian" | "zipf" => Ok(Heat::Zipfian),
            _ => refuse("distribution", name, "there are uniform and zipf"),
        }
    }
}

/// The size of the load. The defaults are those of the paper but for the number of keys.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Keys.
    pub records: u64,
    /// How often a key is written again, on average: all writes are `records` x (1 + this).
    pub updates_per_key: f64,
    /// Which keys are updated how often.
    pub heat: Heat,
    /// The length of a key.
    pub key_bytes: usize,
    /// The length of a value.
    pub value_bytes: usize,
    /// Threads that divide the writes between them.
    pub threads: usize,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            records: 1_000_000,
            updates_per_key: 9.0,
            heat: Heat::Uniform,
            key_bytes: 10,
            value_bytes: 200,
            threads: 1,
            seed: 1,
        }
    }
}

impl Options {
    /// Refuses what can't be run.
    pub fn check(&self) -> Result<()> {
        if self.records == 0 {
            return refuse("records", 0, "there must be at least one key");
        }
        if !(0.0..=1e9).contains(&self.updates_per_key) {
            let reason = "it is a number from 0 to a billion";
            return refuse("updates-per-key", self.updates_per_key, reason);
        }
        if self.key_bytes == 0 || self.key_bytes > MAX_KEY_BYTES {
            return refuse("key-size", self.key_bytes, "keys are 1 to 65,536 bytes long");
        }
        if self.records - 1 > KeyBuffer::largest(self.key_bytes) || self.records > 1 << 48 {
            return refuse("records", self.records, "so many do not fit keys of this size");
        }
        if self.value_bytes > 1 << 30 {
            return refuse("value-size", self.value_bytes, "a value is at most 1 GiB long");
        }
        let writes = self.records as f64 * (1.0 + self.updates_per_key);
        if writes > (1u64 << 48) as f64 {
            let reason = "so many updates of each key are more than 2^48 writes";
            return refuse("updates-per-key", self.updates_per_key, reason);
        }
        if self.writes().checked_mul(self.pair_bytes()).is_none() {
            let reason = "all writes together are more than 2^64 bytes";
            return refuse("value-size", self.value_bytes, reason);
        }
        check_threads("threads", self.threads)?;
        if self.threads as u64 > self.records {
            return refuse("threads", self.threads, "each thread needs a key of its own");
        }
        Ok(())
    }

    /// Writes of keys that are there already.
    pub fn updates(&self) -> u64 {
        (self.records as f64 * self.updates_per_key).round() as u64
    }

    /// Bytes of a key and its value.
    pub fn pair_bytes(&self) -> u64 {
        (self.key_bytes + self.value_bytes) as u64
    }

    /// What the load costs at least, of a store with memtables of so many bytes.
    pub fn limit_line(&self, memtable_bytes: u64) -> LimitLine {
        LimitLine {
            live_bytes: self.records * self.pair_bytes(),
            memtable_bytes,
            runs: RUNS,
            skew: self.heat.skew(self.records),
        }
    }

    /// All writes.
    pub fn writes(&self) -> u64 {
        self.records + self.updates()
    }
}

fn refuse<T>(setting: &'static str, value: impl ToString, reason: &str) -> Result<T> {
    let (value, reason) = (value.to_string(), reason.to_owned());
    Err(Error::InvalidSetting { setting, value, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        let good = Options::default();
        good.check().unwrap();
        let once = Options { updates_per_key: 0.0, ..good.clone() };
        for (options, name) in [
            (Options { records: 0, ..good.clone() }, "records"),
            (Options { records: 257, key_bytes: 1, ..good.clone() }, "records"),
            (Options { records: u64::MAX, ..good.clone() }, "records"),
            (Options { updates_per_key: -1.0, ..good.clone() }, "updates-per-key"),
            (Options { updates_per_key: f64::NAN, ..good.clone() }, "updates-per-key"),
            (Options { updates_per_key: f64::INFINITY, ..good.clone() }, "updates-per-key"),
            (Options { key_bytes: 0, ..good.clone() }, "key-size"),
            (Options { key_bytes: MAX_KEY_BYTES + 1, ..good.clone() }, "key-size"),
            (Options { value_bytes: usize::MAX, ..good.clone() }, "value-size"),
            (Options { records: 1 << 40, updates_per_key: 1e9, ..good.clone() }, "updates-per-key"),
            (Options { records: 1 << 47, value_bytes: 1 << 30, ..once.clone() }, "value-size"),
            (Options { threads: 0, ..good.clone() }, "threads"),
            (Options { threads: 5, records: 4, ..good.clone() }, "threads"),
        ] {
            let message = options.check().unwrap_err().to_string();
            assert!(message.starts_with(&format!("{name} is ")), "{message}");
        }
        Options { updates_per_key: 0.0, records: 256, key_bytes: 1, ..good }.check().unwrap();
    }

    #[test]
    fn a_distribution_is_named_in_full_or_short() {
        assert_eq!("uniform".parse::<Heat>().unwrap(), Heat::Uniform);
        assert_eq!("zipf".parse::<Heat>().unwrap(), "zipfian".parse::<Heat>().unwrap());
        assert!("latest".parse::<Heat>().is_err());
    }
}
