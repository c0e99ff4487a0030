//! Prints what the table's operations cost on this machine, in nanoseconds each.
//!
//! `cargo run --release -p esker-table --example table_speed`
//!
//! `table_speed whole` leaves the index and the filter whole, however large they are.

use esker_base::{
    Clock, EntryCursor, Error, KeyspaceId, Kind, MAX_SEQNO, Result, Rng, SystemClock, hash64,
};
use esker_storage::{ReadableFile, WritableFile};
use esker_table::{
    BlockCache, Compression, PartLimits, Patience, ReadPurpose, Table, TableInfo, TableOptions,
    TableWriter,
};
use std::hint::black_box;
use std::sync::Arc;

const ENTRIES: u64 = 500_000;
const GETS: u64 = 1_000_000;
const VALUE_BYTES: usize = 100;

struct File(Vec<u8>);

impl WritableFile for File {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

impl ReadableFile for File {
    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let found = self.0.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(found.ok_or_else(|| Error::corruption("memory", offset, "the end"))?);
        Ok(())
    }
    fn len(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn name(&self) -> &str {
        "memory"
    }
}

/// The `n`th key, 16 bytes, in order of `n`. Odd numbers are not in the table.
fn key(n: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    let mut rest = n;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn value(rng: &mut Rng) -> [u8; VALUE_BYTES] {
    let mut value = [b' '; VALUE_BYTES];
    rng.fill(&mut value[..VALUE_BYTES / 2]);
    value
}

fn main() -> Result<()> {
    println!("{ENTRIES} entries of 16 + {VALUE_BYTES} bytes; ns each");
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        measure(compression)?;
    }
    Ok(())
}

fn measure(compression: Compression) -> Result<()> {
    println!("\ncompression {compression}");
    let clock = SystemClock::new();
    let timed = |what: &str, operations: u64, run: &mut dyn FnMut() -> Result<()>| {
        let start = clock.now();
        run()?;
        let each = (clock.now() - start).as_nanos() as f64 / operations as f64;
        println!("  {what:<34} {each:8.1}");
        Ok::<_, Error>(())
    };
    let mut file = File(Vec::with_capacity(ENTRIES as usize * 140));
    let mut written = None;
    timed("write, without filter", ENTRIES, &mut || {
        file.0.clear();
        written = Some(write(&mut file, compression, 0)?);
        Ok(())
    })?;
    timed("write, fingerprints of 8 bits", ENTRIES, &mut || {
        file.0.clear();
        written = Some(write(&mut file, compression, 8)?);
        Ok(())
    })?;
    let info = written.expect("it was just written");
    let cache = Arc::new(BlockCache::new(256 << 20));
    let table = Arc::new(Table::open(Arc::new(file), 1, 0, info.bytes, cache.clone())?);
    println!("  {:<34} {:8.1}", "bytes an entry in the file", info.bytes as f64 / ENTRIES as f64);
    println!(
        "  {:<34} {:8.2}",
        "bytes an entry in memory",
        table.memory_bytes() as f64 / ENTRIES as f64
    );

    for (purpose, what) in [
        (ReadPurpose::Compaction, "scan, read ahead"),
        (ReadPurpose::Read, "scan, cold cache"),
        (ReadPurpose::Read, "scan, warm cache"),
    ] {
        timed(what, ENTRIES, &mut || scan(&table, purpose))?;
    }
    timed("scan backward, warm cache", ENTRIES, &mut || scan_back(&table))?;
    let mut rng = Rng::new(2);
    timed("get, present, warm cache", GETS, &mut || gets(&table, GETS, 0, &mut rng))?;
    timed("get, absent", GETS, &mut || gets(&table, GETS, 1, &mut rng))?;
    timed("get, present, one block's keys", GETS, &mut || {
        (0..GETS).try_for_each(|n| get(&table, 2 * (n % 32)))
    })?;
    timed("seek, warm cache", GETS, &mut || seeks(&table, &mut rng))?;
    timed("filter alone", GETS, &mut || {
        (0..GETS).for_each(|_| {
            let key = key(2 * rng.below(ENTRIES));
            let answer = table.may_contain(&key, rng.next_u64(), MAX_SEQNO, Patience::MayRead);
            black_box(answer.is_ok_and(|answer| answer));
        });
        Ok(())
    })?;
    cache.set_capacity(0);
    timed("get, present, nothing cached", GETS / 10, &mut || gets(&table, GETS / 10, 0, &mut rng))
}

fn part_limits() -> PartLimits {
    match std::env::args().any(|argument| argument == "whole") {
        true => PartLimits { whole_bytes_max: usize::MAX, ..PartLimits::default() },
        false => PartLimits::default(),
    }
}

fn write(file: &mut File, compression: Compression, fingerprint_bits: u8) -> Result<TableInfo> {
    let keyspace = KeyspaceId::DEFAULT;
    let options = TableOptions {
        keyspace,
        compression,
        fingerprint_bits,
        level: 1,
        file_id: 1,
        sample_level: 0,
        parts: part_limits(),
    };
    let mut writer = TableWriter::new(file, options);
    let mut rng = Rng::new(1);
    for n in 0..ENTRIES {
        writer.add(&key(2 * n), 1_000_000 + n, Kind::Put, &value(&mut rng))?;
    }
    writer.finish()
}

fn scan(table: &Arc<Table>, purpose: ReadPurpose) -> Result<()> {
    let mut cursor = table.cursor(purpose);
    let mut seen = 0u64;
    cursor.seek_first()?;
    while cursor.valid() {
        seen += u64::from(cursor.value()[0]) + u64::from(cursor.key()[15]);
        cursor.next()?;
    }
    black_box(seen);
    Ok(())
}

fn scan_back(table: &Arc<Table>) -> Result<()> {
    let mut cursor = table.cursor(ReadPurpose::Read);
    let mut seen = 0u64;
    cursor.seek_last()?;
    while cursor.valid() {
        seen += u64::from(cursor.value()[0]) + u64::from(cursor.key()[15]);
        cursor.prev()?;
    }
    black_box(seen);
    Ok(())
}

fn get(table: &Table, n: u64) -> Result<()> {
    let key = key(n);
    black_box(table.get(&key, hash64(&key), MAX_SEQNO)?);
    Ok(())
}

fn gets(table: &Table, count: u64, odd: u64, rng: &mut Rng) -> Result<()> {
    (0..count).try_for_each(|_| get(table, 2 * rng.below(ENTRIES) + odd))
}

fn seeks(table: &Arc<Table>, rng: &mut Rng) -> Result<()> {
    let mut cursor = table.cursor(ReadPurpose::Read);
    for _ in 0..GETS {
        cursor.seek(&key(2 * rng.below(ENTRIES) + 1), MAX_SEQNO)?;
        black_box(cursor.valid());
    }
    Ok(())
}
