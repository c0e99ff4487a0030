//! What a target serves, where, and to whom.

use crate::{Namespace, NamespaceHealth, limits};
use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::tls::TlsKey;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a target. Start from [`Settings::new`]; a method per field changes it.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The address to listen at. With port 0, the system chooses the port.
    pub listen: SocketAddr,
    /// The number of threads that serve connections, at least 1. Default: 1.
    pub reactors: usize,
    /// How long commands in flight may take when the target shuts down. Default: 10 s.
    pub drain_time: Duration,
    /// The bytes of data in flight that all connections may hold together. Reactors share them
    /// equally, and have at least 8 MiB each. Default: [`limits::MEMORY_BYTES`].
    pub memory_bytes: usize,
    /// The subsystems. A target always has a discovery subsystem in addition.
    pub subsystems: Vec<Subsystem>,
}

impl Settings {
    /// Returns the default settings: no subsystem yet.
    pub fn new(listen: SocketAddr) -> Self {
        Settings {
            listen,
            reactors: 1,
            drain_time: Duration::from_secs(10),
            memory_bytes: limits::MEMORY_BYTES,
            subsystems: Vec::new(),
        }
    }

    /// Sets the address to listen at.
    #[must_use]
    pub fn listen(mut self, listen: SocketAddr) -> Self {
        self.listen = listen;
        self
    }

    /// Sets the number of threads that serve connections, at least 1.
    #[must_use]
    pub fn reactors(mut self, reactors: usize) -> Self {
        self.reactors = reactors;
        self
    }

    /// Sets how long commands in flight may take when the target shuts down.
    #[must_use]
    pub fn drain_time(mut self, drain_time: Duration) -> Self {
        self.drain_time = drain_time;
        self
    }

    /// Sets the bytes of data in flight that all connections may hold together.
    #[must_use]
    pub fn memory_bytes(mut self, memory_bytes: usize) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Adds subsystems.
    #[must_use]
    pub fn subsystems(mut self, subsystems: impl IntoIterator<Item = Subsystem>) -> Self {
        self.subsystems.extend(subsystems);
        self
    }
}

/// A subsystem: namespaces under one name.
#[derive(Clone)]
#[non_exhaustive]
pub struct Subsystem {
    /// The name.
    pub nqn: Nqn,
    /// The serial number of its controllers: up to 20 ASCII characters.
    pub serial: String,
    /// The namespaces. The first has the ID 1.
    pub namespaces: Vec<Arc<dyn Namespace>>,
    /// The hosts that may connect. Default: any.
    pub access: Access,
}

/// The hosts that may connect to a subsystem.
#[derive(Clone, Debug)]
pub enum Access {
    /// Any host, without authentication.
    Anyone,
    /// These hosts.
    Listed(Vec<HostAccess>),
}

/// A host that may connect, and how it authenticates. Start from [`HostAccess::new`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostAccess {
    /// The name of the host.
    pub host: Nqn,
    /// The secret that the host must prove to have. Default: none.
    pub secret: Option<Secret>,
    /// The secret that the controller proves to have if the host asks. Default: none.
    pub controller_secret: Option<Secret>,
    /// TLS keys. A host with keys may connect by TLS only, with any of them. Default: none.
    pub tls_keys: Vec<TlsKey>,
}

impl HostAccess {
    /// Returns access for `host` without authentication.
    pub fn new(host: Nqn) -> Self {
        HostAccess { host, secret: None, controller_secret: None, tls_keys: Vec::new() }
    }

    /// Sets the secret that the host must prove to have.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Option<Secret>>) -> Self {
        self.secret = secret.into();
        self
    }

    /// Sets the secret that the controller proves to have if the host asks.
    #[must_use]
    pub fn controller_secret(mut self, secret: impl Into<Option<Secret>>) -> Self {
        self.controller_secret = secret.into();
        self
    }

    /// Sets the TLS keys.
    #[must_use]
    pub fn tls_keys(mut self, keys: impl IntoIterator<Item = TlsKey>) -> Self {
        self.tls_keys = keys.into_iter().collect();
        self
    }
}

impl Subsystem {
    /// Returns a subsystem to which any host may connect.
    pub fn new(nqn: Nqn, serial: impl Into<String>, namespaces: Vec<Arc<dyn Namespace>>) -> Self {
        Subsystem { nqn, serial: serial.into(), namespaces, access: Access::Anyone }
    }

    /// Sets the hosts that may connect.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

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
