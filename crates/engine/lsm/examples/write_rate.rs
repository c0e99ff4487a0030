//! How well the limit of background writes is kept: `write_rate DIR RATE SECONDS`, with RATE as in
//! `Settings::background_write_rate`.
//!
//! One thread writes values of 1 KB that do not compress, as fast as it may. The storage notes what is
//! appended to table files, and when. Printed are the least and the most bytes of any second from the
//! first append to the last, and of those without a pause.

use esker_base::{Clock, Result, Rng, SystemClock, WriteHint};
use esker_lsm::{Db, Env, Settings};
use esker_storage::{FileSystemWrapper, PosixStorage, Storage, WritableFile};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Flushes and compactions that append nothing for so long had nothing to append, or synced a file.
const PAUSE: Duration = Duration::from_millis(100);

type Appends = Arc<Mutex<Vec<(Duration, u64)>>>;

struct Recording {
    below: PosixStorage,
    clock: Arc<SystemClock>,
    appends: Appends,
}

impl FileSystemWrapper for Recording {
    fn below(&self) -> &dyn Storage {
        &self.below
    }
    fn create(&self, name: &str, hint: WriteHint) -> Result<Box<dyn WritableFile>> {
        let below = self.below.create(name, hint)?;
        let (clock, appends) = (self.clock.clone(), self.appends.clone());
        match name.ends_with(".tables") {
            true => Ok(Box::new(RecordedFile { below, clock, appends })),
            false => Ok(below),
        }
    }
}

struct RecordedFile {
    below: Box<dyn WritableFile>,
    clock: Arc<SystemClock>,
    appends: Appends,
}

impl WritableFile for RecordedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.appends.lock().unwrap().push((self.clock.now(), bytes.len() as u64));
        self.below.append(bytes)
    }
    fn len(&self) -> u64 {
        self.below.len()
    }
    fn sync(&mut self) -> Result<()> {
        self.below.sync()
    }
    fn start_writeback(&mut self) -> Result<()> {
        self.below.start_writeback()
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, rate, seconds] = &arguments[..] else { panic!("DIR RATE SECONDS") };
    let (clock, appends) = (Arc::new(SystemClock::new()), Appends::default());
    let below = PosixStorage::create(std::path::Path::new(dir))?;
    let storage = Recording { below, clock: clock.clone(), appends: appends.clone() };
    let env = Env::over(Arc::new(storage));
    let rate = rate.parse().expect("a rate");
    let db = Db::open_with(env, Settings::default().background_write_rate(rate))?;
    let keyspace = db.default_keyspace();
    let end = clock.now() + Duration::from_secs(seconds.parse().expect("a number"));
    let mut rng = Rng::new(1);
    let pool: Vec<u8> = (0..2 << 20).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let (mut puts, mut longest) = (0u64, Duration::ZERO);
    while clock.now() < end {
        let start = rng.below(pool.len() as u64 - 1_000) as usize;
        let begun = clock.now();
        db.put(&keyspace, rng.below(1 << 20).to_be_bytes(), &pool[start..start + 1_000])?;
        longest = longest.max(clock.now() - begun);
        puts += 1;
    }
    let appends = appends.lock().unwrap().clone();
    let stats = db.stats();
    let (first, last) = (appends[0].0, appends[appends.len() - 1].0);
    let total: u64 = appends.iter().map(|(_, bytes)| bytes).sum();
    let (mut all, mut busy) = (Vec::new(), Vec::new());
    let mut begin = first;
    while begin + SECOND <= last {
        let within = |at: &Duration| (begin..begin + SECOND).contains(at);
        let of_window = appends.iter().filter(|(at, _)| within(at));
        let bytes = of_window.map(|(_, bytes)| bytes).sum::<u64>();
        let pairs = appends.windows(2).filter(|pair| within(&pair[0].0) || within(&pair[1].0));
        all.push(bytes);
        if pairs.map(|pair| pair[1].0 - pair[0].0).all(|pause| pause < PAUSE) {
            busy.push(bytes);
        }
        begin += Duration::from_millis(10);
    }
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "{puts} puts, {:.1} MB; flushes {:.1} MB, compactions {:.1} MB; stalled {:.1} s, longest put {longest:?}",
        mb(stats.user_bytes),
        mb(stats.flush_bytes),
        mb(stats.compaction_bytes),
        stats.stalled.as_secs_f64(),
    );
    println!("table files: {:.1} MB in {:.1} s", mb(total), (last - first).as_secs_f64());
    for (name, mut windows) in [("any second", all), ("seconds without a pause", busy)] {
        windows.sort_unstable();
        let [least, median, most] =
            [0, windows.len() / 2, windows.len().max(1) - 1].map(|at| windows.get(at).copied());
        let shown = |bytes: Option<u64>| bytes.map_or(f64::NAN, mb);
        println!(
            "{name} ({}): least {:.2} MB, median {:.2} MB, most {:.2} MB",
            windows.len(),
            shown(least),
            shown(median),
            shown(most),
        );
    }
    Ok(())
}
