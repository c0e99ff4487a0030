//! What a transaction costs compared with a plain batch: ten puts each, by one thread that no other gets in the
//! way of, without a log and with the log in a pool of persistent memory (emulated).
//!
//! `cargo run --release -p esker-txn --example transaction_speed [-- POOL_DIR]`
//!
//! The two take turns, and the median of the ranges' ratios is printed. Ranges are short, so that
//! most are not disturbed by whatever else the machine does; all that is written fits two segments, so
//! that neither pays for compaction.
//! `POOL_DIR` is where the pool goes: on tmpfs, `/dev/shm` if none is given.

use esker_api::{
    Concurrency, Isolation, KeyspaceRef, TransactionOptions, Transactional, WriteBatch,
};
use esker_base::{Clock, Error, Result, Rng, SystemClock};
use esker_lsm::{Db, Log, Settings};
use esker_pmem::{Accept, Pool};
use esker_txn::TransactionDb;
use std::path::{Path, PathBuf};

/// Each range is so many batches: a fraction of a millisecond.
const STRETCH: u64 = 50;
const PAIRS: usize = 1_001;
const PUTS: usize = 10;
const POOL_BYTES: u64 = 1 << 30;

/// Ten entries of 16 B and 100 B.
struct Pairs {
    rng: Rng,
    keys: [[u8; 16]; PUTS],
    value: [u8; 100],
}

impl Pairs {
    fn next(&mut self) {
        self.keys.iter_mut().for_each(|key| self.rng.fill(key));
    }
}

fn plain(db: &Db, pairs: &mut Pairs) -> Result<()> {
    pairs.next();
    let mut batch = WriteBatch::new();
    pairs.keys.iter().for_each(|key| batch.put(KeyspaceRef::DEFAULT, key, pairs.value));
    db.write(&batch)
}

fn transaction(
    store: &TransactionDb<Db>,
    options: &TransactionOptions,
    pairs: &mut Pairs,
) -> Result<()> {
    pairs.next();
    let mut transaction = store.begin(options)?;
    for key in &pairs.keys {
        transaction.put(KeyspaceRef::DEFAULT, key, &pairs.value)?;
    }
    transaction.commit()
}

/// The nanoseconds of one `batch`, on average over a range.
fn stretch(clock: &SystemClock, mut batch: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = clock.now();
    for _ in 0..STRETCH {
        batch()?;
    }
    Ok((clock.now() - start).as_nanos() as f64 / STRETCH as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A row for each way and level, each on a database of its own.
fn compare(name: &str, open: impl Fn(&str) -> Result<Db>) -> Result<()> {
    for concurrency in [Concurrency::Pessimistic, Concurrency::Optimistic] {
        for isolation in Isolation::ALL {
            let way = format!("{concurrency:?}").to_lowercase();
            let options =
                TransactionOptions::default().isolation(isolation).concurrency(concurrency);
            let store = TransactionDb::new(open(&format!("{way}-{isolation}"))?);
            let (plains, transactions) = take_turns(&store, &options)?;
            let mut ratios: Vec<f64> =
                transactions.iter().zip(&plains).map(|(own, plain)| own / plain).collect();
            ratios.sort_by(f64::total_cmp);
            println!(
                "{name:<20} {way:<12} {isolation:<15} {:>6.0} ns, plain {:>6.0} ns, ratio {:.2} ({:.2} to {:.2})",
                median(transactions),
                median(plains),
                ratios[PAIRS / 2],
                ratios[PAIRS / 4],
                ratios[PAIRS * 3 / 4],
            );
        }
    }
    Ok(())
}

/// The nanoseconds of a plain batch and of a transaction, in each two ranges.
fn take_turns(
    store: &TransactionDb<Db>,
    options: &TransactionOptions,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let clock = SystemClock::new();
    let mut pairs = Pairs { rng: Rng::new(1), keys: [[0; 16]; PUTS], value: [7; 100] };
    let (mut plains, mut transactions) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        plains.push(stretch(&clock, || plain(store.store(), &mut pairs))?);
        transactions.push(stretch(&clock, || transaction(store, options, &mut pairs))?);
    }
    Ok((plains, transactions))
}

fn settings(log: Log) -> Settings {
    Settings::default().log(log)
}

fn main() -> Result<()> {
    let pool_dir = std::env::args().nth(1).map_or(PathBuf::from("/dev/shm"), PathBuf::from);
    let place = pool_dir.join(format!("esker-transaction-speed-{}", std::process::id()));
    let made = std::fs::create_dir_all(place.join("no-log"));
    made.map_err(|source| Error::io("create", place.display().to_string(), source))?;
    let measured = measure(&place);
    let _ = std::fs::remove_dir_all(&place);
    measured
}

fn measure(place: &Path) -> Result<()> {
    println!(
        "{PUTS} puts of 16 B + 100 B; medians of {PAIRS} pairs of {STRETCH}, and the ratios' quartiles"
    );
    compare("no log", |name| Db::open(place.join("no-log").join(name), settings(Log::None)))?;
    compare("emulated pmem (WBL)", |name| {
        let dir = place.join("wbl").join(name);
        std::fs::create_dir_all(&dir)
            .map_err(|source| Error::io("create", dir.display().to_string(), source))?;
        let pool = dir.join("pool");
        drop(Pool::create(&pool, POOL_BYTES, Accept::Emulated)?);
        Db::open(dir.join("db"), settings(Log::Pmem { pool, emulated: true }))
    })
}
