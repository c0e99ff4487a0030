//! Files.

use crate::{bytes, completion, completions, direct_file, on_both};
use esker_uring::{Buffer, Descriptor, Operation};
use std::fs::File;
use std::io::Write;

fn temporary() -> (tempfile::NamedTempFile, Descriptor) {
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = File::options().read(true).write(true).open(path.path()).unwrap();
    (path, file.into())
}

#[test]
fn what_was_written_is_read() {
    on_both(|mut reactor| {
        let (_path, file) = temporary();
        let from = Buffer::from_slice(b"..hello..").slice(2..7);
        let write = Operation::WriteAt { file: file.clone(), offset: 1000, from };
        reactor.submit(1, write).unwrap();
        assert_eq!(bytes(&mut reactor), 5);
        reactor.submit(2, Operation::SyncData { file: file.clone() }).unwrap();
        assert_eq!(bytes(&mut reactor), 0);
        let into = Buffer::zeroed(9).slice(1..8);
        reactor.submit(3, Operation::ReadAt { file, offset: 999, into }).unwrap();
        let read = completion(&mut reactor);
        assert_eq!((read.token, read.result.unwrap()), (3, 6));
        assert_eq!(read.operation.into_buffer().unwrap()[..], *b"\0\0hello\0\0");
    });
}

#[test]
fn what_was_freed_is_zeros_and_the_length_stays() {
    on_both(|mut reactor| {
        let (path, file) = temporary();
        let from = Buffer::from_slice(&[7; 3 * 4096]).whole();
        reactor.submit(1, Operation::WriteAt { file: file.clone(), offset: 0, from }).unwrap();
        assert_eq!(bytes(&mut reactor), 3 * 4096);
        let free = Operation::Deallocate { file, offset: 4096, bytes: 2 * 4096 };
        reactor.submit(2, free).unwrap();
        assert_eq!(bytes(&mut reactor), 0);
        let content = std::fs::read(path.path()).unwrap();
        assert_eq!(content, [vec![7; 4096], vec![0; 2 * 4096]].concat());
    });
}

#[test]
fn what_was_begun_is_done_without_a_wait() {
    const LOOKS_MAX: u32 = 1_000_000;
    on_both(|mut reactor| {
        let (path, file) = temporary();
        let from = Buffer::from_slice(b"hello").whole();
        reactor.submit(1, Operation::WriteAt { file, offset: 0, from }).unwrap();
        reactor.begin().unwrap();
        let is_there = |_| {
            std::thread::yield_now();
            path.path().metadata().unwrap().len() == 5
        };
        assert!((0..LOOKS_MAX).any(is_there));
        assert_eq!(bytes(&mut reactor), 5);
    });
}

#[test]
fn what_was_written_durably_is_read() {
    on_both(|mut reactor| {
        let (_path, file) = temporary();
        let from = Buffer::from_slice(b"..hello..").slice(2..7);
        let write = Operation::WriteDurablyAt { file: file.clone(), offset: 1000, from };
        reactor.submit(1, write).unwrap();
        assert_eq!(bytes(&mut reactor), 5);
        let into = Buffer::zeroed(5).whole();
        reactor.submit(2, Operation::ReadAt { file, offset: 1000, into }).unwrap();
        let read = completion(&mut reactor);
        assert_eq!(read.operation.into_buffer().unwrap()[..], *b"hello");
    });
}

#[test]
fn a_read_at_the_end_is_short() {
    on_both(|mut reactor| {
        let (mut path, file) = temporary();
        path.write_all(&[7; 700]).unwrap();
        for (offset, expected) in [(0, 700), (600, 100), (700, 0), (9000, 0)] {
            let into = Buffer::zeroed(4096).whole();
            reactor.submit(1, Operation::ReadAt { file: file.clone(), offset, into }).unwrap();
            assert_eq!(bytes(&mut reactor), expected);
        }
    });
}

