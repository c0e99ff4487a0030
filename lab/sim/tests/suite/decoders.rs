//! Valid files with random damage: no decoder panics, and none accepts nonsense.
//!
//! A cheap, repeatable stand-in for the fuzz targets, which search for hours.

use esker_base::{KeyspaceId, Rng, ValuePlace};
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

/// Those with tags that the sample has not: of keyspaces that age, of change feeds, of settings that were changed, of
/// value files.
#[test]
fn damaged_manifests_of_all_kinds_are_read_safely() {
    const GOLDEN: [&[u8]; 8] = [
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_aging.manifest"),
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_aging_event.manifest"),
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_consumers.manifest"),
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_expiry.manifest"),
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_filters.manifest"),
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_lifetimes.manifest"),
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_values.manifest"),
        include_bytes!("../../../../crates/engine/lsm/tests/golden/version_1_windows.manifest"),
    ];
    for manifest in GOLDEN {
        decoders::manifest(manifest);
        // All of it, and its edits alone, wherever they begin.
        for seed in 0..ROUNDS / 2 {
            let mut rng = Rng::new(seed);
            let from = if seed % 4 == 0 { 0 } else { rng.below(manifest.len() as u64) as usize };
            let mut bytes = manifest[from..].to_vec();
            if seed % 2 == 0 {
                damage(&mut bytes, &mut rng);
            }
            decoders::manifest(&bytes);
        }
    }
}

#[test]
fn edits_of_any_bytes_are_read_safely() {
    for tag in 0..40 {
        for seed in 0..ROUNDS / 20 {
            let mut rng = Rng::new(seed);
            let mut bytes = vec![0; 1 + rng.below(60) as usize];
            rng.fill(&mut bytes);
            // Small numbers, of which lengths are some.
            bytes.iter_mut().skip(1).step_by(2).for_each(|byte| *byte %= 9);
            bytes[0] = tag;
            decoders::manifest(&bytes);
        }
    }
}

#[test]
fn damaged_encrypted_files_are_read_safely() {
    for name in ["00000007.tables", "00000008.manifest", "00000009.log"] {
        let sample = decoders::sample_encrypted(name);
        decoders::encrypted(&sample);
        for seed in 0..ROUNDS / 10 {
            let mut bytes = sample.clone();
            damage(&mut bytes, &mut Rng::new(seed));
            decoders::encrypted(&bytes);
        }
    }
}

#[test]
fn value_files_and_places_of_any_bytes_are_read_safely() {
    let mut rng = Rng::new(1);
    for round in 0..ROUNDS / 20 {
        let mut bytes = vec![0; rng.below(40) as usize];
        rng.fill(&mut bytes);
        // Every bit set in the length of a large value, which a trailer says.
        bytes.iter_mut().take(if round % 4 == 0 { 8 } else { 0 }).for_each(|byte| *byte = 0xFF);
        decoders::values(&bytes);
    }
}

#[test]
fn places_of_large_values_of_any_length_are_read_safely() {
    for value_bytes in [0, 1, 250, 1 << 18, 4 << 30, (4 << 30) + 1, 1 << 63, u64::MAX] {
        for bytes in [0, value_bytes, value_bytes.saturating_add(4), u64::MAX] {
            decoders::values(&ValuePlace::in_blocks(7, 24, bytes, value_bytes, 5).encode());
        }
    }
}
