//! What backups cost: `backup_cost DIR [KEYS] [ROUNDS]`.
//!
//! Loads KEYS values of 1 KB that do not compress, and backs them up. Then, in each round:
//!
//! * changes 1% of the keys, once alone and once while backups are made, and prints the p99 of these puts;
//! * prints what an incremental backup copies, compared with the tables that the one before did not have;
//! * restores the newest backup, and copies its database as `cp` and `sync` do, in turns.

use esker_backup::Repository;
use esker_base::{Background, Clock, Priority, Result, Rng, SystemClock, Threads};
use esker_lsm::{Db, Log, Settings, SyncPolicy};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn put(db: &Db, rng: &mut Rng, key: u64) -> Result<()> {
    let mut value = [0; 1000];
    rng.fill(&mut value);
    db.default_keyspace().put(key.to_be_bytes(), value)
}

/// Changes keys at random until `is_over`. Returns the p99 of a put.
fn change(db: &Db, rng: &mut Rng, keys: u64, is_over: &dyn Fn(u64) -> bool) -> Result<Duration> {
    let clock = SystemClock::new();
    let mut times = Vec::new();
    while !is_over(times.len() as u64) {
        let start = clock.now();
        let key = rng.below(keys);
        put(db, rng, key)?;
        times.push(clock.now() - start);
    }
    times.sort_unstable();
    Ok(times[times.len() * 99 / 100])
}

/// Copies the files of a directory, as `cp` does, and syncs them.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in from.read_dir()? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    for entry in to.read_dir()? {
        File::open(entry?.path())?.sync_all()?;
    }
    File::open(to)?.sync_all()
}

fn seconds(clock: &SystemClock, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = clock.now();
    work()?;
    Ok((clock.now() - start).as_secs_f64())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().expect("a directory");
    let mut number = |default: u64| arguments.next().map_or(default, |it| it.parse().unwrap());
    let (keys, rounds) = (number(400_000), number(5));
    let dir = Path::new(&dir);
    let log = Log::File { dir: None, sync: SyncPolicy::Os };
    let db = Db::open(dir.join("db"), Settings::default().log(log))?;
    let (mut rng, clock) = (Rng::new(1), SystemClock::new());
    for key in 0..keys {
        put(&db, &mut rng, key)?;
    }
    db.compact()?;
    let repository = Repository::create(dir.join("repository"))?;
    let first = repository.back_up(&db)?;
    println!("loaded and backed up {} MB", first.bytes / 1_000_000);
    for round in 0..rounds {
        let alone = change(&db, &mut rng, keys, &|puts| puts >= keys / 100)?;
        let newest = repository.backups()?.pop().expect("there is one");
        let known: BTreeSet<_> = newest.files.iter().map(|file| &file.name).collect();
        let report = repository.back_up(&db)?;
        let newest = repository.backups()?.pop().expect("there is one");
        let is_new = |name: &&String| name.ends_with(".tables") && !known.contains(*name);
        let tables = newest.files.iter().filter(|file| is_new(&&file.name));
        let changed: u64 = tables.map(|file| file.bytes).sum();
        println!(
            "round {round}: copied {} bytes, {:.3} of the changed tables",
            report.copied_bytes,
            report.copied_bytes as f64 / changed as f64
        );
        // As long as a few backups take: an incremental one, and whole ones.
        let (is_done, made) = (Arc::new(AtomicBool::new(false)), dir.join(format!("whole{round}")));
        let (done, backed_up, whole) = (is_done.clone(), db.clone(), made.clone());
        let incremental = repository.clone();
        let body = move || {
            incremental.back_up(&backed_up).expect("it is possible");
            Repository::create(whole)
                .and_then(|it| it.back_up(&backed_up))
                .expect("it is possible");
            done.store(true, Ordering::SeqCst);
        };
        let thread = Threads.spawn("backup", Priority::Normal, Box::new(body))?;
        let beside = change(&db, &mut rng, keys, &|_| is_done.load(Ordering::SeqCst))?;
        thread.into_iter().for_each(|thread| _ = thread.join());
        fs::remove_dir_all(made).expect("it was made");
        let ratio = beside.as_secs_f64() / alone.as_secs_f64();
        println!("round {round}: p99 of a put {alone:?} alone, {beside:?} beside ({ratio:.2})");
        let (restored, copied) = (dir.join("restored"), dir.join("copied"));
        let last = repository.back_up(&db)?;
        let restore =
            seconds(&clock, || repository.restore(Some(last.number), &restored).map(drop))?;
        let copy = seconds(&clock, || {
            copy(&restored, &copied).expect("it is possible");
            Ok(())
        })?;
        println!(
            "round {round}: restore {restore:.2} s, copy {copy:.2} s ({:.2} of its speed)",
            copy / restore
        );
        fs::remove_dir_all(restored).and_then(|()| fs::remove_dir_all(copied)).expect("they exist");
    }
    db.close()
}
