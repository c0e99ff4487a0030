//! Valid files with random damage: no decoder panics, and none accepts nonsense.
//!
//! A cheap, repeatable stand-in for the fuzz targets, which search for hours.

use esker_base::{KeyspaceId, Rng};
use esker_lsm::{KeyspaceSettings, Settings};
use esker_memtable::{FrameMode, HeapMemory, MemTable, SegmentHeader};
use esker_sim::damage::damage;
use esker_sim::decoders;

const ROUNDS: u64 = 4000;

fn damaged(sample: &[u8], decode: fn(&[u8])) {
    decode(sample);
    for seed in 0..ROUNDS {
        let mut bytes = sample.to_vec();
        damage(&mut bytes, &mut Rng::new(seed));
        decode(&bytes);
    }
}

fn sample_segment() -> Vec<u8> {
    const CAPACITY: usize = 2048;
    let header = SegmentHeader {
        epoch: 3,
        capacity: CAPACITY as u64,
        alignment: 8,
        key_id: 0,
        salt: 0,
        flags: 0,
    };
    let memtable = MemTable::new(HeapMemory::new(CAPACITY), header, FrameMode::Logged);
    let mut tail = memtable.activate(1);
    for number in 0..20u32 {
        let mut batch = esker_api::WriteBatch::new();
        batch.put(KeyspaceId(number % 3), number.to_be_bytes(), [7; 20]);
        batch.delete(KeyspaceId(0), b"key");
        batch.merge(KeyspaceId(0), b"key", [number as u8; 8]);
        if number % 6 == 0 {
            batch.delete_range(KeyspaceId(1), b"a"..b"b");
        }
        let reserved = memtable.reserve(&mut tail, batch.encoded().len(), batch.len() as u32);
        let Some(reserved) = reserved else { break };
        let _ = memtable.fill(reserved, u64::from(number), batch.encoded()).fence();
    }
    let end = memtable.completed(memtable.start());
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(memtable.bytes(memtable.start(), end));
    bytes.resize(CAPACITY, 0);
    bytes
}

fn sample_manifest() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings::default().segment_bytes(64 << 10);
    let db = esker_lsm::Db::open(dir.path(), settings).unwrap();
    db.keyspace("other", KeyspaceSettings::default().merge("append")).unwrap();
    for _ in 0..3 {
        db.put(&db.default_keyspace(), b"key", b"value").unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    let mut files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let manifest = files.find(|path| path.extension().is_some_and(|end| end == "manifest"));
    std::fs::read(manifest.unwrap()).unwrap()
}

#[test]
fn damaged_segments_are_read_safely() {
    damaged(&sample_segment(), decoders::frame);
}

#[test]
fn damaged_tables_are_read_safely() {
    damaged(&decoders::sample_table(), decoders::table);
}

#[test]
fn blocks_of_any_bytes_are_read_safely() {
    let table = decoders::sample_table();
    damaged(&table[..table.len() / 4], decoders::block);
    let mut rng = Rng::new(1);
    for _ in 0..ROUNDS {
        let mut bytes = vec![0; rng.below(300) as usize];
        rng.fill(&mut bytes);
        decoders::block(&bytes);
    }
}

#[test]
fn damaged_manifests_are_read_safely() {
    let manifest = sample_manifest();
    damaged(&manifest, decoders::manifest);
    // Edits alone, so that the damage gets past the checksums.
    const BEFORE_EDIT: usize = 40;
    damaged(&manifest[BEFORE_EDIT..], decoders::manifest);
}
