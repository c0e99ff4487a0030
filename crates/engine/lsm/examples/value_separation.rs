//! Measures uniform overwrites of long values, in tables and in value files: bytes written to tables
//! and value files for each byte put, space for each live byte, and the rate of puts.
//!
//! ```text
//! value_separation DIR VALUE_BYTES THRESHOLD|none [LIVE_MIB] [OVERWRITES]
//! ```

use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{Db, KeyspaceSettings, Settings};
use esker_table::Compression;
use std::path::Path;

const MIB: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| -> Result<u64, std::num::ParseIntError> {
        arguments.get(at).map_or(Ok(default), |text| text.parse())
    };
    let dir = arguments.first().ok_or("usage: value_separation DIR VALUE_BYTES THRESHOLD|none")?;
    let value_bytes = number(1, 4096)?;
    let threshold = arguments.get(2).filter(|text| *text != "none").map(|text| text.parse());
    let (live_mib, overwrites) = (number(3, 256)?, number(4, 6)?);
    let keys = live_mib * MIB / value_bytes;

    let keyspace = KeyspaceSettings::default()
        .compression(Compression::None)
        .separation_threshold(threshold.transpose()?);
    let settings = Settings::default()
        .segment_bytes(16 << 20)
        .memory_bytes(128 << 20)
        .default_keyspace(keyspace);
    let db = Db::open(Path::new(dir), settings)?;
    let keyspace = db.default_keyspace();
    let (clock, mut rng, mut value) =
        (SystemClock::new(), Rng::new(7), vec![0; value_bytes as usize]);
    let mut put = |key: u64, rng: &mut Rng| {
        rng.fill(&mut value);
        db.put(&keyspace, format!("key{key:017}"), &value)
    };
    for key in 0..keys {
        put((key * 7919) % keys, &mut rng)?;
    }
    db.wait_for_compactions()?;
    let before = db.stats();
    let begun = clock.now();
    let (mut peak, mut sum, mut samples) = (0.0_f64, 0.0, 0);
    for n in 0..keys * overwrites {
        put(rng.below(keys), &mut rng)?;
        if n > keys && n % (keys / 16).max(1) == 0 {
            let space = db.stats().table_file_bytes as f64 / (keys * value_bytes) as f64;
            (peak, sum, samples) = (peak.max(space), sum + space, samples + 1);
        }
    }
    let took = clock.now().saturating_sub(begun);
    db.wait_for_compactions()?;
    let after = db.stats();
    let user = (after.user_bytes - before.user_bytes) as f64;
    let flushed = (after.flush_bytes - before.flush_bytes) as f64;
    let compacted = (after.compaction_bytes - before.compaction_bytes) as f64;
    println!(
        "values of {value_bytes} bytes, threshold {:?}: {:.2} bytes written for each byte put (flush {:.2}, \
         compaction {:.2}); space amplification: mean {:.2}, max {peak:.2}, at the end {:.2}; {:.1} MiB/s",
        arguments.get(2),
        (flushed + compacted) / user,
        flushed / user,
        compacted / user,
        sum / f64::from(samples.max(1)),
        after.table_file_bytes as f64 / (keys * value_bytes) as f64,
        user / MIB as f64 / took.as_secs_f64(),
    );
    Ok(())
}
