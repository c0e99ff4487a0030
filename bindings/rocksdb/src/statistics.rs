//! Statistics: RocksDB's tickers and histograms, as far as Esker counts the same.

use crate::border::{Handle, c_api};
use esker::env::{Clock, SystemClock};
use esker::stats::LatencyHistogram;
use esker::{Stats, WriteBatch};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a program has asked to be counted: RocksDB's `Statistics`. The databases that were opened with the
/// options share it.
#[derive(Default)]
pub struct Statistics {
    clock: SystemClock,
    /// What each open database counts, by the address of the database.
    opened: Mutex<BTreeMap<usize, Counted>>,
    /// What closed databases have counted, by RocksDB's number of the ticker.
    closed: Mutex<BTreeMap<u32, u64>>,
    keys_written: AtomicU64,
    keys_read: AtomicU64,
    bytes_written: AtomicU64,
    bytes_read: AtomicU64,
    seeks: AtomicU64,
    reads: Mutex<Histogram>,
    writes: Mutex<Histogram>,
}

/// What a database counts itself: asked for while it is open.
type Counted = Box<dyn Fn() -> Option<Stats> + Send + Sync>;

/// The times of a kind of calls.
#[derive(Clone, Default)]
pub struct Histogram {
    times: LatencyHistogram,
    sum: Duration,
    least: Option<Duration>,
    most: Duration,
}

impl Histogram {
    fn record(&mut self, took: Duration) {
        self.times.record(took);
        self.sum += took;
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.most = self.most.max(took);
    }

    fn micros(&self, quantile: f64) -> f64 {
        self.times.quantile(quantile).map_or(0.0, micros)
    }

