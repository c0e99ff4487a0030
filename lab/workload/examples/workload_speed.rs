//! What a workload itself costs, an operation: every workload over a store that does nothing.
//!
//! `cargo run --release -p esker-workload --example workload_speed`

use esker_api::{Cursor, KeyRange, Kv, Ordered, Snapshot, Value, WriteBatch};
use esker_base::{Clock, Error, Result, Seqno, SystemClock};
use esker_workload::checker::{Version, read_stamp, write_stamp};
use esker_workload::db_bench::{Case, Job};
use esker_workload::ycsb::{Load, Options, Preset, Requests, Run};
use esker_workload::{Workload, db_bench, stream, updates};
use std::hint::black_box;

const OPERATIONS: u64 = 2_000_000;

/// Answers at once, with empty values.
struct Nothing;

struct Nowhere;

impl Kv for Nothing {
    fn get(&self, _key: &[u8]) -> Result<Option<Value>> {
        Ok(Some(Value::default()))
    }
    fn write(&self, batch: &WriteBatch) -> Result<()> {
        black_box(batch.encoded());
        Ok(())
    }
}

impl Ordered for Nothing {
    fn cursor(&self, _range: KeyRange) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(Nowhere))
    }
    fn cursor_at<'a>(&'a self, _: KeyRange, _: &'a dyn Snapshot) -> Result<Box<dyn Cursor + 'a>> {
        Ok(Box::new(Nowhere))
    }
    fn get_at(&self, key: &[u8], _snapshot: &dyn Snapshot) -> Result<Option<Value>> {
        self.get(key)
    }
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(Nowhere))
    }
}

impl Snapshot for Nowhere {
    fn seqno(&self) -> Seqno {
        0
    }
}

impl Cursor for Nowhere {
    fn seek_first(&mut self) -> Result<()> {
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        Ok(())
    }
    fn seek(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }
    fn seek_back(&mut self, _key: &[u8]) -> Result<()> {
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        Ok(())
    }
    fn current(&self) -> Option<(&[u8], &[u8])> {
        Some((b"user", b""))
    }
}

/// Prints the least time of an operation in three tries.
fn time(name: &str, mut tries: impl FnMut() -> Result<u64>) -> Result<()> {
    let clock = SystemClock::new();
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let start = clock.now();
        let operations = tries()?;
        least = least.min((clock.now() - start).as_nanos() as f64 / operations as f64);
    }
    println!("{name:<32} {least:>8.1} ns");
    Ok(())
}

fn run(name: &str, workload: &dyn Workload) -> Result<()> {
    time(name, || {
        let mut worker = workload.worker(&Nothing, 0, stream(1, name, 0))?;
        for _ in 0..workload.share(0) {
            worker.step()?;
        }
        Ok(workload.share(0))
    })
}

fn main() -> Result<()> {
    let options = Options { records: OPERATIONS, operations: OPERATIONS, ..Options::default() };
    let verified = Options { verify: true, ..options.clone() };
    let job_options = db_bench::Options { num: OPERATIONS, ..db_bench::Options::default() };
    run("db_bench fillrandom", &Job::new(Case::FillRandom, &job_options))?;
    run("load, 1,000 B", &Load::new(&options))?;
    run("load, verified", &Load::new(&verified))?;
    for preset in Preset::ALL {
        run(&format!("workload {preset}"), &Run::new(&preset.options(&options)))?;
    }
    for requests in [Requests::Uniform, Requests::HOT_SPOT, Requests::EXPONENTIAL] {
        let options = Options { requests, ..Preset::C.options(&options) };
        run(&format!("reads, {}", requests.name()), &Run::new(&options))?;
    }
    let updates = updates::Options { records: OPERATIONS / 10, ..updates::Options::default() };
    run("updates", &updates::Updates::new(&updates))?;

    let mut value = vec![0; 1_000];
    write_stamp(b"user1234567890", Version(1), &mut value);
    time("check of a value of 1,000 B", || {
        for _ in 0..OPERATIONS {
            black_box(read_stamp(black_box(b"user1234567890"), black_box(&value)))
                .ok_or(Error::WouldBlock)?;
        }
        Ok(OPERATIONS)
    })
}
