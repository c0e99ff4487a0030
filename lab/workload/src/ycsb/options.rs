//! What is done to which records, and how often.

use super::{KeyOrder, Lengths, Mix, Preset, RecordKey, Requests, Scans};
use crate::checker::MIN_VALUE_BYTES;
use crate::worker::check_threads;
use esker_base::{Error, Result};
use std::ops::Range;

/// The largest record. Stores refuse far smaller ones; this keeps a slip from taking all memory.
const MAX_VALUE_BYTES: usize = 1 << 30;

/// The most records, and the most operations.
const MOST: u64 = 1 << 48;

/// What an update writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Update {
    /// A whole new record: one put.
    #[default]
    Whole,
    /// One field. A key-value store has no fields, so the record is read, changed and put back, as
    /// YCSB's bindings for such stores do; the latency is of all that. As there, one of two threads
    /// that do so at once may undo the other's change.
    Field,
}

/// The records, the operations and their number. The defaults are workload A's, over a million
/// records of a thousand bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// Records in the store before the run, numbered from zero. New ones get the numbers after.
    pub records: u64,
    /// Operations of all threads together.
    pub operations: u64,
    /// Threads that share the load, and the operations, between them.
    pub threads: usize,
    /// The first record that the load writes. Not zero where several programs share a load.
    pub load_start: u64,
    /// How many records the load writes; if not given, all up to [`Options::records`].
    pub load_count: Option<u64>,
    /// Which operations.
    pub mix: Mix,
    /// On which records.
    pub requests: Requests,
    /// Fields of a record.
    pub fields: usize,
    /// Bytes of a field. A value is the fields back to back.
    pub field_bytes: usize,
    /// The least length of a value, if values differ in length: each power of two up to the fields'
    /// length is equally frequent.
    pub least_value_bytes: Option<usize>,
    /// What an update writes.
    pub update: Update,
    /// How record numbers become keys.
    pub key_order: KeyOrder,
    /// The least number of digits in a key, zeros before them.
    pub key_digits: usize,
    /// How long scans are.
    pub scans: Scans,
    /// Whether every value read is checked. The load must have been made with this too.
    pub verify: bool,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            records: 1_000_000,
            operations: 1_000_000,
            threads: 1,
            load_start: 0,
            load_count: None,
            mix: Preset::A.mix(),
            requests: Preset::A.requests(),
            fields: 10,
            field_bytes: 100,
            least_value_bytes: None,
            update: Update::Whole,
            key_order: KeyOrder::Hashed,
            key_digits: 1,
            scans: Scans { least: 1, most: 100, lengths: Lengths::Uniform },
            verify: false,
            seed: 1,
        }
    }
}

impl Options {
    /// Refuses what can't be run.
    pub fn check(&self) -> Result<()> {
        self.check_each()?;
        self.check_together()
    }

    /// Refuses settings that are nonsense whatever the sizes are.
    pub(super) fn check_each(&self) -> Result<()> {
        at_least_one("records", self.records)?;
        at_least_one("operations", self.operations)?;
        check_threads("threads", self.threads)?;
        at_least_one("fields", self.fields as u64)?;
        at_least_one("field-size", self.field_bytes as u64)?;
        at_least_one("insertcount", self.load_count.unwrap_or(1))?;
        at_least_one("minscanlength", self.scans.least)?;
        // More would be a mistake, and the numbers of new records must not run out.
        if self.records > MOST {
            return refuse("records", self.records, "no store holds so many");
        }
        if self.operations > MOST {
            return refuse("operations", self.operations, "no store takes so many");
        }
        if self.scans.most < self.scans.least {
            return refuse("maxscanlength", self.scans.most, "it is less than the shortest scan");
        }
        if self.key_digits > 1_000 {
            return refuse("zeropadding", self.key_digits, "it is 1,000 at most");
        }
        self.mix.check()?;
        self.requests.check()
    }

    /// Refuses sizes that do not go together.
    fn check_together(&self) -> Result<()> {
        let most_threads = usize::try_from(self.records.min(self.operations)).unwrap_or(usize::MAX);
        if self.threads > most_threads {
            let reason = "each thread needs a record and an operation of its own";
            return refuse("threads", self.threads, reason);
        }
        if self.load_start >= self.records {
            return refuse("insertstart", self.load_start, "it must be below the records' number");
        }
        if self.load_count.is_some_and(|count| count > self.records - self.load_start) {
            let reason = "insertstart and insertcount reach past the records' number";
            return refuse("insertcount", self.load_count.unwrap_or(0), reason);
        }
        self.check_value()
    }

