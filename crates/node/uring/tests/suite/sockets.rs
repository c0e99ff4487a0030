//! Sockets, on loopback, and timers.

use crate::{bytes, completion, completions, is_cancelled, on_both};
use esker_uring::{Buffer, Descriptor, Operation, Reactor};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

fn connected() -> (TcpStream, Descriptor) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0.into())
}

fn receive(reactor: &mut Reactor, socket: &Descriptor, bytes: usize, all: bool) {
    let into = Buffer::zeroed(bytes).whole();
    reactor.submit(1, Operation::Receive { socket: socket.clone(), into, all }).unwrap();
}

#[test]
fn connections_are_accepted_one_by_one() {
    on_both(|mut reactor| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let listener = Descriptor::from(listener);
        for _ in 0..3 {
            reactor.submit(4, Operation::Accept { listener: listener.clone() }).unwrap();
            let mut peer = TcpStream::connect(address).unwrap();
            let accepted = completion(&mut reactor).accepted.unwrap();
            peer.write_all(b"hi").unwrap();
            receive(&mut reactor, &accepted, 10, false);
            assert_eq!(bytes(&mut reactor), 2);
        }
    });
}

#[test]
fn a_receive_takes_what_is_there_or_waits_for_all() {
    on_both(|mut reactor| {
        let (mut peer, socket) = connected();
        peer.write_all(b"abc").unwrap();
        receive(&mut reactor, &socket, 10, false);
        assert_eq!(bytes(&mut reactor), 3);
        receive(&mut reactor, &socket, 6, true);
        let mut none = Vec::new();
        peer.write_all(b"def").unwrap();
        reactor.poll(&mut none).unwrap();
        reactor.poll(&mut none).unwrap();
        assert!(none.is_empty(), "three of six bytes are not all");
        peer.write_all(b"ghi").unwrap();
        let received = completion(&mut reactor);
        assert_eq!(received.result.unwrap(), 6);
        assert_eq!(received.operation.into_buffer().unwrap()[..], *b"defghi");
    });
}

#[test]
fn a_closed_peer_ends_what_is_received() {
    on_both(|mut reactor| {
        let (mut peer, socket) = connected();
        peer.write_all(b"abc").unwrap();
        drop(peer);
        receive(&mut reactor, &socket, 10, true);
        assert_eq!(bytes(&mut reactor), 3);
        receive(&mut reactor, &socket, 10, false);
        assert_eq!(bytes(&mut reactor), 0);
    });
}

#[test]
fn several_slices_are_sent_in_order_as_one() {
    on_both(|mut reactor| {
        let (mut peer, socket) = connected();
        let from = vec![
            Buffer::from_slice(b"xone").slice(1..4),
            Buffer::zeroed(0).whole(),
            Buffer::from_slice(b" two").whole(),
            Buffer::from_slice(b" three").whole(),
        ];
        reactor.submit(1, Operation::Send { socket, from }).unwrap();
        assert_eq!(bytes(&mut reactor), 13);
        let mut received = [0; 13];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(received, *b"one two three");
    });
}

#[test]
fn more_than_the_socket_holds_is_sent_whole() {
    on_both(|mut reactor| {
        let (mut peer, socket) = connected();
        let parts = 5;
        let from =
            (0..parts).map(|part| Buffer::from_slice(&vec![part; 3 << 20]).whole()).collect();
        reactor.submit(1, Operation::Send { socket, from }).unwrap();
        let received = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut received = vec![0; usize::from(parts) * (3 << 20)];
                peer.read_exact(&mut received).unwrap();
                received
            });
            assert_eq!(bytes(&mut reactor), usize::from(parts) * (3 << 20));
            reader.join().unwrap()
        });
        for (part, bytes) in (0..).zip(received.chunks(3 << 20)) {
            assert!(bytes.iter().all(|&byte| byte == part));
        }
    });
}

#[test]
fn sending_to_a_peer_that_has_gone_is_an_error() {
    on_both(|mut reactor| {
        let (peer, socket) = connected();
        drop(peer);
        let failed = (0..100).any(|_| {
            let from = vec![Buffer::zeroed(1000).whole()];
            reactor.submit(1, Operation::Send { socket: socket.clone(), from }).unwrap();
            completion(&mut reactor).result.is_err()
        });
        assert!(failed);
    });
}

#[test]
fn a_cancelled_receive_comes_back_with_its_buffer() {
    on_both(|mut reactor| {
        let (mut peer, socket) = connected();
        let into = Buffer::zeroed(10).whole();
        let receive = Operation::Receive { socket: socket.clone(), into, all: true };
        let id = reactor.submit(5, receive).unwrap();
        let mut none = Vec::new();
        peer.write_all(b"abc").unwrap();
        reactor.poll(&mut none).unwrap();
        reactor.cancel(id);
        let cancelled = completion(&mut reactor);
        assert!(is_cancelled(&cancelled), "{:?}", cancelled.result);
        assert!(cancelled.operation.into_buffer().is_some());
        reactor.cancel(id);
        assert_eq!(reactor.in_flight(), 0);
    });
}

#[test]
fn a_late_cancel_leaves_the_next_operation_alone() {
    on_both(|mut reactor| {
        let (mut peer, socket) = connected();
        peer.write_all(b"a").unwrap();
        let into = Buffer::zeroed(1).whole();
        let receive = Operation::Receive { socket: socket.clone(), into, all: false };
        let id = reactor.submit(1, receive).unwrap();
        assert_eq!(bytes(&mut reactor), 1);
        self::receive(&mut reactor, &socket, 1, false);
        reactor.cancel(id);
        reactor.poll(&mut Vec::new()).unwrap();
        peer.write_all(b"b").unwrap();
        assert_eq!(bytes(&mut reactor), 1);
    });
}

#[test]
fn timeouts_end_in_the_order_of_their_times() {
    on_both(|mut reactor| {
        // The longest holds up nobody. The others in their order, or a pause between would change it.
        let far = Operation::Timeout { after: Duration::from_secs(1000) };
        let far = reactor.submit(4, far).unwrap();
        for (token, after) in [(2, 0), (3, 10), (1, 30)] {
            let after = Duration::from_millis(after);
            reactor.submit(token, Operation::Timeout { after }).unwrap();
        }
        let mut found = Vec::new();
        while found.len() < 3 {
            reactor.wait(None, &mut found).unwrap();
        }
        let tokens: Vec<_> = found.iter().map(|done| (done.token, done.result.is_ok())).collect();
        assert_eq!(tokens, [(2, true), (3, true), (1, true)]);
        reactor.cancel(far);
        assert!(is_cancelled(&completion(&mut reactor)));
    });
}

#[test]
fn many_connections_are_served_at_once() {
    on_both(|mut reactor| {
        let mut pairs: Vec<_> = (0..60).map(|_| connected()).collect();
        for (token, (_, socket)) in (0..).zip(&pairs) {
            let into = Buffer::zeroed(8).whole();
            let receive = Operation::Receive { socket: socket.clone(), into, all: true };
            reactor.submit(token, receive).unwrap();
        }
        for (at, (peer, _)) in pairs.iter_mut().enumerate().rev() {
            peer.write_all(&(at as u64).to_le_bytes()).unwrap();
        }
        for (token, received) in completions(&mut reactor, 60) {
            assert_eq!(received.operation.into_buffer().unwrap()[..], token.to_le_bytes());
        }
    });
}
