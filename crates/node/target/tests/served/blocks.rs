//! The block namespace.

use crate::open_target;
use crate::wire::{Wire, entry, in_capsule, pattern};

fn block_command(opcode: u8, first: u64, count: u16) -> [u8; 64] {
    let mut sqe = entry(opcode, 2);
    sqe[40..48].copy_from_slice(&first.to_le_bytes());
    sqe[48..50].copy_from_slice(&(count - 1).to_le_bytes());
    sqe
}

#[test]
fn what_was_written_is_read_and_zeroes_are_zeroes() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 3);
    let data = pattern(32_768, 4);
    assert_eq!(io.with_data(block_command(1, 100, 64), &data).status, 0);
    let (read, done) = io.reading(block_command(2, 100, 64), 32_768);
    assert!(read == data && done.status == 0);
    assert_eq!(io.plain(block_command(8, 101, 2)).status, 0);
    let (read, _) = io.reading(block_command(2, 100, 64), 32_768);
    assert!(
        read[..512] == data[..512] && read[512..1536] == [0; 1024] && read[1536..] == data[1536..]
    );
    assert_eq!(io.plain(entry(0, 2)).status, 0, "flush");
}

#[test]
fn blocks_beyond_the_end_are_refused() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    let last = (16 << 10) - 1;
    assert_eq!(io.reading(block_command(2, last, 1), 512).1.status, 0);
    assert_eq!(io.reading(block_command(2, last, 2), 1024).1.status, 0x80);
    assert_eq!(io.reading(block_command(2, u64::MAX, 1), 512).1.status, 0x80);
    assert_eq!(io.with_data(block_command(1, last + 1, 1), &[0; 512]).status, 0x80);
    assert_eq!(io.plain(block_command(8, last, 2)).status, 0x80);
}

#[test]
fn lengths_that_do_not_go_together_are_refused() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.with_data(block_command(1, 0, 2), &[0; 512]).status, 0x0f);
    assert_eq!(io.reading(block_command(2, 0, 2), 512).1.status, 0x0f);
    assert_eq!(io.reading(block_command(2, 0, 4096), 2 << 20).1.status, 0x02, "beyond MDTS");
    let mut keys_opcode = entry(0x10, 2);
    keys_opcode[44] = 1;
    assert_eq!(io.plain(keys_opcode).status, 0x01);
}

/// Dataset Management with these ranges of blocks.
pub fn deallocate(namespace: u32, ranges: &[(u64, u32)]) -> ([u8; 64], Vec<u8>) {
    let mut sqe = entry(0x09, namespace);
    sqe[40] = (ranges.len() - 1) as u8;
    sqe[44] = 4;
    let mut data = Vec::new();
    for (first, count) in ranges {
        data.extend_from_slice(&[0; 4]);
        data.extend_from_slice(&count.to_le_bytes());
        data.extend_from_slice(&first.to_le_bytes());
    }
    (sqe, data)
}

#[test]
fn blocks_that_are_deallocated_read_as_zeros_and_others_stay() {
    let target = open_target();
    let (mut admin, mut io) = Wire::queues(target.address(), 0);
    let mut identify = entry(0x06, 0);
    identify[40] = 1;
    assert_eq!(admin.reading(identify, 4096).0[520] & 4, 4, "ONCS: dataset management");
    identify[4] = 2;
    identify[40] = 0;
    assert_eq!(admin.reading(identify, 4096).0[33] & 7, 1, "DLFEAT: zeros");
    let data = pattern(8 * 512, 4);
    assert_eq!(io.with_data(block_command(1, 0, 8), &data).status, 0);
    let (sqe, ranges) = deallocate(2, &[(1, 2), (5, 0), (6, 1)]);
    assert_eq!(io.with_data(sqe, &ranges).status, 0);
    let read = io.reading(block_command(2, 0, 8), 8 * 512).0;
    for block in 0..8 {
        let is_zero = read[block * 512..][..512] == [0; 512];
        let is_kept = read[block * 512..][..512] == data[block * 512..][..512];
        assert_eq!((is_zero, is_kept), ([1, 2, 6].contains(&block), !is_zero), "block {block}");
    }
    // A hint, and a list in a page as Linux has it.
    let (mut hint, _) = deallocate(2, &[(0, 8)]);
    hint[44] = 1;
    let mut page = vec![0; 4096];
    page[4] = 8;
    assert_eq!(io.with_data(hint, &page).status, 0);
    assert!(io.reading(block_command(2, 0, 1), 512).0 == data[..512]);
}

#[test]
fn ranges_that_make_no_sense_are_refused_and_nothing_is_done() {
    let target = open_target();
    let (_admin, mut io) = Wire::queues(target.address(), 0);
    assert_eq!(io.with_data(block_command(1, 0, 1), &[7; 512]).status, 0);
    let (sqe, ranges) = deallocate(2, &[(0, 1), ((16 << 10) - 1, 2)]);
    assert_eq!(io.with_data(sqe, &ranges).status, 0x80, "beyond the end");
    let (sqe, ranges) = deallocate(2, &[(0, 1), (u64::MAX, 1)]);
    assert_eq!(io.with_data(sqe, &ranges).status, 0x80);
    assert_eq!(io.with_data(sqe, &ranges[..16]).status, 0x0f, "less than it says");
    let mut of_keys = deallocate(1, &[(0, 1)]).0;
    in_capsule(&mut of_keys, 16);
    assert_eq!(io.with_data(of_keys, &[0; 16]).status, 0x01, "keys have no blocks");
    assert_eq!(io.reading(block_command(2, 0, 1), 512).0, [7; 512]);
}
