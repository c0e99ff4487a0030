//! Kills real processes: a child writes batches and acknowledges each on a pipe. Its parent kills
//! it with SIGKILL at a random time, opens what it left, and checks it. The directory is reused in
//! every round.
//!
//! Batch number `n` is a function of `n` alone and writes its own number. The database therefore
//! contains the number of its batches, which determines all of its entries.

use crate::model::{Batch, Pairs, World, Write};
use esker_api::WriteBatch;
use esker_base::{Error, KeyspaceId, Result, Rng};
use esker_lsm::{Db, Forwarding, Keyspace, KeyspaceSettings, Log, Settings, Shape, SyncPolicy};
use esker_pmem::{Accept, Pool};
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The hidden command that makes a process the child.
pub const CHILD_COMMAND: &str = "write-until-killed";

/// The keyspace in addition to the default one; it is the first that the child creates, so its id is known.
const OTHER: &str = "other";
const OTHER_ID: u32 = 1;

/// The key that holds the last batch's number.
const COUNT: &[u8] = b"the last batch";

/// The bytes of the pool, if there is one: some fifteen extents of the least size.
const POOL_BYTES: u64 = 1 << 20;

/// Where a database is.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// Its directory.
    pub dir: &'a Path,
    /// The pool that its log is in; on tmpfs, for lack of anything better.
    pub pool: Option<&'a Path>,
}

/// How round `round` opens the database.
fn settings(place: Place<'_>, round: u64) -> Settings {
    let sync = match round % 3 {
        0 => SyncPolicy::Os,
        1 => SyncPolicy::Always,
        _ => SyncPolicy::Every(Duration::from_millis(5)),
    };
    let log = match place.pool {
        Some(pool) => Log::Pmem { pool: pool.to_owned(), emulated: true },
        None => Log::File { dir: None, sync },
    };
    let forwarding = [Forwarding::OnFlush, Forwarding::Always, Forwarding::Adaptive];
    Settings::default()
        .log(log)
        .forwarding(forwarding[round as usize % 3])
        .segment_bytes(64 << (10 + round % 3))
        .sealed_segments(2)
        .memory_bytes(16 << 20)
        .background_threads(2)
}

fn key(number: u64) -> Vec<u8> {
    format!("key {:05}", number * 7919 % 3000).into_bytes()
}

/// Batch number `number`.
fn batch(number: u64) -> Batch {
    let mut rng = Rng::new(number);
    let mut writes = vec![Write::Put(0, COUNT.to_vec(), number.to_be_bytes()[..].into())];
    for _ in 0..=rng.below(4) {
        let space = rng.below(2) as u32;
        let at = rng.below(3000);
        match rng.below(40) {
            0 => {
                let (a, b) = (key(at), key(at + 1));
                writes.push(Write::DeleteRange(space, a.clone().min(b.clone()), a.max(b)));
            }
            1..=6 => writes.push(Write::Delete(space, key(at))),
            _ => {
                let mut value = vec![0; rng.below(900) as usize];
                rng.fill(&mut value);
                writes.push(Write::Put(space, key(at), value.into()));
            }
        }
    }
    writes
}

/// What the child does: opens the database in its place, and writes and acknowledges until it is killed.
pub fn write_until_killed(place: Place<'_>, round: u64) -> Result<()> {
    let db = Db::open(place.dir, settings(place, round))?;
    let tiered = KeyspaceSettings::default().shape(Shape::Tiered { runs: 3 });
    let tiered = tiered.separation_threshold(1);
    let other = db.keyspace(OTHER, tiered)?;
    assert_eq!(other.id().0, OTHER_ID, "the first keyspace created");
    let mut number = count(&db, &db.default_keyspace())?;
    let mut out = io::stdout().lock();
    loop {
        number += 1;
        let mut encoded = WriteBatch::new();
        for write in batch(number) {
            match write {
                Write::Put(space, key, value) => encoded.put(KeyspaceId(space), &key, &value),
                Write::PutUntil(..) | Write::Ingest(..) | Write::FailedIngest(..) => {
                    unreachable!("nothing expires or is ingested here")
                }
                Write::Merge(space, key, operand) => {
                    encoded.merge(KeyspaceId(space), &key, &operand);
                }
                Write::Delete(space, key) => encoded.delete(KeyspaceId(space), &key),
                Write::DeleteRange(space, start, end) => {
                    encoded.delete_range(KeyspaceId(space), start..end);
                }
            }
        }
        db.write(&encoded)?;
        let told = out.write_all(&number.to_be_bytes()).and_then(|()| out.flush());
        told.map_err(|source| Error::io("acknowledge", "standard output", source))?;
    }
}

