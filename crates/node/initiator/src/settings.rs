//! How to reach a node, and as which host.

use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::pdu::Digests;
use esker_nvme::tls::TlsKey;
use std::net::SocketAddr;
use std::time::Duration;

/// The settings of a client. Start from [`Settings::new`]; a method per field changes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The address of the node.
    pub address: SocketAddr,
    /// The name of this host.
    pub host: Nqn,
    /// The ID of this host, 128 bits. While a change of a host is in flight on the node, the node
    /// accepts no new connection of a host with the same ID. Zeros, which are no ID, are replaced by
    /// random bits for each client. Default: zeros.
    pub host_id: [u8; 16],
    /// The subsystem.
    pub subsystem: Nqn,
    /// The namespace in the subsystem. Default: 1, the first.
    pub namespace: u32,
    /// The secret that this host proves to have if the node asks. Default: none.
    pub secret: Option<Secret>,
    /// The secret that the node must prove to have. Default: none.
    pub controller_secret: Option<Secret>,
    /// Connects by TLS with this key. Needs the feature `tls`. Default: none.
    pub tls_key: Option<TlsKey>,
    /// Checksums of PDUs, in addition to those of TCP. Default: none.
    pub digests: Digests,
    /// The number of I/O queues, each a connection, at least 1. Default: 1.
    pub queues: u16,
    /// The number of commands in flight per queue, 1 to 127. Default: 64.
    pub depth: u16,
    /// How long an operation may take, with reconnecting and sending again. Default: 10 s.
    pub deadline: Duration,
    /// The keep-alive timeout (KATO): how long the node waits for a sign of life of this host. A
    /// multiple of a millisecond; zero is without a limit. Default: 30 s.
    pub keep_alive: Duration,
}

/// Linux uses 5 s, because it has a second path to turn to. Here a disconnect costs all calls in
/// flight their answers, and a machine that pauses for some seconds should cost nothing. The
/// specification's default of 2 min is longer than a node should keep connections of lost hosts.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

impl Settings {
    /// Returns the default settings for the subsystem `subsystem` at `address`, as `host`.
    pub fn new(address: SocketAddr, host: Nqn, subsystem: Nqn) -> Self {
        Settings {
            address,
            host,
            host_id: [0; 16],
            subsystem,
            namespace: 1,
            secret: None,
            controller_secret: None,
            tls_key: None,
            digests: Digests::default(),
            queues: 1,
            depth: 64,
            deadline: Duration::from_secs(10),
            keep_alive: KEEP_ALIVE,
        }
    }
}

/// Builder methods. Each sets the field of its name, whose documentation is complete.
impl Settings {
    /// Sets the address of the node.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self
    }

    /// Sets the name of this host.
    #[must_use]
    pub fn host(mut self, host: Nqn) -> Self {
        self.host = host;
        self
    }

    /// Sets the ID of this host.
    #[must_use]
    pub fn host_id(mut self, host_id: [u8; 16]) -> Self {
        self.host_id = host_id;
        self
    }

    /// Sets the subsystem.
    #[must_use]
    pub fn subsystem(mut self, subsystem: Nqn) -> Self {
        self.subsystem = subsystem;
        self
    }

    /// Sets the namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: u32) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets the secret that this host proves to have.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Option<Secret>>) -> Self {
        self.secret = secret.into();
        self
    }

    /// Sets the secret that the node must prove to have.
    #[must_use]
    pub fn controller_secret(mut self, controller_secret: impl Into<Option<Secret>>) -> Self {
        self.controller_secret = controller_secret.into();
        self
    }

    /// Sets the TLS key.
    #[must_use]
    pub fn tls_key(mut self, tls_key: impl Into<Option<TlsKey>>) -> Self {
        self.tls_key = tls_key.into();
        self
    }

    /// Sets the checksums of PDUs.
    #[must_use]
    pub fn digests(mut self, digests: Digests) -> Self {
        self.digests = digests;
        self
    }

    /// Sets the number of I/O queues.
    #[must_use]
    pub fn queues(mut self, queues: u16) -> Self {
        self.queues = queues;
        self
    }

    /// Sets the number of commands in flight per queue.
    #[must_use]
    pub fn depth(mut self, depth: u16) -> Self {
        self.depth = depth;
        self
    }

    /// Sets how long an operation may take.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets the keep-alive timeout.
    #[must_use]
    pub fn keep_alive(mut self, keep_alive: Duration) -> Self {
        self.keep_alive = keep_alive;
        self
    }
}