    fn check_value(&self) -> Result<()> {
        match self.fields.checked_mul(self.field_bytes) {
            Some(bytes) if bytes <= MAX_VALUE_BYTES => {}
            _ => return refuse("field-size", self.field_bytes, "a record is at most 1 GiB long"),
        }
        if self.verify && self.value_bytes() < MIN_VALUE_BYTES {
            let reason = "records that are verified are at least 16 bytes long";
            return refuse("field-size", self.field_bytes, reason);
        }
        let Some(least) = self.least_value_bytes else { return Ok(()) };
        if !(MIN_VALUE_BYTES..=self.value_bytes()).contains(&least) {
            let reason = "it must be at least 16 bytes, and at most the fields' length";
            return refuse("least-value-bytes", least, reason);
        }
        if self.update == Update::Field {
            let reason = "values of different lengths have no fields to update";
            return refuse("least-value-bytes", least, reason);
        }
        Ok(())
    }

    /// The length of a value, of the longest if they differ.
    pub fn value_bytes(&self) -> usize {
        self.fields * self.field_bytes
    }

    /// The mean length of a key and its value.
    pub fn record_bytes(&self) -> f64 {
        let key = RecordKey::mean_bytes(self.key_order, self.key_digits, self.records);
        key + self.mean_value_bytes()
    }

    /// The mean length of a value.
    fn mean_value_bytes(&self) -> f64 {
        let most = self.value_bytes() as f64;
        match self.least_value_bytes.map(|least| least as f64) {
            Some(least) if least < most => (most - least) / (most / least).ln(),
            _ => most,
        }
    }

    /// The numbers of the records that the load writes.
    pub fn loaded(&self) -> Range<u64> {
        let end = match self.load_count {
            Some(count) => self.load_start + count,
            None => self.records,
        };
        self.load_start..end
    }

    /// How many records there may be at the end, with as large a reserve for new ones as YCSB has.
    pub(super) fn expected_records(&self) -> u64 {
        let new = self.operations as f64 * self.mix.insert_share() * 2.0;
        self.loaded().end + new as u64
    }
}

fn at_least_one(setting: &'static str, value: u64) -> Result<()> {
    if value == 0 { refuse(setting, 0, "it must be at least 1") } else { Ok(()) }
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
        let scans = |least, most| Scans { least, most, lengths: Lengths::Uniform };
        let hot = |records, requests| Requests::HotSpot { records, requests };
        for (options, name) in [
            (Options { records: 0, ..good.clone() }, "records"),
            (Options { operations: 0, ..good.clone() }, "operations"),
            (Options { threads: 0, ..good.clone() }, "threads"),
            (Options { threads: 9, records: 8, ..good.clone() }, "threads"),
            (Options { threads: 1_025, ..good.clone() }, "threads"),
            (Options { threads: 9, operations: 8, ..good.clone() }, "threads"),
            (Options { records: u64::MAX, ..good.clone() }, "records"),
            (Options { operations: MOST + 1, ..good.clone() }, "operations"),
            (Options { fields: 0, ..good.clone() }, "fields"),
            (Options { field_bytes: 0, ..good.clone() }, "field-size"),
            (Options { field_bytes: usize::MAX, ..good.clone() }, "field-size"),
            (Options { verify: true, fields: 1, field_bytes: 15, ..good.clone() }, "field-size"),
            (Options { load_start: 1_000_000, ..good.clone() }, "insertstart"),
            (Options { load_count: Some(0), ..good.clone() }, "insertcount"),
            (Options { load_start: 1, load_count: Some(1_000_000), ..good.clone() }, "insertcount"),
            (Options { scans: scans(0, 5), ..good.clone() }, "minscanlength"),
            (Options { scans: scans(6, 5), ..good.clone() }, "maxscanlength"),
            (Options { key_digits: 1_001, ..good.clone() }, "zeropadding"),
            (Options { mix: Mix::NONE, ..good.clone() }, "the sum of the proportions"),
            (Options { requests: hot(1.5, 0.5), ..good.clone() }, "hotspotdatafraction"),
            (Options { requests: hot(0.5, f64::NAN), ..good.clone() }, "hotspotopnfraction"),
            (Options { least_value_bytes: Some(8), ..good.clone() }, "least-value-bytes"),
            (Options { least_value_bytes: Some(1_001), ..good.clone() }, "least-value-bytes"),
            (
                Options { least_value_bytes: Some(16), update: Update::Field, ..good.clone() },
                "least-value-bytes",
            ),
            (exponential(100.0, 0.5), "exponential.percentile"),
            (exponential(95.0, 0.0), "exponential.frac"),
        ] {
            let message = options.check().unwrap_err().to_string();
            assert!(message.starts_with(&format!("{name} is ")), "{message}; {name} was expected");
        }
    }

    fn exponential(percentile: f64, fraction: f64) -> Options {
        let requests = Requests::Exponential { percentile, fraction };
        Options { requests, ..Options::default() }
    }

    #[test]
    fn twice_the_expected_inserts_are_reserved() {
        let options = Options { records: 1_000, operations: 400, ..Options::default() };
        assert_eq!(options.expected_records(), 1_000);
        assert_eq!(Preset::D.options(&options).expected_records(), 1_040);
        assert_eq!(Preset::G.options(&options).expected_records(), 1_800);
    }
}
