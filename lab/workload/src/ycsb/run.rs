//! The run phase: operations on the records that were loaded.

use super::Options;
use super::client::{Client, Target};
use super::mix::OperationChooser;
use super::requests::RecordChooser;
use super::scans::LengthChooser;
use super::verification::Verification;
use crate::sequence::InsertSequence;
use crate::worker::share_of;
use crate::{OperationKind, Step, ValuePool, Worker, Workload, stream};
use esker_api::Ordered;
use esker_base::{Result, Rng};
use std::ops::Range;

/// Operations in the proportions of a mix. Its inserts go on from the last record of the load, and
/// no operation asks for a record that is not in the store yet.
///
/// A run on a store that an earlier one has added records to must be notified of them, or it inserts the
/// same ones again: add [`Run::inserted`] to its [`Options::records`].
#[derive(Debug)]
pub struct Run {
    options: Options,
    pool: ValuePool,
    operations: OperationChooser,
    inserts: InsertSequence,
    verification: Option<Verification>,
}

impl Run {
    /// The run of `options`, which must have passed [`Options::check`].
    pub fn new(options: &Options) -> Self {
        let pool =
            ValuePool::new(options.value_bytes(), &mut stream(options.seed, "run values", 0));
        Run {
            options: options.clone(),
            pool,
            operations: OperationChooser::new(&options.mix),
            inserts: InsertSequence::new(options.records),
            verification: options.verify.then(|| Verification::new(options)),
        }
    }

    /// How many records were inserted by now.
    pub fn inserted(&self) -> u64 {
        self.inserts.limit() - self.options.records
    }
}

impl Workload for Run {
    fn worker<'a>(
        &'a self,
        store: &'a dyn Ordered,
        thread: usize,
        rng: Rng,
    ) -> Result<Box<dyn Worker + 'a>> {
        let verification = self.verification.as_ref();
        Ok(Box::new(Runner {
            run: self,
            rng,
            client: Client::new(store, &self.options, &self.pool, thread, verification),
            records: RecordChooser::new(&self.options, thread),
            lengths: LengthChooser::new(&self.options.scans),
            loaded: self.options.loaded(),
        }))
    }

    fn operations(&self) -> u64 {
        self.share(0)
    }

    fn share(&self, thread: usize) -> u64 {
        share_of(self.options.operations, self.options.threads, thread)
    }

    fn live_bytes(&self, _operations: u64) -> Option<u64> {
        let Range { start, end } = self.options.loaded();
        let records = end - start + self.inserted();
        Some((records as f64 * self.options.record_bytes()) as u64)
    }

    fn endless(&self) -> bool {
        true
    }

    fn looks_up(&self) -> bool {
        self.options.mix.looks_up()
    }

    fn writes(&self) -> bool {
        self.options.mix.writes()
    }
}

struct Runner<'a> {
    run: &'a Run,
    rng: Rng,
    client: Client<'a>,
    records: RecordChooser,
    lengths: LengthChooser,
    loaded: Range<u64>,
}

impl Runner<'_> {
    #[inline]
    fn target(&mut self) -> Target {
        let number = self.records.next(&mut self.rng, self.run.inserts.limit());
        // Other programs' parts of a load that is shared may not be there.
        let was_inserted = number >= self.run.options.records && !self.run.inserts.failed();
        let is_there = was_inserted || self.loaded.contains(&number);
        Target { number, is_there }
    }

    #[inline]
    fn insert(&mut self) -> Result<Step> {
        let insert = self.run.inserts.take();
        let step = self.client.insert(insert.number)?;
        insert.done();
        Ok(step)
    }
}

impl Worker for Runner<'_> {
    fn step(&mut self) -> Result<Step> {
        match self.run.operations.next(&mut self.rng) {
            OperationKind::Insert => self.insert(),
            OperationKind::Read => {
                let target = self.target();
                self.client.read(target)
            }
            OperationKind::Update => {
                let target = self.target();
                self.client.update(target, &mut self.rng)
            }
            OperationKind::ReadModifyWrite => {
                let target = self.target();
                self.client.read_modify_write(target, &mut self.rng)
            }
            OperationKind::Scan => {
                let target = self.target();
                let len = self.lengths.next(&mut self.rng);
                self.client.scan(target, len)
            }
            OperationKind::Named(name) => unreachable!("{name} is in no mix of YCSB"),
        }
    }
}
