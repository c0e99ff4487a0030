//! Loads on a database without threads, with a model that knows what is live and what is pinned.

use crate::ceiling::{Moment, Watched};
use esker_base::background::{Background, Stepped, Threads};
use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{
    Db, Dedup, Env, Keyspace, KeyspaceSettings, Log, Ratio, Settings, Shape, Snapshot,
};
use esker_table::Compression;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const SEGMENT_BYTES: usize = 64 << 10;
const KEYS: u64 = 4_000;

/// Bytes of a table without compression for each byte of keys and values: filter, index, sketches, properties.
const TABLE_SHARE: f64 = 1.05;

#[derive(Default)]
struct Steady(AtomicU64);

impl Clock for Steady {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A database under load, and what it should hold.
pub struct Load {
    /// None only while it is opened again.
    db: Option<Db>,
    clock: Arc<dyn Clock>,
    background: Arc<dyn Background>,
    keyspace: Keyspace,
    storage: Watched,
    amp: f64,
    /// Bytes of a table, if all is live, for each byte of keys and values.
    table_share: f64,
    /// The first so many bytes of a value are random, the others 0.
    random_bytes: usize,
    /// Whether background work is done at every write, or only when a writer has to wait for it.
    diligent: bool,
    rng: Rng,
    values: BTreeMap<u64, Vec<u8>>,
    live_bytes: f64,
    written: f64,
    snapshot: Option<Snapshot>,
    /// What the snapshot alone keeps: by key, the bytes of the version that it sees.
    pinned: BTreeMap<u64, f64>,
    pinned_bytes: f64,
    /// The keys that were there when the snapshot was taken and that no write has touched since.
    seen: std::collections::BTreeSet<u64>,
}

fn key(n: u64) -> Vec<u8> {
    format!("key/{n:012}").into_bytes()
}

fn bytes_of(value: &[u8]) -> f64 {
    (key(0).len() + value.len()) as f64
}

fn open(storage: &Watched, clock: Arc<dyn Clock>, background: Arc<dyn Background>) -> Db {
    let env = Env::over(Arc::new(storage.clone())).clock(clock).background(background);
    let settings = Settings::default()
        .log(Log::None)
        .segment_bytes(SEGMENT_BYTES)
        .sealed_segments(2)
        .memory_bytes(4 << 20);
    Db::open_with(env, settings).unwrap()
}

/// The number of table files while a flush writes one, after a merge that was done meanwhile has made
/// one of the two that there were.
pub fn table_files_beside_a_slow_flush() -> usize {
    let storage = Watched::new();
    let db = open(&storage, Arc::new(Steady::default()), Arc::new(Stepped));
    let shape = Shape::Tiered { runs: 2 };
    let settings = KeyspaceSettings::default().shape(shape);
    let keyspace = db.keyspace("load", settings).unwrap();
    let flush = || flush_one(&db, &keyspace);
    flush();
    flush();
    let files = Arc::new(AtomicUsize::new(0));
    let meanwhile = {
        let (db, storage, files) = (db.clone(), storage.clone(), files.clone());
        move || {
            while db.run_background_job() {}
            assert_eq!(db.stats().compactions, 1);
            files.store(storage.table_files(), Ordering::Relaxed);
        }
    };
    storage.at_next_sync(meanwhile);
    flush();
    files.load(Ordering::Relaxed)
}

/// The number of table files while `look` opens the table of a flush, after a merge that was done meanwhile
/// has made one of the two that there were.
pub fn table_files_beside_a_look(look: fn(&Db)) -> usize {
    let storage = Watched::new();
    let db = open(&storage, Arc::new(Steady::default()), Arc::new(Stepped));
    let shape = Shape::Tiered { runs: 2 };
    let settings = KeyspaceSettings::default().shape(shape);
    let keyspace = db.keyspace("load", settings).unwrap();
    flush_one(&db, &keyspace);
    flush_one(&db, &keyspace);
    let files = Arc::new(AtomicUsize::new(0));
    let merge = {
        let (db, storage, files) = (db.clone(), storage.clone(), files.clone());
        move || {
            while db.run_background_job() {}
            assert_eq!(db.stats().compactions, 1);
            files.store(storage.table_files(), Ordering::Relaxed);
        }
    };
    // The flush itself opens its table first.
    storage.at_next_open(merge);
    storage.at_next_open({
        let db = db.clone();
        move || look(&db)
    });
    flush_one(&db, &keyspace);
    files.load(Ordering::Relaxed)
}

/// The number of table files after a keyspace was dropped while `work`, a flush or a merge of two runs,
/// wrote one for it.
pub fn table_files_after_a_drop_during(work: fn(&Db, &Keyspace)) -> usize {
    let storage = Watched::new();
    let db = open(&storage, Arc::new(Steady::default()), Arc::new(Stepped));
    let shape = Shape::Tiered { runs: 2 };
    let settings = KeyspaceSettings::default().shape(shape);
    let keyspace = db.keyspace("load", settings).unwrap();
    flush_one(&db, &keyspace);
    flush_one(&db, &keyspace);
    let meanwhile = {
        let (db, keyspace) = (db.clone(), keyspace.clone());
        move || db.drop_keyspace(&keyspace).unwrap()
    };
    storage.at_next_sync(meanwhile);
    work(&db, &keyspace);
    assert!(db.keyspaces().iter().all(|it| it.name != "load"));
    storage.table_files()
}

/// The number of table files after a flush of a keyspace with a goal and of one without.
pub fn table_files_of_a_flush_of_two_keyspaces() -> usize {
    let storage = Watched::new();
    let db = open(&storage, Arc::new(Steady::default()), Arc::new(Stepped));
    let goal = KeyspaceSettings::default()
        .shape(Shape::Tiered { runs: 8 })
        .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(120) });
    let keyspace = db.keyspace("load", goal).unwrap();
    db.put(&keyspace, b"key", b"value").unwrap();
    flush_one(&db, &db.default_keyspace());
    storage.table_files()
}

