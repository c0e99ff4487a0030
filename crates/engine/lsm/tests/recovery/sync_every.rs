//! `SyncPolicy::Every`: power loss takes about one interval of writes at most, and leaves a prefix.

use esker_base::background::Stepped;
use esker_base::{Clock, Rng};
use esker_lsm::{Db, Env, Log, Settings, SyncPolicy};
use esker_storage::FaultStorage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(100);
/// Background work is done at least this often.
const STEP: Duration = Duration::from_millis(10);

/// Time that the test moves on.
#[derive(Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }
}

fn settings(sync: SyncPolicy) -> Settings {
    Settings::default()
        .log(Log::File { dir: None, sync })
        .segment_bytes(256 << 10)
        .memory_bytes(8 << 20)
}

fn open(disk: &FaultStorage, clock: &Arc<TestClock>) -> Db {
    let env = Env::over(Arc::new(disk.clone())).background(Arc::new(Stepped)).clock(clock.clone());
    Db::open_with(env, settings(SyncPolicy::Every(INTERVAL))).unwrap()
}

fn pass(db: &Db, clock: &TestClock, time: Duration) {
    clock.sleep(time);
    while db.run_background_job() {}
}

/// How many writes survive a power loss now. They must be the first ones.
fn survivors(disk: &FaultStorage, seed: u64) -> u64 {
    let image = disk.crash_image(Rng::new(seed));
    let db = open(&image, &Arc::default());
    let pairs: Vec<_> = db.range(&db.default_keyspace(), ..).map(|pair| pair.unwrap()).collect();
    for (number, (key, value)) in (0u64..).zip(&pairs) {
        assert_eq!(key[..], number.to_be_bytes(), "seed {seed}: a prefix");
        assert!(value.len() == 100 || value.len() == 40_000);
    }
    pairs.len() as u64
}

#[test]
fn power_loss_takes_one_interval_and_one_step_at_most() {
    let mut lost = 0;
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let disk = FaultStorage::new(Rng::new(seed));
        let clock = Arc::new(TestClock::default());
        let db = open(&disk, &clock);
        let keyspace = db.default_keyspace();
        let mut acknowledged: Vec<Duration> = Vec::new();
        for _ in 0..120 {
            // Bursts, pauses, and now and then so much that the segment changes.
            for _ in 0..rng.below(4) {
                let bytes = if rng.one_in(20) { 40_000 } else { 100 };
                let key = (acknowledged.len() as u64).to_be_bytes();
                db.put(&keyspace, key, vec![7; bytes]).unwrap();
                acknowledged.push(clock.now());
            }
            let pause = if rng.one_in(10) { 30 * STEP } else { STEP };
            (0..pause.as_millis() / STEP.as_millis()).for_each(|_| pass(&db, &clock, STEP));
            if rng.one_in(8) {
                let kept = survivors(&disk, rng.next_u64());
                let oldest_allowed = clock.now().saturating_sub(INTERVAL + STEP);
                let due = acknowledged.iter().filter(|at| **at < oldest_allowed).count() as u64;
                assert!(kept >= due, "seed {seed}: {kept} kept, {due} are older than an interval");
                lost += acknowledged.len() as u64 - kept;
            }
        }
    }
    assert!(lost > 0, "some images lose what the interval allows");
}

#[test]
fn the_last_writes_before_a_pause_are_synced_once_the_interval_is_over() {
    for seed in 0..20 {
        let disk = FaultStorage::new(Rng::new(seed));
        let clock = Arc::new(TestClock::default());
        let db = open(&disk, &clock);
        let keyspace = db.default_keyspace();
        for number in 0..5u64 {
            db.put(&keyspace, number.to_be_bytes(), [7; 100]).unwrap();
            pass(&db, &clock, STEP);
        }
        pass(&db, &clock, INTERVAL);
        assert_eq!(survivors(&disk, seed), 5);
        let syncs = db.stats().log_syncs;
        pass(&db, &clock, 10 * INTERVAL);
        assert_eq!(db.stats().log_syncs, syncs, "there is nothing to sync");
    }
}
