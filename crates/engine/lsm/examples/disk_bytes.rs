//! Accounts for every byte that an uncompressed database has on its device: see
//! `docs/internals/disk-space.md`.
//!
//! ```text
//! disk_bytes DIR [ENTRIES] [SEGMENT_BYTES]
//! ```
//!
//! Puts ENTRIES keys and values of 16 + 100 bytes, by default a million. Prints what the files have when the
//! last put has returned, once the database is idle, after a flush, and after a close, and of what the
//! tables consist.

mod common;

use common::key;
use esker_base::Rng;
use esker_lsm::{Db, KeyspaceSettings, Settings};
use esker_table::Compression;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

const VALUE_BYTES: usize = 100;
const ENTRY_BYTES: u64 = 16 + VALUE_BYTES as u64;

/// Lengths that the format of tables fixes.
const FOOTER_BYTES: u64 = 92;
const TRAILER_BYTES: u64 = 5;
const BLOCK_HEADER_BYTES: u64 = 12;
const RESTART_BYTES: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir =
        Path::new(arguments.first().ok_or("usage: disk_bytes DIR [ENTRIES] [SEGMENT_BYTES]")?);
    let entries: u64 = arguments.get(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let keyspace = KeyspaceSettings::default().compression(Compression::None);
    let mut settings = Settings::default().default_keyspace(keyspace);
    if let Some(bytes) = arguments.get(2) {
        settings = settings.segment_bytes(bytes.parse()?);
    }
    let db = Db::open(dir, settings)?;
    let (keyspace, mut rng, mut value) = (db.default_keyspace(), Rng::new(7), [0; VALUE_BYTES]);
    for number in 0..entries {
        rng.fill(&mut value);
        db.put(&keyspace, key(number), value)?;
    }
    println!("{:<14} {:>12} {:>12} {:>12} {:>12} {:>7}", "", "tables", "logs", "others", "all", "");
    report("written", dir, entries)?;
    db.wait_for_compactions()?;
    report("idle", dir, entries)?;
    db.flush()?;
    db.wait_for_compactions()?;
    report("flushed, idle", dir, entries)?;
    db.close()?;
    report("closed", dir, entries)?;

    let mut parts = Parts::default();
    for path in files(dir)?.into_iter().filter(|path| has_extension(path, "tables")) {
        parts.add_file(&fs::read(path)?);
    }
    println!("\n{:<28} {:>12} {:>10}", "part of the tables", "bytes", "an entry");
    for (name, bytes) in parts.0 {
        println!("{name:<28} {bytes:>12} {:>10.3}", bytes as f64 / entries as f64);
    }
    Ok(())
}

fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|found| found == wanted)
}

/// Prints the bytes of the files on the device.
fn report(when: &str, dir: &Path, entries: u64) -> io::Result<()> {
    let (mut tables, mut logs, mut others) = (0, 0, 0);
    for path in files(dir)? {
        // The database may remove a file meanwhile.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        let sum = match path.extension().and_then(|it| it.to_str()) {
            Some("tables") => &mut tables,
            Some("log") => &mut logs,
            _ => &mut others,
        };
        *sum += metadata.blocks() * 512;
    }
    let all = tables + logs + others;
    let share = all as f64 / (entries * ENTRY_BYTES) as f64;
    println!("{when:<14} {tables:>12} {logs:>12} {others:>12} {all:>12} {share:>6.3}x");
    Ok(())
}

/// The bytes of each part of tables.
#[derive(Default)]
struct Parts(BTreeMap<&'static str, u64>);

impl Parts {
    fn add(&mut self, part: &'static str, bytes: u64) {
        *self.0.entry(part).or_default() += bytes;
    }

    /// Adds the tables of a file, which are back to back: the last one ends the file.
    fn add_file(&mut self, mut file: &[u8]) {
        while !file.is_empty() {
            let footer = &file[file.len() - FOOTER_BYTES as usize..];
            let sections: Vec<u64> = footer[..48]
                .chunks(8)
                .map(|it| u64::from_le_bytes(it.try_into().unwrap()))
                .collect();
            let bytes = sections.iter().sum::<u64>() + FOOTER_BYTES;
            let (before, table) = file.split_at(file.len() - bytes as usize);
            self.add_blocks(&table[..sections[0] as usize]);
            let names = ["filter", "range tombstones", "sketches", "properties", "index"];
            for (name, section) in names.into_iter().zip(&sections[1..]) {
                self.add(name, section.saturating_sub(TRAILER_BYTES));
                self.add("checksums", TRAILER_BYTES.min(*section));
            }
            self.add("footer", FOOTER_BYTES);
            file = before;
        }
    }

    fn add_blocks(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let number =
                |at: usize| u64::from(u32::from_le_bytes(data[at..][..4].try_into().unwrap()));
            let (restarts, entries, values) = (number(0), number(4), number(8));
            let entries_at = BLOCK_HEADER_BYTES + restarts * RESTART_BYTES;
            self.add("block headers", BLOCK_HEADER_BYTES);
            self.add("restart points", restarts * RESTART_BYTES);
            self.add_entries(&data[entries_at as usize..][..entries as usize]);
            self.add("values", values);
            self.add("checksums", TRAILER_BYTES);
            data = &data[(entries_at + entries + values + TRAILER_BYTES) as usize..];
        }
    }

    fn add_entries(&mut self, mut entries: &[u8]) {
        while let Some((tag, mut rest)) = entries.split_first() {
            let [_shared, unshared, _value] = [(); 3].map(|()| varint(&mut rest));
            let seqno = u64::from(tag >> 4);
            let head = (entries.len() - rest.len()) as u64;
            self.add("entries: tag and lengths", head);
            self.add("entries: sequence numbers", seqno);
            self.add("keys, without shared parts", unshared);
            entries = &rest[(seqno + unshared) as usize..];
        }
    }
}

/// Takes a LEB128 number off `input`.
fn varint(input: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, rest)) = input.split_first() {
        *input = rest;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}