pub fn flush_one(db: &Db, keyspace: &Keyspace) {
    db.put(keyspace, b"key", b"value").unwrap();
    db.flush().unwrap();
}

impl Load {
    pub fn new(amp: u32, diligent: bool) -> Self {
        Load::on(amp, diligent, Compression::None, Arc::new(Steady::default()), Arc::new(Stepped))
    }

    /// Tables are packed, and values are such that this halves them. What may be taken goes by what the tables
    /// take once everything is merged.
    pub fn packed(amp: u32, diligent: bool) -> Self {
        /// For tables that are cut smaller than those.
        const SMALLER: f64 = 1.03;
        let new = || {
            let (clock, background) = (Arc::new(Steady::default()), Arc::new(Stepped));
            let load = Load::on(amp, diligent, Compression::Lz4, clock, background);
            Load { random_bytes: 200, ..load }
        };
        let mut probe = new();
        probe.put_all(400);
        probe.compact();
        let table_share = SMALLER * probe.db().stats().table_bytes as f64 / probe.live_bytes;
        assert!(table_share < 0.65, "{table_share:.2}: values are hardly packed");
        Load { table_share, ..new() }
    }

    /// Background work is done by threads, whenever they come to it.
    pub fn threaded(amp: u32) -> Self {
        Load::on(amp, false, Compression::None, Arc::new(SystemClock::new()), Arc::new(Threads))
    }

