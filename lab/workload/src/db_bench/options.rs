//! How much is done, and to what.

use crate::KeyBuffer;
use crate::worker::check_threads;
use esker_base::{Error, MAX_KEY_BYTES, Result};
use std::time::Duration;

/// The size of a run. The defaults are those of `db_bench`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Keys in the key space, and writes of each writing thread.
    pub num: u64,
    /// Reads of each reading thread; `num` if not given.
    pub reads: Option<u64>,
    /// The length of a key.
    pub key_bytes: usize,
    /// The length of a value.
    pub value_bytes: usize,
    /// Entries of a write batch.
    pub batch: u64,
    /// Entries that `seekrandom` reads after each seek.
    pub seek_nexts: u64,
    /// Threads that run a case at once.
    pub threads: usize,
    /// How long cases in random order go on, instead of a number of operations.
    pub duration: Option<Duration>,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            num: 1_000_000,
            reads: None,
            key_bytes: 16,
            value_bytes: 100,
            batch: 1,
            seek_nexts: 0,
            threads: 1,
            duration: None,
            seed: 1,
        }
    }
}

impl Options {
    /// Refuses what can't be run.
    pub fn check(&self) -> Result<()> {
        let invalid = |setting, value: u64, reason: &str| {
            Err(Error::InvalidSetting {
                setting,
                value: value.to_string(),
                reason: reason.to_owned(),
            })
        };
        if self.num == 0 {
            return invalid("num", 0, "there must be at least one key");
        }
        // One byte is left for the longer keys of `readmissing`.
        if self.key_bytes == 0 || self.key_bytes >= MAX_KEY_BYTES {
            let reason = "keys of a benchmark are 1 to 65,535 bytes long";
            return invalid("key-size", self.key_bytes as u64, reason);
        }
        if self.num - 1 > KeyBuffer::largest(self.key_bytes) {
            return invalid("num", self.num, "so many numbers do not fit keys of this size");
        }
        if self.batch == 0 {
            return invalid("batch-size", 0, "a batch has at least one entry");
        }
        check_threads("threads", self.threads)
    }

    /// Reads of each reading thread.
    pub fn reads(&self) -> u64 {
        self.reads.unwrap_or(self.num)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_can_be_run() {
        Options::default().check().unwrap();
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        let good = Options::default();
        for (options, name) in [
            (Options { num: 0, ..good.clone() }, "num"),
            (Options { num: 257, key_bytes: 1, ..good.clone() }, "num"),
            (Options { key_bytes: 0, ..good.clone() }, "key-size"),
            (Options { key_bytes: MAX_KEY_BYTES, ..good.clone() }, "key-size"),
            (Options { batch: 0, ..good.clone() }, "batch-size"),
            (Options { threads: 0, ..good.clone() }, "threads"),
            (Options { threads: 1025, ..good.clone() }, "threads"),
        ] {
            let message = options.check().unwrap_err().to_string();
            assert!(message.starts_with(name), "{message}");
        }
        Options { num: 256, key_bytes: 1, ..good }.check().unwrap();
    }
}
