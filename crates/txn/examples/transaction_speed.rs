//! What a transaction costs beside a plain batch: ten puts each, by one thread that nobody gets in the
//! way of, without a log and with the log in a pool of persistent memory (emulated).
//!
//! `cargo run --release -p esker-txn --example transaction_speed [-- POOL_DIR]`
//!
//! The two take turns, a short stretch each, and the medians of the stretches' ratios are printed.
//! `POOL_DIR` is where the pool goes: on tmpfs, `/dev/shm` if none is given.

use esker_api::{Concurrency, Isolation, TransactionOptions, Transactional, WriteBatch};
use esker_base::{Clock, KeyspaceId, Result, Rng, SystemClock};
use esker_lsm::{Db, Log, Settings};
use esker_pmem::{Accept, Pool};
use esker_txn::TransactionDb;
use std::path::{Path, PathBuf};

/// Each stretch is so many batches: some 10 ms.
const STRETCH: u64 = 2_000;
const PAIRS: usize = 101;
const PUTS: usize = 10;
const POOL_BYTES: u64 = 1 << 30;

/// Ten pairs of 16 B and 100 B.
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
    pairs.keys.iter().for_each(|key| batch.put(KeyspaceId::DEFAULT, key, &pairs.value));
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
        transaction.put(KeyspaceId::DEFAULT, key, &pairs.value)?;
    }
    transaction.commit()
}

/// The nanoseconds of one `batch`, in the mean of a stretch.
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

fn compare(name: &str, db: Db) -> Result<()> {
    let clock = SystemClock::new();
    let store = TransactionDb::new(db);
    let mut pairs = Pairs { rng: Rng::new(1), keys: [[0; 16]; PUTS], value: [7; 100] };
    for concurrency in [Concurrency::Pessimistic, Concurrency::Optimistic] {
        for isolation in Isolation::ALL {
            let options =
                TransactionOptions { isolation, concurrency, ..TransactionOptions::default() };
            let (mut ratios, mut plains, mut transactions) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..PAIRS {
                let plain = stretch(&clock, || plain(store.store(), &mut pairs))?;
                let own = stretch(&clock, || transaction(&store, &options, &mut pairs))?;
                ratios.push(own / plain);
                plains.push(plain);
                transactions.push(own);
            }
            ratios.sort_by(f64::total_cmp);
            let way = format!("{concurrency:?}").to_lowercase();
            println!(
                "{name:<20} {way:<12} {isolation:<15} {:>7.0} ns  plain {:>7.0} ns  ratio {:.2} (quartiles {:.2} to {:.2})",
                median(transactions),
                median(plains),
                median(ratios.clone()),
                ratios[PAIRS / 4],
                ratios[PAIRS * 3 / 4],
            );
        }
    }
    Ok(())
}

fn settings(log: Log) -> Settings {
    Settings { log, ..Settings::default() }
}

fn main() -> Result<()> {
    let pool_dir = std::env::args().nth(1).map_or(PathBuf::from("/dev/shm"), PathBuf::from);
    let place = pool_dir.join(format!("esker-transaction-speed-{}", std::process::id()));
    let measured = measure(&place);
    let _ = std::fs::remove_dir_all(&place);
    measured
}

fn measure(place: &Path) -> Result<()> {
    println!("{PUTS} puts of 16 B + 100 B, {PAIRS} alternating pairs of {STRETCH}");
    compare("no log", Db::open(place.join("nolog"), settings(Log::None))?)?;
    let pool = place.join("pool");
    drop(Pool::create(&pool, POOL_BYTES, Accept::Emulated)?);
    let log = Log::Pmem { pool, emulated: true };
    compare("emulated pmem (WBL)", Db::open(place.join("wbl"), settings(log))?)
}