    fn on(
        amp: u32,
        diligent: bool,
        compression: Compression,
        clock: Arc<dyn Clock>,
        background: Arc<dyn Background>,
    ) -> Self {
        let storage = Watched::new();
        let db = open(&storage, clock.clone(), background.clone());
        let settings = KeyspaceSettings::default()
            .shape(Shape::Tiered { runs: 8 })
            .dedup(Dedup::SpaceGoal { amp: Ratio::of_hundredths(amp) })
            .compression(compression)
            .filter_bits(10);
        let keyspace = db.keyspace("load", settings).unwrap();
        Load {
            db: Some(db),
            clock,
            background,
            keyspace,
            storage,
            amp: f64::from(amp) / 100.0,
            table_share: TABLE_SHARE,
            random_bytes: 8,
            diligent,
            rng: Rng::new(u64::from(amp)),
            values: BTreeMap::new(),
            live_bytes: 0.0,
            written: 0.0,
            snapshot: None,
            pinned: BTreeMap::new(),
            pinned_bytes: 0.0,
            seen: Default::default(),
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    /// Closes the database and opens it again.
    pub fn reopen(&mut self) {
        self.db.take().expect("it is open").close().unwrap();
        let db = open(&self.storage, self.clock.clone(), self.background.clone());
        self.keyspace = db.open_keyspace("load").unwrap();
        self.db = Some(db);
    }

    pub fn put_all(&mut self, value_bytes: usize) {
        (0..KEYS).for_each(|n| self.put(n, value_bytes));
    }

    pub fn overwrite_at_random(&mut self, times: u64, value_bytes: usize) {
        for _ in 0..times * KEYS {
            let n = self.rng.below(KEYS);
            self.put(n, value_bytes);
        }
    }

    /// Few keys often, many seldom: the k-th most often in proportion to 1 / k, and these far apart.
    pub fn overwrite_by_heat(&mut self, times: u64, value_bytes: usize) {
        /// Has no factor in common with the number of keys.
        const APART: u64 = 2_654_435_761;
        for _ in 0..times * KEYS {
            let rank = (KEYS as f64).powf(self.rng.unit()) as u64;
            self.put(rank * APART % KEYS, value_bytes);
        }
    }

    pub fn overwrite_one(&mut self, times: u64, value_bytes: usize) {
        (0..times).for_each(|_| self.put(KEYS / 3, value_bytes));
    }

    pub fn overwrite_the_first_tenth(&mut self, times: u64, value_bytes: usize) {
        for _ in 0..times * KEYS / 10 {
            let n = self.rng.below(KEYS / 10);
            self.put(n, value_bytes);
        }
    }

    pub fn delete_all(&mut self) {
        (0..KEYS).for_each(|n| self.delete(n));
    }

    /// Leaves every tenth key, and overwrites these at random until 1.2 times what was there is written.
    pub fn shrink_to_a_tenth(&mut self, value_bytes: usize) {
        let until = self.written + 1.2 * self.live_bytes;
        (0..KEYS).filter(|n| n % 10 != 0).for_each(|n| self.delete(n));
        while self.written < until {
            let n = 10 * self.rng.below(KEYS / 10);
            self.put(n, value_bytes);
        }
    }

    /// Leaves the first tenth, by one range delete, and overwrites it as [`Load::shrink_to_a_tenth`] does.
    pub fn shrink_by_a_range_delete(&mut self, value_bytes: usize) {
        let until = self.written + 1.2 * self.live_bytes;
        self.delete_range(KEYS / 10, KEYS);
        while self.written < until {
            let n = self.rng.below(KEYS / 10);
            self.put(n, value_bytes);
        }
    }

    /// Deletes all keys, and then overwrites a few others as [`Load::shrink_to_a_tenth`] does.
    pub fn shrink_to_a_few_other_keys(&mut self, value_bytes: usize) {
        let until = self.written + 1.2 * self.live_bytes;
        self.delete_all();
        while self.written < until {
            let n = KEYS + self.rng.below(KEYS / 20);
            self.put(n, value_bytes);
        }
    }

    /// Every so many-th key of the second half.
    pub fn delete_a_few_of_the_second_half(&mut self) {
        (KEYS / 2..KEYS).step_by(100).for_each(|n| self.delete(n));
    }

    pub fn delete_at_random(&mut self, share: f64) {
        for _ in 0..(KEYS as f64 * share) as u64 {
            let n = self.rng.below(KEYS);
            self.delete(n);
        }
    }

    pub fn delete_ranges(&mut self, ranges: u64) {
        for _ in 0..ranges {
            let from = self.rng.below(KEYS);
            let to = (from + 1 + self.rng.below(KEYS / 5)).min(KEYS);
            self.delete_range(from, to);
        }
    }

    pub fn hold_snapshot(&mut self) {
        self.snapshot = Some(self.db().snapshot());
        self.seen = self.values.keys().copied().collect();
    }

    pub fn release_snapshot(&mut self) {
        self.snapshot = None;
        self.pinned.clear();
        self.seen.clear();
        self.pinned_bytes = 0.0;
        self.after_write(0.0);
    }

    fn put(&mut self, n: u64, value_bytes: usize) {
        let mut value = vec![0; value_bytes];
        // So that no two versions are alike.
        for part in value[..self.random_bytes].chunks_mut(8) {
            part.copy_from_slice(&self.rng.next_u64().to_le_bytes()[..part.len()]);
        }
        self.db().put(&self.keyspace, key(n), &value).unwrap();
        self.forget(n);
        let bytes = bytes_of(&value);
        self.live_bytes += bytes;
        self.values.insert(n, value);
        self.after_write(bytes);
    }

    fn delete(&mut self, n: u64) {
        self.db().delete(&self.keyspace, key(n)).unwrap();
        self.forget(n);
        self.after_write(bytes_of(b""));
    }

    fn delete_range(&mut self, from: u64, to: u64) {
        self.db().delete_range(&self.keyspace, key(from)..key(to)).unwrap();
        let gone: Vec<u64> = self.values.range(from..to).map(|(n, _)| *n).collect();
        gone.into_iter().for_each(|n| self.forget(n));
        self.after_write(40.0);
    }

    /// The present version of a key is not live any more, but perhaps pinned.
    fn forget(&mut self, n: u64) {
        let Some(old) = self.values.remove(&n) else { return };
        self.live_bytes -= bytes_of(&old);
        if self.seen.remove(&n) {
            self.pinned.insert(n, bytes_of(&old));
            self.pinned_bytes += bytes_of(&old);
        }
    }

    fn after_write(&mut self, bytes: f64) {
        self.written += bytes;
        let data = self.amp * self.live_bytes + self.pinned_bytes;
        let allowed = data * self.table_share + 4.0 * SEGMENT_BYTES as f64;
        let now = Moment { written: self.written, allowed, grace: self.live_bytes };
        self.storage.ceiling().set(now);
        while self.diligent && self.db().run_background_job() {}
    }

    /// Merges everything, and looks whether that is so.
    pub fn compact(&mut self) {
        self.db().compact().unwrap();
        for tree in self.db().levels() {
            let runs: Vec<_> = tree.levels.iter().flat_map(|level| &level.runs).collect();
            assert!(runs.len() <= 1, "{} runs are left", runs.len());
            let mut tables = runs.iter().flat_map(|run| &run.tables);
            assert!(tables.all(|table| table.deletes == 0 && table.range_tombstones == 0));
        }
    }

    /// As [`Load::expect_no_old_deletes_now`], once all that is due is done.
    pub fn expect_no_old_deletes(&mut self) {
        self.db().flush().unwrap();
        self.db().wait_for_compactions().unwrap();
        self.expect_no_old_deletes_now();
    }

    /// No delete is in a table that as many writes have passed twice as there are live keys.
    pub fn expect_no_old_deletes_now(&mut self) {
        let through = self.db().stats().flushed_seqno;
        let levels = self.db().levels();
        let tables = levels.iter().flat_map(|tree| &tree.levels).flat_map(|level| &level.runs);
        for table in tables.flat_map(|run| &run.tables) {
            let deletes = table.deletes + table.range_tombstones;
            let age = through - table.min_seqno;
            assert!(deletes == 0 || age < 2 * KEYS, "{deletes} deletes, {age} writes old");
        }
    }

    /// Checks the ceiling and the data.
    pub fn finish(mut self) {
        self.db().flush().unwrap();
        self.db().wait_for_compactions().unwrap();
        let excess = self.storage.ceiling().excess_most / SEGMENT_BYTES as f64;
        let context = format!("amp {}, diligent {}", self.amp, self.diligent);
        println!("{context}: {excess:+.2} segments above");
        assert!(excess <= 0.0, "{context}: {excess:.2} segments above the ceiling");
        let found = self.db().range(&self.keyspace, ..).map(|pair| pair.unwrap());
        let found = found.map(|(key, value)| (key.into_vec(), value.into_vec()));
        let expected = self.values.iter().map(|(n, value)| (key(*n), value.clone()));
        assert!(found.eq(expected), "{context}: what was written is not what is found");
        self.snapshot = None;
    }
}
