//! The block namespace.

use crate::open_target;
use crate::wire::{Wire, entry, pattern};

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