    fn average(&self) -> f64 {
        match self.times.count() {
            0 => 0.0,
            count => micros(self.sum) / count as f64,
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tickers that have a number, with RocksDB's number and name, and their meaning here.
const TICKERS: [(u32, &str, Ticker); 13] = [
    (0, "rocksdb.block.cache.miss", Ticker::Engine(|stats| stats.cache_misses)),
    (1, "rocksdb.block.cache.hit", Ticker::Engine(|stats| stats.cache_hits)),
    (58, "rocksdb.number.keys.written", Ticker::Own(|own| &own.keys_written)),
    (59, "rocksdb.number.keys.read", Ticker::Own(|own| &own.keys_read)),
    (61, "rocksdb.bytes.written", Ticker::Own(|own| &own.bytes_written)),
    (62, "rocksdb.bytes.read", Ticker::Own(|own| &own.bytes_read)),
    (63, "rocksdb.number.db.seek", Ticker::Own(|own| &own.seeks)),
    (76, "rocksdb.stall.micros", Ticker::Engine(|stats| stats.stalled.as_micros() as u64)),
    (84, "rocksdb.wal.synced", Ticker::Engine(|stats| stats.log_syncs)),
    (85, "rocksdb.wal.bytes", Ticker::Engine(|stats| stats.log_bytes)),
    (94, "rocksdb.compact.read.bytes", Ticker::Engine(|stats| stats.compaction_read_bytes)),
    (95, "rocksdb.compact.write.bytes", Ticker::Engine(|stats| stats.compaction_bytes)),
    (96, "rocksdb.flush.write.bytes", Ticker::Engine(|stats| stats.flush_bytes)),
];

/// Where a ticker is counted.
enum Ticker {
    Engine(fn(&Stats) -> u64),
    Own(fn(&Statistics) -> &AtomicU64),
}

impl Statistics {
    /// Counts what the engine of the database at this address counts, too.
    pub fn attach(&self, of: usize, stats: impl Fn() -> Option<Stats> + Send + Sync + 'static) {
        lock(&self.opened).insert(of, Box::new(stats));
    }

    /// Keeps the numbers of a database that is about to be closed: tickers never fall.
    pub fn detach(&self, of: usize, last: &Stats) {
        if lock(&self.opened).remove(&of).is_none() {
            return;
        }
        let mut closed = lock(&self.closed);
        for (number, _, ticker) in &TICKERS {
            if let Ticker::Engine(engine) = ticker {
                *closed.entry(*number).or_default() += engine(last);
            }
        }
    }

    /// When a call began.
    pub fn begin(&self) -> Duration {
        self.clock.now()
    }

    /// Counts a write that began at `begun`.
    pub fn count_write(&self, batch: &WriteBatch, begun: Duration) {
        self.keys_written.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.bytes_written.fetch_add(batch.encoded().len() as u64, Ordering::Relaxed);
        lock(&self.writes).record(self.begin().saturating_sub(begun));
    }

    /// Counts a read that began at `begun`.
    pub fn count_read(&self, value: Option<&[u8]>, begun: Duration) {
        self.keys_read.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(value.map_or(0, <[u8]>::len) as u64, Ordering::Relaxed);
        lock(&self.reads).record(self.begin().saturating_sub(begun));
    }

    /// Counts a seek of an iterator.
    pub fn count_seek(&self) {
        self.seeks.fetch_add(1, Ordering::Relaxed);
    }

    fn ticker(&self, number: u32, ticker: &Ticker) -> u64 {
        match ticker {
            Ticker::Own(own) => own(self).load(Ordering::Relaxed),
            Ticker::Engine(engine) => {
                let opened = lock(&self.opened);
                let now: u64 =
                    opened.values().filter_map(|stats| stats()).map(|it| engine(&it)).sum();
                now + lock(&self.closed).get(&number).copied().unwrap_or(0)
            }
        }
    }

    /// The value of the ticker with RocksDB's number. Zero for what is not counted here.
    pub fn ticker_at(&self, number: u32) -> u64 {
        let known = TICKERS.iter().find(|(known, ..)| *known == number);
        known.map_or(0, |(.., ticker)| self.ticker(number, ticker))
    }

    /// The histogram with RocksDB's number. Empty for what is not measured here.
    pub fn histogram(&self, number: u32) -> Histogram {
        match number {
            0 => lock(&self.reads).clone(),
            1 => lock(&self.writes).clone(),
            _ => Histogram::default(),
        }
    }

    /// All numbers as RocksDB shows them.
    pub fn text(&self) -> String {
        let tickers = TICKERS
            .iter()
            .map(|(number, name, it)| format!("{name} COUNT : {}\n", self.ticker(*number, it)));
        let histograms = [(0, "rocksdb.db.get.micros"), (1, "rocksdb.db.write.micros")];
        let histograms = histograms.iter().map(|(number, name)| {
            let it = self.histogram(*number);
            format!(
                "{name} P50 : {:.6} P95 : {:.6} P99 : {:.6} P100 : {:.6} COUNT : {} SUM : {}\n",
                it.micros(0.5),
                it.micros(0.95),
                it.micros(0.99),
                micros(it.most),
                it.times.count(),
                it.sum.as_micros()
            )
        });
        tickers.chain(histograms).collect()
    }
}

c_api! {
    fn rocksdb_statistics_histogram_data_create() -> Handle<Histogram> {
        Handle::new(Histogram::default())
    }

    fn rocksdb_statistics_histogram_data_destroy(data: Handle<Histogram>) {
        drop(data.take());
    }

    fn rocksdb_statistics_histogram_data_get_median(data: Handle<Histogram>) -> f64 {
        data.get().micros(0.5)
    }

    fn rocksdb_statistics_histogram_data_get_p95(data: Handle<Histogram>) -> f64 {
        data.get().micros(0.95)
    }

    fn rocksdb_statistics_histogram_data_get_p99(data: Handle<Histogram>) -> f64 {
        data.get().micros(0.99)
    }

    fn rocksdb_statistics_histogram_data_get_average(data: Handle<Histogram>) -> f64 {
        data.get().average()
    }

    /// Not measured.
    fn rocksdb_statistics_histogram_data_get_std_dev(_data: Handle<Histogram>) -> f64 {
        0.0
    }

    fn rocksdb_statistics_histogram_data_get_max(data: Handle<Histogram>) -> f64 {
        micros(data.get().most)
    }

    fn rocksdb_statistics_histogram_data_get_min(data: Handle<Histogram>) -> f64 {
        data.get().least.map_or(0.0, micros)
    }

    fn rocksdb_statistics_histogram_data_get_count(data: Handle<Histogram>) -> u64 {
        data.get().times.count()
    }

    fn rocksdb_statistics_histogram_data_get_sum(data: Handle<Histogram>) -> u64 {
        data.get().sum.as_micros() as u64
    }
}
