//! For fuzzing: value files of any bytes, and places of any values in them.

use super::separated::LargeValue;
use super::value_reader::{FoundValue, ValuePosition};
use crate::version::blocks::{BLOCK_BYTES, BlockSums, trailer};
use crate::version::{
    ValueFile, ValueFileMeta, describe_value_file, large_value_header, value_file_header,
    value_file_name,
};
use esker_base::coding::u32_at;
use esker_base::{FileKind, ValuePlace, WriteHint};
use esker_storage::{MemoryStorage, Storage};
use std::sync::{Arc, OnceLock};

const FILE: u64 = 7;

/// Reads files that begin with `bytes`, as version 1 and 2; then a valid large value with damage, as `bytes` say.
#[doc(hidden)]
pub fn fuzz_value_file(bytes: &[u8]) {
    read_all(bytes, bytes);
    read_all(&[&value_file_header(FILE), bytes].concat(), bytes);
    read_all(&[&large_value_header(FILE)[..], bytes].concat(), bytes);
    if let Some((numbers, blocks)) = bytes.split_first_chunk::<12>() {
        let value_bytes = u64::from_le_bytes(numbers[..8].try_into().expect("8 bytes"));
        let place = ValuePlace::in_blocks(FILE, 24, 0, value_bytes, u32_at(numbers, 8));
        let file = [&large_value_header(FILE)[..], blocks, &trailer(&place)[..]].concat();
        read_all(&file, bytes);
    }
    read_damaged(bytes);
}

/// Reads a file in every way, and the value at the place that `place` encodes.
fn read_all(file: &[u8], place: &[u8]) {
    let (storage, meta) = stored(file);
    let found = describe_value_file(&*storage, FILE).expect("memory can be read");
    assert!(found.value_bytes <= found.bytes && found.bytes == file.len() as u64);
    let is_sound = ValueFile::new(storage.clone(), &meta).verify().is_ok();
    assert!(!is_sound || !found.in_blocks || found.values == 1, "a trailer was accepted");
    for from in 0..place.len().min(4) {
        let Some(place) = ValuePlace::decode(&place[from..]) else { continue };
        let file = ValueFile::new(storage.clone(), &meta);
        let read = file.read(&place);
        if let Ok(value) = &read {
            assert_eq!(value.len() as u64, place.value_bytes);
            file.check(&place).expect("what can be read is sound");
        }
        if file.blocks(&place).is_ok() {
            read_in_parts(&file, &place, place.checksum.into());
        }
    }
}

/// The sample, with a byte changed for each five of `damage`: an offset, and what to change. Whatever a read returns
/// was written there.
fn read_damaged(damage: &[u8]) {
    let (mut file, place) = sample().clone();
    for change in damage.chunks_exact(5) {
        let at = u32_at(change, 0) as usize % file.len();
        file[at] ^= change[4];
    }
    let (storage, meta) = stored(&file);
    let is_intact = file == sample().0;
    let file = ValueFile::new(storage, &meta);
    assert_eq!(file.verify().is_ok(), is_intact, "damage is found, and nothing else is");
    let intact = |value: &[u8]| value == sample_value();
    assert!(file.read(&place).map_or(!is_intact, |value| intact(&value)));
    let seed = damage.iter().fold(0u64, |seed, byte| seed.rotate_left(9) ^ u64::from(*byte));
    for (at, part) in read_in_parts(&file, &place, seed) {
        assert_eq!(part, sample_value()[at..at + part.len()], "a part is what was written");
    }
}

/// Reads parts of the value at `place`, where `seed` says, and returns what could be read.
fn read_in_parts(file: &Arc<ValueFile>, place: &ValuePlace, seed: u64) -> Vec<(usize, Vec<u8>)> {
    let large = LargeValue { place: *place, file: file.clone() };
    let Ok(mut position) = ValuePosition::start(FoundValue::Large(large)) else {
        return Vec::new();
    };
    let (mut parts, mut part) = (Vec::new(), vec![0; 1000]);
    for number in 0..6 {
        // Each second one goes on behind the one before.
        if number % 2 == 1 {
            position.seek(seed.rotate_left(11 * number) % (place.value_bytes + 1));
        }
        let at = position.at() as usize;
        if let Ok(read) = position.read(&mut part) {
            parts.push((at, part[..read].to_vec()));
        }
    }
    parts
}

fn stored(bytes: &[u8]) -> (Arc<dyn Storage>, ValueFileMeta) {
    let storage = MemoryStorage::new();
    let name = value_file_name(FILE);
    let mut file = storage.create(&name, WriteHint::of(FileKind::Meta)).expect("the name is free");
    file.append(bytes).expect("memory takes all");
    (Arc::new(storage), ValueFileMeta::new(FILE, bytes.len() as u64))
}

/// Two blocks, the second of which is short.
fn sample_value() -> &'static [u8] {
    static VALUE: OnceLock<Vec<u8>> = OnceLock::new();
    VALUE.get_or_init(|| (0..BLOCK_BYTES + 5_000).map(|at| ((at * at) >> 7) as u8).collect())
}

/// A file of a large value, and the place of the value.
fn sample() -> &'static (Vec<u8>, ValuePlace) {
    static SAMPLE: OnceLock<(Vec<u8>, ValuePlace)> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let (mut file, mut sums) = (large_value_header(FILE).to_vec(), BlockSums::of(FILE));
        for block in sample_value().chunks(BLOCK_BYTES) {
            let checksum = sums.add(file.len() as u64, block);
            file.extend_from_slice(block);
            file.extend_from_slice(&checksum.to_le_bytes());
        }
        let place = sums.place(sample_value().len() as u64);
        file.extend_from_slice(&trailer(&place));
        (file, place)
    })
}
