//! Feeds any bytes to the decoders of files. None may panic, run away or accept what it should not;
//! what these functions check beyond that, they assert.
//!
//! The fuzz targets call them with whatever the fuzzer finds; the tests with valid files that were
//! damaged at random.

use esker_base::{
    Entropy, EntryCursor, FileKind, KeyspaceId, Kind, MAX_SEQNO, ValuePlace, WriteHint, combined,
    hash64,
};
use esker_encryption::{EncryptedStorage, Key, Keys};
use esker_lsm::manifest::manifest_file::read_manifest;
use esker_lsm::manifest::version_edit::VersionEdit;
use esker_memtable::{HeapMemory, MemTable, SegmentHeader, scan};
use esker_storage::{MemoryStorage, Storage};
use esker_table::format::{BlockKind, FOOTER_BYTES, Footer, TRAILER_BYTES, block_checksum};
use esker_table::{
    BlockCache, Compression, PartLimits, ReadPurpose, Table, TableOptions, TableWriter,
};
use std::ops::ControlFlow;
use std::sync::Arc;

const FILE_ID: u64 = 5;

/// A log segment.
pub fn frame(bytes: &[u8]) {
    let Ok(header) = SegmentHeader::decode(bytes, "fuzz.log") else { return };
    let found = scan(bytes, &header, Some(1));
    let mut expected = 1;
    for frame in &found.frames {
        assert_eq!(frame.first_seqno, expected, "accepted frames leave no gap");
        expected = frame.next_seqno();
    }
    assert!(found.end <= header.capacity, "frames end inside the segment");
    if found.frames.is_empty() || header.capacity != bytes.len() as u64 {
        return;
    }
    let mut memory = HeapMemory::new(bytes.len());
    memory.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    let memtable = Arc::new(MemTable::recover(memory, header, &found));
    memtable.verify("fuzz.log").expect("what was accepted holds");
    for keyspace in memtable.keyspaces() {
        let mut cursor = memtable.cursor(keyspace, MAX_SEQNO);
        cursor.seek_first().expect("memory can be read");
        while cursor.valid() {
            let found = memtable.get(keyspace, cursor.key(), hash64(cursor.key()), cursor.seqno());
            assert_eq!(found.map(|found| found.seqno), Some(cursor.seqno()), "get and cursor");
            let (key, hash) = (cursor.key(), hash64(cursor.key()));
            let mut first = None;
            memtable.visit_versions(keyspace, key, hash, cursor.seqno(), |found| {
                first = Some((found.seqno, found.kind));
                ControlFlow::Break(())
            });
            assert_eq!(first, Some((cursor.seqno(), cursor.kind())), "versions and cursor");
            cursor.next().expect("memory can be read");
        }
    }
}

/// A table file.
pub fn table(bytes: &[u8]) {
    let storage = MemoryStorage::new();
    write(&storage, "t", bytes);
    let file = storage.open("t").expect("it was just written");
    let cache = Arc::new(BlockCache::new(1 << 20));
    let Ok(table) = Table::open(file, FILE_ID, 0, bytes.len() as u64, cache) else { return };
    let table = Arc::new(table);
    table.verify(&mut |_| {});
    let mut cursor = table.cursor(ReadPurpose::Read);
    let mut forward = 0;
    let mut went = cursor.seek_first();
    while went.is_ok() && cursor.valid() {
        let key = cursor.key().to_vec();
        let _ = table.get(&key, hash64(&key), MAX_SEQNO);
        forward += 1;
        went = cursor.next();
    }
    let whole = went.is_ok();
    let mut back = 0;
    let mut went = cursor.seek_last();
    while went.is_ok() && cursor.valid() {
        back += 1;
        went = cursor.prev();
    }
    if whole && went.is_ok() {
        assert_eq!(forward, back, "as many versions in either direction");
    }
    let _ = cursor.seek(b"key", 7).and_then(|()| cursor.seek_before(b"key", 7));
}

/// A data block of a table, with checksums that match whatever is in it.
pub fn block(body: &[u8]) {
    let mut bytes = sample_table();
    let end = bytes.len() - FOOTER_BYTES;
    let footer = Footer::decode(&bytes[end..], "t", bytes.len() as u64).expect("a sound table");
    let stored = footer.sections[0] as usize;
    // As much of the body as the block has room for.
    let room = stored - TRAILER_BYTES;
    let taken = body.len().min(room);
    bytes[room - taken..room].copy_from_slice(&body[body.len() - taken..]);
    let checksum = block_checksum(FILE_ID, 0, BlockKind::Data, &bytes[..=room]);
    bytes[room + 1..stored].copy_from_slice(&checksum.to_le_bytes());
    table(&bytes);
}

/// A manifest file; and its edits without the checksums around them.
pub fn manifest(bytes: &[u8]) {
    if let Ok(edit) = VersionEdit::decode(bytes) {
        let again = VersionEdit::decode(&edit.encode()).expect("what was decoded can be encoded");
        assert_eq!(again, edit, "an edit survives encoding");
    }
    let storage = MemoryStorage::new();
    write(&storage, "m", bytes);
    if let Ok((_, records)) = read_manifest(&storage, "m") {
        assert!(!records.is_empty(), "a manifest has a snapshot");
    }
}

/// A value file, and places of values in it; a valid file of a large value with damage.
pub fn values(bytes: &[u8]) {
    esker_lsm::fuzz_value_file(bytes);
}

