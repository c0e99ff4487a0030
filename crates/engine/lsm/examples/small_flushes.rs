//! Measures flushes that are small against the database: uniform overwrites, flushed by hand. Prints the
//! bytes written for each byte put, the most at once, and the runs that reads visit.
//!
//! ```text
//! small_flushes DIR [BASE_MIB] [FLUSH_KIB] [FLUSHES]
//! ```

use esker_base::Rng;
use esker_lsm::{Db, KeyspaceSettings, Settings};
use esker_table::Compression;
use std::path::Path;

const VALUE_BYTES: u64 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| -> Result<u64, std::num::ParseIntError> {
        arguments.get(at).map_or(Ok(default), |text| text.parse())
    };
    let dir =
        arguments.first().ok_or("usage: small_flushes DIR [BASE_MIB] [FLUSH_KIB] [FLUSHES]")?;
    let (base_mib, flush_kib, flushes) = (number(1, 1024)?, number(2, 1024)?, number(3, 500)?);
    let keys = (base_mib << 20) / VALUE_BYTES;

    let keyspace = KeyspaceSettings::default().compression(Compression::None);
    let db = Db::open(Path::new(dir), Settings::default().default_keyspace(keyspace))?;
    let keyspace = db.default_keyspace();
    let (mut rng, mut value) = (Rng::new(7), vec![0; VALUE_BYTES as usize]);
    let mut put = |key: u64, rng: &mut Rng| {
        rng.fill(&mut value);
        db.put(&keyspace, format!("key{key:013}"), &value)
    };
    for key in 0..keys {
        put((key * 7919) % keys, &mut rng)?;
    }
    db.compact_keyspace(&keyspace)?;

    let written = || {
        let stats = db.stats();
        (stats.user_bytes as f64, (stats.flush_bytes + stats.compaction_bytes) as f64)
    };
    let before = written();
    let (mut most, mut runs) = (0.0f64, 0);
    for n in 0..flushes {
        let (_, begin) = written();
        for _ in 0..(flush_kib << 10) / VALUE_BYTES {
            put(rng.below(keys), &mut rng)?;
        }
        db.flush()?;
        db.wait_for_compactions()?;
        most = most.max(written().1 - begin);
        let level_0 = db.levels()[0]
            .levels
            .first()
            .filter(|level| level.level == 0)
            .map_or(0, |it| it.runs.len());
        runs += level_0;
        if n % 100 == 99 {
            let (user, tables) = written();
            let for_each = (tables - before.1) / (user - before.0);
            println!(
                "{} flushes of {flush_kib} KiB into {base_mib} MiB: {for_each:.2} bytes written for each \
                 byte put, {:.0} MiB at most at once, {:.1} runs in level 0",
                n + 1,
                most / f64::from(1 << 20),
                runs as f64 / (n + 1) as f64,
            );
        }
    }
    Ok(())
}
