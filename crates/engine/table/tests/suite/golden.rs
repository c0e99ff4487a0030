//! Tables written by format version 1 stay readable permanently. `ESKER_BLESS=1` writes the files anew,
//! which only a new format version may need.

use crate::support::*;
use esker_base::{Kind, MAX_SEQNO, RangeTombstone, ValuePlace, combined};
use esker_table::format::{HAS_PARTS, HAS_SEPARATED, HAS_VALUES_IN_BLOCKS};
use esker_table::{BlockCache, Compression, Expiring, ReadPurpose, Table, TableOptions};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

fn versions() -> Vec<Version> {
    let mut versions: Vec<Version> = (0..120u64)
        .map(|n| {
            let kind = if n % 11 == 0 { Kind::Delete } else { Kind::Put };
            let value = format!("value {n} ").repeat(n as usize % 13);
            let value = if kind == Kind::Put { value.into_bytes() } else { vec![] };
            (format!("city/{:03}", n * 2 / 3).into_bytes(), n * n * n, kind, value)
        })
        .collect();
    versions.push((vec![0xff; 200], MAX_SEQNO, Kind::Put, vec![7; 300]));
    versions.push((vec![0], 0, Kind::Put, vec![]));
    sort(&mut versions);
    versions
}

fn tombstones() -> Vec<RangeTombstone> {
    let tombstone = |start: &[u8], end: &[u8], seqno| RangeTombstone {
        start: start.to_vec(),
        end: end.to_vec(),
        seqno,
    };
    vec![tombstone(b"city/010", b"city/020", 700), tombstone(b"city/015", b"d", 800)]
}

