//! How soon the space of expired entries is free, and what that reads:
//!
//! `cargo run --release -p esker-lsm --example expiry_space -- [ENTRIES] [SECONDS]`
//!
//! Puts ENTRIES entries of 1 KB that expire SECONDS after the start, in the order of time. Then waits
//! until the table files are gone. Prints how long after the expiry that was, and how many bytes of
//! tables were read meanwhile: the storage counts each read.

use esker_base::{Clock, Result, Rng, SystemClock};
use esker_lsm::{Db, Env, KeyspaceSettings, Settings};
use esker_storage::{FileSystemWrapper, PosixStorage, ReadableFile, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the space is inspected.
const EVERY: Duration = Duration::from_millis(10);

/// Counts the bytes that are read from files.
struct Counting {
    below: PosixStorage,
    read_bytes: Arc<AtomicU64>,
}

impl FileSystemWrapper for Counting {
    fn below(&self) -> &dyn Storage {
        &self.below
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadableFile>> {
        let file = Storage::open(&self.below, name)?;
        Ok(Arc::new(CountedFile { file, read_bytes: self.read_bytes.clone() }))
    }
}

/// Has no `raw` file, so every read is a call here.
struct CountedFile {
    file: Arc<dyn ReadableFile>,
    read_bytes: Arc<AtomicU64>,
}

impl ReadableFile for CountedFile {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_bytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.file.read_exact_at(offset, out)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn name(&self) -> &str {
        self.file.name()
    }
    fn read_ahead(&self, _: u64, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn table_bytes(db: &Db) -> u64 {
    let levels = db.levels();
    let runs = levels.iter().flat_map(|it| &it.levels).flat_map(|level| &level.runs);
    runs.flat_map(|run| &run.tables).map(|table| table.bytes).sum()
}

/// The bytes of table files in the directory.
fn file_bytes(dir: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("a directory").map(|file| file.expect("a file"));
    let tables = files.filter(|file| file.path().extension().is_some_and(|it| it == "tables"));
    // One may be removed meanwhile.
    tables.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| {
        arguments.next().map_or(default, |text| text.parse::<u64>().expect("a number"))
    };
    let (entries, seconds) = (next(500_000), next(30));
    let dir = tempfile::tempdir().expect("a directory");
    let below = PosixStorage::create(dir.path()).expect("a storage");
    let read_bytes = Arc::new(AtomicU64::new(0));
    let env = Env::over(Arc::new(Counting { below, read_bytes: read_bytes.clone() }));
    let db = Db::open_with(env, Settings::default()).expect("a new database");
    let events = db.keyspace("events", KeyspaceSettings::default()).expect("created");
    let (clock, mut rng) = (SystemClock::new(), Rng::new(1));
    let end = clock.now() + Duration::from_secs(seconds);
    let mut value = [0; 1_024];
    for number in 0..entries {
        for chunk in value.chunks_mut(8) {
            chunk.copy_from_slice(&rng.next_u64().to_be_bytes());
        }
        let left = end.checked_sub(clock.now()).expect("more SECONDS for so many ENTRIES");
        events.put_with_ttl(number.to_be_bytes(), value, left).expect("a put");
    }
    db.flush().expect("a flush");
    db.wait_for_compactions().expect("compactions");
    println!(
        "{} MB in tables, {} MB in files, {:.1} s before the expiry",
        table_bytes(&db) >> 20,
        file_bytes(dir.path()) >> 20,
        end.saturating_sub(clock.now()).as_secs_f64()
    );
    clock.sleep(end.saturating_sub(clock.now()));
    let compacted = db.stats().compaction_read_bytes;
    let before = read_bytes.load(Ordering::Relaxed);
    assert!(before > 0, "opening tables reads them");
    while table_bytes(&db) > 0 {
        clock.sleep(EVERY);
    }
    let dropped = clock.now() - end;
    while file_bytes(dir.path()) > 0 {
        clock.sleep(EVERY);
    }
    let (removed, compacted) = (clock.now() - end, db.stats().compaction_read_bytes - compacted);
    println!(
        "tables dropped {:.2} s after it, files removed {:.2} s",
        dropped.as_secs_f64(),
        removed.as_secs_f64()
    );
    let reads = read_bytes.load(Ordering::Relaxed) - before;
    println!(
        "bytes of tables read meanwhile: {reads}, before: {before}; compactions read {compacted}"
    );
    assert_eq!(events.count(..).expect("a count"), 0);
}
