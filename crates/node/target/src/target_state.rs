//! What all reactors of a target know.

use crate::controllers::Registry;
use crate::dh_worker::DhWorker;
use crate::orphaned_writes::OrphanedWrites;
use crate::{Namespace, Settings, Subsystem};
use esker_base::{Background, Clock, Entropy, Result};
use esker_nvme::Nqn;
use esker_nvme::log_page::{Discovery, DiscoveryEntry, SubsystemKind};
use esker_tls::HostKeys;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Constant after construction, but for who is connected, and who was.
pub(crate) struct TargetState {
    pub(crate) settings: Settings,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) registry: Registry,
    pub(crate) lost_changes: OrphanedWrites,
    /// If there is a host that has to prove who it is.
    pub(crate) proofs: Option<DhWorker>,
    /// The TLS keys of each subsystem's hosts, if there are any.
    pub(crate) host_keys: Option<Arc<HostKeys>>,
    /// The namespaces with parts in the reactors.
    pub(crate) residents: Vec<Arc<dyn Namespace>>,
    connections: AtomicU64,
}

impl TargetState {
    pub(crate) fn new(
        settings: Settings,
        address: SocketAddr,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        residents: Vec<Arc<dyn Namespace>>,
        background: &dyn Background,
    ) -> Result<Self> {
        let (registry, lost_changes, connections) = Default::default();
        let has_secrets = settings.subsystems.iter().any(Subsystem::has_secrets);
        let proofs = has_secrets.then(|| DhWorker::start(background)).transpose()?;
        let keys = settings
            .subsystems
            .iter()
            .map(|subsystem| (subsystem.nqn.clone(), subsystem.tls_keys()));
        let host_keys = HostKeys::new(keys.collect());
        Ok(TargetState {
            settings,
            address,
            clock,
            entropy,
            registry,
            lost_changes,
            proofs,
            host_keys: (!host_keys.is_empty()).then(|| Arc::new(host_keys)),
            residents,
            connections,
        })
    }

    /// The number of a namespace among those with parts.
    pub(crate) fn resident(&self, namespace: &Arc<dyn Namespace>) -> Option<usize> {
        self.residents.iter().position(|resident| Arc::ptr_eq(resident, namespace))
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Relaxed)
    }

    /// The index of the subsystem of this name.
    pub(crate) fn subsystem(&self, nqn: &Nqn) -> Option<usize> {
        self.settings.subsystems.iter().position(|subsystem| subsystem.nqn == *nqn)
    }

    /// The discovery log as `host` sees it, which reached the target at `local`: only what it may connect to.
    pub(crate) fn discovery(&self, host: &Nqn, local: SocketAddr) -> Discovery {
        let may = |subsystem: &&Subsystem| subsystem.access_of(host).is_some();
        let entry = |subsystem: &Subsystem| DiscoveryEntry {
            kind: SubsystemKind::Io,
            subsystem: subsystem.nqn.clone(),
            address: local,
            port: 1,
            requires_tls: subsystem.requires_tls(host),
        };
        let entries = self.settings.subsystems.iter().filter(may).map(entry).collect();
        Discovery { generation: 1, entries }
    }
}
