//! The end of a reactor, with work in progress.

use crate::{direct_file, on_both};
use esker_uring::{Buffer, Descriptor, Operation, Reactor, mailbox};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// One operation of each kind that waits for others.
fn start_waiting(reactor: &mut Reactor) -> (TcpStream, UnixStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let socket = Descriptor::from(listener.accept().unwrap().0);
    let (silent, full) = UnixStream::pair().unwrap();
    let from = (0..3).map(|_| Buffer::zeroed(4 << 20).whole()).collect();
    let into = Buffer::zeroed(1 << 20).whole();
    for operation in [
        Operation::Accept { listener: listener.into() },
        Operation::Receive { socket, into, all: true },
        Operation::Send { socket: full.into(), from },
        Operation::Timeout { after: Duration::from_secs(1000) },
    ] {
        reactor.submit(1, operation).unwrap();
    }
    (peer, silent)
}

#[test]
fn a_drop_ends_what_waits_for_others() {
    on_both(|mut reactor| {
        let (mut peer, mut silent) = start_waiting(&mut reactor);
        peer.write_all(b"some").unwrap();
        reactor.poll(&mut Vec::new()).unwrap();
        assert_eq!(reactor.in_flight(), 4);
        drop(reactor);
        // The sender's end is closed, as the operation was the last to hold it.
        let mut received = Vec::new();
        silent.read_to_end(&mut received).unwrap();
        assert!(received.len() < 12 << 20);
    });
}

#[test]
fn a_drop_ends_what_was_submitted_and_never_begun() {
    on_both(|mut reactor| {
        let _ends = start_waiting(&mut reactor);
        drop(reactor);
    });
}

/// A kernel that still wrote after the drop would write from freed memory, and over what came later.
#[test]
fn after_a_drop_nothing_is_written_any_more() {
    const BYTES: usize = 4 << 20;
    on_both(|mut reactor| {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(file) = direct_file(&directory.path().join("file")) else { return };
        for token in 0..16 {
            let from = Buffer::from_slice(&vec![3; BYTES]).whole();
            let offset = token * BYTES as u64;
            reactor.submit(token, Operation::WriteAt { file: file.clone(), offset, from }).unwrap();
        }
        reactor.poll(&mut Vec::new()).unwrap();
        drop(reactor);
        let ours = Buffer::from_slice(&vec![4; BYTES]);
        for at in (0..16).rev() {
            rustix::io::pwrite(&file, &ours, at * BYTES as u64).unwrap();
        }
        let mut read = Buffer::zeroed(BYTES);
        for at in 0..16 {
            rustix::io::pread(&file, &mut *read, at * BYTES as u64).unwrap();
            assert!(read.iter().all(|&byte| byte == 4), "block {at}");
        }
    });
}

#[test]
fn messages_may_come_after_the_end() {
    on_both(|reactor| {
        let (sender, inbox) = mailbox(&reactor);
        drop(reactor);
        sender.send(1).unwrap();
        assert_eq!(inbox.take(), Some(1));
    });
}
