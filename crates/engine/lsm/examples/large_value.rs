//! Measures one large value: `put_reader` and `get_reader` against a plain file that is written with an
//! fsync and read, in turns, and the memory that each call needs.
//!
//! ```text
//! large_value DIR [MIB] [ROUNDS]
//! ```

use esker_base::{Clock, Rng, SystemClock};
use esker_lsm::{Db, Settings};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1 << 20;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| -> Result<u64, std::num::ParseIntError> {
        arguments.get(at).map_or(Ok(default), |text| text.parse())
    };
    let dir = Path::new(arguments.first().ok_or("usage: large_value DIR [MIB] [ROUNDS]")?);
    let (mib, rounds) = (number(1, 1024)?, number(2, 5)?);
    std::fs::create_dir_all(dir)?;
    let db = Db::open(dir.join("db"), Settings::default())?;
    let keyspace = db.default_keyspace();
    keyspace.put("warm", "up")?;
    db.compact()?;
    let clock = SystemClock::new();
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        let data = || Words::new(round, mib * MIB);
        // Each begins without the file of the other: the second gigabyte that a system takes into its
        // cache may take several times as long as the first.
        let plain_path = dir.join("plain");
        let (plain, _) = measured(&clock, || {
            let mut file = File::create(&plain_path)?;
            copy(&mut data(), &mut file)?;
            Ok(file.sync_all()?)
        })?;
        let (read, _) =
            measured(&clock, || copy(&mut File::open(&plain_path)?, &mut std::io::sink()))?;
        std::fs::remove_file(&plain_path)?;
        let (put, put_peak) =
            measured(&clock, || Ok(keyspace.put_reader("value", data()).map(|_| ())?))?;
        let (get, get_peak) = measured(&clock, || {
            let mut reader = keyspace.get_reader("value")?.ok_or("the value is gone")?;
            copy(&mut reader, &mut std::io::sink())
        })?;
        keyspace.delete("value")?;
        db.compact()?;
        let rate = |took: Duration| mib as f64 / took.as_secs_f64();
        println!(
            "round {round}: file with fsync {:.0} MiB/s, put_reader {:.0}, +{put_peak:.0} MiB of memory; file read \
             {:.0}, get_reader {:.0}, +{get_peak:.0} MiB",
            rate(plain),
            rate(put),
            rate(read),
            rate(get),
        );
        ratios[0].push(rate(put) / rate(plain));
        ratios[1].push(rate(get) / rate(read));
    }
    for (name, mut ratios) in ["put_reader", "get_reader"].into_iter().zip(ratios) {
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        println!("{name} is {median:.2} times as fast as a plain file (median; all: {ratios:.2?})");
    }
    Ok(())
}

/// How long `work` takes, and the most memory above what was resident before, in MiB.
fn measured(clock: &SystemClock, work: impl FnOnce() -> Outcome<()>) -> Outcome<(Duration, f64)> {
    // The system forgets the most memory so far.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let before = resident_mib("VmRSS:")?;
    let begun = clock.now();
    work()?;
    let took = clock.now().saturating_sub(begun);
    Ok((took, resident_mib("VmHWM:")? - before))
}

fn resident_mib(name: &str) -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).ok_or("no such line")?;
    Ok(kib.parse::<f64>()? / 1024.0)
}

/// Copies in pieces of 1 MiB, as `dd bs=1M` does.
fn copy(from: &mut dyn Read, to: &mut dyn Write) -> Outcome<()> {
    let mut piece = vec![0; MIB as usize];
    loop {
        let bytes = from.read(&mut piece)?;
        if bytes == 0 {
            return Ok(());
        }
        to.write_all(&piece[..bytes])?;
    }
}

/// Random bytes, of which each MiB differs from the others, that cost no more than a copy.
struct Words {
    piece: Vec<u8>,
    at: usize,
    left: u64,
}

impl Words {
    fn new(seed: u64, bytes: u64) -> Self {
        let mut piece = vec![0; MIB as usize];
        Rng::new(seed).fill(&mut piece);
        Words { piece, at: 0, left: bytes }
    }
}

impl Read for Words {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.piece.len() {
            self.at = 0;
            let first = self.piece[0].wrapping_add(1);
            self.piece[0] = first;
        }
        let here = &self.piece[self.at..];
        let bytes = here.len().min(to.len()).min(self.left as usize);
        to[..bytes].copy_from_slice(&here[..bytes]);
        (self.at, self.left) = (self.at + bytes, self.left - bytes as u64);
        Ok(bytes)
    }
}