fn count(db: &Db, keyspace: &Keyspace) -> Result<u64> {
    let stored = db.get(keyspace, COUNT)?;
    Ok(stored.map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().expect("eight bytes"))))
}

/// What the rounds saw.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Rounds {
    /// Rounds done.
    pub rounds: u64,
    /// Batches in the database.
    pub batches: u64,
    /// Batches that were found although they had not been acknowledged.
    pub unacknowledged: u64,
}

/// Kills `rounds` children of `program`, which is this crate's, over one database. Makes its pool, if
/// there is to be one.
pub fn run(
    program: &Path,
    place: Place<'_>,
    rounds: u64,
    seed: u64,
) -> std::result::Result<Rounds, String> {
    let mut rng = Rng::new(seed);
    let mut world = World::default();
    let mut seen = Rounds::default();
    if let Some(pool) = place.pool {
        Pool::create(pool, POOL_BYTES, Accept::Emulated).map_err(|error| error.to_string())?;
    }
    for round in 0..rounds {
        let enough = if rng.one_in(8) { 0 } else { rng.below(1500) };
        let told = run_child(program, place, round, enough)
            .map_err(|error| format!("round {round}: no child: {error}"))?;
        let acknowledged = told.unwrap_or(seen.batches);
        let checked = check(place, round, seen.batches, &mut world)
            .map_err(|what| format!("round {round}: {what}"))?;
        if checked < acknowledged {
            return Err(format!(
                "round {round}: batch {acknowledged} was acknowledged, and only {checked} are there"
            ));
        }
        seen = Rounds {
            rounds: round + 1,
            batches: checked,
            unacknowledged: seen.unacknowledged + checked - acknowledged,
        };
    }
    Ok(seen)
}

/// Runs a child until it has acknowledged `enough` batches, then kills it. The last it acknowledged. Fails
/// if it ends before that.
fn run_child(program: &Path, place: Place<'_>, round: u64, enough: u64) -> io::Result<Option<u64>> {
    let mut child = Command::new(program)
        .arg(CHILD_COMMAND)
        .arg(place.dir)
        .arg(round.to_string())
        .args(place.pool)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut pipe = io::BufReader::new(child.stdout.take().expect("it is piped"));
    let mut last = None;
    let mut read = || {
        let mut number = [0; 8];
        let got = pipe.read_exact(&mut number);
        got.is_ok().then(|| u64::from_be_bytes(number))
    };
    let mut ended = false;
    for _ in 0..enough {
        let Some(number) = read() else {
            ended = true;
            break;
        };
        last = Some(number);
    }
    child.kill()?;
    let status = child.wait()?;
    if ended {
        return Err(io::Error::other(format!("the child ended by itself: {status}")));
    }
    // What it said before it died counts too.
    while let Some(number) = read() {
        last = Some(number);
    }
    Ok(last)
}

/// Opens what the child of `round` left, and compares it with the model, which held `before` batches.
/// Gives the batches that there are.
fn check(
    place: Place<'_>,
    round: u64,
    before: u64,
    world: &mut World,
) -> std::result::Result<u64, String> {
    let fails = |error: Error| error.to_string();
    // Every other time nothing is written here, so that the next child finds it as it was left.
    let db = if round.is_multiple_of(2) {
        match Db::open_read_only(place.dir, settings(place, round)) {
            // Killed before it had created anything.
            Err(Error::NotADatabase { .. }) if before == 0 => return Ok(0),
            opened => opened.map_err(fails)?,
        }
    } else {
        Db::open(place.dir, settings(place, round)).map_err(fails)?
    };
    let number = count(&db, &db.default_keyspace()).map_err(fails)?;
    if number < before {
        return Err(format!("{before} batches were there before, and {number} are there now"));
    }
    (before + 1..=number).for_each(|number| world.apply(&batch(number)));
    compare(&db, &db.default_keyspace(), &world.pairs(0))?;
    match db.open_keyspace(OTHER) {
        Ok(other) => compare(&db, &other, &world.pairs(OTHER_ID))?,
        Err(_) if number == 0 => {}
        Err(error) => return Err(fails(error)),
    }
    Ok(number)
}

fn compare(db: &Db, keyspace: &Keyspace, pairs: &Pairs) -> std::result::Result<(), String> {
    crate::harness::check_pairs(db, keyspace, pairs, None).map_err(|mismatch| mismatch.describe())
}
