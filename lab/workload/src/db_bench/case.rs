//! The cases by name, and what each of them does.

use super::Options;
use super::point::Get;
use super::scan::{Direction, Scan};
use super::seek::Seek;
use super::write::{Delete, Put};
use crate::distributions::{Distribution, Sequential, Uniform};
use crate::{ValuePool, Worker, Workload, stream};
use esker_api::Ordered;
use esker_base::{Error, Result, Rng};

/// A case of `db_bench`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Case {
    /// Writes all keys in order.
    FillSeq,
    /// Writes keys at random.
    FillRandom,
    /// Writes keys at random, over those that are there.
    Overwrite,
    /// Deletes keys at random.
    DeleteRandom,
    /// Reads keys at random.
    ReadRandom,
    /// Reads keys that are not there, each between two that may be.
    ReadMissing,
    /// Reads entries in order from the first.
    ReadSeq,
    /// Reads entries in order from the last.
    ReadReverse,
    /// Seeks to keys at random.
    SeekRandom,
    /// Reads keys at random while one more thread overwrites as fast as it can.
    ReadWhileWriting,
}

impl Case {
    /// All cases.
    pub const ALL: [Case; 10] = [
        Case::FillSeq,
        Case::FillRandom,
        Case::Overwrite,
        Case::DeleteRandom,
        Case::ReadRandom,
        Case::ReadMissing,
        Case::ReadSeq,
        Case::ReadReverse,
        Case::SeekRandom,
        Case::ReadWhileWriting,
    ];

    /// The name that `db_bench` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Case::FillSeq => "fillseq",
            Case::FillRandom => "fillrandom",
            Case::Overwrite => "overwrite",
            Case::DeleteRandom => "deleterandom",
            Case::ReadRandom => "readrandom",
            Case::ReadMissing => "readmissing",
            Case::ReadSeq => "readseq",
            Case::ReadReverse => "readreverse",
            Case::SeekRandom => "seekrandom",
            Case::ReadWhileWriting => "readwhilewriting",
        }
    }

    /// Whether the measured threads write.
    pub fn writes(self) -> bool {
        use Case::{DeleteRandom, FillRandom, FillSeq, Overwrite};
        matches!(self, FillSeq | FillRandom | Overwrite | DeleteRandom)
    }

    fn is_scan(self) -> bool {
        matches!(self, Case::ReadSeq | Case::ReadReverse)
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Case {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Case::ALL.into_iter().find(|case| case.name() == name).ok_or_else(|| {
            let names = Case::ALL.map(Case::name).join(", ");
            Error::InvalidSetting {
                setting: "benchmark",
                value: name.to_owned(),
                reason: format!("there are {names}"),
            }
        })
    }
}

/// A case with its size: the workload.
#[derive(Debug)]
pub struct Job {
    case: Case,
    options: Options,
    pool: ValuePool,
}

impl Job {
    /// `case` at the size of `options`, which must have passed [`Options::check`].
    pub fn new(case: Case, options: &Options) -> Self {
        let pool = ValuePool::new(options.value_bytes, &mut stream(options.seed, "values", 0));
        Job { case, options: options.clone(), pool }
    }

    fn put<'a, D: Distribution + 'a>(
        &'a self,
        store: &'a dyn Ordered,
        rng: Rng,
        order: D,
    ) -> Box<dyn Worker + 'a> {
        Box::new(Put::new(store, &self.options, self.pool.values(), rng, order))
    }
}

impl Workload for Job {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        _thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        let options = &self.options;
        Ok(match self.case {
            Case::FillSeq => self.put(store, rng, Sequential::default()),
            Case::FillRandom | Case::Overwrite => self.put(store, rng, Uniform),
            Case::DeleteRandom => Box::new(Delete::new(store, options, rng)),
            Case::ReadRandom | Case::ReadWhileWriting => {
                Box::new(Get::new(store, options.num, options.key_bytes, rng))
            }
            // One more byte of padding makes a key that no write has.
            Case::ReadMissing => Box::new(Get::new(store, options.num, options.key_bytes + 1, rng)),
            Case::ReadSeq => Box::new(Scan::new(store, Direction::Up)),
            Case::ReadReverse => Box::new(Scan::new(store, Direction::Down)),
            Case::SeekRandom => Box::new(Seek::new(store, options, rng)),
        })
    }

    fn operations(&self) -> u64 {
        if self.case.writes() { self.options.num } else { self.options.reads() }
    }

    fn endless(&self) -> bool {
        !self.case.is_scan() && self.case != Case::FillSeq
    }

    fn looks_up(&self) -> bool {
        !self.case.writes()
    }

    fn writes(&self) -> bool {
        self.case.writes()
    }

    fn companion(&self) -> Option<Box<dyn Workload + '_>> {
        (self.case == Case::ReadWhileWriting)
            .then(|| Box::new(Job::new(Case::Overwrite, &self.options)) as Box<dyn Workload>)
    }
}
