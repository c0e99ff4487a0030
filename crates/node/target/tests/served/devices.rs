//! Blocks on a device: a file here, which outlives the target.

use crate::start;
use crate::wire::{Wire, entry, pattern, u32_at};
use crate::{NODE, Nqn};
use esker_target::{DeviceBlocks, Subsystem, Target};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

const BYTES: u64 = 8 << 20;

fn block_command(opcode: u8, first: u64, count: u16) -> [u8; 64] {
    let mut sqe = entry(opcode, 1);
    sqe[40..48].copy_from_slice(&first.to_le_bytes());
    sqe[48..50].copy_from_slice(&(count - 1).to_le_bytes());
    sqe
}

fn serve(path: &Path, block_bytes: u32, has_volatile_cache: bool) -> Target {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(BYTES).unwrap();
    let blocks =
        DeviceBlocks::new([2; 16], file.into(), BYTES, block_bytes, has_volatile_cache).unwrap();
    start(Subsystem::new(Nqn::new(NODE).unwrap(), "ESKER-TEST", vec![Arc::new(blocks)]))
}

#[test]
fn what_was_written_is_read_through_another_queue_and_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blocks");
    let data = pattern(128 << 10, 4);
    let target = serve(&path, 4096, false);
    let (_admin, mut io) = Wire::queues(target.address(), 3);
    let mut sqe = block_command(1, 1000, 32);
    crate::wire::by_transport(&mut sqe, data.len() as u32);
    assert_eq!(io.write_by_transfer(sqe, &data, 65_536).status, 0);
    let (_admin2, mut other) = Wire::queues(target.address(), 0);
    assert!(other.reading(block_command(2, 1000, 32), 131_072).0 == data);
    assert_eq!(other.plain(block_command(8, 1001, 2)).status, 0, "write zeroes");
    assert_eq!(other.plain(entry(0, 1)).status, 0, "flush");
    target.drain();
    let target = serve(&path, 4096, false);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let read = io.reading(block_command(2, 1000, 32), 131_072).0;
    assert!(read[..4096] == data[..4096] && read[4096..12_288] == [0; 8192]);
    assert!(read[12_288..] == data[12_288..]);
}

#[test]
fn zeroes_beyond_one_piece_are_all_zeroes() {
    let dir = tempfile::tempdir().unwrap();
    let target = serve(&dir.path().join("blocks"), 512, false);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let data = pattern(512, 4);
    for first in [0, 1, 5000, 8000, 8001] {
        assert_eq!(io.with_data(block_command(1, first, 1), &data).status, 0);
    }
    assert_eq!(io.plain(block_command(8, 1, 8000)).status, 0);
    for (first, kept) in [(0, true), (1, false), (5000, false), (8000, false), (8001, true)] {
        let read = io.reading(block_command(2, first, 1), 512).0;
        assert_eq!(read == data, kept, "block {first}");
        assert_eq!(read == [0; 512], !kept, "block {first}");
    }
}

#[test]
fn a_volatile_cache_is_announced_and_flushed() {
    for (has_cache, announced, feature) in [(false, 0, 0x02), (true, 5, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let target = serve(&dir.path().join("blocks"), 512, has_cache);
        let (mut admin, mut io) = Wire::queues(target.address(), 0);
        let mut identify = entry(0x06, 0);
        identify[40] = 1;
        assert_eq!(admin.reading(identify, 4096).0[525], announced, "VWC");
        let mut get_feature = entry(0x0a, 0);
        get_feature[40] = 6;
        assert_eq!(admin.plain(get_feature).status, feature, "the feature is there with the cache");
        assert_eq!(io.with_data(block_command(1, 0, 1), &[7; 512]).status, 0);
        assert_eq!(io.plain(entry(0, 1)).status, 0);
        assert_eq!(io.reading(block_command(2, 0, 1), 512).0, [7; 512]);
    }
}

#[test]
fn the_block_size_is_announced() {
    for block_bytes in [512, 4096] {
        let dir = tempfile::tempdir().unwrap();
        let target = serve(&dir.path().join("blocks"), block_bytes, false);
        let (mut admin, mut io) = Wire::queues(target.address(), 0);
        let namespace = admin.reading(entry(0x06, 1), 4096).0;
        assert_eq!(u32_at(&namespace, 0), BYTES as u32 / block_bytes, "NSZE");
        assert_eq!(1u32 << namespace[130], block_bytes, "LBADS");
        let last = BYTES / u64::from(block_bytes) - 1;
        assert_eq!(io.reading(block_command(2, last, 1), block_bytes).1.status, 0);
        assert_eq!(io.reading(block_command(2, last + 1, 1), block_bytes).1.status, 0x80);
    }
}

#[test]
fn many_writes_under_way_are_all_there() {
    let dir = tempfile::tempdir().unwrap();
    let target = serve(&dir.path().join("blocks"), 4096, false);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    for first in 0..120u64 {
        let mut sqe = block_command(1, first, 1);
        crate::wire::in_capsule(&mut sqe, 4096);
        io.send(&mut sqe, &pattern(4096, first as u8));
    }
    for _ in 0..120 {
        assert_eq!(io.completion().status, 0);
    }
    for first in 0..120u64 {
        let read = io.reading(block_command(2, first, 1), 4096).0;
        assert!(read == pattern(4096, first as u8), "block {first}");
    }
}

#[test]
fn what_is_deallocated_gives_its_space_back_and_is_zero_after_a_restart() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("blocks");
    let target = serve(&path, 4096, false);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let data = pattern(1 << 20, 4);
    let mut sqe = block_command(1, 0, 256);
    crate::wire::by_transport(&mut sqe, data.len() as u32);
    assert_eq!(io.write_by_transfer(sqe, &data, 65_536).status, 0);
    let taken = || std::fs::metadata(&path).unwrap().blocks() * 512;
    assert!(taken() >= 1 << 20);
    let (sqe, ranges) = crate::blocks::deallocate(1, &[(1, 100), (101, 154)]);
    assert_eq!(io.with_data(sqe, &ranges).status, 0);
    assert!(taken() < 256 << 10, "{} of the file are left", taken());
    target.drain();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), BYTES);
    let target = serve(&path, 4096, false);
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let read = io.reading(block_command(2, 0, 256), 1 << 20).0;
    assert!(read[..4096] == data[..4096] && read[255 * 4096..] == data[255 * 4096..]);
    assert!(read[4096..255 * 4096].iter().all(|&byte| byte == 0));
}