#[test]
fn direct_reads_and_writes_work_with_aligned_parts_of_buffers() {
    on_both(|mut reactor| {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(file) = direct_file(&directory.path().join("file")) else { return };
        let mut buffer = Buffer::zeroed(12288);
        buffer[4096..8192].fill(9);
        let from = buffer.slice(4096..8192);
        reactor.submit(1, Operation::WriteAt { file: file.clone(), offset: 8192, from }).unwrap();
        assert_eq!(bytes(&mut reactor), 4096);
        let into = Buffer::zeroed(16384).whole();
        reactor.submit(2, Operation::ReadAt { file, offset: 0, into }).unwrap();
        let read = completion(&mut reactor);
        assert_eq!(read.result.unwrap(), 12288);
        let read = read.operation.into_buffer().unwrap();
        assert!(read[..8192].iter().chain(&read[12288..]).all(|&byte| byte == 0));
        assert!(read[8192..12288].iter().all(|&byte| byte == 9));
    });
}

#[test]
fn many_writes_and_reads_are_under_way_at_once() {
    on_both(|mut reactor| {
        let (_path, file) = temporary();
        for token in 0..64 {
            let from = Buffer::from_slice(&[token as u8; 5000]).whole();
            let write = Operation::WriteAt { file: file.clone(), offset: token * 5000, from };
            reactor.submit(token, write).unwrap();
        }
        assert_eq!(reactor.in_flight(), 64);
        assert_eq!(completions(&mut reactor, 64).len(), 64);
        for token in 0..64 {
            let into = Buffer::zeroed(5000).whole();
            let read = Operation::ReadAt { file: file.clone(), offset: token * 5000, into };
            reactor.submit(token, read).unwrap();
        }
        for (token, read) in completions(&mut reactor, 64) {
            assert_eq!(read.result.unwrap(), 5000);
            let read = read.operation.into_buffer().unwrap();
            assert!(read.iter().all(|&byte| byte == token as u8));
        }
        assert_eq!(reactor.in_flight(), 0);
    });
}

#[test]
fn an_error_comes_with_the_operation() {
    on_both(|mut reactor| {
        let path = tempfile::NamedTempFile::new().unwrap();
        let read_only = Descriptor::from(File::open(path.path()).unwrap());
        let from = Buffer::from_slice(b"lost").whole();
        reactor.submit(9, Operation::WriteAt { file: read_only, offset: 0, from }).unwrap();
        let write = completion(&mut reactor);
        assert!(write.result.is_err());
        assert_eq!(write.operation.into_buffer().unwrap()[..], *b"lost");
    });
}

#[test]
fn a_file_opened_again_is_the_same_file_and_another_opening() {
    let (path, file) = temporary();
    let again = file.reopen().unwrap();
    rustix::io::write(&file, b"hello").unwrap();
    let mut read = [0; 5];
    assert_eq!(rustix::io::read(&again, &mut read).unwrap(), 5, "its own position");
    assert_eq!(&read, b"hello");
    let direct = path.path().with_extension("direct");
    if let Some(file) = direct_file(&direct) {
        let flags = |file: &Descriptor| rustix::fs::fcntl_getfl(file).unwrap();
        assert_eq!(flags(&file.reopen().unwrap()), flags(&file));
        std::fs::remove_file(direct).unwrap();
    }
}

#[test]
fn gathered_slices_are_written_one_behind_the_other() {
    on_both(|mut reactor| {
        let (_path, file) = temporary();
        // More than one system call takes.
        let part = |number: u32| {
            let bytes = [number.to_be_bytes(), [0xEE; 4]].concat();
            Buffer::from_slice(&bytes).slice(0..number as usize % 5)
        };
        let (mut from, mut expected) = (Vec::new(), Vec::new());
        for number in 0..3000 {
            from.push(part(number));
            expected.extend_from_slice(&part(number));
        }
        let write = Operation::WriteGatheredAt { file: file.clone(), offset: 1000, from };
        reactor.submit(1, write).unwrap();
        assert_eq!(bytes(&mut reactor), expected.len());
        let into = Buffer::zeroed(expected.len() + 1).whole();
        reactor.submit(2, Operation::ReadAt { file, offset: 1000, into }).unwrap();
        let read = completion(&mut reactor);
        assert_eq!(read.result.unwrap(), expected.len());
        assert_eq!(read.operation.into_buffer().unwrap()[..expected.len()], expected[..]);
    });
}
