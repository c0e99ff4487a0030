//! How to reach a node, and as whom.

use esker_nvme::Nqn;
use esker_nvme::auth::Secret;
use esker_nvme::pdu::Digests;
use esker_nvme::tls::TlsKey;
use std::net::SocketAddr;
use std::time::Duration;

/// How to reach a node.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who this host is.
    pub host: Nqn,
    /// This host's own 128 bits. Of those with one id the node takes none back while a change is under way that one of
    /// them left behind. Zeros, which are no id, are replaced by random ones for each client.
    pub host_id: [u8; 16],
    /// Which subsystem.
    pub subsystem: Nqn,
    /// Which of its namespaces. The first is 1.
    pub namespace: u32,
    /// What this host proves to know if the node asks.
    pub secret: Option<Secret>,
    /// What the node must prove to know.
    pub controller_secret: Option<Secret>,
    /// By TLS, with this key. Needs a program that was built with TLS.
    pub tls_key: Option<TlsKey>,
    /// Checksums on the wire, beyond TCP's own.
    pub digests: Digests,
    /// I/O queues, each a connection. At least 1.
    pub queues: u16,
    /// Commands of one queue under way at a time, 1 to 127.
    pub depth: u16,
    /// How long an operation may take, with reconnecting and sending again.
    pub deadline: Duration,
    /// KATO: how long the node waits for a sign of this host before it gives the host up; zero is without a limit. A multiple of
    /// a millisecond.
    pub keep_alive: Duration,
}

/// Longer than the 5 s of Linux, which has a second path to turn to: here, to be given up costs every call under way
/// its answer, and a machine that is paused for some seconds should cost nothing. Shorter than the 2 min that the
/// specification has where nobody says: so long a node would keep the connections of hosts that vanished.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

impl Settings {
    /// Settings for one queue of 64 commands, ten seconds, a keep-alive time of thirty, no digests, no authentication.
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
