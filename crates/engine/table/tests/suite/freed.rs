//! Files in which some tables were given back to the storage.

use crate::support::{FILE_ID, Finished, Growing, Version, options, write_to};
use esker_base::Kind;
use esker_storage::ReadableFile;
use esker_table::{TableInfo, freeable, tables_in};
use std::sync::Arc;

const BLOCK_BYTES: u64 = 4096;

fn versions(value: u8) -> Vec<Version> {
    let version = |key: u32| (key.to_be_bytes().to_vec(), 7, Kind::Put, vec![value; 1_000]);
    (0..40).map(version).collect()
}

/// A file of three tables. The second is so many bytes longer than the first.
fn three(longer: usize) -> (Vec<u8>, [TableInfo; 3]) {
    let mut file = Growing::default();
    let infos = [(1, 0), (0, longer), (3, 0)].map(|(value, longer)| {
        let mut versions = versions(value);
        versions[0].3.resize(1_000 + longer, value);
        write_to(&mut file, options(), &versions, &[])
    });
    (file.0, infos)
}

/// Does what a storage does that frees the blocks in `table`.
fn free(bytes: &mut [u8], table: &TableInfo) {
    let part = freeable(table.offset..table.offset + table.bytes);
    let blocks = part.start.next_multiple_of(BLOCK_BYTES)..part.end / BLOCK_BYTES * BLOCK_BYTES;
    bytes[blocks.start as usize..blocks.end as usize].fill(0);
}

fn found(bytes: Vec<u8>) -> Option<Vec<(u64, u64)>> {
    let file: Arc<dyn ReadableFile> = Arc::new(Finished { bytes, ..Finished::default() });
    tables_in(&file, FILE_ID).unwrap()
}

#[test]
fn the_others_are_found_whichever_were_freed() {
    // Footers are anywhere in a block, and across the end of one.
    for longer in (0..BLOCK_BYTES as usize).step_by(40) {
        let (whole, infos) = three(longer);
        for freed in 0..8u32 {
            let is_freed = |at: usize| freed & (1 << at) != 0;
            let mut bytes = whole.clone();
            (0..3).filter(|at| is_freed(*at)).for_each(|at| free(&mut bytes, &infos[at]));
            let others = (0..3).filter(|at| !is_freed(*at)).map(|at| &infos[at]);
            let others: Vec<_> = others.map(|info| (info.offset, info.bytes)).collect();
            assert_eq!(found(bytes), Some(others), "freed {freed:03b}, {longer} longer");
        }
    }
}

/// A value of zeros fills all whole blocks of the table.
#[test]
fn a_table_of_zeros_is_not_taken_for_one_that_was_freed() {
    let mut file = Growing::default();
    let first = write_to(&mut file, options(), &versions(1), &[]);
    let zeros = vec![(b"key".to_vec(), 7, Kind::Put, vec![0; 2 * BLOCK_BYTES as usize])];
    let info = write_to(&mut file, options(), &zeros, &[]);
    let mut bytes = file.0.clone();
    free(&mut bytes, &info);
    assert!(bytes == file.0, "all that would be freed is zeros already");
    let tables = [first, info].map(|info| (info.offset, info.bytes)).to_vec();
    assert_eq!(found(bytes), Some(tables));
}

#[test]
fn a_table_with_zeros_in_some_of_its_blocks_is_damaged_and_not_freed() {
    let (mut bytes, infos) = three(0);
    let block = infos[1].offset.next_multiple_of(BLOCK_BYTES) as usize;
    bytes[block..block + BLOCK_BYTES as usize].fill(0);
    assert_eq!(found(bytes).unwrap().len(), 3);
}