/// The file below an encrypted one: read as a table, as a file of records in a row, and as a log. Then `bytes` as the
/// records behind an intact header, which only those who have the key can make.
pub fn encrypted(bytes: &[u8]) {
    for name in ["00000007.tables", "00000008.manifest", "00000009.log"] {
        read_encrypted(name, bytes.to_vec());
        let mut file = sample_encrypted(name);
        let header = file.len().min(ENCRYPTED_HEADER_BYTES);
        file.truncate(header);
        file.extend_from_slice(bytes);
        read_encrypted(name, file);
    }
}

/// Behind it, an encrypted file has its records.
const ENCRYPTED_HEADER_BYTES: usize = 88;

fn read_encrypted(name: &str, bytes: Vec<u8>) {
    let below = MemoryStorage::new();
    write(&below, name, &bytes);
    let storage = encrypted_over(&below);
    if let Ok(file) = storage.open(name) {
        let length = file.len().unwrap_or(0).min(4 * bytes.len() as u64 + 4096);
        let mut read = vec![0; length as usize];
        if file.read_exact_at(0, &mut read).is_ok() {
            let written = sample_text();
            let written = written.iter().chain(std::iter::repeat(&0));
            let is_intact =
                |(found, written): (&u8, &u8)| found == written || [0, 0xFF].contains(found);
            assert!(read.iter().zip(written).all(is_intact), "only what was written is read");
        }
        let _ = file.read_exact_at(length / 2, &mut read[..length as usize / 2]);
        let _ = file.read_exact_at(u64::MAX - 3, &mut [0; 8]);
    }
    if let Ok(log) = storage.open_log(name) {
        let _ = log.write_at(0, b"other bytes");
    }
    let _ = storage.has_old_key(name);
}

/// Draws the same salt each time.
struct OneSalt;

impl Entropy for OneSalt {
    fn fill(&self, bytes: &mut [u8]) -> esker_base::Result<()> {
        bytes.fill(3);
        Ok(())
    }
}

fn encrypted_over(below: &MemoryStorage) -> EncryptedStorage {
    let keys = Keys::new([Key::new([5; 32])]).expect("there is a key");
    EncryptedStorage::new(Arc::new(below.clone()), keys.entropy(Arc::new(OneSalt)))
}

fn sample_text() -> Vec<u8> {
    b"what nobody without the key reads".repeat(200)
}

/// A file as it is below an encrypted one.
pub fn sample_encrypted(name: &str) -> Vec<u8> {
    let below = MemoryStorage::new();
    let storage = encrypted_over(&below);
    let text = sample_text();
    let kind = if name.ends_with(".tables") { FileKind::Table } else { FileKind::Meta };
    if name.ends_with(".log") {
        let log = storage.create_log(name, 16 << 10).expect("the name is free");
        let mut at = 0;
        for part in text.chunks(1_000) {
            log.write_at(at, part).expect("memory takes all");
            at += part.len() as u64;
        }
    } else {
        let mut file = storage.create(name, WriteHint::of(kind)).expect("the name is free");
        file.append(&text).and_then(|()| file.sync()).expect("memory takes all");
    }
    let file = below.open(name).expect("it was just written");
    let mut bytes = vec![0; file.len().expect("it is in memory") as usize];
    file.read_exact_at(0, &mut bytes).expect("it is that long");
    bytes
}

fn write(storage: &MemoryStorage, name: &str, bytes: &[u8]) {
    let mut file = storage.create(name, WriteHint::of(FileKind::Meta)).expect("the name is free");
    file.append(bytes).expect("memory takes all");
}

/// A place in a value file.
fn place_of(number: u64) -> ValuePlace {
    let (file, offset, bytes, value_bytes) = (7, 100 * number, 90, 90);
    ValuePlace { file, offset, bytes, compression: 0, value_bytes, checksum: number as u32 }
}

/// A small valid table of one data block.
pub fn sample_table() -> Vec<u8> {
    let storage = MemoryStorage::new();
    let mut file = storage.create("t", WriteHint::table(0)).expect("the name is free");
    let options = TableOptions {
        keyspace: KeyspaceId::DEFAULT,
        compression: Compression::None,
        fingerprint_bits: 9,
        level: 0,
        file_id: FILE_ID,
        sample_level: 0,
        parts: PartLimits::default(),
    };
    let mut writer = TableWriter::new(&mut *file, options);
    for number in 0..40u64 {
        let key = format!("key {number:04}").into_bytes();
        let (kind, value) = match number % 7 {
            3 => (Kind::Delete, vec![]),
            4 => (Kind::Separated, place_of(number).encode()),
            5 => (Kind::Merge, vec![number as u8; 8]),
            6 => (Kind::Combined, combined::encode(100 + number, 60, &[number as u8; 8])),
            _ => (Kind::Put, vec![number as u8; number as usize]),
        };
        writer.add(&key, 100 + number, kind, &value).expect("memory takes all");
        if number % 5 == 0 {
            writer.add(&key, 50, Kind::Put, b"older").expect("memory takes all");
        }
    }
    writer.finish().expect("memory takes all");
    let file = storage.open("t").expect("it was just written");
    let mut bytes = vec![0; file.len().expect("it is in memory") as usize];
    file.read_exact_at(0, &mut bytes).expect("it is that long");
    bytes
}
