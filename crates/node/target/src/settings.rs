//! What a target serves, where, and to whom.

use crate::{Namespace, NamespaceHealth};
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::tls::TlsKey;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A target's settings.
#[derive(Clone)]
pub struct Settings {
    /// Where to listen. Port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Threads that serve connections. At least 1.
    pub reactors: usize,
    /// How long commands under way may take when the target drains.
    pub drain_time: Duration,
    /// Bytes of data in flight that all connections may hold together: usually
    /// [`limits::MEMORY_BYTES`]. Reactors share it equally, and have at least 8 MiB each.
    ///
    /// [`limits::MEMORY_BYTES`]: crate::limits::MEMORY_BYTES
    pub memory_bytes: usize,
    /// What is served. The discovery subsystem comes of itself.
    pub subsystems: Vec<Subsystem>,
}

/// A subsystem: namespaces under one name.
#[derive(Clone)]
pub struct Subsystem {
    /// Its name.
    pub nqn: Nqn,
    /// SN of its controllers: up to 20 ASCII characters that tell it from others.
    pub serial: String,
    /// Its namespaces: the first has id 1.
    pub namespaces: Vec<Arc<dyn Namespace>>,
    /// Who may connect.
    pub access: Access,
}

/// Who may connect to a subsystem.
#[derive(Clone, Debug)]
pub enum Access {
    /// Any host, without authentication.
    Anyone,
    /// These hosts.
    Listed(Vec<HostAccess>),
}

/// A host that may connect.
#[derive(Clone, Debug)]
pub struct HostAccess {
    /// Its name.
    pub host: Nqn,
    /// What it must prove to know, if anything.
    pub secret: Option<Secret>,
    /// What the controller proves to know if the host asks.
    pub controller_secret: Option<Secret>,
    /// Its TLS keys: with one, it may connect by TLS only. With several, each of them does.
    pub tls_keys: Vec<TlsKey>,
}

impl Subsystem {
    /// A host that has two entries: only the first one would say what it must prove.
    pub(crate) fn listed_twice(&self) -> Option<&Nqn> {
        let Access::Listed(hosts) = &self.access else { return None };
        let mut names: Vec<&Nqn> = hosts.iter().map(|entry| &entry.host).collect();
        names.sort_unstable_by_key(|name| name.as_str());
        names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// The entry of `host`: `None` if it may not connect; `Some(None)` if anyone may.
    pub(crate) fn access_of(&self, host: &Nqn) -> Option<Option<&HostAccess>> {
        match &self.access {
            Access::Anyone => Some(None),
            Access::Listed(hosts) => hosts.iter().find(|entry| entry.host == *host).map(Some),
        }
    }

    /// Whether some host has to prove who it is.
    pub(crate) fn has_secrets(&self) -> bool {
        match &self.access {
            Access::Anyone => false,
            Access::Listed(hosts) => hosts.iter().any(|host| host.secret.is_some()),
        }
    }

    /// Whether `host` may connect by TLS only.
    pub(crate) fn requires_tls(&self, host: &Nqn) -> bool {
        let access = self.access_of(host).flatten();
        access.is_some_and(|access| !access.tls_keys.is_empty())
    }

    /// The TLS keys of its hosts.
    pub(crate) fn tls_keys(&self) -> Vec<(Nqn, TlsKey)> {
        let hosts = match &self.access {
            Access::Anyone => &[][..],
            Access::Listed(hosts) => hosts,
        };
        let keys_of = |host: &HostAccess| {
            let keys = host.tls_keys.clone().into_iter();
            keys.map(|key| (host.host.clone(), key)).collect::<Vec<_>>()
        };
        hosts.iter().flat_map(keys_of).collect()
    }

    /// Whether one of its namespaces has a volatile cache: then VWC says so.
    pub(crate) fn has_volatile_cache(&self) -> bool {
        self.namespaces.iter().any(|namespace| namespace.has_volatile_cache())
    }

    /// Grows with each failure of one of its namespaces; zero while there is none.
    pub(crate) fn failures(&self) -> u64 {
        let failures = self.namespaces.iter().filter_map(|namespace| namespace.failures());
        failures.map(NamespaceHealth::count).sum()
    }

    /// How many reads and writes of its namespaces failed, or found damage.
    pub(crate) fn faults(&self) -> u64 {
        let failures = self.namespaces.iter().filter_map(|namespace| namespace.failures());
        failures.map(NamespaceHealth::faults).sum()
    }

    /// The namespace with this id.
    pub(crate) fn namespace(&self, id: u32) -> Option<&Arc<dyn Namespace>> {
        self.namespaces.get((id as usize).checked_sub(1)?)
    }
}
