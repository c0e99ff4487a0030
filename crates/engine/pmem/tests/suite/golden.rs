//! The format of version 1 as it was first written. It never changes: a new format gets a new file.
//!
//! `ESKER_WRITE_GOLDEN=1 cargo test -p esker-pmem --test suite golden::` writes the file of a new version.

use esker_pmem::sim::SimRegion;
use esker_pmem::{Pool, Region};
use std::sync::Arc;

const BYTES: usize = 256 << 10;

/// The header and the state words: what comes after them is segments, or nothing.
const KEPT: usize = 4096 + 64;

fn written() -> Vec<u8> {
    let region = Arc::new(SimRegion::new(BYTES));
    let pool = Pool::format(region.clone(), "pool", 0x0123_4567_89ab_cdef).unwrap();
    pool.claim(0xfedc_ba98_7654_3210).unwrap();
    for epoch in [1, 0xffff_fff0, 7] {
        pool.acquire(epoch, &[epoch as u8; 64]).unwrap().unwrap();
    }
    pool.release(1).unwrap();
    drop(pool);
    // SAFETY: the region is initialised and nobody writes to it any more.
    unsafe { std::slice::from_raw_parts(region.base(), KEPT) }.to_vec()
}

fn golden() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/pool-v1.bin");
    if std::env::var_os("ESKER_WRITE_GOLDEN").is_some() {
        std::fs::write(path, written()).unwrap();
    }
    std::fs::read(path).unwrap()
}

#[test]
fn version_1_is_written_as_ever() {
    assert_eq!(written(), golden());
}

#[test]
fn version_1_is_read_as_ever() {
    let mut bytes = golden();
    bytes.resize(BYTES, 0);
    let pool = Pool::over(Arc::new(SimRegion::from_bytes(&bytes)), "pool-v1.bin").unwrap();
    assert_eq!(pool.identity(), 0x0123_4567_89ab_cdef);
    assert_eq!(pool.owner(), Some(0xfedc_ba98_7654_3210));
    assert_eq!((pool.extents(), pool.extent_bytes()), (3, 64 << 10));
    assert_eq!(pool.used(), [7, 0xffff_fff0]);
    let offsets = [7, 0xffff_fff0].map(|epoch| pool.extent(epoch).unwrap().offset());
    assert_eq!(offsets, [8192 + (128 << 10), 8192 + (64 << 10)]);
}
