//! Channels with each other: who gets in, and what comes of what is changed on its way.

use super::*;
use crate::client_psks;
use esker_nvme::Nqn;
use esker_nvme::tls::{Derivation, IdentityVersion, TlsKey};

const KEY: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const OTHER: &str = "NVMeTLSkey-1:01:AOcdzrleIqiiPISmrKKB8PFe/QNIrvqdDqvhXZ3hOpWDEj+D:";
const LONG: &str =
    "NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:";

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).unwrap()
}

fn key(text: &str) -> TlsKey {
    TlsKey::parse(text).unwrap()
}

fn keys(texts: &[&str]) -> Arc<HostKeys> {
    let hosts = texts.iter().map(|text| (nqn("nqn.host"), key(text))).collect();
    Arc::new(HostKeys::new(vec![(nqn("nqn.sub"), hosts)]))
}

/// Lets both go on until both are through, or one fails.
fn meet(host: &mut Channel, node: &mut Channel) -> Result<(), TlsError> {
    for _ in 0..10 {
        node.feed(&host.take_output());
        let node_is_through = node.handshake()?;
        host.feed(&node.take_output());
        if host.handshake()? && node_is_through {
            return Ok(());
        }
    }
    panic!("neither through nor failed");
}

fn channels(psk: &TlsPsk, keys: Arc<HostKeys>) -> Result<(Channel, Channel), TlsError> {
    let (mut host, mut node) = (Channel::client(psk).unwrap(), Channel::server(keys).unwrap());
    meet(&mut host, &mut node)?;
    Ok((host, node))
}

fn refusal(psk: &TlsPsk, keys: Arc<HostKeys>) -> Option<TlsError> {
    channels(psk, keys).err()
}

#[test]
fn a_host_with_a_key_gets_in_by_every_identity_and_derivation() {
    for text in [KEY, LONG] {
        for version in [IdentityVersion::Zero, IdentityVersion::One] {
            for derivation in [Derivation::Rfc8446, Derivation::Libnvme] {
                let psk = key(text).psk(&nqn("nqn.host"), &nqn("nqn.sub"), version, derivation);
                let (mut host, mut node) = channels(&psk, keys(&[OTHER, text])).unwrap();
                let peer = Peer { host: nqn("nqn.host"), subsystem: nqn("nqn.sub") };
                assert_eq!(node.peer(), Some(&peer));
                let data: Vec<u8> = (0..100_000).map(|place| place as u8).collect();
                host.encrypt(&data).unwrap();
                node.feed(&host.take_output());
                let (mut got, mut piece) = (Vec::new(), [0; 5000]);
                while let Some(bytes) = node.decrypt(&mut piece).unwrap() {
                    got.extend_from_slice(&piece[..bytes]);
                }
                assert!(got == data);
                host.close();
                node.feed(&host.take_output());
                assert_eq!(node.decrypt(&mut piece), Ok(Some(0)));
            }
        }
    }
}

/// Each is offered alone: some nodes look for the first identity only.
#[test]
fn a_host_gets_in_by_each_of_its_psks_and_has_one_for_every_keyring() {
    let (host, subsystem) = (nqn("nqn.host"), nqn("nqn.sub"));
    for (text, hashes) in [(KEY, &[Hash::Sha256][..]), (LONG, &[Hash::Sha384, Hash::Sha256])] {
        let psks = client_psks(&key(text), &host, &subsystem);
        for psk in &psks {
            channels(psk, keys(&[text])).unwrap();
        }
        for version in [IdentityVersion::One, IdentityVersion::Zero] {
            for derivation in [Derivation::Rfc8446, Derivation::Libnvme] {
                let known = key(text).psk(&host, &subsystem, version, derivation);
                for hash in hashes {
                    assert!(psks.iter().any(|psk| {
                        (&psk.identity, &psk.secret, psk.hash)
                            == (&known.identity, &known.secret, *hash)
                    }));
                }
            }
        }
        assert_eq!(psks.len(), 4 * hashes.len());
        assert_eq!((psks[0].hash, &psks[0].identity[..5]), (hashes[0], "NVMe1"));
    }
}

#[test]
fn who_has_another_key_or_name_is_refused_by_the_first_message() {
    let of = |text, host, subsystem| client_psks(&key(text), &nqn(host), &nqn(subsystem));
    for psks in [
        of(OTHER, "nqn.host", "nqn.sub"),
        of(KEY, "nqn.stranger", "nqn.sub"),
        of(KEY, "nqn.host", "nqn.other"),
    ] {
        for psk in psks {
            assert_eq!(refusal(&psk, keys(&[KEY])), Some(TlsError::UnknownKey));
        }
    }
    // The right identity without the key.
    let mut psks = of(KEY, "nqn.host", "nqn.sub");
    psks[0].secret = vec![7; 32];
    assert_eq!(refusal(&psks[0], keys(&[KEY])), Some(TlsError::UnknownKey));
}

#[test]
fn a_changed_byte_ends_the_channel() {
    let psks = client_psks(&key(KEY), &nqn("nqn.host"), &nqn("nqn.sub"));
    let (mut host, mut node) = channels(&psks[0], keys(&[KEY])).unwrap();
    host.encrypt(b"some words").unwrap();
    let mut sent = host.take_output();
    *sent.last_mut().unwrap() ^= 1;
    node.feed(&sent);
    assert!(matches!(node.decrypt(&mut [0; 100]), Err(TlsError::Failed(_))));
    assert!(matches!(node.decrypt(&mut [0; 100]), Err(TlsError::Failed(_))), "it stays so");
}

#[test]
fn a_first_message_may_come_byte_by_byte_and_has_a_longest() {
    let psks = client_psks(&key(KEY), &nqn("nqn.host"), &nqn("nqn.sub"));
    let mut host = Channel::client(&psks[0]).unwrap();
    let mut node = Channel::server(keys(&[KEY])).unwrap();
    for byte in host.take_output() {
        assert_eq!(node.handshake(), Ok(false));
        node.feed(&[byte]);
    }
    assert_eq!(node.handshake(), Ok(false));
    assert!(!node.take_output().is_empty());
    let mut node = Channel::server(keys(&[KEY])).unwrap();
    node.feed(&[22, 3, 1, 0xff, 0xff]);
    assert!(matches!(node.handshake(), Err(TlsError::Hello(_))));
}
