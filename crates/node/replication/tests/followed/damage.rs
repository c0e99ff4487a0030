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
    db.keyspace("users", Default::default()).unwrap().put("a", "1").unwrap();
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
    // A keyspace that is dropped after a write that does not come, many times.
    let far = b"\x1d\xff\xff\xff\xff\x0f\x63\x01a\x00";
    let found = error(&[Message::Keyspaces(far.repeat((1 << 16) + 1))]);
    assert!(found.contains("wait for a write"), "{found}");
    // The same id has another name in another database.
    let other = esker_lsm::Db::open(place.dir("other"), crate::support::settings()).unwrap();
    let mut pieces = other.log_pieces(1).unwrap();
    other.keyspace("others", Default::default()).unwrap().put("a", "1").unwrap();
    other.sync().unwrap();
    pieces.try_next().unwrap().unwrap();
    let found = error(&[Message::Keyspaces(pieces.keyspace_events().unwrap())]);
    assert!(found.contains("is called \"users\" here, and \"others\" there"), "{found}");
    let found = error(&[Message::Data(vec![1])]);
    assert!(found.contains("it sent Data, where frames was expected"), "{found}");
    let found = error(&[Message::Refuse("no".into())]);
    assert!(found.contains("refused: no"), "{found}");

    let follower = follow(&place.dir("copy"), primary.address());
    expect_same(&follower, &db);
    assert_eq!(follower.stats().bases, 0);
}

/// A follower asks for a base when what the primary sends does not fit several times in a row.
#[test]
fn what_never_fits_makes_a_follower_begin_anew() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let reports = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    catch_up(&reports, &db);
    drop((reports, primary));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let reports = follow(&place.dir("copy"), listener.local_addr().unwrap());
    let known = db.lineage().unwrap().origin();
    for _ in 0..3 {
        let (mut socket, _) = listener.accept().unwrap();
        assert_eq!(greet(&socket), known);
        send(&socket, &[Message::GoOn { origin: known }, Message::Keyspaces(vec![250])]);
        while socket.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {}
    }
    let (socket, _) = listener.accept().unwrap();
    assert_eq!(greet(&socket), Origin::new(0, 0));
    drop(reports);
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
        id: 1,
    };
    let long = Message::Data(vec![0; 100_000]).encode();
    let unnamed = Message::Follow {
        origin: Origin::new(0, 0),
        next: 1,
        name: String::new(),
        encrypts: false,
        id: 1,
    };
    let cases: [(&[u8], &str); 7] = [
        (b"GET / HTTP/1.1\r\n\r\n", "no message of this protocol"),
        (&hello[..10], ""),
        (&Message::Alive { last: 1 }.encode(), "it sent Alive, where Hello"),
        (&Message::Hello { version: 9, host: "nqn.a".into() }.encode(), "version 9"),
        (&[hello.clone(), follow_it.encode()].concat(), "control character"),
        (&[hello.clone(), unnamed.encode()].concat(), "it is empty"),
        // Its header only: who has said who it is sends nothing long, either.
        (&[&hello[..], &long[..20]].concat(), "at most 16384"),
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
