//! What an index costs: puts without it, with it, and with entries that the caller maintains in a
//! transaction. The three take turns; medians of all rounds.
//!
//! cargo run --release -p esker-lsm --example index_speed [ROWS [ROUNDS [THREADS]]]

use esker_base::{Result, Rng};
use esker_lsm::{Db, Keyspace, KeyspaceSettings, Settings};
use std::time::Instant;

const VALUE_BYTES: usize = 100;

/// Where in the value its index key is.
const INDEXED: std::ops::Range<usize> = 0..8;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Plain,
    Indexed,
    ByHand,
}

const WAYS: [Way; 3] = [Way::Plain, Way::Indexed, Way::ByHand];

struct Subject {
    _dir: tempfile::TempDir,
    db: Db,
    rows: Keyspace,
    entries: Keyspace,
    way: Way,
}

impl Subject {
    fn open(way: Way) -> Result<Subject> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(dir.path(), Settings::default())?;
        let rows = db.keyspace("rows", KeyspaceSettings::default())?;
        let entries = db.keyspace("entries", KeyspaceSettings::default())?;
        if way == Way::Indexed {
            let index = rows.index("by_field", |_, value, keys| keys.add(&value[INDEXED]))?;
            index.wait_ready()?;
        }
        Ok(Subject { _dir: dir, db, rows, entries, way })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.way != Way::ByHand {
            return self.rows.put(key, value);
        }
        let entry = |value: &[u8]| [&value[INDEXED], key].concat();
        self.db.transact(|transaction| {
            if let Some(before) = transaction.get_for_update(&self.rows, key)? {
                if before[INDEXED] == value[INDEXED] {
                    return transaction.put(&self.rows, key, value);
                }
                transaction.delete(&self.entries, entry(&before))?;
            }
            transaction.put(&self.rows, key, value)?;
            transaction.put(&self.entries, entry(value), b"")
        })
    }

    /// Puts so many rows by each thread. Returns nanoseconds a put.
    #[expect(clippy::disallowed_methods, reason = "this measures time")]
    fn round(&self, rows: u64, puts: u64, threads: u64, seed: u64, is_load: bool) -> f64 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                scope.spawn(move || {
                    let mut rng = Rng::new(seed * 100 + thread);
                    let mut value = [0; VALUE_BYTES];
                    for put in 0..puts {
                        let row = if is_load { put * threads + thread } else { rng.below(rows) };
                        value[..8].copy_from_slice(&rng.next_u64().to_be_bytes());
                        value[8..16].copy_from_slice(&rng.next_u64().to_be_bytes());
                        // Spread over the keys, so that a load is not in their order.
                        let key = row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                        self.put(&key, &value).expect("a put");
                    }
                });
            }
        });
        start.elapsed().as_nanos() as f64 / (puts * threads) as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let rows: u64 = arguments.next().unwrap_or(400_000);
    let rounds: u64 = arguments.next().unwrap_or(15);
    let threads: u64 = arguments.next().unwrap_or(1);
    let subjects = WAYS.map(|way| Subject::open(way).expect("a database"));
    let mut loads = [const { Vec::new() }; 3];
    for (at, subject) in subjects.iter().enumerate() {
        loads[at].push(subject.round(rows, rows / threads, threads, 1, true));
        subject.db.wait_for_compactions()?;
    }
    let mut updates = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for (at, subject) in subjects.iter().enumerate() {
            updates[at].push(subject.round(rows, rows / threads / 8, threads, 2 + round, false));
            subject.db.wait_for_compactions()?;
        }
    }
    for (what, times) in [("load", loads), ("updates", updates)] {
        let [plain, indexed, by_hand] = times.map(median);
        println!(
            "{what}: plain {plain:.0} ns, indexed {indexed:.0} ns ({:.2}x of plain), by hand {by_hand:.0} ns \
             ({:.2}x of plain)",
            plain / indexed,
            plain / by_hand
        );
    }
    Ok(())
}