fn dump(table: &Arc<Table>) -> String {
    let properties = table.properties();
    let mut out = String::new();
    writeln!(out, "keyspace {}, level {}", properties.keyspace, properties.level).unwrap();
    writeln!(out, "compression {}", properties.compression).unwrap();
    writeln!(out, "fingerprint bits {}", properties.fingerprint_bits).unwrap();
    writeln!(out, "entries {}, deletes {}", properties.entries, properties.deletes).unwrap();
    writeln!(out, "keys {}", properties.keys).unwrap();
    writeln!(out, "range tombstones {}", properties.range_tombstones).unwrap();
    writeln!(out, "raw key bytes {}", properties.raw_key_bytes).unwrap();
    writeln!(out, "raw value bytes {}", properties.raw_value_bytes).unwrap();
    writeln!(out, "data blocks {}", properties.data_blocks).unwrap();
    writeln!(out, "data bytes {}", properties.data_bytes).unwrap();
    let seqnos = (properties.smallest_seqno, properties.largest_seqno);
    writeln!(out, "seqnos {} to {}", seqnos.0, seqnos.1).unwrap();
    let keys = (properties.smallest.escape_ascii(), properties.largest.escape_ascii());
    writeln!(out, "keys {} to {}", keys.0, keys.1).unwrap();
    let sketches = &properties.sketches;
    writeln!(out, "hll about {:.3}", sketches.hll.estimate()).unwrap();
    let theta = &sketches.theta;
    writeln!(out, "theta {} keys, {} bytes", theta.distinct(), theta.bytes()).unwrap();
    if let Some(expiring) = properties.expiring {
        writeln!(out, "{expiring:?}").unwrap();
    }
    for of in &properties.value_files {
        writeln!(out, "{of:?}").unwrap();
    }
    for tombstone in table.tombstones().tombstones() {
        let (start, end) = (tombstone.start.escape_ascii(), tombstone.end.escape_ascii());
        writeln!(out, "tombstone {start}..{end} at {}", tombstone.seqno).unwrap();
    }
    for (key, seqno, kind, value) in scan(table, ReadPurpose::Read).unwrap() {
        let (key, value) = (key.escape_ascii(), value.escape_ascii());
        writeln!(out, "{key} {seqno} {kind:?} {value}").unwrap();
    }
    out
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn check(name: &str, compression: Compression, fingerprint_bits: u8) {
    check_versions(name, compression, fingerprint_bits, &versions());
}

fn check_versions(
    name: &str,
    compression: Compression,
    fingerprint_bits: u8,
    versions: &[Version],
) {
    let name = |extension| golden(&format!("v1-{name}.{extension}"));
    if std::env::var_os("ESKER_BLESS").is_some() {
        let mut file = Growing::default();
        let options = TableOptions { compression, fingerprint_bits, ..options() };
        let info = write_to(&mut file, options, versions, &tombstones());
        std::fs::write(name("table"), &file.0).unwrap();
        std::fs::write(name("txt"), dump(&open_bytes(file.0, &info).unwrap())).unwrap();
    }
    let bytes = std::fs::read(name("table")).unwrap();
    let len = bytes.len() as u64;
    let file = Arc::new(Finished { bytes, ..Finished::default() });
    let cache = Arc::new(BlockCache::new(1 << 20));
    let table = Arc::new(Table::open(file, FILE_ID, 0, len, cache).unwrap());
    assert_eq!(dump(&table), std::fs::read_to_string(name("txt")).unwrap());
    assert_eq!(scan(&table, ReadPurpose::Read).unwrap(), versions);
    for (key, seqno, ..) in versions {
        assert_eq!(get(&table, key, *seqno).unwrap().unwrap().seqno, *seqno);
    }
    let complaints = complaints(&table);
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// The required features in a table's footer.
fn features(bytes: &[u8]) -> u32 {
    let at = bytes.len() - 28;
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn tables_with_samples_as_bits_say_so_in_their_footers() {
    let of = |name: &str| features(&std::fs::read(golden(name)).unwrap());
    assert_eq!(of("v1-packed-samples.table"), 1);
    assert_eq!(of("v1-packed-filter.table"), 0);
    let mut file = Growing::default();
    write_to(&mut file, options(), &versions(), &tombstones());
    assert_eq!(features(&file.0), 1);
}

/// The versions above, with operands of merges among them.
fn with_operands() -> Vec<Version> {
    let mut versions = versions();
    let operands =
        (0..5).map(|n| (b"city/030".to_vec(), 90_000 + n, Kind::Merge, vec![n as u8; 8]));
    versions.extend(operands);
    versions.push((b"dam".to_vec(), 7, Kind::Merge, b"operand".to_vec()));
    let combined = combined::encode(7_000, 300, b"operands");
    versions.push((b"dam".to_vec(), 7_000, Kind::Combined, combined));
    sort(&mut versions);
    versions
}

/// Older readers take an operand for damage. So they must refuse the table by name before.
#[test]
fn only_tables_with_operands_say_so_in_their_footers() {
    let of = |name: &str| features(&std::fs::read(golden(name)).unwrap());
    assert_eq!((of("v1-operands.table"), of("v1-packed-samples.table")), (3, 1));
    let mut file = Growing::default();
    write_to(&mut file, options(), &with_operands(), &tombstones());
    assert_eq!(features(&file.0), 3);
}

#[test]
fn version_1_with_operands_reads_as_it_did() {
    check_versions("operands", Compression::Lz4, 11, &with_operands());
}

/// The versions above, with puts that expire among them.
fn with_expiring() -> Vec<Version> {
    let mut versions = versions();
    let stored = |time: u64| [&time.to_le_bytes()[..], b"value"].concat();
    versions.extend((0..5).map(|n| {
        (b"city/030".to_vec(), 90_000 + n, Kind::ExpiringPut, stored(1_700_000_000_000 + n))
    }));
    versions.push((b"dam".to_vec(), 7, Kind::ExpiringPut, stored(u64::MAX)));
    sort(&mut versions);
    versions
}

/// Older readers take an expiring put for damage. So they must refuse the table by name before.
#[test]
fn only_tables_with_entries_that_expire_say_so_in_their_footers() {
    let of = |name: &str| features(&std::fs::read(golden(name)).unwrap());
    assert_eq!((of("v1-expiring.table"), of("v1-packed-samples.table")), (5, 1));
    let mut file = Growing::default();
    let info = write_to(&mut file, options(), &with_expiring(), &tombstones());
    assert_eq!(features(&file.0), 5);
    let expiring = Expiring { entries: 6, earliest: 1_700_000_000_000, latest: u64::MAX };
    assert_eq!(info.properties.expiring, Some(expiring));
}

#[test]
fn version_1_with_entries_that_expire_reads_as_it_did() {
    check_versions("expiring", Compression::Lz4, 11, &with_expiring());
}

/// Versions, some of them with their values in one of two value files.
fn with_separated() -> Vec<Version> {
    let mut versions = versions();
    for (n, version) in (0..).zip(&mut versions) {
        if version.2 == Kind::Put && n % 3 == 0 {
            let (file, offset, bytes) = (5 + n % 2, 1_000 * n, 900 + n);
            let (value_bytes, checksum) = (2 * bytes, 7 * n as u32);
            let place = ValuePlace { file, offset, bytes, compression: 1, value_bytes, checksum };
            (version.2, version.3) = (Kind::Separated, place.encode());
        }
    }
    versions
}

#[test]
fn only_tables_that_refer_to_value_files_say_so_in_their_footers() {
    for (versions, expected) in [(versions(), 0), (with_separated(), HAS_SEPARATED)] {
        let mut file = Growing::default();
        write_to(&mut file, options(), &versions, &tombstones());
        assert_eq!(features(&file.0) & HAS_SEPARATED, expected);
    }
}

/// The same, and some of them large.
fn with_large_values() -> Vec<Version> {
    let mut versions = with_separated();
    let separated = versions.iter_mut().filter(|version| version.2 == Kind::Separated);
    for (n, version) in (0..).zip(separated).step_by(2) {
        version.3 = ValuePlace::in_blocks(7 + n, 24, 300_008, 300_000, 9 * n as u32).encode();
    }
    versions
}

/// Older readers would take such a value for damage. So they must refuse the table by name before.
#[test]
fn only_tables_with_values_in_blocks_say_so_in_their_footers() {
    for (versions, expected) in [(with_separated(), 0), (with_large_values(), HAS_VALUES_IN_BLOCKS)]
    {
        let mut file = Growing::default();
        write_to(&mut file, options(), &versions, &tombstones());
        assert_eq!(features(&file.0) & HAS_VALUES_IN_BLOCKS, expected);
    }
}

#[test]
fn version_1_with_large_values_reads_as_it_did() {
    check_versions("large-values", Compression::None, 10, &with_large_values());
}

#[test]
fn version_1_with_values_in_value_files_reads_as_it_did() {
    check_versions("separated", Compression::None, 10, &with_separated());
}

#[test]
fn version_1_without_compression_reads_as_it_did() {
    check("none", Compression::None, 8);
}

#[test]
fn version_1_with_lz4_reads_as_it_did() {
    check("lz4", Compression::Lz4, 16);
}

#[test]
fn version_1_with_zstd_reads_as_it_did() {
    check("zstd", Compression::Zstd, 32);
}

#[test]
fn version_1_with_packed_fingerprints_reads_as_it_did() {
    check("packed-filter", Compression::Lz4, 11);
}

#[test]
fn version_1_with_packed_samples_reads_as_it_did() {
    check("packed-samples", Compression::Lz4, 11);
}

/// Enough keys for several parts.
fn many() -> Vec<Version> {
    let mut versions: Vec<Version> = (0..12_000u64)
        .map(|n| (format!("city/{n:05}").into_bytes(), n + 1, Kind::Put, vec![n as u8; 60]))
        .collect();
    // The versions of one key are in several parts.
    let city = |n: u64| (b"city/02000".to_vec(), 10_000 + n, Kind::Put, vec![n as u8; 1_000]);
    versions.extend((0..1_000).map(city));
    sort(&mut versions);
    versions
}

/// Earlier releases would take parts for a filter. So they must refuse the table by name before.
#[test]
fn version_1_with_parts_reads_as_it_did() {
    let (name, versions) = (golden("v1-parts.table"), many());
    if std::env::var_os("ESKER_BLESS").is_some() {
        let (compression, fingerprint_bits) = (Compression::Zstd, 32);
        let options = TableOptions { compression, fingerprint_bits, ..options() };
        let mut file = Growing::default();
        write_to(&mut file, options, &versions, &tombstones());
        std::fs::write(&name, &file.0).unwrap();
    }
    let bytes = std::fs::read(&name).unwrap();
    assert_eq!(features(&bytes), 1 | HAS_PARTS);
    let len = bytes.len() as u64;
    let file = Arc::new(Finished { bytes, ..Finished::default() });
    let cache = Arc::new(BlockCache::new(4 << 20));
    let table = Arc::new(Table::open(file, FILE_ID, 0, len, cache.clone()).unwrap());
    assert_eq!((table.properties().entries, cache.part_bytes()), (13_000, 0));
    assert!(scan(&table, ReadPurpose::Read).unwrap() == versions);
    assert!(cache.part_bytes() > 40_000);
    for (key, seqno, ..) in &versions {
        assert_eq!(get(&table, key, *seqno).unwrap().unwrap().seqno, *seqno);
        assert_eq!(get(&table, &[&key[..], b"x"].concat(), MAX_SEQNO).unwrap(), None);
    }
    let complaints = complaints(&table);
    assert!(complaints.is_empty(), "{complaints:?}");
}
