//! What a two-phase commit costs next to two synced writes: ten puts each, by one thread.
//!
//! `cargo run --release -p esker-lsm --example two_phase_speed [-- DIR]`
//!
//! The two take turns, and the median of the ratios is printed with its quartiles. `DIR` is where the
//! databases go: the system's temporary directory if none is given.

use esker_base::{Clock, Error, Result, Rng, SystemClock};
use esker_lsm::{Db, Settings};
use std::path::PathBuf;

const ROUNDS: usize = 1_001;
const PUTS: usize = 10;

/// Two batches of the same writes, each synced.
fn two_writes(db: &Db, keys: &[[u8; 16]]) -> Result<()> {
    let keyspace = db.default_keyspace();
    for _ in 0..2 {
        let mut batch = db.batch();
        keys.iter().for_each(|key| batch.put(&keyspace, key, [7; 100]));
        batch.set_sync(true);
        db.write(&batch)?;
    }
    Ok(())
}

fn two_phases(db: &Db, keys: &[[u8; 16]]) -> Result<()> {
    let keyspace = db.default_keyspace();
    let mut tx = db.transaction()?;
    for key in keys {
        tx.put(&keyspace, key, [7; 100])?;
    }
    tx.prepare("id")?;
    db.commit_prepared("id")
}

/// The nanoseconds of `call`.
fn timed(clock: &SystemClock, call: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = clock.now();
    call()?;
    Ok((clock.now() - start).as_nanos() as f64)
}

fn main() -> Result<()> {
    let parent = std::env::args().nth(1).map_or(std::env::temp_dir(), PathBuf::from);
    let dir = parent.join(format!("esker-two-phase-speed-{}", std::process::id()));
    std::fs::create_dir_all(&dir)
        .map_err(|source| Error::io("create", dir.display().to_string(), source))?;
    let measured = measure(&Db::open(dir.join("db"), Settings::default())?);
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

fn measure(db: &Db) -> Result<()> {
    let (clock, mut rng) = (SystemClock::new(), Rng::new(1));
    let (mut plain, mut prepared) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut keys = [[0; 16]; PUTS];
        keys.iter_mut().for_each(|key| rng.fill(key));
        plain.push(timed(&clock, || two_writes(db, &keys))?);
        keys.iter_mut().for_each(|key| rng.fill(key));
        prepared.push(timed(&clock, || two_phases(db, &keys))?);
    }
    let mut ratios: Vec<f64> =
        prepared.iter().zip(&plain).map(|(own, plain)| own / plain).collect();
    for values in [&mut plain, &mut prepared, &mut ratios] {
        values.sort_by(f64::total_cmp);
    }
    let at = |values: &[f64], quarter: usize| values[ROUNDS * quarter / 4];
    println!(
        "two phases {:.1} µs, two synced writes {:.1} µs, ratio {:.2} ({:.2} to {:.2})",
        at(&prepared, 2) / 1e3,
        at(&plain, 2) / 1e3,
        at(&ratios, 2),
        at(&ratios, 1),
        at(&ratios, 3),
    );
    Ok(())
}
