//! Peers that send what they must not.

use crate::proxy::{Harm, Proxy};
use crate::support::{PATIENCE, Place, catch_up, expect_same, follow, last, serve};
use esker_lsm::Origin;
use esker_replication::{Decoder, Follower, Message, ReplicationError, VERSION};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;

/// Each connection changes one byte; what was changed is noticed, and the next connection goes on.
#[test]
fn a_changed_byte_is_noticed_wherever_it_is() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    drop(follower);
    db.default_keyspace().put("b", "2").unwrap();
    // Welcome, GoOn, and the start of the frames.
    let flip = |n| if n < 120 { Harm::Flip(n) } else { Harm::None };
    let proxy = Proxy::to(primary.address(), Box::new(flip));
    let follower = follow(&place.dir("copy"), proxy.address);
    // A connection whose byte did not come is as good as any.
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 0);
    assert!(proxy.connections.load(Ordering::SeqCst) > 50, "{:?}", follower.stats());
    drop(follower);
}

/// A primary of which the test says what it sends after `GoOn`. Returns the error of the follower, which applied nothing.
fn error_after(place: &Place, sent: &[Message]) -> ReplicationError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let before = {
        let db =
            esker_lsm::Db::open_read_only(place.dir("copy"), crate::support::settings()).unwrap();
        last(&db)
    };
    std::thread::scope(|scope| {
        let follower = {
            let settings =
                crate::support::follower(address).retry(std::time::Duration::from_secs(600));
            Follower::start(place.dir("copy"), settings).unwrap()
        };
        let peer = scope.spawn(|| play(&listener.accept().unwrap().0, sent));
        assert!(follower.wait(PATIENCE, |stats| stats.error.is_some()), "{:?}", follower.stats());
        let stats = follower.stats();
        assert_eq!(stats.applied, before, "{:?}", stats.error);
        drop(follower);
        peer.join().unwrap();
        stats.error.unwrap()
    })
}

/// Greets a follower, goes on where it is, and sends this. Returns when the follower has ended the connection.
fn play(socket: &TcpStream, sent: &[Message]) {
    let origin = greet(socket);
    send(socket, &[&[Message::GoOn { origin }], sent].concat());
    let (mut socket, mut bytes) = (socket, [0; 4096]);
    // Until it has ended the connection.
    while socket.read(&mut bytes).is_ok_and(|count| count > 0) {}
}

/// Sends messages to a follower, which may end the connection at any of them.
pub fn send(mut socket: &TcpStream, sent: &[Message]) {
    for message in sent {
        let _ = socket.write_all(&message.encode());
    }
}

/// Takes what a follower says first, as a primary that asks for no secret. Returns what it is a copy of.
pub fn greet(socket: &TcpStream) -> Origin {
    let mut decoder = Decoder::default();
    let mut next = || {
        let (mut from, mut bytes) = (socket, [0; 4096]);
        loop {
            if let Some(message) = decoder.next_message().unwrap() {
                return message;
            }
            let count = from.read(&mut bytes).unwrap();
            assert!(count > 0);
            decoder.feed(&bytes[..count]);
        }
    };
    assert!(matches!(next(), Message::Hello { .. }));
    send(socket, &[Message::Welcome { version: VERSION, authenticates: false }]);
    let Message::Follow { origin, .. } = next() else { panic!() };
    origin
}

#[test]
fn what_does_not_fit_is_an_error_by_name_and_nothing_is_applied() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&follower, &db);
    drop(follower);
    let from = last(&db) + 1;
    (0..3_u8).for_each(|key| db.default_keyspace().put([key], [key]).unwrap());
    db.sync().unwrap();
    let piece = db.log_pieces(from).unwrap().try_next().unwrap().unwrap();
    let log =
        |frames: &[u8]| Message::Log { header: piece.header.clone(), frames: frames.to_vec() };
    let error = |sent: &[Message]| error_after(&place, sent).to_string();

    let mut bad = piece.bytes.clone();
    bad[33] ^= 1;
    let found = error(&[log(&bad)]);
    assert!(
        found.contains("cannot be applied: byte 0 of its frames: a frame's checksum"),
        "{found}"
    );
    let found = error(&[log(&piece.bytes[..piece.bytes.len() - 1])]);
    assert!(found.contains("cannot be applied"), "{found}");
    let later = db.log_pieces(from + 1).unwrap().try_next().unwrap().unwrap();
    let found = error(&[log(&later.bytes)]);
    assert!(found.contains(&format!("starts at seqno {}, not at {from}", from + 1)), "{found}");
    let found = error(&[Message::Log { header: vec![0; 64], frames: piece.bytes.clone() }]);
    assert!(found.contains("cannot be applied"), "{found}");
    let found = error(&[Message::Keyspaces(vec![9, 5])]);
    assert!(found.contains("more than keyspaces"), "{found}");
    let found = error(&[Message::Keyspaces(vec![250])]);
    assert!(found.contains("tag 250"), "{found}");
    let found = error(&[Message::Data(vec![1])]);
    assert!(found.contains("it sent Data, where frames was expected"), "{found}");
    let found = error(&[Message::Refuse("no".into())]);
    assert!(found.contains("refused: no"), "{found}");

    let follower = follow(&place.dir("copy"), primary.address());
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 0);
}

#[test]
fn a_primary_survives_what_is_no_follower() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let hello = Message::Hello { version: VERSION, host: "nqn.a".into() }.encode();
    let follow_it = Message::Follow {
        origin: Origin::new(0, 0),
        next: 1,
        name: "x\u{7}".into(),
        encrypts: false,
    };
    let cases: [(&[u8], &str); 5] = [
        (b"GET / HTTP/1.1\r\n\r\n", "no message of this protocol"),
        (&hello[..10], ""),
        (&Message::Alive { last: 1 }.encode(), "it sent Alive, where Hello"),
        (&Message::Hello { version: 9, host: "nqn.a".into() }.encode(), "version 9"),
        (&[hello.clone(), follow_it.encode()].concat(), "control character"),
    ];
    for (sent, expected) in cases {
        let mut socket = TcpStream::connect(primary.address()).unwrap();
        socket.write_all(sent).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let (mut answer, mut decoder) = (Vec::new(), Decoder::default());
        // The other end may reset it.
        let _ = socket.read_to_end(&mut answer);
        decoder.feed(&answer);
        let mut refused = String::new();
        while let Ok(Some(message)) = decoder.next_message() {
            if let Message::Refuse(why) = message {
                refused = why;
            }
        }
        assert!(refused.contains(expected), "{refused:?} for {expected:?}");
    }
    let follower = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    expect_same(&follower, &db);
}
