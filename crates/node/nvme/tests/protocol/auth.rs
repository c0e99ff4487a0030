//! DH-HMAC-CHAP: computations against Python's `hmac`, `hashlib` and `pow`, and messages against bytes written by
//! hand.

use crate::handmade::bytes;
use esker_nvme::Nqn;
use esker_nvme::auth::message::{Challenge, Failure, Message, Negotiate, Reply, Success1};
use esker_nvme::auth::{Group, Hash, KeyPair, Role, Secret, Transaction};

const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

fn host() -> Nqn {
    Nqn::new("nqn.2014-08.org.nvmexpress:uuid:host").unwrap()
}

fn node() -> Nqn {
    Nqn::new("nqn.2024-01.io.esker:node").unwrap()
}

fn challenge() -> Vec<u8> {
    (100..132).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn response(role: Role, secret: &Secret, session: Option<&[u8]>) -> String {
    let (host, node) = (host(), node());
    let transaction = Transaction {
        hash: Hash::Sha256,
        id: 0x1234,
        channel: 0,
        host: &host,
        subsystem: &node,
        session,
    };
    hex(transaction.response(role, secret, &challenge(), 7).as_bytes())
}

#[test]
fn a_secret_is_text_with_a_checksum() {
    let secret = Secret::parse(SECRET).unwrap();
    assert_eq!(secret.to_text(), SECRET);
    assert!(!format!("{secret:?}").contains("AAEC"), "it is never shown");
    for bad in [
        "",
        "DHHC-1:00:",
        "DHHC-1:04:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaS:",
        "DHHC-1:00:AAECAwQF:",
        "DHHC-1:00:****:",
        &SECRET[..SECRET.len() - 1],
    ] {
        assert!(Secret::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn responses_are_those_of_the_formula() {
    let secret = Secret::parse(SECRET).unwrap();
    assert_eq!(
        response(Role::Host, &secret, None),
        "f5c66f6af6426f53b741f16ae95926c87d53230fc023b089c7956ee77c0dab06"
    );
    assert_eq!(
        response(Role::Controller, &secret, None),
        "14865acfb7e0383482ee5c7ddec223afc46d120f6c734ff9ebaa80068581ace9"
    );
}

#[test]
fn a_transformed_secret_is_bound_to_its_owner() {
    let text = SECRET.replace(":00:", ":02:");
    let secret = Secret::parse(&text).unwrap();
    let (host, node) = (host(), node());
    let transaction = Transaction {
        hash: Hash::Sha512,
        id: 1,
        channel: 0,
        host: &host,
        subsystem: &node,
        session: None,
    };
    let challenge: Vec<u8> = (0..64).collect();
    let response = transaction.response(Role::Host, &secret, &challenge, 0xdead_beef);
    assert_eq!(
        hex(response.as_bytes()),
        "a143a1b2f25bf99ba9d188f8a04f616670eeb09aeffde6c2fc9430de3937e5dd\
         eeb0b8531d888eab74ff7451e4097ea07dffdf2a7f07bdae9b5f5882b5e03589"
    );
}

#[test]
fn an_exchange_gives_both_sides_the_same_session_key() {
    let (a, b) = ([1; Group::PRIVATE_BYTES], [2; Group::PRIVATE_BYTES]);
    let known = [
        (Group::Ffdhe2048, "f0fd84e4744d9fa81f5dbe17e37587940ec2d2b69c8992f7ef10bac387a2c759"),
        (Group::Ffdhe3072, "b04fe55e8db1d713b8e97a93379d442ff9dbd29e9eaa525fba492597939e0a5e"),
        (Group::Ffdhe4096, "945da233b8d611f3b7db425d7c9f49200def9cf45613b81d636f5eabc24b4497"),
    ];
    for (group, public) in known {
        let (a, b) = (KeyPair::new(group, &a), KeyPair::new(group, &b));
        assert_eq!(hex(Hash::Sha256.digest(&a.public).as_bytes()), public, "{group:?}");
        let session = a.session(&b.public).unwrap();
        assert_eq!(Some(&session), b.session(&a.public).as_ref());
        if group == Group::Ffdhe2048 {
            assert_eq!(
                hex(Hash::Sha256.digest(&session).as_bytes()),
                "8d0af614285cadecf40446a1edc4e2ed562a9c49ca35acfac0eba622f9d9c66b"
            );
            let secret = Secret::parse(SECRET).unwrap();
            assert_eq!(
                response(Role::Host, &secret, Some(&session)),
                "e5b3719df21c35b11bc6466e7f8952e0bde4ad56550406a078289bde4c9dd7be"
            );
        }
    }
}

#[test]
fn public_keys_that_fix_the_session_key_are_refused() {
    let pair = KeyPair::new(Group::Ffdhe2048, &[3; Group::PRIVATE_BYTES]);
    let mut one = vec![0; 256];
    assert!(pair.session(&one).is_none(), "0");
    one[255] = 1;
    assert!(pair.session(&one).is_none(), "1");
    assert!(pair.session(&[0xff; 256]).is_none(), "above the prime");
    assert!(pair.session(&[2; 255]).is_none(), "too short");
}

#[test]
fn comparing_takes_the_whole_response() {
    let digest = Hash::Sha256.digest(b"x");
    let mut bytes = digest.as_bytes().to_vec();
    assert!(digest.matches(&bytes));
    assert!(!digest.matches(&bytes[..31]) && !digest.matches(b""));
    bytes[31] ^= 1;
    assert!(!digest.matches(&bytes));
}

#[test]
fn negotiate_lists_hashes_and_groups_in_two_lists_of_30() {
    let written = bytes(
        72,
        &[(4, &[0x34, 0x12]), (7, &[1]), (8, &[1, 0, 2, 2]), (12, &[1, 3]), (42, &[1, 0])],
    );
    let message = Message::Negotiate(Negotiate {
        transaction: 0x1234,
        channel: 0,
        hashes: vec![Hash::Sha256, Hash::Sha512],
        groups: vec![Group::Ffdhe2048, Group::Null],
    });
    assert_eq!(Message::parse(&written), Ok(message.clone()));
    assert_eq!(message.encode(), written);
}

#[test]
fn a_challenge_has_the_hashs_length_and_the_groups_key() {
    let mut written =
        bytes(16, &[(0, &[1, 1]), (4, &[0x34, 0x12]), (6, &[32]), (8, &[1, 1, 0, 1]), (12, &[7])]);
    written.extend_from_slice(&[5; 32]);
    written.extend_from_slice(&[6; 256]);
    let message = Message::Challenge(Challenge {
        transaction: 0x1234,
        hash: Hash::Sha256,
        group: Group::Ffdhe2048,
        sequence: 7,
        challenge: vec![5; 32],
        public: vec![6; 256],
    });
    assert_eq!(Message::parse(&written), Ok(message.clone()));
    assert_eq!(message.encode(), written);
    assert_eq!(Message::parse(&written[..300]), Err(Failure::Payload), "cut off");
}

#[test]
fn a_reply_has_room_for_a_challenge_even_without_one() {
    let mut written = bytes(16, &[(0, &[1, 2]), (4, &[0x34, 0x12]), (6, &[32])]);
    written.extend_from_slice(&[5; 32]);
    written.extend_from_slice(&[0; 32]);
    let message = Message::Reply(Reply {
        transaction: 0x1234,
        sequence: 0,
        response: vec![5; 32],
        challenge: None,
        public: Vec::new(),
    });
    assert_eq!(Message::parse(&written), Ok(message.clone()));
    assert_eq!(message.encode(), written);
}

#[test]
fn lengths_in_a_reply_are_held_against_its_bytes() {
    for (length, public) in [(255u8, 0u16), (64, 0), (32, 1), (32, 0xffff)] {
        let public = public.to_le_bytes();
        let mut written = bytes(16, &[(0, &[1, 2]), (6, &[length]), (10, &public)]);
        written.extend_from_slice(&[0; 64]);
        assert_eq!(Message::parse(&written), Err(Failure::Payload), "{length}, {public:?}");
    }
}

#[test]
fn success_and_failure() {
    let success = Message::Success1(Success1 { transaction: 9, hash_bytes: 32, response: None });
    assert_eq!(success.encode().len(), 48, "the response's place is there, zero");
    assert_eq!(Message::parse(&success.encode()), Ok(success));
    let failure = Message::Failure1(9, Failure::NoHash);
    assert_eq!(failure.encode(), [0, 0xf1, 0, 0, 9, 0, 1, 4]);
    assert_eq!(Message::parse(&failure.encode()), Ok(failure));
    assert_eq!(Message::Success2(9).encode().len(), 16);
}
