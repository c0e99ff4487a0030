//! Peers that take what others need: connections, names, or the time of a primary.

use crate::support::{PATIENCE, Place, any, expect_error, expect_same, follow, last, named, serve};
use esker_lsm::Origin;
use esker_replication::{
    Decoder, Follower, FollowerInfo, Message, Primary, PrimarySettings, ReplicationError,
    StopNotice, VERSION,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::time::Duration;

fn says(what: &str) -> impl Fn(&ReplicationError) -> bool {
    move |error| matches!(error, ReplicationError::Refused { why, .. } if why.contains(what))
}

/// As many connections as there may be followers.
#[test]
fn connections_that_say_nothing_keep_no_follower_out() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let idle: Vec<_> = (0..64).map(|_| TcpStream::connect(primary.address()).unwrap()).collect();
    let reports = follow(&place.dir("copy"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    expect_same(&reports, &db);
    drop(idle);
}

/// The next message of a primary. `None`: it has ended the connection.
fn next_message(socket: &mut TcpStream, decoder: &mut Decoder) -> Option<Message> {
    loop {
        if let Some(message) = decoder.next_message().unwrap() {
            return Some(message);
        }
        let mut bytes = [0; 4096];
        match socket.read(&mut bytes) {
            Ok(0) | Err(_) => return None,
            Ok(count) => decoder.feed(&bytes[..count]),
        }
    }
}

fn hello() -> Message {
    Message::Hello { version: VERSION, host: "nqn.a".into() }
}

/// A connection that says that it is the follower `name`, whose next write is `next`.
fn following(primary: &Primary, name: &str, origin: Origin, next: u64) -> TcpStream {
    let mut socket = TcpStream::connect(primary.address()).unwrap();
    let name = name.into();
    let follow_it = Message::Follow { origin, next, name, encrypts: false, id: 1 };
    socket.write_all(&[hello().encode(), follow_it.encode()].concat()).unwrap();
    socket
}

/// It is greeted at once: it does not have to wait until those before it have been silent for too long.
#[test]
fn a_peer_is_greeted_beside_as_many_that_say_nothing() {
    let place = Place::new();
    let primary = serve(&place.db());
    let idle: Vec<_> = (0..64).map(|_| TcpStream::connect(primary.address()).unwrap()).collect();
    let mut socket = TcpStream::connect(primary.address()).unwrap();
    socket.write_all(&hello().encode()).unwrap();
    let answer = next_message(&mut socket, &mut Decoder::default());
    assert!(matches!(answer, Some(Message::Welcome { .. })), "{answer:?}");
    drop(idle);
}

/// A follower that is slow to apply the last write. The primary says every second that it is there, and waits.
#[test]
fn a_primary_that_is_stopped_waits_for_what_a_follower_has_not_applied() {
    let place = Place::new();
    let db = place.db();
    db.default_keyspace().put("a", "1").unwrap();
    let settings = PrimarySettings::new(any()).stop_time(PATIENCE);
    let primary = Primary::start(db.clone(), settings).unwrap();
    let (origin, through) = (db.lineage().unwrap().origin(), last(&db));
    let mut socket = following(&primary, "a", origin, through + 1);
    let mut decoder = Decoder::default();
    let mut goes_on = |socket: &mut TcpStream| {
        matches!(next_message(socket, &mut decoder), Some(Message::GoOn { .. }))
    };
    while !goes_on(&mut socket) {}
    db.default_keyspace().put("b", "2").unwrap();
    let last = last(&db);
    let follower = std::thread::spawn(move || {
        let mut seen = 0;
        // It has the write by the first. The second is sent a second later.
        while seen < 2 {
            match next_message(&mut socket, &mut decoder) {
                Some(Message::Alive { last: told }) if told == last => seen += 1,
                Some(Message::Refuse(_)) | None => return false,
                Some(_) => {}
            }
        }
        socket.write_all(&Message::Applied { through: last }.encode()).unwrap();
        true
    });
    primary.stop();
    assert!(follower.join().unwrap(), "it was cut off");
}

/// A follower that applies nothing is named twice: when the wait begins and when it ends.
#[test]
fn a_primary_that_is_stopped_names_the_followers_that_lag() {
    let place = Place::new();
    let db = place.db();
    let settings = PrimarySettings::new(any()).stop_time(Duration::ZERO);
    let primary = Primary::start(db.clone(), settings).unwrap();
    let (origin, through) = (db.lineage().unwrap().origin(), last(&db));
    let mut socket = following(&primary, "slow", origin, through + 1);
    let mut decoder = Decoder::default();
    (0..3_u8).for_each(|key| db.default_keyspace().put([key], "1").unwrap());
    // Then the primary has seen that it has not applied them.
    while !matches!(next_message(&mut socket, &mut decoder), Some(Message::Log { .. })) {}
    let mut told = Vec::new();
    primary.stop_with(|notice| told.push(notice));
    let [StopNotice::Waits(waits), StopNotice::GivesUp(gives_up)] = &told[..] else {
        panic!("{told:?}")
    };
    for lagging in [waits, gives_up] {
        let [FollowerInfo { name, address, behind, .. }] = &lagging[..] else { panic!("{told:?}") };
        let own = socket.local_addr().unwrap().to_string();
        assert_eq!((&name[..], address, *behind), ("slow", &own, last(&db) - through));
    }
    assert!(gives_up[0].behind_time >= waits[0].behind_time);
}

/// It has not applied what it was sent, and comes for the rest later.
#[test]
fn a_primary_that_is_stopped_names_a_follower_that_leaves_meanwhile() {
    let place = Place::new();
    let db = place.db();
    let primary = Primary::start(db.clone(), PrimarySettings::new(any())).unwrap();
    let (origin, through) = (db.lineage().unwrap().origin(), last(&db));
    let mut socket = following(&primary, "slow", origin, through + 1);
    let mut decoder = Decoder::default();
    db.default_keyspace().put("a", "1").unwrap();
    while !matches!(next_message(&mut socket, &mut decoder), Some(Message::Log { .. })) {}
    let mut socket = Some(socket);
    let mut told = Vec::new();
    primary.stop_with(|notice| {
        told.push(notice);
        drop(socket.take());
    });
    let [StopNotice::Waits(_), StopNotice::Gone(gone)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(gone[0].name, "slow");
}

/// It is behind as soon as it has said what it has.
#[test]
fn a_follower_that_is_sent_all_files_is_behind_for_a_time() {
    let place = Place::new();
    let db = place.db();
    db.default_keyspace().put("a", "1").unwrap();
    let primary = serve(&db);
    let mut socket = following(&primary, "new", Origin::new(0, 0), 1);
    // The first message of the files.
    let mut decoder = Decoder::default();
    next_message(&mut socket, &mut decoder).unwrap();
    next_message(&mut socket, &mut decoder).unwrap();
    let grows = (0..1_000_000).any(|_| !primary.followers()[0].behind_time.is_zero());
    assert!(grows, "it is behind since no time");
    assert_eq!(primary.followers()[0].behind, last(&db));
}

#[test]
fn a_primary_without_a_follower_that_lags_says_nothing() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let first = follow(&place.dir("first"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    expect_same(&first, &db);
    // What it has applied, it may still have to say.
    let has_said = |info: &FollowerInfo| info.behind == 0;
    while !primary.followers().iter().any(has_said) {
        std::thread::yield_now();
    }
    primary.stop_with(|notice| panic!("{notice:?}"));
}

#[test]
fn a_second_follower_of_a_name_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let db = place.db();
    let primary = serve(&db);
    let first = follow(&place.dir("first"), primary.address());
    db.default_keyspace().put("a", "1").unwrap();
    expect_same(&first, &db);
    let second = follow(&place.dir("second"), primary.address());
    expect_error(&second, says("a follower called \"a\" is connected"));
    db.default_keyspace().put("b", "2").unwrap();
    expect_same(&first, &db);
    assert_eq!((first.stats().connections, second.stats().bases), (1, 0));
    // The name is free again.
    drop(first);
    expect_same(&second, &db);
}

#[test]
fn the_number_of_followers_is_limited_and_known_ones_go_on() {
    let place = Place::new();
    let db = place.db();
    for number in 0..256 {
        db.change_consumer(&format!("follower {number}"), 1 << 20).unwrap();
    }
    db.change_consumer("another consumer", 1 << 20).unwrap();
    let primary = serve(&db);
    let late = Follower::start(place.dir("late"), named("256", primary.address())).unwrap();
    expect_error(&late, says("256 followers already"));
    let known = Follower::start(place.dir("known"), named("7", primary.address())).unwrap();
    expect_same(&known, &db);
    db.drop_change_consumer("follower 9").unwrap();
    expect_same(&late, &db);
}

/// A follower that never stops sending keeps the primary from nothing, also not from its stop.
#[test]
fn a_peer_that_sends_without_end_does_not_keep_a_primary_from_stopping() {
    let place = Place::new();
    let db = place.db();
    db.default_keyspace().put("a", "1").unwrap();
    let primary = serve(&db);
    let (origin, through) = (db.lineage().unwrap().origin(), last(&db));
    let mut socket = following(&primary, "a", origin, through + 1);
    let applied = Message::Applied { through }.encode().repeat(1_000);
    let flood = std::thread::spawn(move || while socket.write_all(&applied).is_ok() {});
    let until = std::time::Instant::now() + PATIENCE;
    while primary.followers().is_empty() {
        assert!(std::time::Instant::now() < until);
        std::thread::sleep(Duration::from_millis(1));
    }
    let (stopped, stops) = channel();
    std::thread::spawn(move || {
        drop(primary);
        stopped.send(()).unwrap();
    });
    stops.recv_timeout(PATIENCE).expect("it stops");
    flood.join().unwrap();
}

/// All that was acknowledged before a planned stop arrives.
#[test]
fn a_primary_that_is_stopped_sends_the_last_writes_first() {
    let place = Place::new();
    let db = place.db();
    let settings = PrimarySettings::new(any()).bound_bytes(64 << 20).stop_time(PATIENCE);
    let primary = Primary::start(db.clone(), settings).unwrap();
    let reports = follow(&place.dir("copy"), primary.address());
    assert!(reports.wait(PATIENCE, |stats| stats.bases == 1 && stats.connections == 1));
    (0..2_000_u16)
        .for_each(|key| db.default_keyspace().put(key.to_be_bytes(), [1; 1_000]).unwrap());
    primary.stop();
    assert_eq!(reports.stats().applied, last(&db), "{:?}", reports.stats());
}
