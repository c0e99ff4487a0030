//! TLS keys of hosts, and lookup of the key named in a ClientHello.

use crate::hello::Hello;
use crate::{TlsError, hello};
use esker_nvme::auth::Hash;
use esker_nvme::tls::{Derivation, IdentityVersion, TlsKey, TlsPsk};
use esker_nvme::{DISCOVERY_NQN, Nqn};

const DERIVATIONS: [Derivation; 2] = [Derivation::Rfc8446, Derivation::Libnvme];

/// Identities of one ClientHello that are inspected. Linux sends one.
const IDENTITIES_MAX: usize = 8;

/// The keys of hosts, each with its name, for some subsystems.
#[derive(Clone, Debug, Default)]
pub struct HostKeys {
    subsystems: Vec<(Nqn, Vec<(Nqn, TlsKey)>)>,
}

/// Whom a host proved to be, and for which subsystem: the names in the identity of its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The host's name.
    pub host: Nqn,
    /// The subsystem's name.
    pub subsystem: Nqn,
}

/// The PSKs that a host has for a subsystem by its key, the best first. The program that filled a
/// node's keyring decides which of them the node has.
pub fn client_psks(key: &TlsKey, host: &Nqn, subsystem: &Nqn) -> Vec<TlsPsk> {
    let versions = [IdentityVersion::One, IdentityVersion::Zero];
    let psks = versions
        .into_iter()
        .flat_map(|version| DERIVATIONS.map(|how| key.psk(host, subsystem, version, how)));
    psks.flat_map(by_each_hash).collect()
}

/// A PSK with each hash that its binder may have. GnuTLS, by which `tlshd` shakes hands for Linux,
/// uses SHA-256 with keys of SHA-384, too.
fn by_each_hash(psk: TlsPsk) -> Vec<TlsPsk> {
    match psk.hash {
        Hash::Sha256 => vec![psk],
        _ => vec![psk.clone(), TlsPsk { hash: Hash::Sha256, ..psk }],
    }
}

impl HostKeys {
    /// The keys of each subsystem's hosts, of which one may have several. Each is for discovery, too.
    pub fn new(mut subsystems: Vec<(Nqn, Vec<(Nqn, TlsKey)>)>) -> Self {
        let all = subsystems.iter().flat_map(|(_, hosts)| hosts.clone()).collect();
        subsystems.extend(Nqn::new(DISCOVERY_NQN).map(|discovery| (discovery, all)));
        HostKeys { subsystems }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.subsystems.iter().all(|(_, hosts)| hosts.is_empty())
    }

    /// The key that the first message of a host proves, and who it is. `record` is a whole record.
    pub fn find(&self, record: &[u8]) -> Result<(TlsPsk, Peer), TlsError> {
        let message = hello::message(record)?;
        let Hello { offers, truncated } = Hello::parse(message)?;
        let offers = offers.iter().take(IDENTITIES_MAX);
        let mut found = offers.filter_map(|(identity, binder)| {
            let (peer, psks) = self.named(identity)?;
            let psk = psks.into_iter().find(|psk| psk.binder(truncated).matches(binder))?;
            Some((psk, peer))
        });
        found.next().ok_or(TlsError::UnknownKey)
    }

    /// The names in an identity, if they are known here, and all keys that have this identity.
    fn named(&self, identity: &[u8]) -> Option<(Peer, Vec<TlsPsk>)> {
        let mut words = std::str::from_utf8(identity).ok()?.split(' ');
        let version = match words.next()? {
            "NVMe0R01" | "NVMe0R02" => IdentityVersion::Zero,
            _ => IdentityVersion::One,
        };
        let (host, subsystem) = (words.next()?, words.next()?);
        let (subsystem, hosts) =
            self.subsystems.iter().find(|(name, _)| name.as_str() == subsystem)?;
        let keys = hosts.iter().filter(|(name, _)| name.as_str() == host);
        let host = &keys.clone().next()?.0;
        let psks = keys.flat_map(|(_, key)| {
            DERIVATIONS.map(|derivation| key.psk(host, subsystem, version, derivation))
        });
        let psks = psks.filter(|psk| psk.identity.as_bytes() == identity);
        let peer = Peer { host: host.clone(), subsystem: subsystem.clone() };
        Some((peer, psks.flat_map(by_each_hash).collect()))
    }
}
