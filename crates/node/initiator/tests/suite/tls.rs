//! TLS, in a build that has it. Otherwise these tests are skipped.

use crate::proxy::Proxy;
use crate::{HOST, NODE, blocks, keys, node, nqn, settings, start};
use esker_base::SystemClock;
use esker_initiator::{RemoteError, Settings};
use esker_nvme::pdu::Digests;
use esker_nvme::tls::{Derivation, IdentityVersion, TlsKey};
use esker_storage::blocks::BlockDevice;
use esker_target::{Access, HostAccess, MemoryBlocks, MemoryKeys, Namespace, Target};
use esker_tls::client_psks;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

const OLD: &str = "NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
const NEW: &str =
    "NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:";

fn is_built() -> bool {
    if !esker_tls::IS_BUILT {
        esker_base::skipped("hosts by TLS", "built without TLS; --features esker-tls/s2n has it");
    }
    esker_tls::IS_BUILT
}

/// A node of keys and blocks for a host with these TLS keys.
fn guarded(listen: &str, namespaces: &[Arc<dyn Namespace>], keys: &[&str]) -> Target {
    let tls_keys = keys.iter().map(|text| TlsKey::parse(text).unwrap());
    let entry = HostAccess::new(nqn(HOST)).tls_keys(tls_keys);
    let mut node = node(namespaces.to_vec());
    node.listen = listen.parse().unwrap();
    node.subsystems[0].access = Access::Listed(vec![entry]);
    start(node, Arc::new(SystemClock::new()))
}

fn namespaces() -> [Arc<dyn Namespace>; 2] {
    [Arc::new(MemoryKeys::new([1; 16], 1 << 30)), Arc::new(MemoryBlocks::new([2; 16], 16 << 10, 9))]
}

fn by_tls(address: SocketAddr, key: &str) -> Settings {
    settings(address).tls_key(Some(TlsKey::parse(key).unwrap()))
}

#[test]
fn keys_and_blocks_go_by_tls_in_both_directions() {
    if !is_built() {
        return;
    }
    let target = guarded("127.0.0.1:0", &namespaces(), &[OLD]);
    let settings = by_tls(target.address(), OLD).queues(2).digests(Digests::of(3).unwrap());
    let client = keys(settings.clone()).unwrap();
    for bytes in [0, 1, 4095, 16 << 10, 70_000, 1 << 20] {
        let value: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
        client.store(b"k", &value).unwrap();
        assert!(client.retrieve(b"k").unwrap().unwrap() == value, "{bytes}");
    }
    // Several threads on one queue: whole commands follow each other.
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let client = &client;
            scope.spawn(move || {
                for round in 0..20 {
                    let value = vec![thread ^ round; 30_000];
                    client.store(&[thread], &value).unwrap();
                    assert!(client.retrieve(&[thread]).unwrap().unwrap() == value);
                }
            });
        }
    });
    let disk = blocks(settings.namespace(2)).unwrap();
    let data: Vec<u8> = (0..3 << 20).map(|place| (place % 253) as u8).collect();
    disk.write(0, &data).unwrap();
    let mut found = vec![0; data.len()];
    disk.read(0, &mut found).unwrap();
    assert!(found == data);
}

#[test]
fn a_host_with_another_key_is_told_so_at_once() {
    if !is_built() {
        return;
    }
    let target = guarded("127.0.0.1:0", &namespaces(), &[OLD]);
    let patient = |settings: Settings| settings.deadline(Duration::from_secs(60));
    let wrong = keys(patient(by_tls(target.address(), NEW)));
    assert!(matches!(wrong, Err(RemoteError::Tls { .. })), "{:?}", wrong.err());
    let settings = by_tls(target.address(), OLD).host(nqn("nqn.stranger"));
    assert!(matches!(keys(patient(settings)), Err(RemoteError::Tls { .. })));
    // By every identity and hash.
    assert_eq!(target.totals().tls_refused, 8 + 4);
    let clear = keys(settings_of(&target)).err();
    assert!(clear.is_some_and(|error| error.to_string().contains("invalid host")));
    keys(by_tls(target.address(), OLD)).unwrap();
}

fn settings_of(target: &Target) -> Settings {
    settings(target.address())
}

/// Linux looks for the first identity alone. What filled its keyring decides which it knows.
#[test]
fn a_host_tries_every_identity_of_its_key_and_keeps_to_the_known_one() {
    if !is_built() {
        return;
    }
    for text in [OLD, NEW] {
        let target = guarded("127.0.0.1:0", &namespaces(), &[text]);
        let (key, host, subsystem) = (TlsKey::parse(text).unwrap(), nqn(HOST), nqn(NODE));
        let offered = client_psks(&key, &host, &subsystem);
        for (version, derivation) in [
            (IdentityVersion::One, Derivation::Rfc8446),
            (IdentityVersion::One, Derivation::Libnvme),
            (IdentityVersion::Zero, Derivation::Libnvme),
        ] {
            let known = key.psk(&host, &subsystem, version, derivation).identity;
            let (proxy, address) = Proxy::start(target.address());
            *proxy.identity.lock().unwrap() = Some(known.clone());
            let client = keys(by_tls(address, text).queues(2)).unwrap();
            client.store(b"k", b"v").unwrap();
            // The last of them, and both I/O queues.
            let refused = offered.iter().take_while(|psk| psk.identity != known).count();
            assert_eq!(proxy.clients().len(), refused + 3, "{known}");
        }
    }
}

#[test]
fn a_key_is_replaced_while_both_are_known() {
    if !is_built() {
        return;
    }
    let namespaces = namespaces();
    let first = guarded("127.0.0.1:0", &namespaces, &[OLD]);
    let address = first.address();
    let client = keys(by_tls(address, OLD)).unwrap();
    client.store(b"k", b"v").unwrap();
    drop(first);
    let both = guarded(&address.to_string(), &namespaces, &[OLD, NEW]);
    assert_eq!(client.retrieve(b"k").unwrap().unwrap(), b"v", "connected again");
    let new = keys(by_tls(address, NEW)).unwrap();
    drop(both);
    let _last = guarded(&address.to_string(), &namespaces, &[NEW]);
    assert_eq!(new.retrieve(b"k").unwrap().unwrap(), b"v");
    assert!(client.retrieve(b"k").is_err(), "the old key is gone");
}

#[test]
fn a_node_without_tls_is_no_place_for_a_key() {
    let target = crate::serve(namespaces().to_vec());
    let settings = by_tls(target.address(), OLD).deadline(Duration::from_secs(1));
    let failed = keys(settings).err();
    if is_built() {
        let why = failed.map(|error| error.to_string()).unwrap_or_default();
        assert!(why.contains("during the TLS handshake"), "{why}");
    } else {
        assert!(failed.is_some());
    }
}
