//! Loads sorted entries of 1 KB into a new database, until nothing is left to compact.
//!
//! `ingest_speed DIR WAY MIB`, where WAY is `ingest`, `parallel` (two sorted writers), `puts` (batches
//! of 100 in order) or `shuffled` (the same out of order). Values are random, so they do not compress.

use esker_base::Rng;
use esker_lsm::{Db, Settings};
use std::time::Instant;

const VALUE_BYTES: usize = 1_000;
const BATCH: u64 = 100;

fn value(pool: &[u8], number: u64) -> &[u8] {
    let start = (number as usize * 7_919) % (pool.len() - VALUE_BYTES);
    &pool[start..start + VALUE_BYTES]
}

#[expect(clippy::disallowed_methods, reason = "this measures time")]
fn main() -> esker_base::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, way, mib] = &arguments[..] else { panic!("DIR WAY MIB") };
    let pairs = mib.parse::<u64>().expect("a number") * (1 << 20) / (VALUE_BYTES as u64 + 8);
    let mut rng = Rng::new(1);
    let pool: Vec<u8> = (0..2 << 20).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let db = Db::open(dir, Settings::default())?;
    let keyspace = db.default_keyspace();
    let started = Instant::now();
    match &way[..] {
        "ingest" => {
            let pairs = (0..pairs).map(|number| (number.to_be_bytes(), value(&pool, number)));
            db.ingest(&keyspace, pairs)?;
        }
        "parallel" => {
            let writers = std::thread::scope(|scope| {
                let halves = [0..pairs / 2, pairs / 2..pairs].map(|half| {
                    let (db, keyspace, pool) = (&db, &keyspace, &pool);
                    scope.spawn(move || {
                        let mut writer = db.sorted_writer(keyspace)?;
                        for number in half {
                            writer.put(number.to_be_bytes(), value(pool, number))?;
                        }
                        Ok(writer)
                    })
                });
                let joined = halves.into_iter().map(|half| half.join().expect("no panic"));
                joined.collect::<esker_base::Result<Vec<_>>>()
            })?;
            db.ingest_writers(writers)?;
        }
        _ => {
            // A permutation: the multiplier is odd and prime to the number of pairs.
            let step = if way == "shuffled" { 7_368_787 } else { 1 };
            let mut number = 0;
            while number < pairs {
                let mut batch = db.batch();
                for number in number..(number + BATCH).min(pairs) {
                    let key = (number * step) % pairs;
                    batch.put(&keyspace, key.to_be_bytes(), value(&pool, key));
                }
                db.write(&batch)?;
                number += BATCH;
            }
        }
    }
    let loaded = started.elapsed();
    db.flush()?;
    db.wait_for_compactions()?;
    let settled = started.elapsed();
    let bytes = pairs * (VALUE_BYTES as u64 + 8);
    let rate = |time: std::time::Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{way}: {:.2} s loaded, {:.2} s settled: {:.0} and {:.0} MB/s",
        loaded.as_secs_f64(),
        settled.as_secs_f64(),
        rate(loaded),
        rate(settled)
    );
    db.close()
}
